//! The programs that write hits down, and the ring they write to.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use program::RunAddr;

use super::assembler::{Assembler, Helper, Label, Reg, When};
use super::error::BpfError;
use super::hit::{ADDR, COOKIE, PID_TGID, REGISTERS, RawHit, TIME, VALUE_HEAD, VALUES, Value};
use super::map::SharedWords;
use super::program::Program;
use super::ring::{HEADER, RingBuffer};
use super::syscall::ProgramKind;
use crate::Pid;
use crate::registers::PT_REGS_WORDS;

/// How many locations are read at each hit: as many as there are debug registers.
pub const LOCATIONS: usize = 4;

/// Memory to read at each hit, whichever location was hit: one consistent view of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Where.
    pub addr: RunAddr,
    /// How many bytes.
    pub len: u64,
}

/// Where hits are written to: one ring for all processors, so one order for all hits.
#[derive(Debug)]
pub struct HitRing {
    ring: RingBuffer,
    control: SharedWords,
    /// Room for each value.
    room: usize,
    malformed: u64,
}

/// The words that we share with the programs: how many hits found no room, whose hits count, and address and
/// length of the locations.
const LOST: usize = 0;
const ONLY_PID: usize = 1;
const TABLE: usize = 2;
const CONTROL_WORDS: usize = TABLE + 2 * LOCATIONS;

/// How long a reader sleeps at most before it looks again. Waking it for each hit would cost an interrupt for
/// each; programs wake it when a quarter of the ring has filled.
const TICK: Duration = Duration::from_millis(20);

impl HitRing {
    /// Makes a ring of at least this many bytes (a hit takes about 300) with room for `value_bytes` of each
    /// location: 8, or up to 64 for locations that are longer than a register.
    ///
    /// # Errors
    /// When it is not permitted.
    pub fn new(bytes: usize, value_bytes: usize) -> Result<Self, BpfError> {
        if value_bytes > Value::MOST {
            return Err(BpfError::TooLong {
                len: value_bytes as u64,
                most: Value::MOST as u64,
            });
        }
        let room = value_bytes.max(1).next_multiple_of(8);
        Ok(Self {
            ring: RingBuffer::new(bytes).map_err(BpfError::from_io("making a BPF ring buffer"))?,
            control: SharedWords::new(CONTROL_WORDS).map_err(BpfError::from_io("making a BPF map"))?,
            room,
            malformed: 0,
        })
    }

    /// Counts only the hits of one process, or of all.
    pub fn only(&self, pid: Option<Pid>) {
        self.set(ONLY_PID, pid.map_or(0, |pid| pid.0.into()));
    }

    /// Has a location read at each hit from now on, or none, in one of the four slots.
    ///
    /// # Errors
    /// When it is longer than the ring has room for, or there is no such slot.
    pub fn set_location(&self, slot: usize, location: Option<Location>) -> Result<(), BpfError> {
        let (addr, len) = location.map_or((0, 0), |location| (location.addr.0, location.len));
        let most = if slot < LOCATIONS { self.room as u64 } else { 0 };
        if len > most {
            return Err(BpfError::TooLong { len, most });
        }
        // A hit in between reads nothing rather than a length of the one at the address of the other.
        self.set(TABLE + 2 * slot + 1, 0);
        self.set(TABLE + 2 * slot, addr);
        self.set(TABLE + 2 * slot + 1, len);
        Ok(())
    }

    /// How many hits found no room in the ring.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let word = self.control.words().get(LOST);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// How many records made no sense.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Hands over all hits that are there, in their order.
    pub fn read(&mut self, mut take: impl FnMut(RawHit)) {
        let room = self.room;
        let malformed = &mut self.malformed;
        self.ring.drain(|bytes| match RawHit::parse(bytes, room) {
            Some(hit) => take(hit),
            None => *malformed += 1,
        });
    }

    /// Waits until there is a hit to read, or the time is up; says whether there is one.
    ///
    /// # Errors
    /// When waiting fails; a signal only ends it early.
    pub fn wait(&self, timeout: Duration) -> Result<bool, BpfError> {
        let started = Instant::now();
        loop {
            if !self.ring.is_empty() {
                return Ok(true);
            }
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.ring
                .wait(left.min(TICK))
                .map_err(BpfError::from_io("waiting for hits"))?;
        }
    }

