//! What came of a run.

use std::time::Duration;

use failure::report::{Report, Signal};

use super::subject::Subject;
use crate::ids::Pid;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program exited by itself, with this status.
    Exited(i32),
    /// A signal killed it.
    Killed {
        /// Which.
        signal: Signal,
        /// The kernel wrote (or handed over) a core.
        core_dumped: bool,
    },
    /// It did not end in time, and was killed by us.
    TimeLimit,
    /// Somebody cancelled the run; the program was killed by us.
    Cancelled,
    /// It is gone, and nobody told us how.
    Unknown,
}

/// What a run is evidence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It failed.
    Failed,
    /// It ended, and not in a way that counts as a failure.
    Succeeded,
    /// It was ended from outside before it could tell.
    Inconclusive,
}

/// What a program wrote to one of its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Captured {
    /// The last part of it.
    pub tail: Vec<u8>,
    /// How many bytes it wrote in all.
    pub total: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// The failure, if it was one.
    pub failure: Option<Box<Report>>,
    /// When the failure was, by CLOCK_MONOTONIC in nanoseconds, if the program went on after it: a panic that unwound its
    /// thread. What happened later are consequences.
    pub failed_at_ns: Option<u64>,
    /// Whether threads of the process that failed block the signal of a trap, so that they cannot be stopped at one.
    pub unstoppable: bool,
    /// Which process it was.
    pub pid: Pid,
    /// How it is found again, if it is not the launched one.
    pub subject: Option<Subject>,
    /// How long it took.
    pub elapsed: Duration,
    /// Its standard output, as far as it went through us.
    pub stdout: Captured,
    /// Its standard error, likewise.
    pub stderr: Captured,
}

impl Outcome {
    /// What the run is evidence of.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (&self.failure, self.ended) {
            (Some(_), _) => Verdict::Failed,
            (None, Ended::Exited(_)) => Verdict::Succeeded,
            (None, _) => Verdict::Inconclusive,
        }
    }
}
