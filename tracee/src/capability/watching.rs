//! Seeing accesses and instructions, tried.

use std::error::Error;

use program::{FileOffset, RunAddr};

use super::facts::read;
use super::subject::Subject;
use super::tries::{Tried, degraded, works};
use crate::bpf::{HitProgram, HitRing, Location};
use crate::perf::{
    Breakpoint, DEBUG_REGISTERS, Delivery, Follow, ProbeEnd, ProbeFile, ProbeTarget, Range, Record, Rings,
    Start, Trigger, Uprobe, free_registers,
};
use crate::process::{Memory, Process};

fn watched() -> Result<Trigger, Box<dyn Error>> {
    Ok(Trigger::Write(Range::new(Subject::watched(), 8)?))
}

fn open(subject: &Subject, delivery: Delivery<'_>) -> Result<Breakpoint, Box<dyn Error>> {
    let tid = subject.pid().first_thread();
    Ok(Breakpoint::open(
        tid,
        watched()?,
        delivery,
        Follow::Threads,
        Start::Enabled,
    )?)
}

pub(super) fn watchpoints(subject: &Subject) -> Tried {
    let free = free_registers(subject.pid().first_thread())?;
    let breakpoint = open(subject, Delivery::Silent)?;
    subject.write()?;
    subject.write()?;
    match breakpoint.count()? {
        2 if free == DEBUG_REGISTERS => works(format!("2 of 2 writes seen; {free} debug registers are free")),
        2 => degraded(format!(
            "2 of 2 writes seen, but only {free} of {DEBUG_REGISTERS} debug registers are free: another tool \
             (perf, a kernel debugger) holds the others on all processors"
        )),
        seen => Err(format!("a debug register was set, but {seen} of 2 writes were seen").into()),
    }
}

pub(super) fn stops(subject: &Subject) -> Tried {
    let before = subject.write()?;
    let breakpoint = open(subject, Delivery::stop(0))?;
    let after = subject.write()?;
    drop(breakpoint);
    match after.wrapping_sub(before) {
        1 => works("a write raised SIGTRAP with TRAP_PERF"),
        traps => Err(format!("one write raised SIGTRAP {traps} times").into()),
    }
}

pub(super) fn rings(subject: &Subject) -> Tried {
    let mut rings = Rings::open(1 << 16)?;
    let breakpoint = open(subject, Delivery::Ring(&rings))?;
    subject.write()?;
    drop(breakpoint);
    match rings.read_to_end().as_slice() {
        [one] if matches!(&one.record, Record::Sample(sample) if sample.registers.is_some()) => {
            works("a write gave one sample with registers")
        }
        other => Err(format!("one write gave {} records", other.len()).into()),
    }
}

pub(super) fn bpf(subject: &Subject) -> Tried {
    let mut ring = HitRing::new(1 << 16, 8)?;
    let location = Location {
        addr: Subject::watched(),
        len: 8,
    };
    ring.set_location(0, Some(location))?;
    let program = HitProgram::for_breakpoints(&ring, 0)?;
    let breakpoint = open(subject, Delivery::Bpf(&program))?;
    subject.write()?;
    drop(breakpoint);
    let mut values = Vec::new();
    ring.read(|hit| values.extend(hit.value_at(Subject::watched()).and_then(|value| value.number())));
    let now = Memory::of(subject.pid()).read_word(Subject::watched());
    match values.as_slice() {
        [value] if now.is_none_or(|now| now == *value) => works("a program read the value at a write"),
        other => Err(format!(
            "a program was loaded, but read {} values at one write",
            other.len()
        )
        .into()),
    }
}

pub(super) fn uprobes(subject: &Subject) -> Tried {
    let offset = offset_in_file(Subject::function()).ok_or("our own text was not found")?;
    let file = ProbeFile::at(&Process::new(subject.pid()).executable_link());
    let target = ProbeTarget::Thread(subject.pid().first_thread());
    let probe = Uprobe::open(&file, offset, ProbeEnd::Entry, target, Delivery::Silent)?;
    subject.call()?;
    match probe.count()? {
        1 => works("a probe on a function was hit"),
        hits => Err(format!("a probe was set, but one call hit it {hits} times").into()),
    }
}

/// Where an address of our text is in our executable.
fn offset_in_file(addr: RunAddr) -> Option<FileOffset> {
    read("/proc/self/maps").lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = hex(fields.nth(1)?)?;
        let inside = addr
            .0
            .checked_sub(hex(start)?)
            .filter(|_| hex(end).is_some_and(|end| addr.0 < end))?;
        Some(FileOffset(offset.checked_add(inside)?))
    })
}
