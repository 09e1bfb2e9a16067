//! The trace of one thread: an event of the tracing unit with its two buffers.
//!
//! What each step follows, in perf_event_open(2) and the kernel's `tools/perf/Documentation/perf-intel-pt.txt`:
//!
//! - `type` and the bits of `config` are what sysfs says (`type`, `format/*`, `caps/*`), nothing is taken to be known.
//! - The event is opened for one thread on any processor, not inherited: an AUX buffer cannot be shared by inherited
//!   events. New threads get events of their own while they are stopped at their first instruction.
//! - `clockid` is not used: only the kernel's own clock is convertible to the ticks in the trace (`time_zero`,
//!   `time_mult` and `time_shift` of the first page), which is how records and packets are put in one order.
//! - `mmap2`, `comm`, `comm_exec` and `task` have the same event report what goes on around the trace (sideband), to the
//!   ring for records; PERF_RECORD_ITRACE_START comes by itself. With `sample_id_all` each record says whose it is and
//!   when.
//! - `context_switch` reports when the thread loses the processor and gets it again: while it does not have it, it runs
//!   nothing, whatever the times in the trace say. Whose the data is need not be told: the buffers are each one thread's,
//!   and PERF_RECORD_SWITCH_CPU_WIDE, which says it for a processor's, is not written for an event of a thread.
//! - First the ring for records is mapped, then `aux_offset` and `aux_size` are written to its first page, then the
//!   buffer is mapped there: read-only for a flight recorder.
//! - A stream is enabled again after every look, as perf does it: the kernel disables an event whose buffer is full, a
//!   moment after the record that says so, and without any record when there was no room to begin with
//!   (`perf_aux_output_begin`). Enabling an event that is on does nothing.
//! - The filter is set before the event is enabled; see PERF_EVENT_IOC_SET_FILTER.
//! - PERF_RECORD_LOST and PERF_RECORD_LOST_SAMPLES count what found no room in the ring for records: a record of a hole
//!   may be among them, so that any of them is something missing, and a stream is cut where it is found.
//!   PERF_RECORD_THROTTLE does not concern an event that does not sample.
//! - Buffers are locked memory, which users have little of (`kernel.perf_event_mlock_kb`, RLIMIT_MEMLOCK; `perf_mmap`).

use std::io;
use std::os::fd::AsFd as _;

use perf_event_open_sys::bindings::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};

use super::absence::{Absence, Absences};
use super::aux_buffer::Aux;
use super::aux_cursor::{AuxCursor, AuxMode};
use super::aux_trace::AuxTrace;
use super::filter;
use super::pmu::PtPmu;
use crate::Tid;
use crate::perf::error::PerfError;
use crate::perf::event::{Event, Whose, attributes, explain};
use crate::perf::record::{Record, parse};
use crate::perf::ring::Ring;
use crate::perf::rings::Stamped;

/// Room for records: what was mapped, executed and lost, and three for each time that the thread loses the processor and
/// gets it again.
const RECORDS: usize = 1 << 18;

/// A buffer has at least so many bytes, and at most.
const SMALLEST: usize = 1 << 14;
const LARGEST: usize = 1 << 30;

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
    overwritten: bool,
    sideband: Vec<Stamped>,
    absences: Absences,
    /// The kernel refused the filter.
    unfiltered: bool,
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
    /// A flight recorder went round: what came before is written over.
    pub overwritten: bool,
    /// What went on around it, in order: files mapped, programs executed, threads begun and ended.
    pub sideband: Vec<Stamped>,
    /// When the thread did not have the processor, in order; nothing where the kernel does not tell it in ticks.
    pub absences: Vec<Absence>,
    /// A filter was asked for and refused: everything was traced.
    pub unfiltered: bool,
}

