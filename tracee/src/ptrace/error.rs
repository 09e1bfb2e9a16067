//! Why a program cannot be launched, attached to or traced on.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::ids::{Pid, Tid};
use crate::process::{Barrier, ProcessError};

/// Why a program was not launched.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// There is no such file.
    #[error("no such program: {0}")]
    NotFound(PathBuf),
    /// No folder of PATH has it.
    #[error("no such program: {0} is in none of the folders of PATH (a program in this folder is ./{0})")]
    NotInPath(String),
    /// It is there, but cannot be started by us.
    #[error("{0} may not be executed: it is no program, or chmod +x is needed")]
    NotExecutable(PathBuf),
    /// The kernel does not know what it is.
    #[error("{0} is in no format that this system runs; a script needs a first line such as #!/bin/sh")]
    BadFormat(PathBuf),
    /// It needs another program to run it.
    #[error(
        "{0} is there, but what runs it is not: the interpreter in its first line, or its dynamic loader"
    )]
    NoInterpreter(PathBuf),
    /// The folder that it was to be started in.
    #[error("cannot start a program in {path}")]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A name, an argument or a variable that no program can be given.
    #[error("a program's name, arguments and variables cannot contain a NUL byte")]
    Nul,
    /// It ended before it began: somebody killed it.
    #[error("{0} ended while it was being started")]
    Ended(PathBuf),
    /// Anything else.
    #[error("cannot start {path}")]
    Refused {
        /// Which program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a process cannot be traced.
#[derive(Debug, Error)]
pub enum AttachError {
    /// There is none, or no more.
    #[error("no process {0}: it ended, or its number is another here than in its container")]
    NoProcess(Pid),
    /// It is over, but its parent has not looked yet.
    #[error("process {0} has ended already and only waits for its parent to notice")]
    Zombie(Pid),
    /// It ended before all of its threads were traced.
    #[error("process {0} ended while it was being attached to")]
    EndedMeanwhile(Pid),
    /// A part of the kernel.
    #[error("{pid} ({name}) is a thread of the kernel, not a program")]
    KernelThread {
        /// Its number.
        pid: Pid,
        /// Its name.
        name: String,
    },
    /// One thread of several.
    #[error("{pid} is a thread of process {process}: give the number of the process")]
    NotFirst {
        /// The number that was given.
        pid: Pid,
        /// The one that was meant.
        process: Pid,
    },
    /// Ourselves.
    #[error("{0} is failsketch itself; give the number of another process")]
    Itself(Pid),
    /// A thread can have one tracer.
    #[error("process {pid} is traced already, by {tracer} ({command}): end that one first")]
    Traced {
        /// Its number.
        pid: Pid,
        /// Who traces it.
        tracer: Tid,
        /// What that is.
        command: String,
    },
    /// 32-bit code.
    #[error("process {0} is a 32-bit program; only 64-bit x86 programs can be watched")]
    ThirtyTwoBit(Pid),
    /// Somebody else's.
    #[error("process {pid} belongs to user {user}: run failsketch as that user or as root (CAP_SYS_PTRACE)")]
    OtherUser {
        /// Its number.
        pid: Pid,
        /// Its user.
        user: u32,
    },
    /// The Yama security module.
    #[error(
        "the kernel lets a process be traced by its ancestors only (kernel.yama.ptrace_scope is {scope}): run as root, or `sudo sysctl kernel.yama.ptrace_scope=0`"
    )]
    Scope {
        /// The setting.
        scope: u32,
    },
    /// The Yama security module, for good.
    #[error(
        "tracing is switched off until the next boot (kernel.yama.ptrace_scope is 3): remove that setting from /etc/sysctl.d and reboot"
    )]
    ScopeClosed,
    /// Capabilities, seccomp, a security module, a program that protects itself.
    #[error("not allowed to trace process {pid}: {why}")]
    Forbidden {
        /// Its number.
        pid: Pid,
        /// What is in the way.
        why: Barrier,
    },
    /// Anything else.
    #[error("cannot trace process {pid}")]
    Refused {
        /// Its number.
        pid: Pid,
        /// Why.
        source: io::Error,
    },
}

/// What went wrong with tracing.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The program did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The process cannot be traced.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// All traced processes have ended.
    #[error("no traced process is left to wait for")]
    NothingLeft,
    /// The thread is not one of ours, or not stopped.
    #[error("thread {0} is not stopped for us: it can only be looked at and resumed while it is")]
    NotStopped(Tid),
    /// Signals meant for nobody but us are still on their way.
    #[error("threads of process {0} still had stops to come when the time for leaving it was over")]
    NotQuiet(Pid),
    /// The kernel refused a request.
    #[error("cannot {what}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl TraceError {
    pub(super) fn refused(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Refused { what, source }
    }
}
