//! The programs that write hits down.

use std::os::fd::{AsFd as _, BorrowedFd};

use super::assembler::{Assembler, Helper, Label, Reg, When};
use super::btf::ProbedAt;
use super::error::BpfError;
use super::hit::{
    ADDR, COOKIE, IN_KERNEL, LOOKED, LOST_BEFORE, PID_TGID, PROBED, REGISTERS, STACK_BYTES, STACK_READ,
    STACK_ROOM, TIME, VALUE_HEAD, VALUES,
};
use super::hit_ring::{HitRing, LOCATIONS, LOST, ONLY_PID, PidNamespace, SPARED, SPARED_PLACES, TABLE};
use super::program::Program;
use super::ring::HEADER;
use super::syscall::ProgramKind;
use crate::registers::PT_REGS_WORDS;

/// A register of the probed program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The probed instruction's own address.
    Rip = 16,
    /// The flags.
    Flags = 18,
    Rsp = 19,
}

/// Memory to read at a probe, at an address that is worked out as by the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeRead {
    /// The register that the address starts from; without one, from 0.
    pub base: Option<Register>,
    /// A register to add, and by how many bits it is shifted.
    pub index: Option<(Register, u8)>,
    /// What else to add.
    pub offset: i32,
    /// How many bytes.
    pub len: u64,
}

/// A program that writes a [`RawHit`] for each hit. It lives as long as something is connected to it.
#[derive(Debug)]
pub struct HitProgram(pub(super) Program);

impl HitProgram {
    /// For breakpoints ([`crate::perf::Breakpoint`]). Accesses by the kernel come with the registers at the
    /// system call where the kernel has type information (BTF), and are counted as lost where it has not.
    ///
    /// # Errors
    /// When it is not permitted.
    pub fn for_breakpoints(ring: &HitRing, cookie: u64) -> Result<Self, BpfError> {
        let kind = ProgramKind::PerfEvent;
        let load = |kernel| Program::load(kind, &code(ring, kind, cookie, &[], kernel, Then::GoOn));
        let mut program = load(KernelHits::Kept(ProbedAt::here()));
        for less in [KernelHits::Kept(None), KernelHits::Lost] {
            if matches!(program, Err(BpfError::Refused { .. })) {
                program = load(less);
            }
        }
        program.map(Self)
    }

    /// For probes ([`crate::perf::Uprobe`]), which read nothing but what is told here: watched memory that the kernel
    /// reads for a probe is a trap of its own.
    ///
    /// # Errors
    /// When it is not permitted, or a read is too long.
    pub fn for_probes(ring: &HitRing, cookie: u64, reads: &[ProbeRead]) -> Result<Self, BpfError> {
        let most = ring.room() as u64;
        if let Some(read) = reads.iter().find(|read| read.len > most) {
            return Err(BpfError::TooLong { len: read.len, most });
        }
        let kind = ProgramKind::Kprobe;
        let code = code(ring, kind, cookie, reads, KernelHits::None, Then::GoOn);
        Program::load(kind, &code).map(Self)
    }

    /// For many probes ([`super::ManyProbes`]), as for single ones.
    ///
    /// # Errors
    /// When it is not permitted, or the kernel has no such probes, or a read is too long.
    pub fn for_many_probes(
        ring: &HitRing,
        cookie: u64,
        reads: &[ProbeRead],
        then: Then,
    ) -> Result<Self, BpfError> {
        let most = ring.room() as u64;
        if let Some(read) = reads.iter().find(|read| read.len > most) {
            return Err(BpfError::TooLong { len: read.len, most });
        }
        let kind = ProgramKind::ManyProbes;
        let code = code(ring, kind, cookie, reads, KernelHits::None, then);
        Program::load(kind, &code).map(Self)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What becomes of a thread that hit a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on.
    GoOn,
    /// It gets [`STOPPED_BY`] after the instruction: a stop under ptrace, and for good where nobody traces.
    Stop,
}

/// The signal of [`Then::Stop`]. Programs have threads that block all signals (so that others handle them), and
/// this one cannot be blocked; SIGTRAP, of which a thread has at most one, is left to watched memory.
pub const STOPPED_BY: i32 = libc::SIGSTOP;

/// What a program does about accesses that the kernel makes for the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelHits {
    /// There are none.
    None,
    /// It asks for the registers that the thread entered the kernel with, and for its probe where that is known to be told.
    Kept(Option<ProbedAt>),
    /// It cannot ask, and only counts them.
    Lost,
}

