//! The requests of `ptrace(2)`, one typed call each. The other thread may die at any moment: every call can
//! fail with ESRCH.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use crate::ids::Tid;
use crate::process::SignalSet;

use super::siginfo::SigInfo;

type Request = libc::c_uint;

/// # Safety
/// `data` must be what the request takes: a number, or a pointer to memory of the kind that it reads or writes.
unsafe fn call(request: Request, tid: Tid, addr: usize, data: usize) -> io::Result<()> {
    // SAFETY: the caller's promise. The other process's memory and registers are no memory of ours.
    let result = unsafe { libc::ptrace(request, tid.raw(), addr, data) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Starts to trace a thread without stopping it.
pub(super) fn seize(tid: Tid, options: i32) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_SEIZE, tid, 0, options as usize) }
}

/// Changes which events a stopped thread stops for. Threads that it creates stop for the same.
pub(super) fn set_options(tid: Tid, options: i32) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_SETOPTIONS, tid, 0, options as usize) }
}

/// Makes a running thread stop.
pub(super) fn interrupt(tid: Tid) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_INTERRUPT, tid, 0, 0) }
}

/// Lets a stopped thread run, with a signal delivered (0: none).
pub(super) fn cont(tid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_CONT, tid, 0, signal as usize) }
}

/// Lets a stopped thread run one instruction, with a signal delivered (0: none).
pub(super) fn step(tid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_SINGLESTEP, tid, 0, signal as usize) }
}

/// Leaves a thread in its group-stop, and hears when that ends.
pub(super) fn listen(tid: Tid) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_LISTEN, tid, 0, 0) }
}

/// Stops tracing a stopped thread, with a signal delivered (0: none).
pub(super) fn detach(tid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: both are numbers.
    unsafe { call(libc::PTRACE_DETACH, tid, 0, signal as usize) }
}

/// What an event stop is about: the new thread or process, or the former number at an `exec`.
pub(super) fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one unsigned long, and there is room for it.
    unsafe { call(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message).addr()) }?;
    Ok(message)
}

/// The signal that a thread is stopped for, in full.
pub(super) fn signal_info(tid: Tid) -> io::Result<SigInfo> {
    let mut info = SigInfo::empty();
    // SAFETY: the kernel writes a siginfo_t, which SigInfo has the size and the alignment of.
    unsafe { call(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info).addr()) }?;
    Ok(info)
}

/// The signals that wait for a thread itself, at most `MOST` of them.
pub(super) fn pending_signals(tid: Tid) -> io::Result<Vec<SigInfo>> {
    const MOST: usize = 64;
    let wanted = libc::ptrace_peeksiginfo_args {
        off: 0,
        flags: 0,
        nr: MOST as i32,
    };
    let mut found = vec![SigInfo::empty(); MOST];
    // SAFETY: the arguments are read; at most `nr` siginfo_t are written, and there is room for that many.
    let count = unsafe {
        libc::ptrace(
            libc::PTRACE_PEEKSIGINFO,
            tid.raw(),
            (&raw const wanted).addr(),
            found.as_mut_ptr().addr(),
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    found.truncate(count);
    Ok(found)
}

/// The kernel's size of a signal set.
const SET_SIZE: usize = size_of::<u64>();

/// The signals that a stopped thread blocks.
pub(super) fn signal_mask(tid: Tid) -> io::Result<SignalSet> {
    let mut set = 0_u64;
    // SAFETY: the kernel writes a set of the given size.
    unsafe { call(libc::PTRACE_GETSIGMASK, tid, SET_SIZE, (&raw mut set).addr()) }?;
    Ok(SignalSet(set))
}

/// Changes the signals that a stopped thread blocks.
pub(super) fn set_signal_mask(tid: Tid, mask: SignalSet) -> io::Result<()> {
    let set = mask.0;
    // SAFETY: the kernel reads a set of the given size.
    unsafe { call(libc::PTRACE_SETSIGMASK, tid, SET_SIZE, (&raw const set).addr()) }
}

/// The registers of a stopped thread.
pub(super) fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
    // SAFETY: the kernel writes a user_regs_struct, and there is room for it.
    unsafe { call(libc::PTRACE_GETREGS, tid, 0, registers.as_mut_ptr().addr()) }?;
    // SAFETY: it was zeroed, which is a value of it, and then written.
    Ok(unsafe { registers.assume_init() })
}

/// Changes the registers of a stopped thread.
pub(super) fn set_registers(tid: Tid, registers: &libc::user_regs_struct) -> io::Result<()> {
    // SAFETY: the kernel reads a user_regs_struct.
    unsafe { call(libc::PTRACE_SETREGS, tid, 0, ptr::from_ref(registers).addr()) }
}

fn debug_register_at(index: usize) -> usize {
    offset_of!(libc::user, u_debugreg) + index * size_of::<u64>()
}

/// One of the eight debug registers of a stopped thread.
pub(super) fn debug_register(tid: Tid, index: usize) -> io::Result<u64> {
    let at = debug_register_at(index);
    // glibc's own interface to this request returns the value, so that errno alone tells a failure.
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: an offset into the user area, which the kernel checks.
    let value = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, tid.raw(), at, 0_usize) };
    // SAFETY: as above.
    match unsafe { *libc::__errno_location() } {
        0 => Ok(value.cast_unsigned()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Writes one of the eight debug registers of a stopped thread.
pub(super) fn set_debug_register(tid: Tid, index: usize, value: u64) -> io::Result<()> {
    // SAFETY: an offset into the user area, which the kernel checks, and a number.
    unsafe {
        call(
            libc::PTRACE_POKEUSER,
            tid,
            debug_register_at(index),
            value as usize,
        )
    }
}
