//! The moments at which it becomes clear how a program ends: a signal, an exit, the time limit.

use std::time::Instant;

use failure::report::{FrameOrigin, Kind, Report};
use program::RunAddr;

use super::fatal::{self, Effect};
use super::follow::{Follow, RunError};
use super::stacks;
use crate::ids::{Pid, Tid};
use crate::process::{Process, ProcessError};
use crate::ptrace::{SigInfo, Stop, TraceError};

/// A fault that the program has a handler for: it may end the program, or go on.
pub(super) struct Caught {
    tid: Tid,
    info: SigInfo,
    /// Where the thread was.
    at: RunAddr,
}

impl Follow<'_, '_, '_> {
    /// A signal that the program is about to get.
    pub(super) fn signal(&mut self, stop: &Stop, info: &SigInfo) -> Result<(), RunError> {
        let of_interest = match self.options.subject {
            Some(_) => self.is_followed(stop.pid),
            None => stop.pid == self.launched || self.options.child_crashes,
        };
        if !of_interest || self.evidence.failure.is_some() {
            return Ok(());
        }
        if fatal::is_fault(info) {
            // Another thread may end the process while we look: then the stack is there once more before the thread ends.
            let is_killed = self.tracer.tell_end(stop.tid).is_err();
            self.evidence.missed |= is_killed;
        }
        match fatal::effect(stop.pid, stop.tid, info) {
            Effect::None => Ok(()),
            Effect::Caught => self.caught(stop, info),
            Effect::Fatal => {
                if !self.is_failure(stop.pid, info) {
                    return Ok(());
                }
                self.take(stop.pid, Some(stop.tid), Some(info))?;
                self.dying = Some(Instant::now());
                Ok(())
            }
        }
    }

    /// Whether a signal that ends a process is a failure.
    fn is_failure(&self, pid: Pid, info: &SigInfo) -> bool {
        let fail_on = self.options.fail_on;
        if self.follows_others() {
            // A script ends its server when it has done, and a pipe whose reader has enough ends the writer.
            let is_usual =
                info.sender().is_some_and(|sender| sender != pid) || info.signal().0 == libc::SIGPIPE;
            let from_outside = fatal::is_from_outside(info, |sender| sender == pid);
            return fail_on.signal(info.signal(), from_outside)
                && (!is_usual || fail_on.names(info.signal()));
        }
        let ours: Vec<Pid> = self.tracer.threads().map(|(pid, _)| pid).collect();
        fail_on.signal(
            info.signal(),
            fatal::is_from_outside(info, |sender| ours.contains(&sender)),
        )
    }

    /// Stops everybody and takes the report of the failure.
    fn take(&mut self, pid: Pid, failing: Option<Tid>, info: Option<&SigInfo>) -> Result<(), RunError> {
        let mut report = match stacks::of_all(&mut self.tracer, pid, failing, info, self.options) {
            // Another thread ended the process, and was faster.
            Err(TraceError::Process(ProcessError::Gone(_))) => {
                self.evidence.missed = true;
                return Ok(());
            }
            other => other?,
        };
        if pid != self.launched && self.options.subject.is_none() {
            let note = format!("it was a child of the program that failed: process {pid}");
            report.notes.push(note);
        }
        if let Some(caught) = self.caught.take() {
            caught.complete(&mut report);
        }
        let threads = self.tracer.threads().filter(|&(process, _)| process == pid);
        self.evidence.unstoppable = threads.map(|(_, tid)| tid).any(|tid| blocks_traps(pid, tid));
        self.tracer.look_at(pid);
        self.subject = self.processes.find_other(pid, self.launched);
        self.each_tracker(|tracker, tracer| tracker.failing(tracer, &report))?;
        self.evidence.failure = Some(report);
        Ok(())
    }

    /// A fault with a handler. Interrupting the others would show if the program goes on, so they run. If the
    /// handler raises the signal again, or aborts, that is seen by itself; that it exits must be asked for. A
    /// program may do this a million times: it costs three system calls.
    fn caught(&mut self, stop: &Stop, info: &SigInfo) -> Result<(), RunError> {
        if !self.options.fail_on.signal(info.signal(), false) {
            return Ok(());
        }
        // A thread that is killed right now has nothing to tell.
        if let Ok(registers) = self.tracer.registers(stop.tid) {
            self.caught = Some(Caught {
                tid: stop.tid,
                info: *info,
                at: RunAddr(registers.rip),
            });
        }
        Ok(())
    }

    /// A thread is about to end. If it is the one that ends the process, its stack tells why.
    pub(super) fn exiting(&mut self, stop: &Stop) {
        const EXIT: u64 = libc::SYS_exit as u64;
        const EXIT_GROUP: u64 = libc::SYS_exit_group as u64;
        if stop.pid != self.tracer.pid() || self.evidence.failure.is_some() {
            return;
        }
        let Ok(registers) = self.tracer.registers(stop.tid) else {
            return;
        };
        let threads = self.tracer.threads().filter(|&(pid, _)| pid == stop.pid);
        let ends_the_process =
            registers.orig_rax == EXIT_GROUP || (registers.orig_rax == EXIT && threads.count() == 1);
        if !ends_the_process {
            return;
        }
        let caught = self.caught.take().filter(|caught| caught.tid == stop.tid);
        let info = caught.as_ref().map(|caught| &caught.info);
        let report = |info| stacks::of_one(&self.tracer, stop.pid, stop.tid, info, self.options).ok();
        if info.is_some()
            && let Some(found) = report(info).and_then(below_handler)
        {
            self.evidence.failure = Some(found);
        } else {
            self.evidence.at_exit = report(None);
        }
    }

    /// It does not get on, for a reason in words.
    pub(super) fn hang(&mut self, why: String) -> Result<(), RunError> {
        if !self.options.fail_on.hang() || self.evidence.failure.is_some() {
            return Ok(());
        }
        let Some(pid) = self.hanging() else {
            return Ok(());
        };
        self.take(pid, None, None)?;
        if let Some(report) = &mut self.evidence.failure {
            report.kind = Kind::Hang;
            report.notes.push(why);
        }
        Ok(())
    }
}