/// What survives calls in the program.
pub(super) const CONTEXT: Reg = Reg::R6;
pub(super) const SCRATCH: Reg = Reg::R7;
pub(super) const CONTROL: Reg = Reg::R8;
pub(super) const RECORD: Reg = Reg::R9;
/// What waits on the stack.
pub(super) const STACK_TIME: i16 = -8;
const STACK_WHO: i16 = -16;
/// The instruction pointer and the code segment among the words of `struct pt_regs`.
const RIP: usize = 16;
const CS: usize = 17;
/// The bits of the code segment that are set in user space, and not in the kernel.
const USER_MODE: i32 = 3;
/// Where `struct bpf_perf_event_data` has the address, after the registers and the period.
const PERF_ADDR: usize = (PT_REGS_WORDS + 1) * 8;

fn code(
    ring: &HitRing,
    kind: ProgramKind,
    cookie: u64,
    reads: &[ProbeRead],
    kernel: KernelHits,
    then: Then,
) -> Vec<u64> {
    let mut code = Assembler::default();
    let mut out = Assembler::label();
    let mut full = Assembler::label();
    let (fd, _) = ring.ring();
    // Probes are hit often, and while watched memory is armed: what they do not ask for is left out.
    let lean = kind != ProgramKind::PerfEvent;
    let slots = if lean { reads.len() } else { LOCATIONS };
    let stack_at = ring.record_bytes(slots);
    let stack_room = if lean { 0 } else { STACK_BYTES };
    let len = stack_at + stack_room;
    code.mov(CONTEXT, Reg::R1);
    code.map_value(CONTROL, ring.control());
    // First of all: nothing later is nearer to the access.
    code.call(Helper::KtimeGetNs);
    code.store(Reg::Stack, STACK_TIME, Reg::R0);
    who(&mut code, ring.namespace());
    only_one_process(&mut code, &mut out);
    if kernel == KernelHits::Lost {
        code.load(Reg::R1, CONTEXT, (CS * 8) as i16);
        code.and_imm(Reg::R1, USER_MODE);
        code.jump_if(Reg::R1, When::Equal, 0, &mut full);
    }
    code.map(Reg::R1, fd);
    code.mov_imm(Reg::R2, len as i32);
    code.mov_imm(Reg::R3, 0);
    code.call(Helper::RingbufReserve);
    code.jump_if(Reg::R0, When::Equal, 0, &mut full);
    code.mov(RECORD, Reg::R0);
    code.store(RECORD, PID_TGID as i16, SCRATCH);
    let value_at = |slot: usize| (VALUES + slot * (VALUE_HEAD + ring.room())) as i16;
    for slot in 0..slots {
        code.store_imm(RECORD, value_at(slot) + 8, 0);
    }
    let mut spared = Assembler::label();
    if kind == ProgramKind::PerfEvent {
        leave_out_spared(&mut code, &mut spared);
    }
    for slot in 0..slots {
        match reads.get(slot) {
            Some(read) => read_at_register(&mut code, value_at(slot), read),
            None => read_location(&mut code, value_at(slot), slot, ring.room()),
        }
    }
    code.bind(spared);
    if !lean {
        code.call(Helper::KtimeGetNs);
        code.store(RECORD, LOOKED as i16, Reg::R0);
    }
    code.load(Reg::R1, Reg::Stack, STACK_TIME);
    code.store(RECORD, TIME as i16, Reg::R1);
    // Asking for the time twice would be a tenth of what such a hit costs.
    if lean {
        code.store(RECORD, LOOKED as i16, Reg::R1);
    }
    code.load(Reg::R1, CONTROL, (LOST * 8) as i16);
    code.store(RECORD, LOST_BEFORE as i16, Reg::R1);
    let addr = match kind {
        ProgramKind::PerfEvent => PERF_ADDR,
        ProgramKind::Kprobe | ProgramKind::ManyProbes => RIP * 8,
    };
    code.load(Reg::R1, CONTEXT, addr as i16);
    code.store(RECORD, ADDR as i16, Reg::R1);
    code.constant(Reg::R1, cookie);
    code.store(RECORD, COOKIE as i16, Reg::R1);
    let mut registers_done = Assembler::label();
    code.store_imm(RECORD, PROBED as i16, 0);
    if let KernelHits::Kept(probed) = kernel {
        if let Some(probed) = probed {
            read_probed(&mut code, probed);
        }
        registers_of_system_call(&mut code, &mut registers_done);
    }
    code.store_imm(RECORD, IN_KERNEL as i16, 0);
    copy_registers(&mut code, CONTEXT);
    code.bind(registers_done);
    code.store_imm(RECORD, STACK_ROOM as i16, stack_room as i32);
    code.store_imm(RECORD, STACK_READ as i16, 0);
    if !lean {
        read_stack(&mut code, stack_at);
    }
    submit(&mut code, ring, len);
    if then == Then::Stop {
        code.mov_imm(Reg::R1, STOPPED_BY);
        code.call(Helper::SendSignalThread);
    }
    code.bind(out);
    // Nothing for perf to do after us: no sample, no signal.
    code.mov_imm(Reg::R0, 0);
    code.exit();
    give_up(&mut code, full);
    code.finish()
}

