//! What a thread reaches through its argument.

use std::collections::BTreeSet;

use program::values::{Base, Gpr, Value};
use program::{FunctionRef, Pc, Program};
use slicer::threads::ThreadModel;
use slicer::view::FunctionView;

/// How many calls and loads are gone back.
const DEPTH: usize = 5;
/// A function with more callers is a tool: its parameter is many things.
const MAX_CALLERS: usize = 8;

/// The start routines that an instruction's memory was given to, as their argument or behind it: through calls, and through
/// memory that is behind the argument.
#[must_use]
pub fn given_to<'p, 'a>(
    access: Pc,
    program: &'p Program<'a>,
    threads: &ThreadModel<'p, 'a>,
) -> BTreeSet<FunctionRef> {
    let mut way = Way {
        program,
        threads,
        found: BTreeSet::new(),
    };
    way.through(access, DEPTH);
    way.found
}

struct Way<'w, 'p, 'a> {
    program: &'p Program<'a>,
    threads: &'w ThreadModel<'p, 'a>,
    found: BTreeSet<FunctionRef>,
}

impl Way<'_, '_, '_> {
    /// Goes back from the memory that an instruction accesses.
    fn through(&mut self, access: Pc, depth: usize) -> Option<()> {
        let function = self.program.function_at(access)?;
        let view = FunctionView::new(self.program.module(access.module)?, function);
        let at = view.flow.at(access.addr)?;
        let places = view.values.accesses(at).iter().map(|access| access.place);
        let bases: Vec<Value> = places
            .filter(|place| !place.thread_local)
            .map(|place| place.base)
            .collect();
        bases.into_iter().for_each(|base| self.from(&view, base, depth));
        Some(())
    }

    fn from(&mut self, view: &FunctionView<'_, '_>, value: Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Sum(Base::Entry(register), _) if Gpr::ARGUMENTS.contains(&register) => {
                self.passed(view.id, register, depth);
            }
            Value::Sum(Base::Made(maker, _), _) if !view.is_call(maker) => {
                view.pc(maker).and_then(|load| self.through(load, depth));
            }
            _ => {}
        }
    }

    /// Goes back from a parameter.
    fn passed(&mut self, function: FunctionRef, register: Gpr, depth: usize) {
        let creators = self.threads.creators_of(function);
        if register == Gpr::RDI && creators.iter().any(|creation| creation.entry == Some(function)) {
            self.found.insert(function);
        }
        let callers = self.program.callers_of(function);
        for call in callers.into_iter().take(MAX_CALLERS) {
            let look = || {
                let caller = self.program.function_at(call)?;
                let view = FunctionView::new(self.program.module(call.module)?, caller);
                let at = view.flow.at(call.addr)?;
                let value = view.state_before(at)?.get(register);
                Some((view, value))
            };
            if let Some((view, value)) = look() {
                self.from(&view, value, depth);
            }
        }
    }
}
