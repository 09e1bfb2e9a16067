//! Why a perf event could not be had, in words that say what to do.

use std::io;
use std::path::PathBuf;

use program::{FileOffset, RunAddr};
use thiserror::Error;

use crate::Tid;

/// A perf event that could not be opened or changed.
#[derive(Debug, Error)]
pub enum PerfError {
    /// The processor has four debug registers, and others hold them.
    #[error(
        "no debug register of thread {tid} is free (a processor has four): end the debugger \
         (TracerPid in /proc/{tid}/status) or perf session that watches the process, or watch fewer locations"
    )]
    NoRegister {
        /// The thread.
        tid: Tid,
    },
    /// The kernel does not let this user do it.
    #[error("{what} is not permitted: {remedy}")]
    NotPermitted {
        /// What was tried.
        what: String,
        /// What would allow it.
        remedy: &'static str,
    },
    /// The thread has ended, or never was.
    #[error("there is no thread {tid} (any more)")]
    NoSuchThread {
        /// The thread.
        tid: Tid,
    },
    /// The limit of open files is reached, also after raising it as far as this process may.
    #[error(
        "too many open files: a watched thread takes one for each location; raise the limit with \
         'ulimit -Hn' (or LimitNOFILE= of the service), now {limit}"
    )]
    TooManyFiles {
        /// The limit.
        limit: u64,
    },
    /// A debug register watches 1, 2, 4 or 8 bytes, aligned to their number.
    #[error(
        "a debug register cannot watch {len} bytes at {addr}: it takes 1, 2, 4 or 8, at an address that is a \
         multiple of their number"
    )]
    BadRange {
        /// Where.
        addr: RunAddr,
        /// How many.
        len: u64,
    },
    /// The kernel takes no probe on this instruction.
    #[error(
        "the instruction at offset {offset} of {path} takes no probe (not the start of an instruction, or one \
         that cannot be executed out of line): use a neighbour in the same block"
    )]
    ProbeRefused {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: FileOffset,
    },
    /// The file to probe is not there.
    #[error("{path} cannot be probed: {source}")]
    NoFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This kernel, or this machine, does not have it.
    #[error("{what} is not supported here: {remedy}")]
    NotSupported {
        /// What was tried.
        what: String,
        /// What it takes.
        remedy: &'static str,
    },
    /// Anything else.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PerfError {
    /// The thread is gone: not an error where threads come and go.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::NoSuchThread { .. })
    }

    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
