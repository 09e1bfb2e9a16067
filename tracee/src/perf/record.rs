//! The records of a perf ring, from bytes. Any bytes: a record that does not make sense is none.

use std::path::PathBuf;

use failure::image::Registers;
use perf_event_open_sys::bindings::{
    PERF_RECORD_AUX, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_ITRACE_START,
    PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES, PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_MMAP_BUILD_ID,
    PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE,
    PERF_RECORD_SWITCH, PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_THROTTLE, PERF_RECORD_UNTHROTTLE,
};
use program::{BuildId, FileOffset, RunAddr};

use super::intel_pt::{AuxFlags, AuxRecord};
use crate::registers::{PERF_WORDS, from_perf};
use crate::{Pid, Tid};

/// One thing that the kernel reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A breakpoint or a probe was hit.
    Sample(Sample),
    /// Records that found no room in the ring.
    Lost {
        /// How many.
        lost: u64,
    },
    /// Samples that were lost elsewhere.
    LostSamples {
        /// How many.
        lost: u64,
    },
    /// A thread or a process was created.
    Fork(Task),
    /// A thread ended.
    Exit(Task),
    /// A thread got a name.
    Comm {
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The name, from an exec the file's.
        name: String,
        /// By executing another program.
        exec: bool,
    },
    /// A file was mapped.
    Mmap(Mapping),
    /// The kernel stopped an event because it happened too often.
    Throttle,
    /// And let it go on.
    Unthrottle,
    /// A thread got the processor or lost it.
    Switch {
        /// Lost it.
        out: bool,
        /// Although it would have gone on.
        preempted: bool,
        /// Who had the processor before, or gets it: told of processors only, not of threads.
        other: Option<(Pid, Tid)>,
    },
    /// The processor wrote to the buffer of a trace.
    Aux(AuxRecord),
    /// The processor begins to trace a thread: it got the processor for the first time since the event is there.
    TraceStart {
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
    },
    /// A kind of record that nobody asked for.
    Other {
        /// Its number.
        kind: u32,
    },
}

/// A hit, as perf tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which event: see [`super::Breakpoint::ids`].
    pub event: u64,
    /// The instruction pointer.
    pub ip: RunAddr,
    /// The watched address, for a breakpoint.
    pub addr: RunAddr,
    /// The registers; none for a thread in a 32-bit program.
    pub registers: Option<Registers>,
}

/// A thread and who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The parent process; the same for a new thread.
    pub parent_pid: Pid,
    /// The thread that created it.
    pub parent_tid: Tid,
}

/// A file that was mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The process.
    pub pid: Pid,
    /// Where.
    pub addr: RunAddr,
    /// How many bytes.
    pub len: u64,
    /// Which part of the file.
    pub offset: FileOffset,
    /// PROT_* of mmap(2).
    pub protection: u32,
    /// The file, as the process names it.
    pub path: PathBuf,
    /// Its build-id, if that was asked for and the file has one.
    pub build_id: Option<BuildId>,
}

/// Where and when a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time: u64,
    /// The processor.
    pub cpu: u32,
}

/// Bytes of `struct perf_event_header`.
pub(super) const HEADER: usize = 8;

/// `type`, `misc` and `size` of `struct perf_event_header`.
pub(super) fn header(bytes: [u8; HEADER]) -> (u32, u16, u16) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (
        u32::from_ne_bytes([a, b, c, d]),
        u16::from_ne_bytes([e, f]),
        u16::from_ne_bytes([g, h]),
    )
}

