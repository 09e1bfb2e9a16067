//! The limit of open files: four watched locations in 300 threads are 1200 events.

use std::io;
use std::sync::OnceLock;

/// The limit of open files of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimit {
    /// What holds now.
    pub soft: u64,
    /// What the process may raise it to.
    pub hard: u64,
}

static ORIGINAL: OnceLock<FileLimit> = OnceLock::new();

/// The limit that this process was started with. Opening many events raises the soft one; a program that is
/// launched afterwards inherits the raised one, unless its launcher gives it this one.
#[must_use]
pub fn original_file_limit() -> Option<FileLimit> {
    ORIGINAL.get().copied().or_else(current)
}

/// The limit as it is now.
pub(crate) fn current() -> Option<FileLimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live, writable rlimit.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (done == 0).then_some(FileLimit {
        soft: limit.rlim_cur,
        hard: limit.rlim_max,
    })
}

/// Raises the soft limit to the hard one.
///
/// # Errors
/// When it is there already.
pub(super) fn raise() -> io::Result<()> {
    let now = current().ok_or_else(io::Error::last_os_error)?;
    let _ = ORIGINAL.set(now);
    if now.soft >= now.hard {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let limit = libc::rlimit {
        rlim_cur: now.hard,
        rlim_max: now.hard,
    };
    // SAFETY: the pointer is to a live rlimit, which is only read.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