impl Caught {
    /// A handler that raised the signal once more and returned: the thread is where the fault was, but only
    /// the first signal told the address.
    fn complete(self, report: &mut Report) {
        let failing = report.threads.first();
        let is_there = failing.is_some_and(|thread| {
            let at = thread.frames.first().and_then(|frame| frame.address);
            thread.id == Some(u64::from(self.tid.0)) && at == Some(self.at)
        });
        if is_there && report.signal == Some(self.info.signal()) {
            report.fault_address = report.fault_address.or(self.info.address());
        }
    }
}

/// Whether a thread cannot be stopped at a trap, because the program wants it so. While a thread begins or ends, the C library
/// blocks all signals, for a moment and also the one that it keeps for itself and lets no program block.
fn blocks_traps(pid: Pid, tid: Tid) -> bool {
    const OF_THE_LIBRARY: i32 = 32;
    let status = Process::new(pid).thread_status(tid);
    status.is_ok_and(|status| {
        status.blocked.contains(libc::SIGTRAP) && !status.blocked.contains(OF_THE_LIBRARY)
    })
}

/// The report of a fault whose handler ends the process: what the handler does is not the failure. `None` when
/// no handler is running.
fn below_handler(mut report: Report) -> Option<Report> {
    let frames = &mut report.threads.first_mut()?.frames;
    let interrupted = frames
        .iter()
        .position(|frame| frame.origin == FrameOrigin::SignalFrame)?;
    frames.drain(..interrupted);
    if let Some(first) = frames.first_mut() {
        first.origin = FrameOrigin::Context;
    }
    let note =
        "a handler of the program took the signal and ended the process: only the failing thread was left";
    report.notes.push(note.to_owned());
    Some(report)
}