/// Reads one record: its header and all of its bytes.
pub(super) fn parse(bytes: &[u8]) -> Option<(Origin, Record)> {
    let (&head, mut body) = bytes.split_first_chunk::<HEADER>()?;
    let (kind, misc, _) = header(head);
    if kind == PERF_RECORD_SAMPLE {
        return sample(body);
    }
    // With `sample_id_all`, every other record ends with who, when, where and which event.
    let at = body.len().checked_sub(TRAILER)?;
    let (body_only, trailer) = body.split_at(at);
    let origin = trailer_origin(trailer)?;
    body = body_only;
    let misc = u32::from(misc);
    let record = match kind {
        PERF_RECORD_LOST => Record::Lost {
            lost: skip(&mut body, 8).and_then(|()| u64(&mut body))?,
        },
        PERF_RECORD_LOST_SAMPLES => Record::LostSamples {
            lost: u64(&mut body)?,
        },
        PERF_RECORD_FORK => Record::Fork(task(body)?),
        PERF_RECORD_EXIT => Record::Exit(task(body)?),
        PERF_RECORD_COMM => Record::Comm {
            pid: Pid(u32(&mut body)?),
            tid: Tid(u32(&mut body)?),
            name: String::from_utf8_lossy(until_nul(body)).into_owned(),
            exec: misc & PERF_RECORD_MISC_COMM_EXEC != 0,
        },
        PERF_RECORD_MMAP2 => Record::Mmap(mapping(body, misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0)?),
        PERF_RECORD_THROTTLE => Record::Throttle,
        PERF_RECORD_UNTHROTTLE => Record::Unthrottle,
        PERF_RECORD_SWITCH => switch(misc, None),
        PERF_RECORD_SWITCH_CPU_WIDE => {
            let other = (Pid(u32(&mut body)?), Tid(u32(&mut body)?));
            switch(misc, Some(other))
        }
        PERF_RECORD_AUX => Record::Aux(AuxRecord {
            offset: u64(&mut body)?,
            size: u64(&mut body)?,
            flags: AuxFlags(u64(&mut body)?),
        }),
        PERF_RECORD_ITRACE_START => Record::TraceStart {
            pid: Pid(u32(&mut body)?),
            tid: Tid(u32(&mut body)?),
        },
        kind => Record::Other { kind },
    };
    Some((origin, record))
}

/// Bytes of the trailer: pid and tid, time, cpu, identifier.
const TRAILER: usize = 32;

fn trailer_origin(mut bytes: &[u8]) -> Option<Origin> {
    let bytes = &mut bytes;
    Some(Origin {
        pid: Pid(u32(bytes)?),
        tid: Tid(u32(bytes)?),
        time: u64(bytes)?,
        cpu: u32(bytes)?,
    })
}

fn sample(mut bytes: &[u8]) -> Option<(Origin, Record)> {
    let bytes = &mut bytes;
    let event = u64(bytes)?;
    let ip = RunAddr(u64(bytes)?);
    let pid = Pid(u32(bytes)?);
    let tid = Tid(u32(bytes)?);
    let time = u64(bytes)?;
    let addr = RunAddr(u64(bytes)?);
    let cpu = u32(bytes)?;
    skip(bytes, 4)?;
    let registers = match u64(bytes)? {
        ABI_64 => {
            let mut words = [0; PERF_WORDS];
            for word in &mut words {
                *word = u64(bytes)?;
            }
            Some(from_perf(&words))
        }
        _ => None,
    };
    let origin = Origin { pid, tid, time, cpu };
    let sample = Sample {
        event,
        ip,
        addr,
        registers,
    };
    Some((origin, Record::Sample(sample)))
}

fn switch(misc: u32, other: Option<(Pid, Tid)>) -> Record {
    Record::Switch {
        out: misc & PERF_RECORD_MISC_SWITCH_OUT != 0,
        preempted: misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
        other,
    }
}

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

fn task(mut bytes: &[u8]) -> Option<Task> {
    let bytes = &mut bytes;
    let pid = Pid(u32(bytes)?);
    let parent_pid = Pid(u32(bytes)?);
    Some(Task {
        pid,
        parent_pid,
        tid: Tid(u32(bytes)?),
        parent_tid: Tid(u32(bytes)?),
    })
}

fn mapping(mut bytes: &[u8], has_build_id: bool) -> Option<Mapping> {
    let bytes = &mut bytes;
    let pid = Pid(u32(bytes)?);
    skip(bytes, 4)?;
    let addr = RunAddr(u64(bytes)?);
    let len = u64(bytes)?;
    let offset = FileOffset(u64(bytes)?);
    let (&[size, _, _, _, ref build_id @ ..], rest) = bytes.split_first_chunk::<24>()?;
    *bytes = rest;
    let build_id = has_build_id.then(|| build_id.get(..size.into())).flatten();
    let protection = u32(bytes)?;
    skip(bytes, 4)?;
    Some(Mapping {
        pid,
        addr,
        len,
        offset,
        protection,
        path: path(until_nul(bytes)),
        build_id: build_id.map(|id| BuildId(id.to_vec())),
    })
}

fn path(bytes: &[u8]) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn u32(bytes: &mut &[u8]) -> Option<u32> {
    let (&head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_ne_bytes(head))
}

fn u64(bytes: &mut &[u8]) -> Option<u64> {
    let (&head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_ne_bytes(head))
}

fn skip(bytes: &mut &[u8], count: usize) -> Option<()> {
    *bytes = bytes.get(count..)?;
    Some(())
}

#[cfg(test)]
mod tests;
