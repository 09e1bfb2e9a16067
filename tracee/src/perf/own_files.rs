//! A table of files that no other process gets a copy of.
//!
//! Between `fork` and `exec` a process that some other thread of ours starts has copies of all our files, and what they stand for stays
//! until it lets go of them as well. A debug register that was taken and given back is then taken still.

use std::io;

/// Does something in a thread with an empty table of files. What it opens is for nobody else, and closed is closed.
///
/// # Errors
/// When there can be no such thread.
pub(super) fn with_own_files<T: Send>(act: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let apart = std::thread::Builder::new().spawn_scoped(scope, || {
            leave_files_behind()?;
            Ok(act())
        })?;
        apart
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives the calling thread a table of its own, without the files that were open.
fn leave_files_behind() -> io::Result<()> {
    // SAFETY: it takes numbers only. The table that the other threads have stays as it is.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn files_are_apart() {
        let ours = File::open("/dev/null").expect("it opens");
        let theirs = with_own_files(|| {
            let theirs = File::open("/dev/null").map(|file| file.as_raw_fd());
            let open = std::fs::read_dir("/proc/thread-self/fd").map(|open| open.count());
            (theirs, open)
        });
        let (theirs, open) = theirs.expect("there is such a thread");
        assert_eq!(theirs.expect("it opens"), 0);
        assert_eq!(
            open.expect("a thread has a table of files"),
            1,
            "the folder itself"
        );
        assert!(ours.metadata().is_ok());
    }
}
