//! An array map with one value, mapped into our memory: a few words shared with programs.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::syscall::{MMAPABLE, MapKind, create_map};

/// Words that our programs read and write, and we as well.
#[derive(Debug)]
pub(super) struct SharedWords {
    fd: OwnedFd,
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping is shared with the kernel anyway; all access is through atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

/// Size of a page on x86-64.
const PAGE: usize = 4096;

impl SharedWords {
    /// Makes `count` words, all zero; they must fit a page.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let size = count * size_of::<u64>();
        if size > PAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = create_map(MapKind::Array, 4, size as u32, 1, MMAPABLE)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { fd, words, count })
    }

    /// The words.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has room for `count` words, is page-aligned and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// How programs name it.
    pub(super) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives self.
        unsafe { libc::munmap(self.words.as_ptr().cast(), PAGE) };
    }
}
