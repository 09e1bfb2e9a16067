//! What `/proc/PID/status` and `/proc/PID/task/TID/status` say.

use crate::ids::{Pid, Tid};

/// A set of signals, as the kernel prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// Whether a signal is in it.
    #[must_use]
    pub fn contains(self, signal: i32) -> bool {
        bit(signal).is_some_and(|bit| self.0 & bit != 0)
    }

    /// The set with one signal more.
    #[must_use]
    pub fn with(self, signal: i32) -> Self {
        Self(self.0 | bit(signal).unwrap_or(0))
    }

    /// The set with one signal less.
    #[must_use]
    pub fn without(self, signal: i32) -> Self {
        Self(self.0 & !bit(signal).unwrap_or(0))
    }
}

fn bit(signal: i32) -> Option<u64> {
    let index = u32::try_from(signal).ok()?.checked_sub(1)?;
    1_u64.checked_shl(index)
}

/// What a thread is doing, as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// On a processor, or waiting for one.
    Running,
    /// Waiting; a signal ends it.
    Sleeping,
    /// Waiting for a device or in a `vfork`; only SIGKILL may end it.
    Blocked,
    /// Stopped by job control.
    Stopped,
    /// Stopped for its tracer.
    Traced,
    /// Ended, not yet waited for.
    Zombie,
    /// Being removed.
    Dead,
    /// A state of the kernel's own threads, or one that is not known here.
    Other,
}

/// The facts of one thread (or of a process: those of its first thread).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// What it is doing.
    pub state: ThreadState,
    /// The process that it belongs to.
    pub process: Pid,
    /// The process that waits for this one.
    pub parent: Pid,
    /// The thread that traces it, if any.
    pub tracer: Option<Tid>,
    /// The user it runs as (the effective one).
    pub user: u32,
    /// Its number in each pid namespace that has one, ours first.
    pub namespaced: Vec<u32>,
    /// Signals that it blocks.
    pub blocked: SignalSet,
    /// Signals that its process ignores.
    pub ignored: SignalSet,
    /// Signals that its process has handlers for.
    pub caught: SignalSet,
    /// Signals that wait for this thread.
    pub pending: SignalSet,
    /// Signals that wait for any thread of the process.
    pub shared_pending: SignalSet,
    /// Its effective capabilities.
    pub capabilities: u64,
    /// Whether it is a thread of the kernel.
    pub kernel_thread: bool,
}

impl Status {
    /// Whether a signal was sent and not yet taken.
    #[must_use]
    pub fn has_pending(&self, signal: i32) -> bool {
        self.pending.contains(signal) || self.shared_pending.contains(signal)
    }

    /// Whether the thread is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, ThreadState::Zombie | ThreadState::Dead)
    }

    /// Reads the text; `None` when it is none of a status file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
        };
        let number = |name: &str| field(name)?.parse::<u32>().ok();
        let set = |name: &str| u64::from_str_radix(field(name)?, 16).ok();
        let signals = |name: &str| SignalSet(set(name).unwrap_or(0));
        let process = Pid(number("Tgid")?);
        Some(Self {
            name: field("Name")?.to_owned(),
            state: state(field("State")?),
            process,
            parent: Pid(number("PPid")?),
            tracer: number("TracerPid").filter(|&tid| tid != 0).map(Tid),
            user: field("Uid")?.split_whitespace().nth(1)?.parse().ok()?,
            namespaced: field("NSpid")
                .map(|ids| ids.split_whitespace().filter_map(|id| id.parse().ok()).collect())
                .unwrap_or_default(),
            blocked: signals("SigBlk"),
            ignored: signals("SigIgn"),
            caught: signals("SigCgt"),
            pending: signals("SigPnd"),
            shared_pending: signals("ShdPnd"),
            capabilities: set("CapEff").unwrap_or(0),
            // Kernels before 6.8 do not say it. A kernel thread has no memory, but neither has a zombie.
            kernel_thread: match field("Kthread") {
                Some(flag) => flag == "1",
                None => field("VmSize").is_none() && !matches!(state(field("State")?), ThreadState::Zombie),
            },
        })
    }
}

fn state(field: &str) -> ThreadState {
    match field.bytes().next() {
        Some(b'R') => ThreadState::Running,
        Some(b'S') => ThreadState::Sleeping,
        Some(b'D') => ThreadState::Blocked,
        Some(b'T') => ThreadState::Stopped,
        Some(b't') => ThreadState::Traced,
        Some(b'Z') => ThreadState::Zombie,
        Some(b'X' | b'x') => ThreadState::Dead,
        _ => ThreadState::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name:\tservers and\\nmore\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t40\n\
        Pid:\t41\nPPid:\t7\nTracerPid:\t99\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t41\t3\nKthread:\t0\n\
        VmSize:\t  100 kB\nSigPnd:\t0000000000000010\nShdPnd:\t0000000000000000\nSigBlk:\t8000000000000000\n\
        SigIgn:\t0000000000001000\nSigCgt:\t0000000000000000\nCapEff:\t0000000000080000\n";

    #[test]
    fn a_status_is_read() {
        let status = Status::parse(TEXT).unwrap();
        assert_eq!(status.name, "servers and\\nmore");
        assert_eq!(status.state, ThreadState::Traced);
        assert_eq!((status.process, status.parent), (Pid(40), Pid(7)));
        assert_eq!(status.tracer, Some(Tid(99)));
        assert_eq!(status.user, 1001);
        assert_eq!(status.namespaced, [41, 3]);
        assert!(status.has_pending(5) && !status.has_pending(4));
        assert!(status.blocked.contains(64) && !status.blocked.contains(63));
        assert!(!status.kernel_thread);
    }

    #[test]
    fn other_text_is_no_status() {
        assert_eq!(Status::parse(""), None);
        assert_eq!(Status::parse("Name:\tx\nState:\tR\nTgid:\tmany\n"), None);
    }

    #[test]
    fn signals_outside_the_set_are_not_in_it() {
        let all = SignalSet(u64::MAX);
        assert!(!all.contains(0) && !all.contains(-1) && !all.contains(65));
        assert!(!all.without(5).contains(5) && SignalSet(0).with(5).contains(5));
    }
}