    /// For waiting for hits and other things together: readable when the ring fills, not at every hit.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    fn set(&self, word: usize, value: u64) {
        if let Some(word) = self.control.words().get(word) {
            word.store(value, Ordering::Release);
        }
    }

    fn record_bytes(&self) -> usize {
        VALUES + LOCATIONS * (VALUE_HEAD + self.room)
    }
}

/// A register of the probed program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the processor's")]
#[repr(u8)]
pub enum Register {
    R15,
    R14,
    R13,
    R12,
    Rbp,
    Rbx,
    R11,
    R10,
    R9,
    R8,
    Rax,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
    Rsp = 19,
}

/// Memory to read at a probe, where a register points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRead {
    /// The register.
    pub base: Register,
    /// How far from where it points.
    pub offset: i32,
    /// How many bytes.
    pub len: u64,
}

/// A program that writes a [`RawHit`] for each hit. It lives as long as something is connected to it.
#[derive(Debug)]
pub struct HitProgram(Program);

impl HitProgram {
    /// For breakpoints ([`crate::perf::Breakpoint`]).
    ///
    /// # Errors
    /// When it is not permitted.
    pub fn for_breakpoints(ring: &HitRing, cookie: u64) -> Result<Self, BpfError> {
        let code = code(ring, ProgramKind::PerfEvent, cookie, &[]);
        Program::load(ProgramKind::PerfEvent, &code).map(Self)
    }

