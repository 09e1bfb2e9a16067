//! Reaching definitions, asked for one location at one point, walking backwards.

use std::cmp::Reverse;
use std::collections::HashSet;

use program::code::{AccessKind, Block, BlockId, InstrIx};
use program::values::{Base, Gpr, Value};

use super::effects::RegisterSet;
use super::location::{Location, Overlap};
use crate::view::FunctionView;

/// How an instruction defines a location.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Definition {
    /// The instruction writes it.
    Written(InstrIx),
    /// It is what a call returned.
    Returned(InstrIx),
    /// The unwinder left it there when a call threw: the exception.
    Thrown(InstrIx),
    /// A call got a pointer to it and may have written it.
    Lent {
        /// The call.
        call: InstrIx,
        /// The register that carried the pointer.
        argument: Gpr,
        /// How far behind the pointer the location starts.
        offset: i64,
        /// How many bytes.
        width: u32,
    },
}

/// What reaches a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaching {
    /// The definitions, nearest first along each path.
    pub definitions: Vec<Definition>,
    /// The value that the location had at function entry reaches as well.
    pub from_entry: bool,
}

/// The definitions of `wanted` that reach the point just before `before`.
#[must_use]
pub fn reaching(view: &FunctionView<'_, '_>, before: InstrIx, wanted: Location) -> Reaching {
    let mut result = Reaching::default();
    let Some(first) = view.flow.block_of(before) else {
        return result;
    };
    let mut seen: HashSet<BlockId> = HashSet::new();
    let mut pending = vec![(first, before.0)];
    while let Some((block_id, end)) = pending.pop() {
        let Some(block) = view.flow.blocks.get(block_id.0 as usize) else {
            continue;
        };
        let start = block.instrs.start;
        let killed = (start..end)
            .rev()
            .any(|ix| match step(view, InstrIx(ix), &wanted) {
                Step::Pass => false,
                Step::Kill => true,
                Step::Define { definition, kills } => {
                    result.definitions.push(definition);
                    kills
                }
            });
        if killed || born_here(&wanted, block_id) {
            continue;
        }
        if Some(block_id) == view.flow.entry {
            result.from_entry = true;
        }
        let end_of = |id: BlockId| view.flow.block(id).map_or(0, |block| block.instrs.end);
        for &previous in block.preds.iter().rev() {
            if seen.insert(previous) {
                pending.push((previous, end_of(previous)));
            }
        }
        if block.exceptional {
            for throwing in view.throwing_to(block_id).into_iter().rev() {
                if is_exception(&wanted) {
                    let call = view.flow.block(throwing).map(Block::last);
                    result.definitions.extend(call.map(Definition::Thrown));
                } else if seen.insert(throwing) {
                    pending.push((throwing, end_of(throwing)));
                }
            }
        }
    }
    let mut known = HashSet::new();
    result.definitions.retain(|definition| known.insert(*definition));
    result
}

/// The registers in which the unwinder hands an exception to a landing pad.
fn is_exception(wanted: &Location) -> bool {
    let handed = RegisterSet::gpr(Gpr::RAX).with(RegisterSet::gpr(Gpr::RDX));
    matches!(wanted, Location::Register(register) if register.meets(handed))
}

/// Memory behind a value that only exists from this block on: earlier code could not name it.
fn born_here(wanted: &Location, block: BlockId) -> bool {
    matches!(wanted, Location::Object { base: Base::Joined(at, _), .. } if *at == block.0)
}

enum Step {
    Pass,
    Kill,
    Define { definition: Definition, kills: bool },
}

