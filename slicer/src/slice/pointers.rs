//! Who runs a function that nobody calls by name: one that stands in a table, or is handed on as an argument.
//!
//! The address is followed from where it is taken: to calls through a pointer that was read from the table, and
//! through arguments to the call that uses one. Where it ends in memory that nobody can follow (a callback that is
//! registered, an object with virtual functions), the place that handed it out is what is known for certain: without it,
//! the function had not run. The calls that can have made it run are found by the slot that they go through (`slots`).

use std::collections::BTreeSet;

use iced_x86::OpKind;
use program::code::{InstrIx, Target};
use program::values::{Base, Gpr, Value};
use program::{FunctionRef, LinkAddr, Pc};

use super::Slice;
use crate::cfg::Direction;
use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::dependence::reaching::{Definition, reaching};
use crate::view::FunctionView;

/// Functions that are looked into for the call that uses an argument.
const MOST_PASSED: usize = 64;

/// How a place has to do with a function that it does not name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PointerUse {
    /// Calls it, or may: through a pointer.
    Call,
    /// Hands its address to whoever calls it.
    HandedOut,
}

impl<'p, 'a> Slice<'p, 'a> {
    /// The places through which a function runs that nobody calls by name: those that name it or its table, and then those
    /// that go through the slot it stands in, nearest first.
    pub(super) fn pointer_uses(&mut self, function: FunctionRef) -> Vec<(Pc, PointerUse)> {
        let mut found = BTreeSet::new();
        let mut lost = Vec::new();
        for taken in self.around.taken_at(function) {
            let Some(user) = self.program.function_at(taken) else {
                continue;
            };
            let Some(view) = self.view(user) else { continue };
            let Some(ix) = view.flow.at(taken.addr) else {
                continue;
            };
            let mut calls = self.calls_of_taken(&view, ix, function);
            calls.extend(self.calls_of_passed(&view, function));
            if calls.is_empty() {
                found.insert((taken, PointerUse::HandedOut));
                lost.push(taken);
            }
            found.extend(calls.into_iter().map(|call| (call, PointerUse::Call)));
        }
        let through = self.calls_through_slots(function, &lost).into_iter();
        let through = through.map(|call| (call, PointerUse::Call));
        found.into_iter().chain(through).collect()
    }

    /// Calls, in the function that takes the address, through a pointer that is the address, or may have been read
    /// from the table that it stands in.
    fn calls_of_taken(&self, view: &FunctionView<'p, 'a>, taken: InstrIx, function: FunctionRef) -> Vec<Pc> {
        let entry = self.entry(function);
        let makes_it = makes(view, taken, entry);
        let Some(from) = view.flow.block_of(taken) else {
            return Vec::new();
        };
        let later = view.cfg().reach([from.0 as usize], Direction::Forward, |_| false);
        let calls = view.flow.calls().filter(|(ix, target, _)| {
            let block = view.flow.block_of(*ix).map(|block| block.0 as usize);
            *target == Target::Indirect
                && block.is_some_and(|block| later.get(block) == Some(&true))
                && match target_of(view, *ix) {
                    Pointer::Value(Value::Const(addr)) => Some(LinkAddr(addr)) == entry,
                    Pointer::Value(Value::Sum(Base::Entry(_), _)) => false,
                    Pointer::Value(_) => !makes_it || comes_from(view, *ix, taken),
                    Pointer::ReadBy(load) => !makes_it && may_read_table(view, load),
                }
        });
        calls.filter_map(|(ix, ..)| view.pc(ix)).collect()
    }

    /// Calls through an argument, in functions of the program that get the address as one.
    fn calls_of_passed(&mut self, view: &FunctionView<'p, 'a>, function: FunctionRef) -> Vec<Pc> {
        let Some(entry) = self.entry(function) else {
            return Vec::new();
        };
        let is_it = |value: Value| value == Value::Const(entry.0);
        let mut queue = arguments(view, is_it);
        let mut seen: BTreeSet<(FunctionRef, Gpr)> = queue.iter().copied().collect();
        let mut calls = Vec::new();
        while let Some((callee, argument)) = queue.pop() {
            if seen.len() > MOST_PASSED || !self.program.is_own(callee) {
                continue;
            }
            let Some(inner) = self.view(callee) else { continue };
            let is_it = |value: Value| value == Value::Sum(Base::Entry(argument), 0);
            let indirect = inner
                .flow
                .calls()
                .filter(|(ix, target, _)| *target == Target::Indirect && target_of(&inner, *ix).is(is_it));
            calls.extend(indirect.filter_map(|(ix, ..)| inner.pc(ix)));
            let further = arguments(&inner, is_it).into_iter();
            queue.extend(further.filter(|&passed| seen.insert(passed)));
        }
        calls
    }

