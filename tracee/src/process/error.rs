//! Why a process could not be looked at.

use std::io;

use thiserror::Error;

use super::barrier::Barrier;
use crate::ids::Pid;

/// What went wrong with a process that is only looked at.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// There is none, or no more.
    #[error("no process {0}: it ended, or its number is another here than in its container")]
    Gone(Pid),
    /// Not ours to look at.
    #[error("not allowed to read {what} of process {pid}: {why}")]
    Forbidden {
        /// Whose.
        pid: Pid,
        /// What was to be read.
        what: &'static str,
        /// What is in the way.
        why: Barrier,
    },
    /// Anything else.
    #[error("cannot read {what} of process {pid}")]
    Unreadable {
        /// Whose.
        pid: Pid,
        /// What was to be read.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl ProcessError {
    pub(crate) fn of(pid: Pid, what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Self::Gone(pid),
            Some(libc::EACCES | libc::EPERM) => Self::Forbidden {
                pid,
                what,
                why: Barrier::before(pid),
            },
            _ => Self::Unreadable { pid, what, source },
        }
    }
}
