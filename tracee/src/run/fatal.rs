//! Which signals end a process, and who sent them.

use crate::ids::{Pid, Tid};
use crate::process::Process;
use crate::ptrace::SigInfo;

/// What a signal will do to a process that gets it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It ends the process.
    Fatal,
    /// The program has a handler for it.
    Caught,
    /// Nothing of interest.
    None,
}

/// Signals of the processor's faults and of `abort`: a handler for them runs because the program is broken,
/// or makes good what it did on purpose.
const FAULTS: [i32; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// Whether it is a signal of a fault.
pub(super) fn is_fault(info: &SigInfo) -> bool {
    FAULTS.contains(&info.signal().0)
}

/// What becomes of a thread's process when the signal is delivered. A fault whose signal is blocked or ignored
/// has lost its handler by now: the kernel does that before it tells us.
pub(super) fn effect(pid: Pid, tid: Tid, info: &SigInfo) -> Effect {
    let signal = info.signal().0;
    if !ends_by_default(signal) {
        return Effect::None;
    }
    let Ok(status) = Process::new(pid).thread_status(tid) else {
        return Effect::None;
    };
    if status.caught.contains(signal) {
        return if FAULTS.contains(&signal) {
            Effect::Caught
        } else {
            Effect::None
        };
    }
    if status.ignored.contains(signal) {
        return Effect::None;
    }
    Effect::Fatal
}

fn ends_by_default(signal: i32) -> bool {
    const HARMLESS: [i32; 8] = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    !HARMLESS.contains(&signal)
}

/// Whether somebody outside the traced processes sent it: another process, or a terminal.
pub(super) fn is_from_outside(info: &SigInfo, is_ours: impl Fn(Pid) -> bool) -> bool {
    match info.sender() {
        Some(sender) => !is_ours(sender),
        None => info.code() == libc::SI_KERNEL,
    }
}
