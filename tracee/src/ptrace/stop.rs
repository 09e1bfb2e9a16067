//! Why a traced thread stopped, or how it ended.

use failure::Signal;

use super::siginfo::SigInfo;
use crate::ids::{Pid, Tid};

/// Something happened to a traced thread. Unless it ended, it stays stopped until it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// What happened.
    pub what: What,
}

/// What happened to a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is about to get a signal, and will get it if it is resumed with [`super::Resume::Deliver`].
    Signal(SigInfo),
    /// It executed the one instruction that it was asked for.
    Step,
    /// It is a new thread and has not executed its first instruction.
    NewThread {
        /// The thread that created it, if it did not end too early to tell.
        creator: Option<Tid>,
    },
    /// It is the first thread of a new process (only when forks are followed) and has not executed its first
    /// instruction.
    NewProcess {
        /// The thread that forked, if it did not end too early to tell.
        creator: Option<Tid>,
    },
    /// Its process runs another program now, whose first instruction is not yet executed. All other threads
    /// are gone, and this one has the number of the first thread.
    Exec {
        /// The number that the thread had before.
        former: Tid,
    },
    /// A child that it had in its own memory (`vfork`, and so `posix_spawn` and `system`) runs a program now, or has
    /// ended. The child is not traced unless forks are followed.
    Vforked,
    /// Its process is stopped by job control. Resuming leaves it so until somebody continues it.
    GroupStop(Signal),
    /// It is about to end, and its stack is still there: only where [`super::Tracer::tell_end`] asked for it.
    Exiting,
    /// The thread ended; the process goes on.
    ThreadExited,
    /// The process ended: nothing is left of it.
    ProcessExited(End),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exited(i32),
    /// Of a signal.
    Killed {
        /// Which.
        signal: Signal,
        /// The kernel wrote (or handed over) a core.
        core_dumped: bool,
    },
    /// Only its parent knows: the first thread was over when we attached.
    Unknown,
}

impl End {
    /// What a wait status says.
    pub(crate) fn of_status(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Self::Exited(libc::WEXITSTATUS(status))
        } else if libc::WIFSIGNALED(status) {
            Self::Killed {
                signal: Signal(libc::WTERMSIG(status)),
                core_dumped: libc::WCOREDUMP(status),
            }
        } else {
            Self::Unknown
        }
    }
}

impl Stop {
    /// Whether the thread waits to be resumed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        !matches!(self.what, What::ThreadExited | What::ProcessExited(_))
    }
}

/// A status of `waitpid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Ended(End),
    Signal(i32),
    Event(Event),
    /// A trap for the tracer: of an interrupt, of a new thread, of the end of a group-stop.
    Trap,
    GroupStop(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A clone, fork or vfork.
    Created,
    /// The end of a vfork.
    Vforked,
    Exec,
    Exit,
    /// One that was not asked for.
    Other,
}

impl Waited {
    pub(super) fn of(status: i32) -> Self {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return Self::Ended(End::of_status(status));
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 => Self::Signal(signal),
            libc::PTRACE_EVENT_STOP => match signal {
                libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Self::GroupStop(signal),
                _ => Self::Trap,
            },
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                Self::Event(Event::Created)
            }
            libc::PTRACE_EVENT_VFORK_DONE => Self::Event(Event::Vforked),
            libc::PTRACE_EVENT_EXEC => Self::Event(Event::Exec),
            libc::PTRACE_EVENT_EXIT => Self::Event(Event::Exit),
            _ => Self::Event(Event::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        let stopped = |event: i32, signal: i32| Waited::of(event << 16 | signal << 8 | 0x7f);
        assert_eq!(Waited::of(3 << 8), Waited::Ended(End::Exited(3)));
        assert_eq!(
            Waited::of(0x80 | libc::SIGSEGV),
            Waited::Ended(End::Killed {
                signal: Signal(libc::SIGSEGV),
                core_dumped: true
            })
        );
        // A real-time signal has no name in most lists of signals.
        assert_eq!(stopped(0, 40), Waited::Signal(40));
        assert_eq!(stopped(0, libc::SIGSTOP), Waited::Signal(libc::SIGSTOP));
        assert_eq!(stopped(128, libc::SIGSTOP), Waited::GroupStop(libc::SIGSTOP));
        assert_eq!(stopped(128, libc::SIGTRAP), Waited::Trap);
        assert_eq!(stopped(3, libc::SIGTRAP), Waited::Event(Event::Created));
        assert_eq!(stopped(4, libc::SIGTRAP), Waited::Event(Event::Exec));
        assert_eq!(stopped(5, libc::SIGTRAP), Waited::Event(Event::Vforked));
    }
}
