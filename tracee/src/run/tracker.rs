//! Others who ride along in the tracing loop: watchpoints in exact mode, probes that arm them.

use std::error::Error;
use std::time::Duration;

use failure::report::Report;

use super::outcome::Ended;
use crate::ids::Tid;
use crate::ptrace::{Launched, SigInfo, Stop, Tracer};

/// Why a tracker cannot go on; it ends the run.
pub type TrackError = Box<dyn Error + Send + Sync>;

/// Whose a signal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The program's: it gets it.
    Passed,
    /// The tracker's: the program never sees it.
    Taken,
    /// The same, and the thread stays where it is until [`Tracker::let_go`] names it.
    Kept,
}

/// Somebody who watches a run from inside the loop. The loop resumes threads; a tracker only looks, and changes
/// what it came to change. Every method has a thread stopped for it; the default ones do nothing.
pub trait Tracker {
    /// The program is about to execute its first instruction, not even its loader has run; called again when
    /// it executes another program.
    ///
    /// # Errors
    /// When there is no use in running.
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        let _ = tracer;
        Ok(())
    }

    /// A new thread is about to execute its first instruction.
    ///
    /// # Errors
    /// When there is no use in going on.
    fn thread_started(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        let _ = (tracer, tid);
        Ok(())
    }

    /// A thread is about to get a signal. All trackers are asked until one takes it.
    ///
    /// # Errors
    /// When there is no use in going on.
    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        let _ = (tracer, stop, info);
        Ok(Handled::Passed)
    }

    /// The threads that it kept and keeps no longer. Asked often while it keeps any.
    ///
    /// # Errors
    /// When there is no use in going on.
    fn let_go(&mut self, tracer: &Tracer<Launched>) -> Result<Vec<Tid>, TrackError> {
        let _ = tracer;
        Ok(Vec::new())
    }

    /// A thread is about to end, and its registers are there for the last time: only where a tracker asked for it
    /// with [`Tracer::tell_end`].
    ///
    /// # Errors
    /// When there is no use in going on.
    fn exiting(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        let _ = (tracer, tid);
        Ok(())
    }

    /// Whether a thread that is about to go on shall execute one instruction and stop again.
    fn steps(&self, tid: Tid) -> bool {
        let _ = tid;
        false
    }

    /// A thread executed the one instruction that it was to execute.
    ///
    /// # Errors
    /// When there is no use in going on.
    fn stepped(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        let _ = (tracer, tid);
        Ok(())
    }

    /// Time to look at what came in, such as the records of a ring; see [`Tracker::period`].
    ///
    /// # Errors
    /// When there is no use in going on.
    fn tick(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        let _ = tracer;
        Ok(())
    }

    /// How often it wants to be ticked, if at all.
    fn period(&self) -> Option<Duration> {
        None
    }

    /// The program failed: all its threads are stopped and its memory is there, for the last time.
    ///
    /// # Errors
    /// When there is no use in going on.
    fn failing(&mut self, tracer: &mut Tracer<Launched>, report: &Report) -> Result<(), TrackError> {
        let _ = (tracer, report);
        Ok(())
    }

    /// A thread panics, in a language whose programs go on after that. It is the failure if the run turns out to have failed,
    /// and nothing if not. All threads are stopped, and go on after this.
    ///
    /// # Errors
    /// When there is no use in going on.
    fn panicking(&mut self, tracer: &mut Tracer<Launched>, report: &Report) -> Result<(), TrackError> {
        let _ = (tracer, report);
        Ok(())
    }

    /// The run is over, the program is gone.
    fn ended(&mut self, ended: Ended) {
        let _ = ended;
    }
}
