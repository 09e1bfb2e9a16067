//! The buffer that the processor writes a trace to, mapped.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::NonNull;

use super::aux_cursor::AuxMode;
use crate::perf::event::Event;
use crate::perf::ring::Ring;

/// The buffer that the processor writes to.
#[derive(Debug)]
pub(super) struct Aux {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread has it; it is only read.
unsafe impl Send for Aux {}

impl Aux {
    /// Maps it. Mapped without the right to write, the kernel takes it for a flight recorder.
    pub(super) fn map(event: &Event, records: &mut Ring, size: usize, mode: AuxMode) -> io::Result<Self> {
        let offset = records.place_aux(size);
        let protection = match mode {
            AuxMode::Snapshot => libc::PROT_READ,
            AuxMode::Streamed => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                protection,
                libc::MAP_SHARED,
                event.as_fd().as_raw_fd(),
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, size })
    }

    /// Copies a part of it.
    pub(super) fn copy(&self, part: std::ops::Range<usize>, to: &mut Vec<u8>) {
        let end = part.end.min(self.size);
        let len = end.saturating_sub(part.start);
        // SAFETY: the part ends inside the mapping, which lives as long as self. The processor does not write to it now:
        // it lies before the head and behind the tail of a stream, or the event is disabled.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(end - len), len) });
    }
}

impl Drop for Aux {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}
