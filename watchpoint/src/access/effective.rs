//! Where an instruction went in memory, told by the registers that it left behind.

use std::ops::Range;

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
};
use program::RunAddr;
use program::code::access::Segment;
use program::code::{Access as Operand, Operand as Source, accesses};

use super::{Trap, is_compare_exchange};
use crate::registers::{self, DF, ZF};
use crate::watcher::Report;

/// Processors move strings in groups and report a hit when a group is done: how far the registers may be
/// beyond the watched bytes.
const STRING_GROUP: u64 = 256;
/// State that is saved whole (`xsave`) is as large as the processor likes.
const LARGEST_STATE: u64 = 16 << 10;

/// Where an operand lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Exactly these bytes.
    Bytes(RunAddr, u32),
    /// Somewhere in this range, so many bytes at a time.
    Somewhere(Range<u64>, u32),
    /// The registers that tell are gone: so many bytes.
    Unknown(u32),
}

/// The memory operands of an instruction that just ran, and where each lay.
pub(super) fn reaches(instruction: &Instruction, bias: u64, trap: &Trap<'_>) -> Vec<(Operand, Reach)> {
    let before = Before {
        instruction,
        trap,
        written: written_registers(instruction),
    };
    accesses(instruction)
        .map(|operand| (operand, before.reach(&operand, bias)))
        .collect()
}

/// What registers held before an instruction that has run, or has not come to its end.
struct Before<'i> {
    instruction: &'i Instruction,
    trap: &'i Trap<'i>,
    written: Vec<Register>,
}

impl Before<'_> {
    fn reach(&self, operand: &Operand, bias: u64) -> Reach {
        if operand.operand == Source::String {
            return self.string(operand);
        }
        let Some(addr) = self.address(operand, bias) else {
            return Reach::Unknown(operand.width);
        };
        match operand.width {
            0 => Reach::Somewhere(addr..addr.saturating_add(LARGEST_STATE), 0),
            width => Reach::Bytes(RunAddr(addr), width),
        }
    }

    fn address(&self, operand: &Operand, bias: u64) -> Option<u64> {
        let mut addr = operand.disp.cast_unsigned();
        if operand.base.is_none() && self.instruction.is_ip_rel_memory_operand() && !operand.stack_engine() {
            addr = addr.wrapping_add(bias);
        }
        if let Some(base) = operand.base {
            addr = addr.wrapping_add(self.register(base)?);
        }
        if let Some((index, scale)) = operand.index {
            let index = if self.instruction.mnemonic() == Mnemonic::Xlatb {
                Register::AL
            } else {
                index
            };
            addr = addr.wrapping_add(self.register(index)?.wrapping_mul(u64::from(scale)));
        }
        if !operand.stack_engine() {
            addr = addr.wrapping_add(self.bit_offset(operand)?);
            if self.has_short_address() {
                addr &= u64::from(u32::MAX);
            }
        }
        let registers = self.trap.registers;
        let segment = match operand.segment {
            None => 0,
            Some(_) if !self.trap.has_segment_bases => return None,
            Some(Segment::Fs) => registers.fs_base,
            Some(Segment::Gs) => registers.gs_base,
        };
        Some(addr.wrapping_add(segment))
    }

    /// A register's value before the instruction; `None` when it was overwritten for good.
    fn register(&self, register: Register) -> Option<u64> {
        let after = registers::read(self.trap.registers, register)?;
        if self.trap.report == Report::Died {
            return Some(after);
        }
        let full = register.full_register();
        match (full, self.instruction.mnemonic()) {
            // rsp = rbp + 8, rbp = what was there.
            (Register::RBP, Mnemonic::Leave) | (Register::RSP, Mnemonic::Leave) => {
                Some(self.trap.registers.rsp.wrapping_sub(8))
            }
            (Register::RSP, _) if !self.loads_stack_pointer() => {
                let moved = i64::from(self.instruction.stack_pointer_increment());
                Some(after.wrapping_add_signed(-moved))
            }
            _ if !self.written.contains(&full) => Some(after),
            _ if is_compare_exchange(self.instruction) && self.exchanged() => Some(after),
            _ => None,
        }
    }

    fn loads_stack_pointer(&self) -> bool {
        let explicit = self.instruction.op_count() > 0
            && self.instruction.op0_kind() == OpKind::Register
            && self.instruction.op0_register().full_register() == Register::RSP;
        explicit && self.written.contains(&Register::RSP) && self.instruction.mnemonic() != Mnemonic::Push
    }

    /// A compare-and-exchange loads the accumulator only when it did not exchange.
    fn exchanged(&self) -> bool {
        self.trap.registers.eflags & ZF != 0
    }

    /// `bt`, `bts`, … with a register take any bit of memory, also far from the operand.
    fn bit_offset(&self, operand: &Operand) -> Option<u64> {
        let takes_bits = matches!(
            self.instruction.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        );
        if !takes_bits || self.instruction.op1_kind() != OpKind::Register {
            return Some(0);
        }
        let register = self.instruction.op1_register();
        let bits = register.size() * 8;
        let value = registers::read(self.trap.registers, register)?;
        let signed = (value << (64 - bits)).cast_signed() >> (64 - bits);
        let words = signed.div_euclid(i64::try_from(bits).ok()?);
        Some(words.wrapping_mul(i64::from(operand.width)).cast_unsigned())
    }

    fn has_short_address(&self) -> bool {
        let registers = [self.instruction.memory_base(), self.instruction.memory_index()];
        registers
            .iter()
            .any(|register| register.is_gpr32() || *register == Register::EIP)
    }

    /// A string instruction has moved its registers past what it accessed.
    fn string(&self, operand: &Operand) -> Reach {
        let size = u32::try_from(self.instruction.memory_size().size()).unwrap_or(0);
        let end = operand
            .base
            .and_then(|base| registers::read(self.trap.registers, base));
        // Both registers of `cmps`, and one of `movs`, may be relative to a segment.
        let based = operand.segment.map_or(Some(0), |segment| {
            self.trap.has_segment_bases.then_some(match segment {
                Segment::Fs => self.trap.registers.fs_base,
                Segment::Gs => self.trap.registers.gs_base,
            })
        });
        let Some(end) = end.zip(based).map(|(end, based)| end.wrapping_add(based)) else {
            return Reach::Unknown(size);
        };
        let width = u64::from(size);
        let repeats = self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix();
        let backwards = self.trap.registers.eflags & DF != 0;
        let last = if backwards {
            end.wrapping_add(width)
        } else {
            end.wrapping_sub(width)
        };
        let hit_last = self
            .trap
            .locations
            .iter()
            .any(|location| location.touches(RunAddr(last), size));
        if !repeats || hit_last {
            return Reach::Bytes(RunAddr(last), size);
        }
        let range = if backwards {
            last..last.saturating_add(STRING_GROUP)
        } else {
            end.saturating_sub(STRING_GROUP)..end
        };
        Reach::Somewhere(range, size)
    }
}

/// The whole registers that an instruction may have changed.
fn written_registers(instruction: &Instruction) -> Vec<Register> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
    let used = info.used_registers().iter();
    used.filter(|used| {
        !matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
        )
    })
    .map(|used| used.register().full_register())
    .collect()
}

/// Whether an instruction leaves a register as it was.
pub(crate) fn keeps(instruction: &Instruction, register: Register) -> bool {
    !written_registers(instruction).contains(&register.full_register())
}
