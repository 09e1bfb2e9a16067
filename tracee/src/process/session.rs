//! Leaving the terminal's session.

use std::io;

/// Makes this process the leader of a session of its own, so that what ends the terminal's programs (a hang-up,
/// an interrupt from the keyboard) does not reach it. Only a process that leads no group can.
///
/// # Errors
/// When it leads a group already.
pub fn leave_session() -> io::Result<()> {
    // SAFETY: takes nothing, and changes nothing but this process's session and group.
    if unsafe { libc::setsid() } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
