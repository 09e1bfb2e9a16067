//! Address filters: ranges of files, which the kernel turns into ranges of addresses wherever the files are mapped.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use perf_event_open_sys::ioctls;

use crate::perf::event::Event;

/// Sets an event's filter.
pub(super) fn set(event: &Event, filter: &str) -> io::Result<()> {
    let filter = CString::new(filter).map_err(io::Error::other)?;
    // SAFETY: an ioctl on our own event; the kernel copies the text, which ends with a NUL.
    let result = unsafe { ioctls::SET_FILTER(event.as_fd().as_raw_fd(), filter.as_ptr().cast_mut().cast()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Whether the kernel recognises a file in a mapping of it. It compares inodes, and what a process maps of an overlay (the
/// files of most containers) has the inode of the layer below: such a filter is accepted, never matches, and nothing is
/// traced.
#[must_use]
pub fn can_filter(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: a plain C structure of integers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a NUL, the result is a local variable.
    let result = unsafe { libc::statfs(path.as_ptr(), &raw mut found) };
    result == 0 && found.f_type != libc::OVERLAYFS_SUPER_MAGIC
}

#[cfg(test)]
mod tests {
    use super::can_filter;
    use std::path::Path;

    #[test]
    fn files_that_are_there_and_in_one_layer_can_be_filtered() {
        assert!(can_filter(Path::new("/proc/self/status")));
        assert!(!can_filter(Path::new("/nonexistent")));
        assert!(!can_filter(Path::new("/a\0b")));
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let overlay = mounts
            .lines()
            .find(|line| line.split(' ').nth(2) == Some("overlay"));
        if let Some(folder) = overlay.and_then(|line| line.split(' ').nth(1)) {
            assert!(!can_filter(Path::new(folder)), "{folder}");
        }
    }
}
