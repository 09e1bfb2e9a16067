//! The reader's end of a BPF ring buffer.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::syscall::{MapKind, create_map};
use crate::perf::poll;

/// Size of a page on x86-64.
const PAGE: usize = 4096;
/// Bytes of a record's header.
pub(super) const HEADER: usize = 8;
/// Set in a record's length while it is being written.
const BUSY: u32 = 1 << 31;
/// Set in a record's length when its writer gave it up.
const DISCARDED: u32 = 1 << 30;

/// A ring buffer that BPF programs write to.
#[derive(Debug)]
pub(super) struct RingBuffer {
    fd: OwnedFd,
    /// A page with the position up to which we read.
    consumer: NonNull<AtomicU64>,
    /// A page with the position up to which was written, then the data, twice in a row: a record at the end
    /// of the ring goes on in the second copy.
    producer: NonNull<AtomicU64>,
    size: usize,
}

// SAFETY: the mappings belong to this value alone, whichever thread has it; reading takes `&mut self`.
unsafe impl Send for RingBuffer {}
// SAFETY: through a shared reference only the descriptor and atomics are used.
unsafe impl Sync for RingBuffer {}

impl RingBuffer {
    /// Makes a ring with room for at least `bytes`.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let size = bytes
            .max(PAGE)
            .checked_next_power_of_two()
            .filter(|&size| size <= 1 << 28)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let fd = create_map(MapKind::RingBuffer, 0, 0, size as u32, 0)?;
        let consumer = map(&fd, PAGE, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let producer = map(&fd, PAGE + 2 * size, libc::PROT_READ, PAGE as libc::off_t).inspect_err(|_| {
            // SAFETY: the mapping is the one just made, and nobody uses it.
            unsafe { libc::munmap(consumer.as_ptr().cast(), PAGE) };
        })?;
        Ok(Self {
            fd,
            consumer,
            producer,
            size,
        })
    }

    /// Hands over all complete records, oldest first, and makes room for others. Ends at a record that is
    /// still being written, so that the order is kept.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let mask = self.size as u64 - 1;
        let mut position = self.consumed().load(Ordering::Relaxed);
        let end = self.produced().load(Ordering::Acquire);
        while position < end {
            let at = (position & mask) as usize;
            // SAFETY: `at` is inside the data, which starts one page into the mapping; records are aligned to
            // 8 bytes, and their length is written atomically when they are complete.
            let length = unsafe {
                let header = self.data().add(at).cast::<u32>();
                AtomicU32::from_ptr(header.cast_mut()).load(Ordering::Acquire)
            };
            if length & BUSY != 0 {
                break;
            }
            let len = (length & !DISCARDED) as usize;
            if len > self.size {
                // The kernel writes no such record; where the next one starts is not known.
                position = end;
                break;
            }
            if length & DISCARDED == 0 {
                // SAFETY: the record's bytes are inside the two copies of the data (at < size, len <= size),
                // complete, and not written to before the consumer's position passes them, below.
                take(unsafe { std::slice::from_raw_parts(self.data().add(at + HEADER), len) });
            }
            position += (len + HEADER).next_multiple_of(8) as u64;
            self.consumed().store(position, Ordering::Release);
        }
        self.consumed().store(position, Ordering::Release);
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.consumed().load(Ordering::Relaxed) >= self.produced().load(Ordering::Acquire)
    }

    /// Waits until the kernel says that there is something to read.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let mut fds = [libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        poll(&mut fds, timeout)
    }

    /// How many bytes it has room for.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// How programs name it.
    pub(super) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the start of a live, page-aligned mapping.
        unsafe { self.consumer.as_ref() }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: the start of a live, page-aligned mapping, which is only read.
        unsafe { self.producer.as_ref() }
    }

    fn data(&self) -> *const u8 {
        // SAFETY: the mapping is longer than a page.
        unsafe { self.producer.as_ptr().cast::<u8>().cast_const().add(PAGE) }
    }
}

impl AsFd for RingBuffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for RingBuffer {
    fn drop(&mut self) {
        // SAFETY: the mappings are ours, and no reference into them outlives self.
        unsafe {
            libc::munmap(self.consumer.as_ptr().cast(), PAGE);
            libc::munmap(self.producer.as_ptr().cast(), PAGE + 2 * self.size);
        }
    }
}

fn map(fd: &OwnedFd, len: usize, protection: i32, offset: libc::off_t) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            protection,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            offset,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
