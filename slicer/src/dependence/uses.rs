//! What an instruction's effect depends on.

use iced_x86::Mnemonic;
use program::code::{AccessKind, InstrIx};
use program::values::Gpr;

use super::effects::RegisterSet;
use super::location::Location;
use crate::view::FunctionView;

/// Which of an instruction's inputs matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// All of them.
    Everything,
    /// The value that it computes or stores, not the address that it stores to.
    Value,
    /// The address of its memory operand: what a fault is about.
    Address,
    /// Nothing but that it was executed.
    Executed,
}

/// The locations that an instruction reads, in a fixed order. Calls are not for this function: their inputs
/// depend on who is called.
#[must_use]
pub fn uses(view: &FunctionView<'_, '_>, ix: InstrIx, role: Role) -> Vec<Location> {
    let mut found = Vec::new();
    if role == Role::Executed {
        return found;
    }
    if view
        .instruction(ix)
        .is_some_and(|instr| instr.mnemonic() == Mnemonic::Lea)
    {
        found.extend(computed_from(view, ix).each().map(Location::Register));
        return found;
    }
    let accesses = view.values.accesses(ix);
    let address = address_registers(view, ix);
    let effects = view.effects(ix);
    if role == Role::Address && !(address.is_empty() && accesses.is_empty()) {
        found.extend(address.each().map(Location::Register));
        return found;
    }
    for access in accesses {
        if matches!(access.kind, AccessKind::Read | AccessKind::ReadWrite) {
            found.extend(Location::of(&access.place, access.width));
        }
    }
    let stores = accesses.iter().any(|access| access.kind == AccessKind::Write);
    let mut registers = effects.reads.without(RegisterSet::gpr(Gpr::RSP));
    // A frame pointer is not data: the slot that it leads to is.
    let all = explicit_address_registers(view, ix);
    let unneeded = if role == Role::Value && stores {
        all
    } else {
        all.without(address)
    };
    registers = registers.without(unneeded.without(value_registers(view, ix)));
    found.extend(registers.each().map(Location::Register));
    found
}

/// What `lea` calculates with: it names memory but reads none. The address of a local depends on nothing.
fn computed_from(view: &FunctionView<'_, '_>, ix: InstrIx) -> RegisterSet {
    let state = view.state_before(ix);
    let is_frame = |gpr: Gpr| {
        gpr == Gpr::RSP
            || state
                .as_ref()
                .is_some_and(|state| state.get(gpr).stack_offset().is_some())
    };
    explicit_address_registers(view, ix)
        .each()
        .filter(|register| !register.as_gpr().is_some_and(is_frame))
        .fold(RegisterSet::EMPTY, RegisterSet::with)
}

/// The registers that choose an instruction's memory, leaving out those whose part is known: the base of a
/// stack slot.
fn address_registers(view: &FunctionView<'_, '_>, ix: InstrIx) -> RegisterSet {
    let Some(instr) = view.instruction(ix) else {
        return RegisterSet::EMPTY;
    };
    let place = view.values.place(ix);
    let mut registers = RegisterSet::EMPTY;
    match place {
        None => return registers,
        Some(place) if place.stack_offset().is_some() || place.static_addr().is_some() => {
            // With a known base only the varying part matters; which register that is shows in its value.
            if place.index.is_some() {
                registers = registers.with(RegisterSet::of(instr.memory_index()));
            }
        }
        Some(_) => {
            registers = registers.with(RegisterSet::of(instr.memory_base()));
            registers = registers.with(RegisterSet::of(instr.memory_index()));
        }
    }
    registers.without(RegisterSet::gpr(Gpr::RSP))
}

fn explicit_address_registers(view: &FunctionView<'_, '_>, ix: InstrIx) -> RegisterSet {
    let Some(instr) = view.instruction(ix) else {
        return RegisterSet::EMPTY;
    };
    RegisterSet::of(instr.memory_base()).with(RegisterSet::of(instr.memory_index()))
}

/// Registers that are operands in their own right, whatever the address is made of.
fn value_registers(view: &FunctionView<'_, '_>, ix: InstrIx) -> RegisterSet {
    let Some(instr) = view.instruction(ix) else {
        return RegisterSet::EMPTY;
    };
    (0..instr.op_count())
        .filter(|&op| instr.op_kind(op) == iced_x86::OpKind::Register)
        // The first operand of a plain move or load is only written.
        .filter(|&op| {
            op > 0
                || view
                    .effects(ix)
                    .reads
                    .meets(RegisterSet::of(instr.op_register(op)))
        })
        .filter(|&op| {
            op > 0
                || !view
                    .effects(ix)
                    .writes
                    .meets(RegisterSet::of(instr.op_register(op)))
        })
        .map(|op| RegisterSet::of(instr.op_register(op)))
        .fold(RegisterSet::EMPTY, RegisterSet::with)
}
