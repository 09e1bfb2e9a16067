//! A fault that the program has a handler for.
//!
//! Servers have one that writes down where they were: it runs for seconds, in a program that is broken. Then it raises the signal once
//! more, or ends the process; or it gets no further, by a fault of its own, or because it waits for a lock that the thread had
//! when it was interrupted, the allocator's above all.

use failure::report::{Frame, FrameOrigin, Report, Thread};
use program::RunAddr;

use crate::ids::Tid;
use crate::ptrace::SigInfo;

/// How a handler ended that ended the process,
pub(super) const ENDED_IT: &str =
    "a handler of the program took the signal and ended the process: only the failing thread was left";
/// and one that got no further.
pub(super) const FAILED_ITSELF: &str = "a handler of the program took the signal, and did not get to its end";

/// A fault that the program has a handler for: it may end the program, or go on.
pub(super) struct Caught {
    pub(super) tid: Tid,
    pub(super) info: SigInfo,
    /// Where the thread was.
    pub(super) at: RunAddr,
    pub(super) at_ns: u64,
}

impl Caught {
    /// A handler that raised the signal once more and returned: the thread is where the fault was, but only
    /// the first signal told the address.
    pub(super) fn complete(&self, report: &mut Report) {
        let failing = report.threads.first();
        let is_there = failing.is_some_and(|thread| {
            let at = thread.frames.first().and_then(|frame| frame.address);
            self.is_of(thread) && at == Some(self.at)
        });
        if is_there && report.signal == Some(self.info.signal()) {
            report.fault_address = report.fault_address.or(self.info.address());
        }
    }

    /// Whether the handler of this fault still runs: a program may have gone on after it.
    pub(super) fn is_handled_in(&self, report: &Report) -> bool {
        let mut its = report.threads.iter().filter(|thread| self.is_of(thread));
        its.any(|thread| {
            let interrupted = interrupted(&thread.frames);
            interrupted.is_some_and(|(_, frame)| frame.address == Some(self.at))
        })
    }

    fn is_of(&self, thread: &Thread) -> bool {
        thread.id == Some(u64::from(self.tid.0))
    }
}

/// The report of a fault whose handler was the end of it: what the handler does is not the failure. `None` when
/// no handler is running.
pub(super) fn below_handler(mut report: Report, note: &str) -> Option<Report> {
    let frames = &mut report.threads.first_mut()?.frames;
    let (interrupted, _) = interrupted(frames)?;
    frames.drain(..interrupted);
    if let Some(first) = frames.first_mut() {
        first.origin = FrameOrigin::Context;
    }
    report.notes.push(note.to_owned());
    Some(report)
}

/// The frame that the innermost handler interrupted.
fn interrupted(frames: &[Frame]) -> Option<(usize, &Frame)> {
    let mut frames = frames.iter().enumerate();
    frames.find(|(_, frame)| frame.origin == FrameOrigin::SignalFrame)
}
