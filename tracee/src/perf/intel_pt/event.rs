//! The trace of one thread: an event of the tracing unit with its two buffers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::NonNull;

use perf_event_open_sys::bindings::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use perf_event_open_sys::ioctls;

use super::aux::{AuxCursor, AuxMode, AuxTrace};
use super::pmu::PtPmu;
use crate::Tid;
use crate::perf::error::PerfError;
use crate::perf::event::{Event, Whose, attributes, explain};
use crate::perf::record::{Record, parse};
use crate::perf::ring::Ring;

/// Room for records: what was mapped, executed and lost, and one for each time that the thread loses the processor.
const RECORDS: usize = 1 << 18;

/// Traces one thread, from when it is opened on. Gone with this value, or with this process, whatever ends it.
#[derive(Debug)]
pub struct PtEvent {
    event: Event,
    records: Ring,
    aux: Aux,
    mode: AuxMode,
    cursor: AuxCursor,
    trace: AuxTrace,
    lost: u64,
}

/// What a thread's event recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtTrace {
    /// Packets, in segments that can each be decoded by themselves, oldest first.
    pub segments: Vec<Vec<u8>>,
    /// Times that tracing was off because the buffer was full.
    pub truncated: u64,
    /// Parts with holes.
    pub damaged: u64,
    /// Records that perf lost.
    pub lost: u64,
    /// Bytes that were overwritten before they were read.
    pub overrun: u64,
}

impl PtEvent {
    /// Starts to trace a thread in user space, with a buffer of at least so many bytes. `filter` is a list of
    /// `filter OFFSET/SIZE@FILE`, separated by commas; nothing else is traced then.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(
        pmu: &PtPmu,
        tid: Tid,
        mode: AuxMode,
        bytes: usize,
        filter: Option<&str>,
    ) -> Result<Self, PerfError> {
        let whose = Whose::Thread(tid);
        let config = pmu.config(&[
            ("pt", 1),
            ("branch", 1),
            ("tsc", 1),
            ("noretcomp", 1),
            ("mtc", u64::from(pmu.capability("mtc") != 0)),
            ("mtc_period", pmu.period("mtc_periods", 3)),
            // 2^(n+11) bytes between two PSBs: 4 KiB, or what is next below it.
            ("psb_period", pmu.period("psb_periods", 1)),
        ]);
        let mut attr = attributes(pmu.kind, config);
        attr.sample_type =
            u64::from(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU);
        attr.sample_regs_user = 0;
        attr.set_use_clockid(0);
        attr.set_disabled(1);
        let failed = |error| explain("tracing with Intel PT".to_owned(), whose, error);
        let mut event = Event::open(attr, whose, None).map_err(failed)?;
        let mut records =
            Ring::map(event.as_fd(), RECORDS).map_err(PerfError::system("mapping a perf ring"))?;
        let size = bytes.max(1 << 14).next_power_of_two().min(1 << 30);
        let aux = Aux::map(&event, &mut records, size, mode).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOMEM) => PerfError::NotPermitted {
                what: format!("a trace buffer of {} KiB", size >> 10),
                remedy: "run with CAP_IPC_LOCK, or raise kernel.perf_event_mlock_kb \
                         (sudo sysctl kernel.perf_event_mlock_kb=65536)",
            },
            _ => explain("a trace buffer".to_owned(), whose, error),
        })?;
        if let Some(filter) = filter {
            set_filter(&event, filter).map_err(PerfError::system("setting an address filter"))?;
        }
        event.enable().map_err(PerfError::system("enabling Intel PT"))?;
        Ok(Self {
            event,
            records,
            aux,
            mode,
            cursor: AuxCursor::new(size, mode),
            trace: AuxTrace::default(),
            lost: 0,
        })
    }

    /// Takes in what there is. A stream has to be read before its buffer is full; a flight recorder need not be.
    ///
    /// # Errors
    /// When tracing cannot be started again after the buffer was full.
    pub fn read(&mut self) -> Result<(), PerfError> {
        match self.mode {
            AuxMode::Streamed => self.take(),
            AuxMode::Snapshot => {
                self.take_records();
                Ok(())
            }
        }
    }

    /// Ends tracing, and gives what was recorded.
    ///
    /// # Errors
    /// When the kernel refuses to stop.
    pub fn finish(mut self) -> Result<PtTrace, PerfError> {
        // Only then is everything in the buffer, and nobody writes to it any more.
        self.event
            .disable()
            .map_err(PerfError::system("ending Intel PT"))?;
        self.take()?;
        Ok(PtTrace {
            segments: self.trace.finish(),
            truncated: self.cursor.truncated,
            damaged: self.cursor.damaged,
            lost: self.lost,
            overrun: self.cursor.overrun,
        })
    }

    fn take(&mut self) -> Result<(), PerfError> {
        // The head first: the records of all that is before it are there then.
        let head = self.records.aux_head();
        let stopped = self.take_records();
        let readable = self.cursor.readable(head);
        let mut bytes = Vec::with_capacity(readable.len());
        for part in &readable.parts {
            self.aux.copy(part.clone(), &mut bytes);
        }
        self.trace.add(&bytes, &readable.cuts);
        let tail = self.cursor.done(head);
        if self.mode == AuxMode::Streamed {
            self.records.set_aux_tail(tail);
        }
        if stopped {
            self.event
                .enable()
                .map_err(PerfError::system("enabling Intel PT again"))?;
        }
        Ok(())
    }

    /// Takes note of the records; says whether the kernel stopped the event because the buffer was full.
    fn take_records(&mut self) -> bool {
        let Self {
            records,
            cursor,
            lost,
            ..
        } = self;
        let mut stopped = false;
        records.drain(|bytes| match parse(bytes) {
            Some((_, Record::Aux(record))) => {
                cursor.note(&record);
                stopped |= record.flags.truncated();
            }
            Some((_, Record::Lost { lost: more } | Record::LostSamples { lost: more })) => *lost += more,
            Some(_) => {}
            None => *lost += 1,
        });
        stopped
    }
}

fn set_filter(event: &Event, filter: &str) -> io::Result<()> {
    let filter = CString::new(filter).map_err(io::Error::other)?;
    // SAFETY: an ioctl on our own event; the kernel copies the text, which ends with a NUL.
    let result = unsafe { ioctls::SET_FILTER(event.as_fd().as_raw_fd(), filter.as_ptr().cast_mut().cast()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The buffer that the processor writes to.
#[derive(Debug)]
struct Aux {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread has it; it is only read.
unsafe impl Send for Aux {}

impl Aux {
    /// Maps it. Mapped without the right to write, the kernel takes it for a flight recorder.
    fn map(event: &Event, records: &mut Ring, size: usize, mode: AuxMode) -> io::Result<Self> {
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
    fn copy(&self, part: std::ops::Range<usize>, to: &mut Vec<u8>) {
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
