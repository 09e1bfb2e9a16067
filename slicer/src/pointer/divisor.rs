//! The memory that a zero came from which a thread divided by.
//!
//! As with a pointer that led nowhere, who put it there is the first thing to ask. A number is not followed like a pointer: it is
//! moved in halves of registers and computed with, so definitions are gone through instead of values.

use std::collections::HashSet;

use failure::report::Position;
use failure::resolve::ResolvedFrame;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use program::code::{AccessKind, InstrIx};
use program::values::Gpr;
use program::{Pc, Program};

use super::located;
use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::dependence::reaching::{Definition, reaching};
use crate::dependence::uses::{Role, uses};
use crate::view::FunctionView;

/// Definitions that are looked at for one divisor.
const MOST: usize = 64;

/// The instructions that loaded what the divisor is computed from, and the calls that returned it, of a thread that divided.
pub(super) fn loads(failing: &ResolvedFrame, callers: &[ResolvedFrame], program: &Program<'_>) -> Vec<Pc> {
    let mut loads = Vec::new();
    let Some((mut view, at)) = located(program, failing).filter(|_| failing.position == Position::Exact)
    else {
        return loads;
    };
    let mut wanted = divisor(&view, at, &mut loads);
    let mut before = at;
    let mut callers = callers.iter();
    let mut left = MOST;
    while !wanted.is_empty() {
        let passed = go_back(&view, before, wanted, &mut left, &mut loads);
        let Some(caller) = callers.next().and_then(|caller| located(program, caller)) else {
            break;
        };
        (view, before) = caller;
        wanted = passed;
    }
    loads
}

/// What an instruction divides by; a load, if it is in memory that is not the frame's.
fn divisor(view: &FunctionView<'_, '_>, at: InstrIx, loads: &mut Vec<Pc>) -> Vec<Location> {
    let Some(instruction) = view.instruction(at) else {
        return Vec::new();
    };
    if !matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
        return Vec::new();
    }
    match instruction.op0_kind() {
        OpKind::Memory if loads_from_elsewhere(view, at) => {
            loads.extend(view.pc(at));
            Vec::new()
        }
        OpKind::Memory => in_frame(view, at),
        _ => vec![register(instruction.op0_register())],
    }
}

/// Goes back from what some places hold to the loads in a function; gives the arguments that it had it from.
fn go_back(
    view: &FunctionView<'_, '_>,
    before: InstrIx,
    wanted: Vec<Location>,
    left: &mut usize,
    loads: &mut Vec<Pc>,
) -> Vec<Location> {
    let mut passed = Vec::new();
    let mut pending: Vec<(InstrIx, Location)> = wanted.into_iter().map(|place| (before, place)).collect();
    let mut seen: HashSet<(InstrIx, Location)> = pending.iter().copied().collect();
    while let Some((before, place)) = pending.pop() {
        let reaching = reaching(view, before, place);
        let argument = |set: RegisterSet| set.as_gpr().is_some_and(|gpr| Gpr::ARGUMENTS.contains(&gpr));
        if reaching.from_entry
            && matches!(place, Location::Register(set) if argument(set))
            && !passed.contains(&place)
        {
            passed.push(place);
        }
        for definition in reaching.definitions {
            let (at, found) = match definition {
                Definition::Written(at) => (at, loads_from_elsewhere(view, at)),
                Definition::Returned(call) => (call, true),
                Definition::Thrown(_) | Definition::Lent { .. } => continue,
            };
            let load = view.pc(at).filter(|load| found && !loads.contains(load));
            loads.extend(load);
            if matches!(definition, Definition::Returned(_)) {
                continue;
            }
            for source in sources(view, at) {
                if *left > 0 && seen.insert((at, source)) {
                    *left -= 1;
                    pending.push((at, source));
                }
            }
        }
    }
    passed
}

/// What a number that an instruction makes is made of, but for what it loads.
fn sources(view: &FunctionView<'_, '_>, at: InstrIx) -> Vec<Location> {
    if !loads_from_elsewhere(view, at) {
        let all = uses(view, at, Role::Value).into_iter();
        return all.filter(is_own).collect();
    }
    let counted_on = |instruction: &&Instruction| {
        let own = RegisterSet::of(instruction.op0_register());
        instruction.op0_kind() == OpKind::Register && view.effects(at).reads.meets(own)
    };
    let instruction = view.instruction(at).filter(counted_on);
    instruction
        .map(|instruction| register(instruction.op0_register()))
        .into_iter()
        .collect()
}

fn is_own(place: &Location) -> bool {
    matches!(place, Location::Register(_) | Location::Stack { .. })
}

fn register(of: Register) -> Location {
    Location::Register(RegisterSet::of(of))
}

fn in_frame(view: &FunctionView<'_, '_>, at: InstrIx) -> Vec<Location> {
    let read = view.values.accesses(at).iter();
    let read = read.filter(|access| !access.implicit && access.kind != AccessKind::Write);
    read.filter_map(|access| Location::of(&access.place, access.width))
        .collect()
}

/// Whether an instruction reads memory that is not the function's frame.
fn loads_from_elsewhere(view: &FunctionView<'_, '_>, at: InstrIx) -> bool {
    let mut accesses = view.values.accesses(at).iter();
    accesses.any(|access| {
        !access.implicit && access.kind != AccessKind::Write && access.place.stack_offset().is_none()
    })
}