    pub(super) fn entry(&self, function: FunctionRef) -> Option<LinkAddr> {
        let module = self.program.module(function.module)?;
        Some(module.code().functions().get(function.function)?.entry)
    }
}

/// The functions that get such a value as an argument, and which one.
fn arguments(view: &FunctionView<'_, '_>, is_it: impl Fn(Value) -> bool) -> Vec<(FunctionRef, Gpr)> {
    let mut found = Vec::new();
    for (ix, target, _) in view.flow.calls() {
        let (Target::Function(callee), Some(state)) = (target, view.state_before(ix)) else {
            continue;
        };
        let callee = FunctionRef {
            function: callee,
            ..view.id
        };
        let passed = Gpr::ARGUMENTS.iter().filter(|&&gpr| is_it(state.get(gpr)));
        found.extend(passed.map(|&gpr| (callee, gpr)));
    }
    found
}

/// What a call goes through.
pub(super) enum Pointer {
    /// A value that is known, or the same as another.
    Value(Value),
    /// What an instruction reads from memory.
    ReadBy(InstrIx),
}

impl Pointer {
    fn is(&self, is_it: impl Fn(Value) -> bool) -> bool {
        matches!(self, Self::Value(value) if is_it(*value))
    }
}

/// What a call through a register or memory operand calls.
pub(super) fn target_of(view: &FunctionView<'_, '_>, call: InstrIx) -> Pointer {
    let operand = view
        .instruction(call)
        .map(|instruction| (instruction.op0_kind(), instruction.op0_register()));
    let Some((OpKind::Register, register)) = operand else {
        return Pointer::ReadBy(call);
    };
    let state = Gpr::of(register).zip(view.state_before(call));
    match state.map_or(Value::Unknown, |(gpr, state)| state.get(gpr)) {
        Value::Sum(Base::Made(load, _), 0) if view.values.place(load).is_some() => Pointer::ReadBy(load),
        value => Pointer::Value(value),
    }
}

/// Whether the register that a call goes through can hold what an instruction made.
fn comes_from(view: &FunctionView<'_, '_>, call: InstrIx, made: InstrIx) -> bool {
    let register = view
        .instruction(call)
        .filter(|instruction| instruction.op0_kind() == OpKind::Register)
        .and_then(|instruction| Gpr::of(instruction.op0_register()));
    register.is_some_and(|gpr| {
        let location = Location::Register(RegisterSet::gpr(gpr));
        let definitions = reaching(view, call, location).definitions;
        definitions
            .iter()
            .any(|definition| matches!(definition, Definition::Written(ix) if *ix == made))
    })
}

/// Whether an instruction makes the function's own address, rather than that of a table.
fn makes(view: &FunctionView<'_, '_>, ix: InstrIx, entry: Option<LinkAddr>) -> bool {
    named_address(view, ix) == entry && entry.is_some()
}

/// The address that an instruction names.
pub(super) fn named_address(view: &FunctionView<'_, '_>, ix: InstrIx) -> Option<LinkAddr> {
    let instruction = view.instruction(ix)?;
    let named = if instruction.is_ip_rel_memory_operand() {
        Some(instruction.ip_rel_memory_address())
    } else {
        (0..instruction.op_count()).find_map(|operand| instruction.try_immediate(operand).ok())
    };
    named.map(LinkAddr)
}

/// Whether a load can be from a table of functions: not from the frame, nor through an object's own pointer.
fn may_read_table(view: &FunctionView<'_, '_>, load: InstrIx) -> bool {
    view.values.place(load).is_some_and(|place| {
        let elsewhere = place.stack_offset().is_some() || place.thread_local;
        let table = place
            .static_addr()
            .is_none_or(|addr| !view.module().is_variable(addr));
        !elsewhere && table
    })
}
