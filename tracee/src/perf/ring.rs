//! The buffer that the kernel writes records to and we read them from.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::intel_pt::TickClock;
use super::record::{HEADER, header};

/// Size of a page on x86-64.
const PAGE: usize = 4096;

/// `cap_user_time_zero`, the fifth of the capabilities: `time_zero` is there.
const CAP_USER_TIME_ZERO: u64 = 1 << 4;

/// How often the clock is looked at before it is taken for unknown.
const CLOCK_LOOKS: usize = 1000;

/// One mapped ring: a page of bookkeeping, then a power of two of bytes.
#[derive(Debug)]
pub(super) struct Ring {
    control: NonNull<perf_event_mmap_page>,
    /// Bytes of records.
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread has it; all reading takes `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event, with room for at least `bytes`.
    pub(super) fn map(event: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let size = ring_size(bytes).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE + size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let control =
            NonNull::new(address.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { control, size })
    }

    /// Takes all complete records out, oldest first.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let head = self.head().load(Ordering::Acquire);
        let mut tail = self.tail().load(Ordering::Relaxed);
        let mut scratch = Vec::new();
        while let Some(available) = head.checked_sub(tail).filter(|&left| left >= HEADER as u64) {
            let mut first = [0; HEADER];
            self.copy(tail, &mut first);
            let (_, _, size) = header(first);
            // The kernel writes no such record. If it did, its end, and so the next one, is not known.
            if usize::from(size) < HEADER || u64::from(size) > available {
                tail = head;
                break;
            }
            scratch.resize(usize::from(size), 0);
            self.copy(tail, &mut scratch);
            take(&scratch);
            tail += u64::from(size);
        }
        self.tail().store(tail, Ordering::Release);
    }

    /// Says where a trace's buffer of so many bytes is to be mapped: behind the records. Gives the offset for mmap(2).
    pub(super) fn place_aux(&mut self, bytes: usize) -> libc::off_t {
        let offset = PAGE + self.size;
        // SAFETY: the fields are aligned, live as long as the mapping, and are read by the kernel when the buffer is
        // mapped, which is later.
        unsafe {
            (&raw mut (*self.control.as_ptr()).aux_offset).write_volatile(offset as u64);
            (&raw mut (*self.control.as_ptr()).aux_size).write_volatile(bytes as u64);
        }
        offset as libc::off_t
    }

    /// Up to where the kernel has written to the trace's buffer.
    pub(super) fn aux_head(&self) -> u64 {
        // SAFETY: as for the head of the records.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control.as_ptr()).aux_head) }.load(Ordering::Acquire)
    }

    /// Tells the kernel up to where the trace's buffer was read.
    pub(super) fn set_aux_tail(&mut self, tail: u64) {
        // SAFETY: as for the tail of the records.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control.as_ptr()).aux_tail) }
            .store(tail, Ordering::Release);
    }

    /// How the clock of the records and the processor's counter belong together, if the kernel says so.
    pub(super) fn tick_clock(&self) -> Option<TickClock> {
        let page = self.control.as_ptr();
        // SAFETY: the fields are aligned and live as long as the mapping; the kernel changes them while `lock` is odd, and
        // makes it another number.
        let read = || unsafe {
            let lock = AtomicU32::from_ptr(&raw mut (*page).lock);
            let before = lock.load(Ordering::Acquire);
            let capabilities = (&raw const (*page).__bindgen_anon_1.capabilities).read_volatile();
            let clock = TickClock {
                zero: (&raw const (*page).time_zero).read_volatile(),
                mult: (&raw const (*page).time_mult).read_volatile(),
                shift: (&raw const (*page).time_shift).read_volatile(),
            };
            fence(Ordering::Acquire);
            let is_whole = before.is_multiple_of(2) && lock.load(Ordering::Relaxed) == before;
            is_whole.then_some((capabilities & CAP_USER_TIME_ZERO != 0).then_some(clock))
        };
        // It is written when the event starts and stops, which is over soon.
        (0..CLOCK_LOOKS).find_map(|_| read()).flatten()
    }

    /// Copies bytes out of the part that holds records.
    fn copy(&self, position: u64, out: &mut [u8]) {
        let (start, first) = split(position, out.len(), self.size);
        let (head, tail) = out.split_at_mut(first);
        // SAFETY: `split` gives a start inside the ring and a first part that ends inside it; the rest, being
        // shorter than the ring, starts at its beginning. The data starts one page into the mapping, which
        // lives as long as self. The kernel does not write between tail and head, which is where this reads.
        unsafe {
            let data = self.control.as_ptr().cast::<u8>().add(PAGE);
            std::ptr::copy_nonoverlapping(data.add(start), head.as_mut_ptr(), head.len());
            std::ptr::copy_nonoverlapping(data, tail.as_mut_ptr(), tail.len());
        }
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: the field is aligned, lives as long as the mapping, and is shared with the kernel, which
        // writes it in one piece.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control.as_ptr()).data_head) }
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as for the head; only we write it.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control.as_ptr()).data_tail) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives self.
        unsafe { libc::munmap(self.control.as_ptr().cast(), PAGE + self.size) };
    }
}

/// The kernel takes a power of two of pages.
fn ring_size(bytes: usize) -> Option<usize> {
    bytes
        .max(PAGE)
        .checked_next_power_of_two()
        .filter(|&size| size <= 1 << 30)
}

/// Where `len` bytes at a position start in a ring of `size`, and how many of them stand there before the
/// ring starts again. No more than the ring has.
fn split(position: u64, len: usize, size: usize) -> (usize, usize) {
    let start = (position & (size as u64 - 1)) as usize;
    (start, len.min(size - start))
}

#[cfg(test)]
mod tests {
    use super::{ring_size, split};

    #[test]
    fn a_record_at_the_end_goes_on_at_the_beginning() {
        assert_eq!(split(0, 40, 4096), (0, 40));
        assert_eq!(split(4096 + 8, 40, 4096), (8, 40));
        assert_eq!(split(2 * 4096 - 16, 40, 4096), (4080, 16));
        assert_eq!(split(u64::MAX, 8, 4096), (4095, 1));
    }

    #[test]
    fn a_ring_is_a_power_of_two_of_pages() {
        assert_eq!(ring_size(0), Some(4096));
        assert_eq!(ring_size(5000), Some(8192));
        assert_eq!(ring_size(usize::MAX), None);
    }
}
