//! The moments at which it becomes clear how a program ends: a signal, an exit, the time limit.

use std::time::Instant;

use failure::report::{Kind, Report};
use program::RunAddr;

use super::caught::{self, Caught};
use super::fatal::{self, Effect};
use super::follow::{Follow, RunError};
use super::stacks;
use crate::ids::{Pid, Tid};
use crate::monotonic_ns;
use crate::process::{Process, ProcessError};
use crate::ptrace::{SigInfo, Stop, TraceError};

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

    /// Stops everybody and takes the report of the failure. Says whether that is of a fault whose handler got no further.
    fn take(&mut self, pid: Pid, failing: Option<Tid>, info: Option<&SigInfo>) -> Result<bool, RunError> {
        let mut report = match stacks::of_all(&mut self.tracer, pid, failing, info, self.options) {
            // Another thread ended the process, and was faster.
            Err(TraceError::Process(ProcessError::Gone(_))) => {
                self.evidence.missed = true;
                return Ok(false);
            }
            other => other?,
        };
        if pid != self.launched && self.options.subject.is_none() {
            let note = format!("it was a child of the program that failed: process {pid}");
            report.notes.push(note);
        }
        let handled = self.below_handler(pid, &mut report, info)?;
        let threads = self.tracer.threads().filter(|&(process, _)| process == pid);
        self.evidence.unstoppable = threads.map(|(_, tid)| tid).any(|tid| blocks_traps(pid, tid));
        self.tracer.look_at(pid);
        self.subject = self.processes.find_other(pid, self.launched);
        self.each_tracker(|tracker, tracer| tracker.failing(tracer, &report))?;
        self.evidence.failure = Some(report);
        Ok(handled)
    }

    /// What a handler that runs has to do with a failure: what it does is no part of how that came about, and where it gets no further
    /// itself, by a fault of its own or for a lock that the thread had when it was interrupted, the fault that it was called for is
    /// the failure. `info` is the signal that the process dies of, if it is one. Says whether the report is about that fault now.
    fn below_handler(
        &mut self,
        pid: Pid,
        report: &mut Report,
        info: Option<&SigInfo>,
    ) -> Result<bool, RunError> {
        let Some(caught) = self.caught.take() else {
            return Ok(false);
        };
        caught.complete(report);
        if !caught.is_handled_in(report) {
            return Ok(false);
        }
        self.evidence.failed_at_ns = Some(caught.at_ns);
        if info.is_some_and(|info| info.sender().is_some()) {
            return Ok(false);
        }
        match stacks::of_all(
            &mut self.tracer,
            pid,
            Some(caught.tid),
            Some(&caught.info),
            self.options,
        ) {
            // Whoever is killed now has nothing to tell any more; what is known remains.
            Err(TraceError::Process(ProcessError::Gone(_))) => Ok(false),
            other => {
                *report =
                    caught::below_handler(other?, caught::FAILED_ITSELF).unwrap_or_else(|| report.clone());
                Ok(true)
            }
        }
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
                at_ns: monotonic_ns(),
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
        // A script that ends with another program's run is that program when it ends.
        self.subject = self.processes.find_other(stop.pid, self.launched);
        let caught = self.caught.take().filter(|caught| caught.tid == stop.tid);
        let info = caught.as_ref().map(|caught| &caught.info);
        let report = |info| stacks::of_one(&self.tracer, stop.pid, stop.tid, info, self.options).ok();
        if info.is_some()
            && let Some(found) =
                report(info).and_then(|report| caught::below_handler(report, caught::ENDED_IT))
        {
            self.evidence.failure = Some(found);
            self.evidence.failed_at_ns = caught.map(|caught| caught.at_ns);
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
        let handled = self.take(pid, None, None)?;
        if let Some(report) = &mut self.evidence.failure
            && !handled
        {
            report.kind = Kind::Hang;
            report.notes.push(why);
        }
        Ok(())
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
