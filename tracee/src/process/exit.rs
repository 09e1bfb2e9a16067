//! The end of a process that is not ours to wait for.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use super::error::ProcessError;
use crate::ids::Pid;
use crate::ptrace::End;

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

    /// Asks the process to end, as `kill` does. One that has ended already needs no asking.
    ///
    /// # Errors
    /// When the process is not ours to ask.
    pub fn ask_to_end(&self) -> Result<(), ProcessError> {
        let (fd, nothing) = (self.file.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: without details of the signal the kernel reads nothing of ours.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGTERM, nothing, 0) };
        match io::Error::last_os_error() {
            error if sent != 0 && error.raw_os_error() != Some(libc::ESRCH) => {
                Err(ProcessError::of(self.pid, "the end", error))
            }
            _ => Ok(()),
        }
    }

    /// How the process ended, once it has, as far as others than its parent get to know: while it is a zombie its
    /// statistics say it to whoever may trace it, and when its parent has taken it, since Linux 6.15, the
    /// descriptor does.
    #[must_use]
    pub fn how(&self) -> End {
        // A zombie may be taken between the two: then the second knows.
        let status = zombie_status(self.pid).or_else(|| self.taken_status());
        status.map_or(End::Unknown, End::of_status)
    }

    fn taken_status(&self) -> Option<i32> {
        let mut info = PidfdInfo {
            mask: PIDFD_INFO_EXIT,
            ..PidfdInfo::default()
        };
        // SAFETY: the kernel writes at most as many bytes as the request's number says, which are those of `info`.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
        (done == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }
}

/// The wait status of a zombie.
fn zombie_status(pid: Pid) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have anything in it.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let is_zombie = fields.next() == Some("Z");
    // The 52nd of all; the state was the third.
    let status = fields.nth(48)?.parse().ok();
    status.filter(|_| is_zombie)
}

/// `struct pidfd_info` as it was first (`PIDFD_INFO_SIZE_VER0`); the exit code was in its reserved word from Linux 6.15.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    user_and_group: [u32; 8],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::c_ulong =
    3 << 30 | (size_of::<PidfdInfo>() as libc::c_ulong) << 16 | 0xff << 8 | 11;
