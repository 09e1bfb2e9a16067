//! Whether a run ended in the bug under inquiry.

use std::collections::BTreeSet;

use failure::resolve::{Waiting, waiting};
use failure::{Failure, Likeness, ResolvedFrame, ResolvedThread, resolve};
use program::{Pc, Program};

use super::Taken;
use crate::record::{RunEnd, RunRecord};

/// How a run ended.
pub(super) struct Verdict {
    pub(super) taken: Taken,
    /// Where, if it is the same bug elsewhere.
    pub(super) at: Option<Pc>,
    /// The failure.
    pub(super) failure: Option<Failure>,
}

impl Verdict {
    /// Compares it with the bug under inquiry.
    pub(super) fn of(record: &RunRecord, bug: &Likeness, program: &Program<'_>) -> Self {
        let only = |taken| Self {
            taken,
            at: None,
            failure: None,
        };
        let report = match &record.end {
            RunEnd::Succeeded => return only(Taken::Succeeded),
            RunEnd::Inconclusive => return only(Taken::Nothing),
            RunEnd::Failed(report) => report,
        };
        let Ok(failure) = resolve(report, program) else {
            return only(Taken::Nothing);
        };
        let likeness = Likeness::of(&failure, program);
        let signature = likeness.signature();
        if !bug.is_like(&likeness) {
            return only(Taken::OtherFailure(signature.clone()));
        }
        if signature == bug.signature() {
            return Self {
                failure: Some(failure),
                ..only(Taken::Failed)
            };
        }
        let thread = failure.threads.get(failure.failing);
        let frame = thread.zip(failure.failing_frame);
        let frame = frame.and_then(|(thread, index)| thread.frames.get(index));
        let at = frame.and_then(ResolvedFrame::executing);
        Self {
            taken: Taken::FailedElsewhere(signature.clone()),
            at: at.map(|pc| program.instruction_at(pc).unwrap_or(pc)),
            failure: Some(failure),
        }
    }
}

/// Whether threads of the program that does not get on wait for something.
pub(super) fn waits_for(failure: &Failure, what: impl Fn(Waiting) -> bool) -> bool {
    let own = |thread: &&ResolvedThread| thread.frames.iter().any(|frame| frame.own);
    let mut threads = failure.threads.iter().filter(own);
    threads.any(|thread| what(waiting(thread)))
}

/// The threads of a failure that wait for a lock.
pub(super) fn waiting_for_locks(failure: &Failure) -> BTreeSet<usize> {
    let threads = failure.threads.iter().enumerate();
    let locks = threads.filter(|(_, thread)| waiting(thread) == Waiting::Lock);
    locks.map(|(at, _)| at).collect()
}
