//! What an instruction worked with: its other operand, after it has run, or as it was before.

use failure::image::Registers;
use iced_x86::{Code as Op, FlowControl, Instruction, Mnemonic, OpKind, Register};
use program::code::InstrIx;

use super::flags::{cut, sign_extended};
use crate::access::{Accessor, keeps};
use crate::registers::{low_bytes, read};

/// How far back a constant is looked for.
const FAR: u32 = 32;

/// The operand of an instruction that is not memory: a register that the instruction left alone, or an
/// immediate, extended to `width` bytes.
pub(super) fn other_operand(
    instruction: &Instruction,
    operand: u32,
    width: u32,
    registers: &Registers,
) -> Option<u128> {
    match instruction.try_op_kind(operand).ok()? {
        OpKind::Register => {
            let register = instruction.try_op_register(operand).ok()?;
            keeps(instruction, register)
                .then(|| read(registers, register))
                .flatten()
                .map(u128::from)
        }
        OpKind::Immediate8 | OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => {
            let extends = width > 1;
            let value = instruction.try_immediate(operand).ok()?;
            Some(if extends {
                sign_extended(value, 8, width)
            } else {
                u128::from(low_bytes(value, 1))
            })
        }
        OpKind::Immediate16 | OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
            // The decoder has extended it already.
            Some(cut(u128::from(instruction.try_immediate(operand).ok()?), width))
        }
        _ => None,
    }
}

/// What a register held *before* an instruction that has overwritten it, where the instructions before tell:
/// a constant, or a copy of a register that is still there.
pub(super) fn before(accessor: &Accessor, register: Register, registers: &Registers) -> Option<u64> {
    let (flow, at) = accessor.origin.place.as_ref()?;
    let block = flow.block(flow.block_of(*at)?)?;
    let first = block.instrs.start.max(at.0.saturating_sub(FAR));
    let maker = (first..at.0).rev().find(|&ix| {
        flow.instruction(InstrIx(ix))
            .is_none_or(|instr| !keeps(instr, register))
    })?;
    let made = flow.instruction(InstrIx(maker))?;
    let whole = |value: u64| Some(low_bytes(value, register.size()));
    // A write to a part leaves the rest as it was.
    let writes_all = made.op0_kind() == OpKind::Register
        && made.op0_register().full_register() == register.full_register()
        && made.op0_register().size() >= register.size().min(4);
    if !writes_all || made.flow_control() != FlowControl::Next {
        return None;
    }
    match made.mnemonic() {
        Mnemonic::Mov if is_immediate(made.op1_kind()) => whole(made.try_immediate(1).ok()?),
        Mnemonic::Xor
            if made.op1_kind() == OpKind::Register && made.op0_register() == made.op1_register() =>
        {
            Some(0)
        }
        Mnemonic::Mov if made.op1_kind() == OpKind::Register => {
            let source = made.op1_register();
            let unchanged = (maker + 1..=at.0)
                .filter_map(|ix| flow.instruction(InstrIx(ix)))
                .all(|between| keeps(between, source));
            let value = unchanged.then(|| read(registers, source)).flatten()?;
            whole(value)
        }
        _ => None,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate32to64
    )
}

/// The register that a string instruction stores from or loads into.
pub(super) fn accumulator(instruction: &Instruction) -> Option<Register> {
    match instruction.code() {
        Op::Stosb_m8_AL | Op::Lodsb_AL_m8 | Op::Scasb_AL_m8 => Some(Register::AL),
        Op::Stosw_m16_AX | Op::Lodsw_AX_m16 | Op::Scasw_AX_m16 => Some(Register::AX),
        Op::Stosd_m32_EAX | Op::Lodsd_EAX_m32 | Op::Scasd_EAX_m32 => Some(Register::EAX),
        Op::Stosq_m64_RAX | Op::Lodsq_RAX_m64 | Op::Scasq_RAX_m64 => Some(Register::RAX),
        _ => None,
    }
}
