//! From what a library starts a thread with to the first code of the program that the thread runs.

use std::collections::{BTreeSet, VecDeque};

use program::code::InstrIx;
use program::values::{Gpr, State, Value};
use program::{Attribution, FunctionRef, LinkAddr, Pc, is_library_path};

use super::look::{Look, Looked};
use super::names;

/// Library functions that are looked through on the way.
const MAX_FUNCTIONS: usize = 1024;
/// A function longer than that is no wrapper.
const MAX_WRAPPER: usize = 4000;

/// Whether a function holds code that the program's people wrote: it is theirs, or theirs was inlined.
pub(crate) fn is_own(look: &Look<'_, '_>, function: FunctionRef) -> bool {
    if !look.symbol(function).is_some_and(names::is_library) {
        return true;
    }
    let Some(looked) = look.at(function) else {
        return false;
    };
    looked.own_code(|| holds_own_code(look, &looked))
}

fn holds_own_code(look: &Look<'_, '_>, looked: &Looked<'_, '_>) -> bool {
    let instructions = &looked.flow.instructions;
    if instructions.len() > MAX_WRAPPER || !looked.module.has_debug_information() {
        return false;
    }
    let addrs = || instructions.iter().map(|instruction| LinkAddr(instruction.ip()));
    // Nearly all library code is nothing but that, which its files tell.
    let sources = looked.module.sources();
    sources.may_be_in_file(addrs(), |file| !is_library_path(file))
        && addrs().any(|addr| {
            let pc = Pc {
                module: looked.id.module,
                addr,
            };
            matches!(look.program.statement_at(pc), Attribution::Statement(_))
        })
}

/// The first function of the program itself that `entry` is or leads to, by calls and by addresses that
/// library code passes on. `None` when it calls a pointer that somebody else supplied.
pub(crate) fn first_own(look: &Look<'_, '_>, entry: FunctionRef) -> Option<FunctionRef> {
    let mut seen = BTreeSet::from([entry]);
    let mut queue = VecDeque::from([entry]);
    while let Some(function) = queue.pop_front() {
        if is_own(look, function) {
            return Some(function);
        }
        let looked = look.at(function)?;
        let passed = looked
            .addresses()
            .filter_map(|(ix, addr)| Some((ix, looked.function_starting_at(addr)?)));
        let mut next: Vec<(InstrIx, FunctionRef)> = looked.callees();
        next.extend(passed);
        next.sort_unstable();
        for (_, callee) in next {
            let leads_on = !look.symbol(callee).is_some_and(names::is_beside_the_point);
            if leads_on && seen.len() < MAX_FUNCTIONS && seen.insert(callee) {
                queue.push_back(callee);
            }
        }
    }
    None
}

/// The function whose address the caller passes at `call`: in a register, or in a slot that one points to.
pub(crate) fn passed(look: &Look<'_, '_>, at: &Looked<'_, '_>, call: InstrIx) -> Option<FunctionRef> {
    let state = at.before(call)?;
    Gpr::ARGUMENTS.iter().find_map(|&gpr| {
        let value = pointed_to(&state, state.get(gpr))?;
        at.function_starting_at(value)
            .filter(|&function| is_own(look, function))
    })
}

fn pointed_to(state: &State, value: Value) -> Option<LinkAddr> {
    let value = match value.stack_offset() {
        Some(offset) => state.slot(offset, 8)?,
        None => value,
    };
    match value {
        Value::Const(addr) => Some(LinkAddr(addr)),
        _ => None,
    }
}

/// The last function whose address is made before `call`: constructors that were inlined store it into
/// the object that the thread gets.
pub(crate) fn stored_before(look: &Look<'_, '_>, at: &Looked<'_, '_>, call: InstrIx) -> Option<FunctionRef> {
    let mut made = at.addresses().rev().filter(|(ix, _)| *ix < call);
    made.find_map(|(_, addr)| {
        let function = at.function_starting_at(addr)?;
        first_own(look, function)
    })
}
