//! The clock that hits are stamped with.

use serde::{Deserialize, Serialize};

/// CLOCK_MONOTONIC in nanoseconds: the clock of perf records and BPF programs.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec. The monotonic clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
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
