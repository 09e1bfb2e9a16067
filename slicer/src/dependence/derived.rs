//! Whether a pointer is one that was made from another: moved, kept in the frame, counted on.

use std::collections::HashSet;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use program::code::InstrIx;
use program::values::{Gpr, Value};

use super::effects::RegisterSet;
use super::location::Location;
use super::reaching::{Definition, reaching};
use crate::view::FunctionView;

/// Definitions that are looked at for one pointer.
const MOST: usize = 64;

/// Whether what a register holds before an instruction can have been made from such a value.
pub fn is_made_from(
    view: &FunctionView<'_, '_>,
    before: InstrIx,
    register: Gpr,
    is_origin: impl Fn(Value) -> bool,
) -> bool {
    let mut pending = vec![(before, Location::Register(RegisterSet::gpr(register)))];
    let mut seen: HashSet<(InstrIx, Location)> = pending.iter().copied().collect();
    while let Some((before, location)) = pending.pop() {
        if let Location::Register(set) = location
            && let (Some(gpr), Some(state)) = (set.as_gpr(), view.state_before(before))
            && is_origin(state.get(gpr))
        {
            return true;
        }
        for definition in reaching(view, before, location).definitions {
            let Definition::Written(ix) = definition else {
                continue;
            };
            for source in sources(view, ix) {
                if seen.len() < MOST && seen.insert((ix, source)) {
                    pending.push((ix, source));
                }
            }
        }
    }
    false
}

/// What the pointer that an instruction makes, or stores, was before.
fn sources(view: &FunctionView<'_, '_>, ix: InstrIx) -> Vec<Location> {
    let Some(instruction) = view.instruction(ix) else {
        return Vec::new();
    };
    let registers: Vec<Register> = match instruction.mnemonic() {
        Mnemonic::Lea => vec![instruction.memory_base(), instruction.memory_index()],
        Mnemonic::Mov => match instruction.op1_kind() {
            OpKind::Register => vec![instruction.op1_register()],
            OpKind::Memory => return in_frame(view, ix).into_iter().collect(),
            _ => Vec::new(),
        },
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => counted(instruction),
        _ if instruction.is_string_instruction() => vec![Register::RDI],
        _ => Vec::new(),
    };
    let gprs = registers.into_iter().filter_map(Gpr::of);
    let mut found: Vec<Location> = gprs
        .map(|gpr| Location::Register(RegisterSet::gpr(gpr)))
        .collect();
    // `addq $1, -8(%rbp)` counts on what is kept in the frame.
    if instruction.op0_kind() == OpKind::Memory && instruction.mnemonic() != Mnemonic::Mov {
        found.extend(in_frame(view, ix));
    }
    found
}

fn counted(instruction: &Instruction) -> Vec<Register> {
    let operands = (0..instruction.op_count()).filter(|op| instruction.op_kind(*op) == OpKind::Register);
    operands.map(|op| instruction.op_register(op)).collect()
}

/// The slot of the frame that an instruction's operand is.
fn in_frame(view: &FunctionView<'_, '_>, ix: InstrIx) -> Option<Location> {
    let place = view.values.place(ix).filter(|place| place.index.is_none())?;
    let offset = place.stack_offset()?;
    Some(Location::Stack { offset, width: 8 })
}
