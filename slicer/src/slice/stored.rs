//! Addresses that a function stores: where to, and what that is called.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use program::LinkAddr;
use program::code::InstrIx;
use program::naming::{AccessName, Namer};
use program::values::{Gpr, Place, Value};

use crate::view::FunctionView;

/// Instructions between the making of a pair of addresses and its store.
const FARTHEST: usize = 32;

/// An address that is stored outside the frame.
pub(super) struct Stored {
    pub value: LinkAddr,
    pub place: Place,
    pub name: Option<AccessName>,
}

/// The wanted ones of the constants that a function stores, eight bytes each.
pub(super) fn stores(view: &FunctionView<'_, '_>, wanted: impl Fn(LinkAddr) -> bool) -> Vec<Stored> {
    let namer = Namer::new(view.module(), &view.flow, &view.values);
    let mut found = Vec::new();
    for (ix, instruction) in (0..).map(InstrIx).zip(&view.flow.instructions) {
        if instruction.op0_kind() != OpKind::Memory {
            continue;
        }
        let access = view.values.accesses(ix).iter().find(|access| !access.implicit);
        let Some(access) = access.filter(|access| access.place.stack_offset().is_none()) else {
            continue;
        };
        match instruction.mnemonic() {
            Mnemonic::Mov => {
                if let Some(value) = moved(view, ix, instruction).filter(|value| wanted(*value)) {
                    let (place, name) = (access.place, namer.name(ix, access));
                    found.push(Stored { value, place, name });
                }
            }
            // Compilers store two neighbours at once.
            Mnemonic::Movups | Mnemonic::Movaps | Mnemonic::Movdqu | Mnemonic::Movdqa => {
                let halves = halves(view, ix, instruction.op1_register(), 2);
                for (half, value) in [0, 8].into_iter().zip(halves) {
                    let Some(value) = value.filter(|value| wanted(*value)) else {
                        continue;
                    };
                    let displacement = instruction.memory_displacement64().cast_signed();
                    let base = Gpr::of(instruction.memory_base());
                    let name = base.and_then(|base| namer.name_passed(ix, base, displacement + half, 8));
                    let base = access.place.base.plus(half);
                    let place = Place { base, ..access.place };
                    found.push(Stored { value, place, name });
                }
            }
            _ => {}
        }
    }
    found
}

fn moved(view: &FunctionView<'_, '_>, ix: InstrIx, instruction: &Instruction) -> Option<LinkAddr> {
    if let Ok(number) = instruction.try_immediate(1) {
        return Some(LinkAddr(number));
    }
    held(view, ix, instruction.op1_register())
}

/// The constant that a register holds before an instruction.
fn held(view: &FunctionView<'_, '_>, ix: InstrIx, register: Register) -> Option<LinkAddr> {
    match view.state_before(ix)?.get(Gpr::of(register)?) {
        Value::Const(number) => Some(LinkAddr(number)),
        _ => None,
    }
}

/// The two constants in a vector register before an instruction, as far as the instructions right before it put them there.
fn halves(
    view: &FunctionView<'_, '_>,
    before: InstrIx,
    vector: Register,
    depth: u32,
) -> [Option<LinkAddr>; 2] {
    let from = (0..before.0).rev().map(InstrIx).take(FARTHEST);
    let same_block = from.take_while(|ix| view.flow.block_of(*ix) == view.flow.block_of(before));
    for ix in same_block {
        let Some(instruction) = view.instruction(ix) else {
            break;
        };
        if instruction.op0_register() != vector {
            continue;
        }
        let other = instruction.op1_register();
        return match instruction.mnemonic() {
            Mnemonic::Movq => [held(view, ix, other), None],
            Mnemonic::Punpcklqdq if depth > 0 => {
                let [low, _] = halves(view, ix, vector, depth - 1);
                let [high, _] = halves(view, ix, other, depth - 1);
                [low, high]
            }
            Mnemonic::Pinsrq if depth > 0 => {
                let [low, _] = halves(view, ix, vector, depth - 1);
                [low, held(view, ix, other)]
            }
            _ => [None; 2],
        };
    }
    [None; 2]
}
