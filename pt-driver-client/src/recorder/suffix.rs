//! The last instructions before a jump, done in our heads.
//!
//! The kernel refuses a probe on some instructions, such as a jump with a NOTRACK prefix, which compilers put before
//! every jump through a table. The registers are then sampled at an instruction before it, and what happens to
//! them on the way to the jump is worked out here.

use failure::image::Registers;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::outcome::{place, value};

/// Whether the effect of an instruction on the registers can be worked out.
pub(crate) fn is_plain(instruction: &Instruction) -> bool {
    let mut scratch = Registers::default();
    apply(instruction, &mut scratch).is_some()
}

/// Does to the registers what the instruction does; flags aside, which no indirect jump asks for.
pub(crate) fn apply(instruction: &Instruction, registers: &mut Registers) -> Option<()> {
    let source = |registers: &Registers| match instruction.op1_kind() {
        OpKind::Register => value(instruction.op1_register(), registers),
        _ => None,
    };
    let to = instruction.op0_register();
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Endbr64 => {}
        Mnemonic::Cdqe => registers.rax = i64::from(registers.rax as i32).cast_unsigned(),
        Mnemonic::Mov => *place(to, registers)? = source(registers)?,
        Mnemonic::Add => {
            let sum = value(to, registers)?.wrapping_add(source(registers)?);
            *place(to, registers)? = sum;
        }
        Mnemonic::Sub => {
            let difference = value(to, registers)?.wrapping_sub(source(registers)?);
            *place(to, registers)? = difference;
        }
        Mnemonic::Movsxd => {
            let narrow = (instruction.op1_kind() == OpKind::Register).then(|| instruction.op1_register())?;
            let wide = value(narrow.full_register(), registers)?;
            *place(to, registers)? = i64::from(wide as i32).cast_unsigned();
        }
        Mnemonic::Lea => {
            let part = |register| match register {
                Register::None => Some(0),
                other => value(other, registers),
            };
            let scale = u64::from(instruction.memory_index_scale());
            // The displacement of an address relative to the instruction is linked, not where it runs.
            let start = if instruction.is_ip_rel_memory_operand() {
                return None;
            } else {
                part(instruction.memory_base())?
            };
            let index = part(instruction.memory_index())?.wrapping_mul(scale);
            let sum = start
                .wrapping_add(index)
                .wrapping_add(instruction.memory_displacement64());
            *place(to, registers)? = sum;
        }
        _ => return None,
    }
    Some(())
}
