//! A hit of a probe on a conditional branch: no more than the branch depends on.
//!
//! Such probes are hit more often than all others, and what is written costs more than what is worked out: a record
//! of all registers is four lines of a cache that the reader's processor has to give up first. This one is less than
//! one: time, process and thread, the branch's address, how many hits had found no room, `rcx` and the flags.

use program::RunAddr;

use failure::image::Registers;

use super::assembler::{Assembler, Helper, Reg, When};
use super::error::BpfError;
use super::hit::RawHit;
use super::hit_program::{
    CONTEXT, CONTROL, HitProgram, RECORD, Register, SCRATCH, STACK_TIME, give_up, only_one_process, submit,
    who,
};
use super::hit_ring::{HitRing, LOST};
use super::program::Program;
use super::syscall::ProgramKind;
use crate::{Pid, Tid};

const TIME: usize = 0;
const PID_TGID: usize = 8;
const ADDR: usize = 16;
const LOST_BEFORE: usize = 24;
const RCX: usize = 32;
const FLAGS: usize = 40;
/// Bytes of a record: fewer than any other has.
pub(super) const BYTES: usize = 48;

impl HitProgram {
    /// For many probes ([`super::ManyProbes`]) on conditional branches: of a hit's registers, only `rip`, `rcx` and the
    /// flags are known.
    ///
    /// # Errors
    /// When it is not permitted, or the kernel has no such probes.
    pub fn for_branches(ring: &HitRing) -> Result<Self, BpfError> {
        Program::load(ProgramKind::ManyProbes, &code(ring)).map(Self)
    }
}

fn code(ring: &HitRing) -> Vec<u64> {
    let mut code = Assembler::default();
    let mut out = Assembler::label();
    let mut full = Assembler::label();
    let (fd, _) = ring.ring();
    code.mov(CONTEXT, Reg::R1);
    code.map_value(CONTROL, ring.control());
    code.call(Helper::KtimeGetNs);
    code.store(Reg::Stack, STACK_TIME, Reg::R0);
    who(&mut code, ring.namespace());
    only_one_process(&mut code, &mut out);
    code.map(Reg::R1, fd);
    code.mov_imm(Reg::R2, BYTES as i32);
    code.mov_imm(Reg::R3, 0);
    code.call(Helper::RingbufReserve);
    code.jump_if(Reg::R0, When::Equal, 0, &mut full);
    code.mov(RECORD, Reg::R0);
    code.store(RECORD, PID_TGID as i16, SCRATCH);
    code.load(Reg::R1, Reg::Stack, STACK_TIME);
    code.store(RECORD, TIME as i16, Reg::R1);
    code.load(Reg::R1, CONTROL, (LOST * 8) as i16);
    code.store(RECORD, LOST_BEFORE as i16, Reg::R1);
    for (register, at) in [
        (Register::Rip, ADDR),
        (Register::Rcx, RCX),
        (Register::Flags, FLAGS),
    ] {
        code.load(Reg::R1, CONTEXT, i16::from(register as u8) * 8);
        code.store(RECORD, at as i16, Reg::R1);
    }
    submit(&mut code, ring, BYTES);
    code.bind(out);
    code.mov_imm(Reg::R0, 0);
    code.exit();
    give_up(&mut code, full);
    code.finish()
}

/// Reads a record of this kind; `None` for any other.
pub(super) fn parse(bytes: &[u8]) -> Option<RawHit> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let word = |at: usize| {
        let word = bytes.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_ne_bytes(*word))
    };
    let (time_ns, pid_tgid, addr) = (word(TIME)?, word(PID_TGID)?, word(ADDR)?);
    Some(RawHit {
        time_ns,
        pid: Pid((pid_tgid >> 32) as u32),
        tid: Tid(pid_tgid as u32),
        addr: RunAddr(addr),
        cookie: 0,
        in_kernel: false,
        registers: Registers {
            rip: addr,
            rcx: word(RCX)?,
            eflags: word(FLAGS)?,
            ..Registers::default()
        },
        stack: Vec::new(),
        probed: RunAddr(0),
        lost_before: word(LOST_BEFORE)?,
        values: Vec::new(),
        looked_ns: time_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_laid_out() {
        let words = [1, 5 << 32 | 6, 0x1000, 3, 7, 0x246_u64];
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        let hit = parse(&bytes).unwrap();
        assert_eq!((hit.time_ns, hit.pid, hit.tid), (1, Pid(5), Tid(6)));
        assert_eq!((hit.addr, hit.lost_before), (RunAddr(0x1000), 3));
        let registers = hit.registers;
        assert_eq!(
            (registers.rip, registers.rcx, registers.eflags),
            (0x1000, 7, 0x246)
        );
        assert_eq!(parse(&bytes[..BYTES - 1]), None);
    }
}