fn step(view: &FunctionView<'_, '_>, ix: InstrIx, wanted: &Location) -> Step {
    if view.is_call(ix) {
        return across_call(view, ix, wanted);
    }
    match wanted {
        Location::Register(register) => {
            let effects = view.effects(ix);
            if !effects.writes.meets(*register) {
                return Step::Pass;
            }
            let kills = !effects.keeps.meets(*register);
            Step::Define {
                definition: Definition::Written(ix),
                kills,
            }
        }
        Location::Object {
            base: Base::Made(at, _),
            ..
        } if *at == ix => Step::Kill,
        _ => {
            let overlap = view
                .values
                .accesses(ix)
                .iter()
                .filter(|access| access.kind != AccessKind::Read)
                .map(|access| view.overlap(wanted, access))
                .max_by_key(|overlap| match overlap {
                    Overlap::None => 0,
                    Overlap::Partial => 1,
                    Overlap::Whole => 2,
                });
            match overlap {
                Some(Overlap::Whole) => Step::Define {
                    definition: Definition::Written(ix),
                    kills: true,
                },
                Some(Overlap::Partial) => Step::Define {
                    definition: Definition::Written(ix),
                    kills: false,
                },
                _ => Step::Pass,
            }
        }
    }
}

/// The registers in which results come back.
fn result_registers() -> RegisterSet {
    [
        RegisterSet::gpr(Gpr::RAX),
        RegisterSet::gpr(Gpr::RDX),
        RegisterSet::vector(0),
        RegisterSet::vector(1),
    ]
    .into_iter()
    .fold(RegisterSet::EMPTY, RegisterSet::with)
}

fn across_call(view: &FunctionView<'_, '_>, call: InstrIx, wanted: &Location) -> Step {
    let lent_from = match *wanted {
        Location::Register(register) => {
            // A register that calls need not keep is read after this one: then the compiler knows that
            // the callee keeps it (gcc's -fipa-ra), for what a call leaves there is nobody's value.
            return if register.meets(result_registers()) {
                Step::Define {
                    definition: Definition::Returned(call),
                    kills: true,
                }
            } else if register.meets(RegisterSet::FLAGS) {
                Step::Kill
            } else {
                Step::Pass
            };
        }
        // Other functions' writes to globals are found through the index of all accesses.
        Location::Static { .. } | Location::Thread { .. } => return Step::Pass,
        Location::Object {
            base: Base::Made(at, _),
            ..
        } if at == call => return Step::Kill,
        Location::Object { base, offset, width } => (base, offset, width),
        Location::Stack { offset, width } => (Base::Entry(Gpr::RSP), offset, width),
    };
    match lent_through(view, call, lent_from) {
        Some(definition) => Step::Define {
            definition,
            kills: false,
        },
        None => Step::Pass,
    }
}

/// Whether a call gets a pointer to an object that is wanted, as [`Definition::Lent`]. What a call is lent that the function
/// is left by, nothing of the function comes behind to ask for.
#[must_use]
pub fn lent_to(view: &FunctionView<'_, '_>, call: InstrIx, wanted: Location) -> Option<Definition> {
    match wanted {
        Location::Object { base, offset, width } if view.is_call(call) => {
            lent_through(view, call, (base, offset, width))
        }
        _ => None,
    }
}

/// How far a pointer leads when nothing says how large the object behind it is.
const UNKNOWN_SIZE: i64 = 64;

/// Whether a call gets a pointer to the object that the wanted bytes are in.
fn lent_through(view: &FunctionView<'_, '_>, call: InstrIx, wanted: (Base, i64, u32)) -> Option<Definition> {
    let (base, offset, width) = wanted;
    let state = view.state_before(call)?;
    let pointers = Gpr::ARGUMENTS
        .into_iter()
        .filter_map(|argument| match state.get(argument) {
            Value::Sum(pointed, at) if pointed == base && at <= offset => Some((argument, at)),
            _ => None,
        });
    // The pointer nearest below the bytes is the one to the object that they are in. Of equal ones the first
    // counts: the registers after the last argument still hold what the arguments were made from.
    let (argument, at) = pointers.min_by_key(|&(_, at)| Reverse(at))?;
    let distance = offset.checked_sub(at)?;
    let object = if base == Base::Entry(Gpr::RSP) {
        view.frame_object(call, at)
    } else {
        None
    };
    let within = object.map_or(distance < UNKNOWN_SIZE, |object| offset < object.end);
    within.then_some(Definition::Lent {
        call,
        argument,
        offset: distance,
        width,
    })
}
