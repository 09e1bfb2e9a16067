//! Calls that fail because we stopped their thread for a look.
//!
//! The kernel restarts most calls of a thread that was stopped and got no signal. Some it ends with EINTR, `epoll_wait`
//! among them (`signal(7)`), and programs that have no signal handlers are not prepared for it.

use failure::image::Registers;

use crate::process::Status;

/// The calls of `signal(7)` that fail after a stop without a handler, having done nothing. (`connect` with a time limit is
/// another one; it cannot be made again.) A time limit begins anew.
const MADE_AGAIN: [i64; 16] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];

/// The registers with which a thread that was interrupted makes its call again, if it has to. One that a signal waits for
/// gets that first, and fails as it would have.
pub(super) fn call_again(
    registers: &Registers,
    status: impl FnOnce() -> Option<Status>,
) -> Option<Registers> {
    /// `syscall`
    const INSTRUCTION: u64 = 2;
    let interrupted = registers.rax == (-i64::from(libc::EINTR)).cast_unsigned();
    let call = registers.orig_rax.cast_signed();
    if !interrupted || !MADE_AGAIN.contains(&call) {
        return None;
    }
    let status = status()?;
    let waits = (1..=64).any(|signal| status.has_pending(signal) && !status.blocked.contains(signal));
    (!waits).then(|| Registers {
        rax: registers.orig_rax,
        rip: registers.rip.wrapping_sub(INSTRUCTION),
        ..*registers
    })
}
