//! Address filters: ranges of files, which the kernel turns into ranges of addresses wherever the files are mapped.
//!
//! The rules, from `kernel/events/core.c`: a filter that is set looks through the mappings that there are, in order of
//! address, and takes the first one of the file that it thinks has some of the range, whether it is code or not
//! (`perf_addr_filter_apply`, `perf_addr_filter_match`). A mapping that only touches the range counts, with nothing of it.
//! Mappings that come later count if they are code (`perf_addr_filters_adjust`).

use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use perf_event_open_sys::ioctls;
use program::{FileOffset, RunAddr};

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

/// Where the kernel traces when it is told to trace a part of a file that is mapped like this, in order of address.
/// Linkers put the end of one segment and the beginning of the next on one page of the file, and the page is then mapped
/// twice: what code is on it is looked for in the mapping before. Then nothing is traced, or (an empty range is taken for
/// one without an end) too much, and no error tells of it. `None` when the file is not mapped there.
#[must_use]
pub fn placed(mappings: &[(Range<RunAddr>, FileOffset)], part: Range<FileOffset>) -> Option<Range<RunAddr>> {
    let (mapped, offset) = mappings.iter().find(|(mapped, offset)| {
        let size = mapped.end.0.saturating_sub(mapped.start.0);
        part.start.0 <= offset.0.saturating_add(size) && offset.0 <= part.end.0
    })?;
    let at = |place: u64| mapped.start.0.saturating_add(place.saturating_sub(offset.0));
    Some(RunAddr(at(part.start.0))..RunAddr(at(part.end.0).min(mapped.end.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn mapping(start: u64, end: u64, offset: u64) -> (Range<RunAddr>, FileOffset) {
        (RunAddr(start)..RunAddr(end), FileOffset(offset))
    }

    fn part(start: u64, end: u64) -> Range<FileOffset> {
        FileOffset(start)..FileOffset(end)
    }

    /// Headers, code and data, each on pages of their own.
    #[test]
    fn code_is_found_where_it_is() {
        let file = [
            mapping(0x1000, 0x2000, 0),
            mapping(0x2000, 0x6000, 0x1000),
            mapping(0x6000, 0x7000, 0x5000),
        ];
        let found = |from, to| placed(&file, part(from, to));
        assert_eq!(found(0x1010, 0x1030), Some(RunAddr(0x2010)..RunAddr(0x2030)));
        assert_eq!(found(0x4ff0, 0x5000), Some(RunAddr(0x5ff0)..RunAddr(0x6000)));
        assert_eq!(found(0x9000, 0x9010), None);
        assert_eq!(
            found(0x1000, 0x1020),
            Some(RunAddr(0x2000)..RunAddr(0x2000)),
            "at the very beginning: the mapping before it touches it"
        );
    }

    /// As lld and `ld -z noseparate-code` make it: the code begins in the middle of a page of the file.
    #[test]
    fn code_on_a_page_that_is_mapped_twice_is_looked_for_in_the_wrong_place() {
        let file = [
            mapping(0x10_0000, 0x10_2000, 0),
            mapping(0x10_2000, 0x10_8000, 0x1000),
        ];
        let found = |from, to| placed(&file, part(from, to));
        assert_eq!(
            found(0x1a40, 0x1a60),
            Some(RunAddr(0x10_1a40)..RunAddr(0x10_1a60)),
            "it is at 0x102a40"
        );
        assert_eq!(
            found(0x2040, 0x2060),
            Some(RunAddr(0x10_3040)..RunAddr(0x10_3060))
        );
    }

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
