//! The end of a process that is not ours to wait for.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use super::error::ProcessError;
use crate::ids::Pid;

/// Tells when a process has ended, whoever its parent is. Its number cannot be taken by another meanwhile.
#[derive(Debug)]
pub struct ExitWatch {
    pid: Pid,
    file: OwnedFd,
}

impl ExitWatch {
    /// Starts to watch a process.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: Pid) -> Result<Self, ProcessError> {
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.raw(), 0) };
        let Some(fd) = i32::try_from(fd).ok().filter(|&fd| fd >= 0) else {
            return Err(ProcessError::of(
                pid,
                "the end",
                match io::Error::last_os_error() {
                    // What the kernel says of a thread that is not the first of its process.
                    error if error.raw_os_error() == Some(libc::EINVAL) => {
                        io::Error::from_raw_os_error(libc::ESRCH)
                    }
                    error => error,
                },
            ));
        };
        // SAFETY: the call above made this descriptor, and nobody else has it.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { pid, file })
    }

    /// Which process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until the process has ended (it may still be a zombie), at most as long as said. Tells whether
    /// it has.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&self, limit: Duration) -> Result<bool, ProcessError> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            let millis = left.as_nanos().div_ceil(1_000_000);
            let mut poll = libc::pollfd {
                fd: self.file.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one entry is given, and it lives as long as the call.
            let ready = unsafe { libc::poll(&raw mut poll, 1, i32::try_from(millis).unwrap_or(i32::MAX)) };
            match ready {
                1.. => return Ok(true),
                0 if left.is_zero() || deadline.is_some_and(|end| Instant::now() >= end) => return Ok(false),
                0 => (),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(ProcessError::of(self.pid, "the end", error));
                    }
                }
            }
        }
    }
}
