//! What becomes of the target when its tracer goes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::error::TraceError;
use super::stop::{End, What};
use super::tracer::{Cause, Resume, State, Tracer};
use crate::ids::{Pid, Tid};

/// What dropping a tracer does with what is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    Kill,
    /// Nothing may stay stopped: the signal of a stop that was waited for is lost when the tracer ends.
    Resume,
}

impl<Kind> Tracer<Kind> {
    /// Resumes the threads whose stop was told to the caller and who were not resumed. The trap of a perf
    /// event was for whoever opened that, which is not the target.
    pub(super) fn resume_held(&mut self) -> Result<(), TraceError> {
        let untold = |tid: Tid| self.seen.iter().any(|stop| stop.tid == tid && stop.is_stopped());
        let threads = self.threads.iter().filter(|&(&tid, _)| !untold(tid));
        let held = threads.filter_map(|(&tid, thread)| match thread.state {
            State::Stopped(Cause::Signal { perf: true, .. }) => Some((tid, Resume::Suppress)),
            State::Stopped(_) => Some((tid, Resume::Deliver)),
            State::Running | State::Listening => None,
        });
        let held: Vec<(Tid, Resume)> = held.collect();
        held.into_iter().try_for_each(|(tid, how)| self.resume(tid, how))
    }

    pub(super) fn kill_all(&mut self) -> Result<End, TraceError> {
        /// A killed process ends at once, unless the kernel waits for a device on its behalf.
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut end = End::Unknown;
        while !self.threads.is_empty() || !self.seen.is_empty() {
            let pids: BTreeSet<Pid> = self.threads.values().map(|thread| thread.process).collect();
            for pid in pids {
                // SAFETY: takes numbers only. The process is our tracee, so its number is still its own.
                unsafe { libc::kill(pid.raw(), libc::SIGKILL) };
            }
            match self.wait(PATIENCE) {
                Ok(Some(stop)) => match stop.what {
                    What::ProcessExited(how) if stop.pid == self.first => end = how,
                    // A killed thread may still stop for being about to end.
                    _ if stop.is_stopped() => self.resume(stop.tid, Resume::Suppress)?,
                    _ => (),
                },
                Err(TraceError::NothingLeft) | Ok(None) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(end)
    }
}

impl<Kind> Drop for Tracer<Kind> {
    fn drop(&mut self) {
        let _nobody_to_tell = match self.farewell {
            Farewell::Kill => self.kill_all().map(|_| ()),
            Farewell::Resume => {
                self.seen.clear();
                self.resume_held()
            }
        };
    }
}
