//! Stopping threads of an attached process that wait, for a look at their stacks.

use std::time::{Duration, Instant};

use super::error::TraceError;
use super::events::{Interrupts, Next};
use super::request;
use super::tracer::{Attached, Cause, Resume, State, Tracer, unless_gone};
use crate::ids::Tid;

impl Tracer<Attached> {
    /// Stops threads; says whether all of them are. They have to wait in calls that the kernel makes again by itself after a stop, as it
    /// does `futex` and `wait4`: others fail with EINTR, and programs notice. [`Tracer::release`] lets them wait on, and so does the
    /// kernel should we end.
    ///
    /// If anything else happens meanwhile, that comes first: a signal must not wait for us, nor be in our hands for
    /// longer than it takes to hand it on.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn hold(&mut self, tids: &[Tid], limit: Duration) -> Result<bool, TraceError> {
        let deadline = Instant::now().checked_add(limit);
        let runs = |tid: &Tid| {
            let thread = self.threads.get(tid);
            thread.is_some_and(|thread| thread.state == State::Running)
        };
        if !self.seen.is_empty() || !tids.iter().all(runs) {
            return Ok(false);
        }
        for &tid in tids {
            unless_gone(request::interrupt(tid)).map_err(TraceError::refused("stop a thread"))?;
        }
        while !tids.iter().all(|&tid| self.is_stopped(tid)) {
            let next = self.take_next(deadline, Interrupts::Keep)?;
            if !self.seen.is_empty() || !matches!(next, Next::Taken(_)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets those of the threads go on that [`Tracer::hold`] stopped, and says how many these were.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn release(&mut self, tids: &[Tid]) -> Result<u64, TraceError> {
        let is_held = |tid: &&Tid| {
            let thread = self.threads.get(tid);
            thread.is_some_and(|thread| thread.state == State::Stopped(Cause::Interrupt))
        };
        let held: Vec<Tid> = tids.iter().filter(is_held).copied().collect();
        for &tid in &held {
            self.resume(tid, Resume::Deliver)?;
        }
        Ok(u64::try_from(held.len()).unwrap_or(u64::MAX))
    }
}
