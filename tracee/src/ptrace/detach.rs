//! Leaving an attached process as it was found.
//!
//! A running thread cannot be detached from: it would have to be stopped, and many system calls then fail
//! with EINTR. But when the tracing thread ends, the kernel lets its tracees go as they are. What has to be
//! seen to before that are stops: a signal-stop that we have waited for loses its signal when we end, and a
//! trap of ours that we have not waited for is delivered, and kills.

use std::time::{Duration, Instant};

use super::error::TraceError;
use super::events::{Interrupts, Next};
use super::request;
use super::siginfo::SigInfo;
use super::stop::{Stop, What};
use super::tracer::{Attached, Cause, Resume, State, Tracer, unless_gone};
use crate::ids::{Pid, Tid};
use crate::process::{Process, SignalSet, Status, ThreadState};

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(1);

impl Tracer<Attached> {
    /// Prepares to leave: resumes every thread, and takes every SIGTRAP that `is_ours` out of the way. What
    /// sends them (perf events) must be closed before. When this returns, let the calling operating-system
    /// thread end: with that the process is free, none of its system calls interrupted.
    ///
    /// Only a thread that blocks SIGTRAP while one of ours waits for it has to be interrupted: it would die of
    /// it when it unblocks the signal.
    ///
    /// # Errors
    /// When stops are still to come after `limit`; leaving is then dangerous for the target.
    pub fn detach(mut self, limit: Duration, is_ours: impl Fn(&SigInfo) -> bool) -> Result<(), TraceError> {
        let deadline = Instant::now().checked_add(limit);
        let mut settling = Settling::new(self.threads().collect());
        let how = |stop: &Stop| match &stop.what {
            What::Signal(info) if is_ours(info) => Resume::Suppress,
            _ => Resume::Deliver,
        };
        loop {
            // Asked first: whoever was on the way back when threads were looked at may have its trap by the time that
            // this is asked, and would count as back.
            let settled = settling.is_over();
            self.resume_held()?;
            loop {
                match self.wait(Duration::ZERO) {
                    Ok(Some(stop)) if stop.is_stopped() => self.resume(stop.tid, how(&stop))?,
                    Ok(Some(_)) => (),
                    Ok(None) => break,
                    Err(TraceError::NothingLeft) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            let mut quiet = true;
            for (tid, status) in self.statuses() {
                let listening = self
                    .threads
                    .get(&tid)
                    .is_some_and(|thread| thread.state == State::Listening);
                if status.has_pending(libc::SIGTRAP) {
                    let stays = status.blocked.contains(libc::SIGTRAP);
                    quiet &= stays && !self.take_blocked_trap(tid, &is_ours)?;
                }
                quiet &= listening || status.state != ThreadState::Traced;
            }
            if settled && quiet {
                return Ok(());
            }
            if deadline.is_some_and(|end| Instant::now() >= end) {
                return Err(TraceError::NotQuiet(self.main));
            }
            if let Some(stop) = self.wait_or_nothing(PAUSE)? {
                self.seen.push_front(stop);
            }
        }
    }

    fn wait_or_nothing(&mut self, limit: Duration) -> Result<Option<Stop>, TraceError> {
        match self.wait(limit) {
            Err(TraceError::NothingLeft) => Ok(None),
            other => other,
        }
    }

    fn statuses(&self) -> Vec<(Tid, Status)> {
        let threads = self.threads.iter();
        threads
            .filter_map(|(&tid, thread)| Some((tid, Process::new(thread.process).thread_status(tid).ok()?)))
            .collect()
    }

    /// Takes a trap of ours from a thread that blocks SIGTRAP; says whether there was one.
    fn take_blocked_trap(
        &mut self,
        tid: Tid,
        is_ours: &impl Fn(&SigInfo) -> bool,
    ) -> Result<bool, TraceError> {
        let failed = TraceError::refused("take a signal from a thread");
        unless_gone(request::interrupt(tid)).map_err(&failed)?;
        if !self.wait_for_stop(tid)? {
            return Ok(true);
        }
        let Some(State::Stopped(Cause::Interrupt)) = self.threads.get(&tid).map(|thread| thread.state) else {
            // It stopped for something else first; the interrupt follows and is passed over.
            return Ok(true);
        };
        let pending = request::pending_signals(tid).unwrap_or_default();
        let waits = pending
            .iter()
            .any(|info| info.signal().0 == libc::SIGTRAP && is_ours(info));
        if !waits {
            self.resume(tid, Resume::Deliver)?;
            return Ok(false);
        }
        let mask = self.signal_mask(tid)?;
        self.set_signal_mask(tid, SignalSet(u64::MAX).without(libc::SIGTRAP))?;
        self.resume(tid, Resume::Deliver)?;
        if self.wait_for_stop(tid)? {
            self.set_signal_mask(tid, mask)?;
        }
        Ok(true)
    }

    /// Waits until one thread is stopped; false if it ended. What the others do is told later.
    fn wait_for_stop(&mut self, tid: Tid) -> Result<bool, TraceError> {
        while self.threads.contains_key(&tid) && !self.is_stopped(tid) {
            if self.take_next(None, Interrupts::Keep)? == Next::Nobody {
                return Ok(false);
            }
        }
        Ok(self.threads.contains_key(&tid))
    }
}

/// The threads that may have hit an event just before it was closed, and have not been back in their program
/// since: the signal is made on the way back, and a thread that lost its processor there can be on that way
/// for long.
struct Settling {
    since: Instant,
    threads: Vec<(Pid, Tid, Option<Duration>)>,
}

impl Settling {
    /// Far more than the way back takes.
    const ENOUGH: Duration = Duration::from_millis(1);
    /// Where the kernel does not count a thread's time.
    const BLIND: Duration = Duration::from_millis(50);

    fn new(threads: Vec<(Pid, Tid)>) -> Self {
        let with_time = threads.into_iter();
        Self {
            since: Instant::now(),
            threads: with_time
                .map(|(pid, tid)| (pid, tid, Process::new(pid).run_time(tid)))
                .collect(),
        }
    }

    /// Whether none is left. A thread that waits in a system call has been back, and so has one that has run.
    fn is_over(&mut self) -> bool {
        let waited = self.since.elapsed();
        self.threads.retain(|&(pid, tid, before)| {
            let process = Process::new(pid);
            let Ok(status) = process.thread_status(tid) else {
                return false;
            };
            let has_run = match before.zip(process.run_time(tid)) {
                Some((before, now)) => now.saturating_sub(before) >= Self::ENOUGH,
                None => waited >= Self::BLIND,
            };
            status.state == ThreadState::Running && !has_run
        });
        self.threads.is_empty()
    }
}
