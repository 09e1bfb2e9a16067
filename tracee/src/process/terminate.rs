//! Asking a process to end.

use std::io;

use crate::Pid;

/// Sends SIGTERM.
///
/// # Errors
/// When the process is gone, or is not ours to end.
pub fn terminate(pid: Pid) -> io::Result<()> {
    // SAFETY: takes no pointers.
    match unsafe { libc::kill(pid.raw(), libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