    /// For probes ([`crate::perf::Uprobe`]). The first slots read what the probe asks for, the others the
    /// ring's locations.
    ///
    /// # Errors
    /// When it is not permitted, or a read is too long.
    pub fn for_probes(ring: &HitRing, cookie: u64, reads: &[ProbeRead]) -> Result<Self, BpfError> {
        let most = ring.room as u64;
        if let Some(read) = reads.iter().find(|read| read.len > most) {
            return Err(BpfError::TooLong { len: read.len, most });
        }
        let code = code(ring, ProgramKind::Kprobe, cookie, reads);
        Program::load(ProgramKind::Kprobe, &code).map(Self)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What survives calls in the program.
const CONTEXT: Reg = Reg::R6;
const SCRATCH: Reg = Reg::R7;
const CONTROL: Reg = Reg::R8;
const RECORD: Reg = Reg::R9;
/// The instruction pointer among the words of `struct pt_regs`.
const RIP: usize = 16;
/// Where `struct bpf_perf_event_data` has the address, after the registers and the period.
const PERF_ADDR: usize = (PT_REGS_WORDS + 1) * 8;

fn code(ring: &HitRing, kind: ProgramKind, cookie: u64, reads: &[ProbeRead]) -> Vec<u64> {
    let mut code = Assembler::default();
    let mut out = Assembler::label();
    let mut full = Assembler::label();
    code.mov(CONTEXT, Reg::R1);
    code.map_value(CONTROL, ring.control.raw_fd());
    code.call(Helper::GetCurrentPidTgid);
    code.mov(SCRATCH, Reg::R0);
    only_one_process(&mut code, &mut out);
    code.map(Reg::R1, ring.ring.raw_fd());
    code.mov_imm(Reg::R2, ring.record_bytes() as i32);
    code.mov_imm(Reg::R3, 0);
    code.call(Helper::RingbufReserve);
    code.jump_if(Reg::R0, When::Equal, 0, &mut full);
    code.mov(RECORD, Reg::R0);
    code.store(RECORD, PID_TGID as i16, SCRATCH);
    for slot in 0..LOCATIONS {
        let record_at = (VALUES + slot * (VALUE_HEAD + ring.room)) as i16;
        match reads.get(slot) {
            Some(read) => read_at_register(&mut code, record_at, read),
            None => read_location(&mut code, record_at, slot, ring.room),
        }
    }
    code.call(Helper::KtimeGetNs);
    code.store(RECORD, TIME as i16, Reg::R0);
    let addr = match kind {
        ProgramKind::PerfEvent => PERF_ADDR,
        ProgramKind::Kprobe => RIP * 8,
    };
    code.load(Reg::R1, CONTEXT, addr as i16);
    code.store(RECORD, ADDR as i16, Reg::R1);
    code.constant(Reg::R1, cookie);
    code.store(RECORD, COOKIE as i16, Reg::R1);
    for at in (0..PT_REGS_WORDS * 8).step_by(8) {
        code.load(Reg::R1, CONTEXT, at as i16);
        code.store(RECORD, (REGISTERS + at) as i16, Reg::R1);
    }
    submit(&mut code, ring);
    code.bind(out);
    // Nothing for perf to do after us: no sample, no signal.
    code.mov_imm(Reg::R0, 0);
    code.exit();
    code.bind(full);
    code.mov_imm(Reg::R1, 1);
    code.atomic_add(CONTROL, (LOST * 8) as i16, Reg::R1);
    code.mov_imm(Reg::R0, 0);
    code.exit();
    code.finish()
}

fn only_one_process(code: &mut Assembler, out: &mut Label) {
    let mut everybody = Assembler::label();
    code.load(Reg::R1, CONTROL, (ONLY_PID * 8) as i16);
    code.jump_if(Reg::R1, When::Equal, 0, &mut everybody);
    code.mov(Reg::R2, SCRATCH);
    code.shift_right(Reg::R2, 32);
    code.jump_if_reg(Reg::R1, When::NotEqual, Reg::R2, out);
    code.bind(everybody);
}

/// Reads a location of the table into the record.
fn read_location(code: &mut Assembler, record_at: i16, slot: usize, room: usize) {
    let table_at = ((TABLE + 2 * slot) * 8) as i16;
    let mut next = Assembler::label();
    code.store_imm(RECORD, record_at + 8, 0);
    code.load(SCRATCH, CONTROL, table_at + 8);
    code.jump_if(SCRATCH, When::Equal, 0, &mut next);
    code.jump_if(SCRATCH, When::Greater, room as i32, &mut next);
    code.load(Reg::R3, CONTROL, table_at);
    code.store(RECORD, record_at, Reg::R3);
    code.mov(Reg::R1, RECORD);
    code.add_imm(Reg::R1, i32::from(record_at) + VALUE_HEAD as i32);
    code.mov(Reg::R2, SCRATCH);
    code.call(Helper::ProbeReadUser);
    code.jump_if(Reg::R0, When::NotEqual, 0, &mut next);
    code.store(RECORD, record_at + 8, SCRATCH);
    code.bind(next);
}

/// Reads where a register points into the record.
fn read_at_register(code: &mut Assembler, record_at: i16, read: &ProbeRead) {
    let mut next = Assembler::label();
    code.store_imm(RECORD, record_at + 8, 0);
    if read.len > 0 {
        code.load(Reg::R3, CONTEXT, i16::from(read.base as u8) * 8);
        code.add_imm(Reg::R3, read.offset);
        code.store(RECORD, record_at, Reg::R3);
        code.mov(Reg::R1, RECORD);
        code.add_imm(Reg::R1, i32::from(record_at) + VALUE_HEAD as i32);
        code.mov_imm(Reg::R2, read.len as i32);
        code.call(Helper::ProbeReadUser);
        code.jump_if(Reg::R0, When::NotEqual, 0, &mut next);
        code.store_imm(RECORD, record_at + 8, read.len as i32);
    }
    code.bind(next);
}

/// Submits the record, and wakes the reader only when the ring passes a quarter, a half or three.
fn submit(code: &mut Assembler, ring: &HitRing) {
    const AVAILABLE: i32 = 0;
    const NO_WAKEUP: i32 = 1;
    const FORCE_WAKEUP: i32 = 2;
    let record = (ring.record_bytes() + HEADER) as i32;
    let mut quiet = Assembler::label();
    code.map(Reg::R1, ring.ring.raw_fd());
    code.mov_imm(Reg::R2, AVAILABLE);
    code.call(Helper::RingbufQuery);
    code.mov_imm(Reg::R2, NO_WAKEUP);
    // What waits to be read includes this record: a remainder shorter than it has just passed a quarter.
    code.and_imm(Reg::R0, (ring.ring.size() / 4 - 1) as i32);
    code.jump_if(Reg::R0, When::AtLeast, record, &mut quiet);
    code.mov_imm(Reg::R2, FORCE_WAKEUP);
    code.bind(quiet);
    code.mov(Reg::R1, RECORD);
    code.call(Helper::RingbufSubmit);
}
