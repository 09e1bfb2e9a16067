//! Why something cannot be watched.

use std::io;

use tracee::Pid;
use tracee::bpf::BpfError;
use tracee::perf::PerfError;
use tracee::process::ProcessError;
use tracee::ptrace::TraceError;

use crate::hit::Mode;
use crate::location::LocationError;

/// Why something cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The location cannot be watched.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The debug registers cannot be had.
    #[error(transparent)]
    Perf(#[from] PerfError),
    /// The values at hits cannot be read by the kernel.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The process cannot be traced.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file that the process will never have.
    #[error("{what} is not mapped in process {pid}: check the name, or the address with ADDR:LEN")]
    NotMapped {
        /// What was to be watched.
        what: String,
        /// The process.
        pid: Pid,
    },
    /// This mode is not for this target.
    #[error("mode {mode} is for programs that failsketch starts: use exact or observe for process {pid}")]
    NotForAttached {
        /// The mode.
        mode: Mode,
        /// The process.
        pid: Pid,
    },
    /// A thread would lose hits.
    #[error(
        "a thread of process {0} blocks SIGTRAP, which exact mode needs: use observe mode, which stops no thread"
    )]
    BlocksTrap(Pid),
    /// Exact mode for a process that runs already needs somebody to hold it.
    #[error("exact mode for process {0}, which runs already, takes a keeper: use observe mode")]
    NoKeeper(Pid),
    /// The process that holds an attached target ended.
    #[error("the keeper of process {pid} ended early: {why}")]
    Keeper {
        /// The process.
        pid: Pid,
        /// What is known.
        why: String,
    },
    /// A thread of ours could not be started, or a pipe made.
    #[error("cannot {what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Anything that somebody else said in words.
    #[error("{0}")]
    Said(String),
}

impl WatchError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