/// Counts a hit that found no room.
pub(super) fn give_up(code: &mut Assembler, full: Label) {
    code.bind(full);
    code.mov_imm(Reg::R1, 1);
    code.atomic_add(CONTROL, (LOST * 8) as i16, Reg::R1);
    code.mov_imm(Reg::R0, 0);
    code.exit();
}

/// Jumps where the hit is reported at a place that needs no memory.
fn leave_out_spared(code: &mut Assembler, spared: &mut Label) {
    code.load(Reg::R1, CONTEXT, (RIP * 8) as i16);
    code.mov(Reg::R2, Reg::R1);
    code.and_imm(Reg::R2, SPARED_PLACES as i32 - 1);
    code.shift_left(Reg::R2, 3);
    code.add(Reg::R2, CONTROL);
    code.load(Reg::R3, Reg::R2, (SPARED * 8) as i16);
    code.jump_if_reg(Reg::R3, When::Equal, Reg::R1, spared);
}

/// For an access by the kernel: the registers that the thread entered it with.
fn registers_of_system_call(code: &mut Assembler, done: &mut Label) {
    let mut in_user_space = Assembler::label();
    code.load(Reg::R1, CONTEXT, (CS * 8) as i16);
    code.and_imm(Reg::R1, USER_MODE);
    code.jump_if(Reg::R1, When::NotEqual, 0, &mut in_user_space);
    code.call(Helper::GetCurrentTaskBtf);
    code.mov(Reg::R1, Reg::R0);
    code.call(Helper::TaskPtRegs);
    code.mov(SCRATCH, Reg::R0);
    code.store_imm(RECORD, IN_KERNEL as i16, 1);
    copy_registers(code, SCRATCH);
    code.jump(done);
    code.bind(in_user_space);
}

/// Reads which instruction the thread runs in the place of a probe, or ran last.
fn read_probed(code: &mut Assembler, probed: ProbedAt) {
    let mut none = Assembler::label();
    code.call(Helper::GetCurrentTaskBtf);
    code.load(Reg::R1, Reg::R0, probed.task_to_probes);
    code.jump_if(Reg::R1, When::Equal, 0, &mut none);
    code.load(Reg::R1, Reg::R1, probed.probes_to_address);
    code.store(RECORD, PROBED as i16, Reg::R1);
    code.bind(none);
}