impl PtEvent {
    /// Starts to trace a thread in user space, with a buffer of so many bytes, or of as many as the kernel grants. `filter`
    /// is a list of `filter OFFSET/SIZE@FILE`, separated by commas; nothing else is traced then. Where the kernel refuses it
    /// (more ranges than the processor has), everything is traced; see also [`super::can_filter`] and [`super::placed`].
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
        let mut attr = attributes(pmu.kind, pmu.tracing());
        attr.sample_type =
            u64::from(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU);
        attr.sample_regs_user = 0;
        attr.set_use_clockid(0);
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_context_switch(1);
        attr.set_disabled(1);
        let mut event = Event::open(attr, whose, None).map_err(|error| refused(whose, error))?;
        let mut records =
            Ring::map(event.as_fd(), RECORDS).map_err(|error| no_room(whose, RECORDS, error))?;
        let (aux, size) = buffer(&event, whose, &mut records, bytes, mode)?;
        let unfiltered = filter.is_some_and(|filter| filter::set(&event, filter).is_err());
        event.enable().map_err(PerfError::system("enabling Intel PT"))?;
        Ok(Self {
            event,
            records,
            aux,
            mode,
            cursor: AuxCursor::new(size, mode),
            trace: AuxTrace::default(),
            lost: 0,
            overwritten: false,
            sideband: Vec::new(),
            absences: Absences::default(),
            unfiltered,
        })
    }

    /// Takes in what there is. A stream has to be read before its buffer is full; a flight recorder need not be.
    ///
    /// # Errors
    /// When tracing cannot be started again after the buffer was full.
    pub fn read(&mut self) -> Result<(), PerfError> {
        match self.mode {
            AuxMode::Streamed => {
                self.take();
                // Only now, when there is room again, does it make sense to go on.
                let enabled = self.event.enable();
                enabled.map_err(PerfError::system("enabling Intel PT again"))?;
            }
            AuxMode::Snapshot => self.take_records(),
        }
        Ok(())
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
        self.take();
        Ok(PtTrace {
            segments: self.trace.finish(),
            truncated: self.cursor.truncated,
            damaged: self.cursor.damaged,
            lost: self.lost,
            overrun: self.cursor.overrun,
            overwritten: self.overwritten,
            sideband: self.sideband,
            absences: self.absences.in_ticks(self.records.tick_clock()),
            unfiltered: self.unfiltered,
        })
    }

    /// Takes in data and records.
    fn take(&mut self) {
        // The head first: the records of all that is before it are there then.
        let head = self.records.aux_head();
        self.take_records();
        let readable = self.cursor.readable(head);
        let mut bytes = Vec::with_capacity(readable.len());
        for part in &readable.parts {
            self.aux.copy(part.clone(), &mut bytes);
        }
        self.trace.add(&bytes, &readable.cuts);
        let tail = self.cursor.done(head);
        match self.mode {
            AuxMode::Streamed => self.records.set_aux_tail(tail),
            AuxMode::Snapshot => self.overwritten = readable.went_round(&bytes),
        }
    }

    /// Takes note of the records.
    fn take_records(&mut self) {
        let Self {
            records,
            cursor,
            lost,
            sideband,
            absences,
            ..
        } = self;
        records.drain(|bytes| match parse(bytes) {
            Some((_, Record::Aux(record))) => cursor.note(&record),
            Some((_, Record::Lost { lost: more } | Record::LostSamples { lost: more })) => {
                *lost += more;
                cursor.note_lost();
            }
            Some((origin, Record::Switch { out, preempted, .. })) => {
                absences.note(origin.time, out, preempted)
            }
            Some((origin, record)) => sideband.push(Stamped { origin, record }),
            None => {
                *lost += 1;
                cursor.note_lost();
            }
        });
    }
}

/// Maps the buffer. Locked memory is limited, and a thread that is traced with less room says more than none: after a
/// refusal half as much is asked for.
fn buffer(
    event: &Event,
    whose: Whose,
    records: &mut Ring,
    bytes: usize,
    mode: AuxMode,
) -> Result<(Aux, usize), PerfError> {
    let mut refusal = None;
    for size in sizes(bytes) {
        match Aux::map(event, records, size, mode) {
            Ok(aux) => return Ok((aux, size)),
            Err(error) if is_about_memory(&error) => refusal = Some((size, error)),
            Err(error) => return Err(explain("a trace buffer".to_owned(), whose, error)),
        }
    }
    let (size, error) = refusal.unwrap_or((bytes, io::ErrorKind::OutOfMemory.into()));
    Err(no_room(whose, size, error))
}

/// The sizes to ask for, largest first: powers of two of pages.
fn sizes(bytes: usize) -> impl Iterator<Item = usize> {
    let largest = bytes.clamp(SMALLEST, LARGEST).next_power_of_two();
    std::iter::successors(Some(largest), |size| Some(size / 2)).take_while(|&size| size >= SMALLEST)
}

/// The limit of locked memory, or no pages.
fn is_about_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

fn no_room(whose: Whose, bytes: usize, error: io::Error) -> PerfError {
    let what = format!("a trace buffer of {} KiB", bytes >> 10);
    if is_about_memory(&error) {
        return PerfError::NotPermitted {
            what,
            remedy: "run with CAP_IPC_LOCK, or raise kernel.perf_event_mlock_kb \
                     (sudo sysctl kernel.perf_event_mlock_kb=65536)",
        };
    }
    explain(what, whose, error)
}

/// Why the kernel does not open the event: `perf_event_open` and `pt_event_init`.
fn refused(whose: Whose, error: io::Error) -> PerfError {
    let what = "tracing with Intel PT".to_owned();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => PerfError::NotPermitted {
            what,
            remedy: "run with CAP_PERFMON or as root, or lower kernel.perf_event_paranoid \
                     (sudo sysctl kernel.perf_event_paranoid=2)",
        },
        // The unit traces for one at a time, and not while branches are sampled (LBR).
        Some(libc::EBUSY) => PerfError::NotPermitted {
            what,
            remedy: "another one traces or samples branches already: end it (perf record, a fuzzer, a virtual machine)",
        },
        _ => explain(what, whose, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_and_less_room_is_asked_for() {
        let all: Vec<usize> = sizes(100_000).collect();
        assert_eq!(all, [1 << 17, 1 << 16, 1 << 15, 1 << 14]);
        assert_eq!(sizes(0).collect::<Vec<_>>(), [SMALLEST]);
        assert_eq!(sizes(usize::MAX).next(), Some(LARGEST));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let thread = Whose::Thread(Tid(7));
        let says = |code| refused(thread, io::Error::from_raw_os_error(code)).to_string();
        assert!(says(libc::EACCES).contains("perf_event_paranoid"));
        assert!(says(libc::EBUSY).contains("already: end it"));
        assert!(says(libc::ESRCH).contains("no thread 7"));
        let room = |code| no_room(thread, 1 << 20, io::Error::from_raw_os_error(code)).to_string();
        assert!(room(libc::EPERM).contains("1024 KiB") && room(libc::EPERM).contains("mlock_kb"));
        assert!(room(libc::EINVAL).contains("failed"), "{}", room(libc::EINVAL));
    }
}
