//! Attaching to a process that runs, without stopping any of its threads.

use std::fs;
use std::io;

use super::alarm::Alarm;
use super::error::{AttachError, TraceError};
use super::farewell::Farewell;
use super::launched::FORKS;
use super::request;
use super::tracer::{Attached, Thread, Tracer};
use crate::ids::{Pid, Tid};
use crate::process::{Barrier, Process, ProcessError, Status};

/// Never EXITKILL: the target is to outlive us.
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEVFORKDONE;

impl Tracer<Attached> {
    /// Attaches to a process: all its threads, and all that it will have. They run on. Processes that it forks
    /// run free, unless forks are to be followed.
    ///
    /// # Errors
    /// When the process cannot be traced; none of its threads is then traced.
    pub fn attach(pid: Pid, follow_forks: bool) -> Result<Self, TraceError> {
        Self::attach_with(pid, follow_forks, if follow_forks { FORKS } else { 0 })
    }

    /// The same, without processes that are forked, but each thread stops once more when it is about to end: for a look at
    /// the stacks of a process that dies.
    ///
    /// # Errors
    /// As [`Tracer::attach`].
    pub fn attach_to_end(pid: Pid) -> Result<Self, TraceError> {
        Self::attach_with(pid, false, libc::PTRACE_O_TRACEEXIT)
    }

    fn attach_with(pid: Pid, follow_forks: bool, more: i32) -> Result<Self, TraceError> {
        check_target(pid)?;
        let alarm = Alarm::new().map_err(TraceError::refused("make a timer"))?;
        let mut tracer = Self::new(pid, alarm, follow_forks, Farewell::Resume);
        let options = OPTIONS | more;
        // A thread that is not traced yet may create others. Only a list without anything new is complete:
        // every thread in it was traced when it was read, and theirs are traced from the start.
        while tracer.seize_new(options)? {}
        if tracer.threads.is_empty() {
            return Err(AttachError::EndedMeanwhile(pid).into());
        }
        Ok(tracer)
    }

    /// Traces the threads that are not traced yet; says whether there was one.
    fn seize_new(&mut self, options: i32) -> Result<bool, TraceError> {
        let pid = self.main;
        let process = Process::new(pid);
        let listed = process.threads().map_err(|error| match error {
            ProcessError::Gone(pid) => AttachError::EndedMeanwhile(pid).into(),
            error => TraceError::from(error),
        })?;
        let mut found_new = false;
        for tid in listed {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match request::seize(tid, options) {
                Ok(()) => {
                    found_new = true;
                    self.threads.insert(tid, Thread::running(pid));
                }
                Err(error) => match process.thread_status(tid) {
                    Err(_) => (),
                    // Its creator is traced, so it is too; its first stop is still to be waited for.
                    Ok(status) if status.tracer == Some(Tid::this()) => (),
                    Ok(status) if status.is_over() => (),
                    Ok(_) => return Err(AttachError::why(pid, error).into()),
                },
            }
        }
        Ok(found_new)
    }
}

/// What can be said of a process before trying to watch or trace it.
///
/// # Errors
/// Why it cannot be done.
pub fn check_target(pid: Pid) -> Result<(), AttachError> {
    let process = Process::new(pid);
    let status = process.status().map_err(|_| AttachError::NoProcess(pid))?;
    if status.process != pid {
        // The number of a thread that is not the first: the process has another.
        return Err(AttachError::NotFirst {
            pid,
            process: status.process,
        });
    }
    if pid == Pid::this() {
        return Err(AttachError::Itself(pid));
    }
    if status.kernel_thread {
        return Err(AttachError::KernelThread {
            pid,
            name: status.name,
        });
    }
    if process.is_zombie().unwrap_or(true) {
        return Err(AttachError::Zombie(pid));
    }
    if process.is_32_bit().unwrap_or(false) {
        return Err(AttachError::ThirtyTwoBit(pid));
    }
    Ok(())
}

impl AttachError {
    /// Why the kernel refused: its answer is the same for many reasons.
    pub(super) fn why(pid: Pid, error: io::Error) -> Self {
        let process = Process::new(pid);
        let Ok(status) = process.status() else {
            return Self::EndedMeanwhile(pid);
        };
        if process.is_zombie().unwrap_or(true) {
            return Self::EndedMeanwhile(pid);
        }
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let ours = Process::new(Pid::this()).status().ok();
                let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
                let scope = scope.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
                Self::refused(pid, &status, ours.as_ref(), scope)
            }
            Some(libc::ESRCH) => Self::EndedMeanwhile(pid),
            _ => Self::Refused { pid, source: error },
        }
    }

    fn refused(pid: Pid, status: &Status, ours: Option<&Status>, scope: u32) -> Self {
        const CAP_SYS_PTRACE: u64 = 1 << 19;
        if let Some(tracer) = status.tracer {
            return Self::Traced {
                pid,
                tracer,
                command: Process::new(Pid(tracer.0)).command(),
            };
        }
        if scope >= 3 {
            return Self::ScopeClosed;
        }
        let forbidden = || Self::Forbidden {
            pid,
            why: Barrier::before(pid),
        };
        let Some(ours) = ours.filter(|ours| ours.capabilities & CAP_SYS_PTRACE == 0) else {
            return forbidden();
        };
        if ours.user != status.user {
            return Self::OtherUser {
                pid,
                user: status.user,
            };
        }
        if scope >= 1 {
            Self::Scope { scope }
        } else {
            forbidden()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Us, and a process that refuses: the reason is in our rights, its user and the kernel's setting.
    fn reason(ours: (u32, bool), theirs: u32, scope: u32) -> AttachError {
        let status = |user, capable| {
            let mut status = Process::new(Pid::this()).status().unwrap();
            (status.user, status.tracer) = (user, None);
            status.capabilities = if capable { u64::MAX } else { 0 };
            status
        };
        AttachError::refused(
            Pid(7),
            &status(theirs, false),
            Some(&status(ours.0, ours.1)),
            scope,
        )
    }

    #[test]
    fn refusals_are_told_apart() {
        assert!(matches!(
            reason((1000, false), 0, 0),
            AttachError::OtherUser { user: 0, .. }
        ));
        assert!(matches!(
            reason((1000, false), 0, 1),
            AttachError::OtherUser { .. }
        ));
        assert!(matches!(
            reason((1000, false), 1000, 1),
            AttachError::Scope { scope: 1 }
        ));
        assert!(matches!(
            reason((1000, false), 1000, 2),
            AttachError::Scope { scope: 2 }
        ));
        assert!(matches!(
            reason((1000, false), 1000, 0),
            AttachError::Forbidden { .. }
        ));
        assert!(matches!(reason((0, true), 1000, 3), AttachError::ScopeClosed));
        assert!(matches!(
            reason((0, true), 1000, 1),
            AttachError::Forbidden { .. }
        ));
    }
}