/// Reads the stack of the registers that the record has; near its end, the word at the pointer alone.
fn read_stack(code: &mut Assembler, at: usize) {
    let mut done = Assembler::label();
    for len in [STACK_BYTES, 8] {
        code.load(Reg::R3, RECORD, (REGISTERS + Register::Rsp as usize * 8) as i16);
        code.mov(Reg::R1, RECORD);
        code.add_imm(Reg::R1, at as i32);
        code.mov_imm(Reg::R2, len as i32);
        code.call(Helper::ProbeReadUser);
        let mut failed = Assembler::label();
        code.jump_if(Reg::R0, When::NotEqual, 0, &mut failed);
        code.store_imm(RECORD, STACK_READ as i16, len as i32);
        code.jump(&mut done);
        code.bind(failed);
    }
    code.bind(done);
}

fn copy_registers(code: &mut Assembler, from: Reg) {
    for at in (0..PT_REGS_WORDS * 8).step_by(8) {
        code.load(Reg::R1, from, at as i16);
        code.store(RECORD, (REGISTERS + at) as i16, Reg::R1);
    }
}

/// Who it was, into the scratch register: the process in the upper half, the thread in the lower.
pub(super) fn who(code: &mut Assembler, namespace: Option<PidNamespace>) {
    let mut known = Assembler::label();
    if let Some(namespace) = namespace {
        // The kernel writes thread and process, 32 bits each, to the stack; it fails for a process of a
        // namespace within ours, whose number here it cannot tell.
        code.constant(Reg::R1, namespace.device);
        code.constant(Reg::R2, namespace.inode);
        code.mov(Reg::R3, Reg::Stack);
        code.add_imm(Reg::R3, STACK_WHO.into());
        code.mov_imm(Reg::R4, 8);
        code.call(Helper::GetNsCurrentPidTgid);
        code.load(SCRATCH, Reg::Stack, STACK_WHO);
        code.jump_if(Reg::R0, When::Equal, 0, &mut known);
    }
    code.call(Helper::GetCurrentPidTgid);
    code.mov(SCRATCH, Reg::R0);
    code.bind(known);
}

pub(super) fn only_one_process(code: &mut Assembler, out: &mut Label) {
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

/// Reads what a probe asks for into the record.
fn read_at_register(code: &mut Assembler, record_at: i16, read: &ProbeRead) {
    let mut next = Assembler::label();
    if read.len > 0 {
        match read.base {
            Some(base) => code.load(Reg::R3, CONTEXT, i16::from(base as u8) * 8),
            None => code.mov_imm(Reg::R3, 0),
        }
        if let Some((index, shift)) = read.index {
            code.load(Reg::R2, CONTEXT, i16::from(index as u8) * 8);
            code.shift_left(Reg::R2, i32::from(shift & 3));
            code.add(Reg::R3, Reg::R2);
        }
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
pub(super) fn submit(code: &mut Assembler, ring: &HitRing, bytes: usize) {
    const AVAILABLE: i32 = 0;
    const NO_WAKEUP: i32 = 1;
    const FORCE_WAKEUP: i32 = 2;
    let record = (bytes + HEADER) as i32;
    let (fd, size) = ring.ring();
    let mut quiet = Assembler::label();
    code.map(Reg::R1, fd);
    code.mov_imm(Reg::R2, AVAILABLE);
    code.call(Helper::RingbufQuery);
    code.mov_imm(Reg::R2, NO_WAKEUP);
    // What waits to be read includes this record: a remainder shorter than it has just passed a quarter.
    code.and_imm(Reg::R0, (size / 4 - 1) as i32);
    code.jump_if(Reg::R0, When::AtLeast, record, &mut quiet);
    code.mov_imm(Reg::R2, FORCE_WAKEUP);
    code.bind(quiet);
    code.mov(Reg::R1, RECORD);
    code.call(Helper::RingbufSubmit);
}
