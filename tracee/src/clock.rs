//! The clock that hits are stamped with.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Pid;

/// CLOCK_MONOTONIC in nanoseconds: the clock of perf records and BPF programs.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// How long all threads of a process together have been on processors; `None` when it is gone.
pub(crate) fn time_on_processors(pid: Pid) -> Option<Duration> {
    let mut clock = 0;
    let pid = libc::pid_t::try_from(pid.0).ok()?;
    // SAFETY: the pointer is to a live clock number.
    let found = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    let time = (found == 0).then(|| nanoseconds(clock)).flatten();
    time.map(Duration::from_nanos)
}

/// What a clock shows; `None` when there is no such clock.
fn nanoseconds(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok().filter(|_| read == 0)?;
    let rest = u64::try_from(time.tv_nsec).ok()?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

/// One moment by two clocks: the processor's counter, which Intel PT writes down, and CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPoint {
    /// The processor's timestamp counter.
    pub ticks: u64,
    /// CLOCK_MONOTONIC.
    pub nanoseconds: u64,
}

impl ClockPoint {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self {
            // SAFETY: every x86-64 processor has the counter; the kernel lets user space read it unless a process asked
            // for the contrary (PR_SET_TSC), which we do not.
            ticks: unsafe { std::arch::x86_64::_rdtsc() },
            nanoseconds: monotonic_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_on_processors() {
        let before = time_on_processors(Pid::this()).unwrap();
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(20) {}
        let worked = time_on_processors(Pid::this()).unwrap() - before;
        assert!(worked > Duration::ZERO, "{worked:?}");
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        assert_eq!(time_on_processors(Pid(gone.id())), None);
    }
}
