//! Where a parameter or a result comes from: callers, creators of a thread, the allocation.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use iced_x86::Register;
use program::values::{Base, Gpr, Value};
use program::{FunctionRef, LinkAddr, Module, ModuleId, Pc, Program};
use slicer::threads::ThreadModel;
use slicer::view::FunctionView;

use super::Giver;
use super::point::Points;
use crate::watcher::{Expression, Probe};

/// How many calls are gone back.
const DEPTH: usize = 4;
/// A function with more callers is a tool: its parameter is many things.
const MAX_CALLERS: usize = 8;
/// Probes cost the target time at each place.
const MAX_PROBES: usize = 12;

/// Traces parameters back.
pub(super) struct Origins<'o, 'p, 'a> {
    program: &'p Program<'a>,
    threads: &'o ThreadModel<'p, 'a>,
    points: &'o Points<'p, 'a>,
    /// Functions that were looked at: the sites of a plan have callers in common, and a look costs.
    views: RefCell<BTreeMap<FunctionRef, Rc<FunctionView<'p, 'a>>>>,
}

/// What was found on the way back.
#[derive(Default)]
pub(super) struct Found {
    /// Places in the code, the earliest first.
    pub(super) probes: Vec<Probe>,
    /// Addresses that never change, for some of the callers.
    pub(super) fixed: Vec<(ModuleId, LinkAddr)>,
    /// Somebody passes something that is neither.
    pub(super) others: bool,
    /// Where what is passed on comes from.
    pub(super) givers: Vec<Giver>,
}

impl<'o, 'p, 'a> Origins<'o, 'p, 'a> {
    pub(super) fn new(
        program: &'p Program<'a>,
        threads: &'o ThreadModel<'p, 'a>,
        points: &'o Points<'p, 'a>,
    ) -> Self {
        Self {
            program,
            threads,
            points,
            views: RefCell::default(),
        }
    }

    fn view(&self, module: &'p Module<'a>, function: FunctionRef) -> Rc<FunctionView<'p, 'a>> {
        let known = self.views.borrow().get(&function).map(Rc::clone);
        known.unwrap_or_else(|| {
            let view = Rc::new(FunctionView::new(module, function));
            self.views.borrow_mut().insert(function, Rc::clone(&view));
            view
        })
    }

    /// Where `register + offset` at the entry of the function around `access` is known.
    pub(super) fn of_argument(&self, access: Pc, register: Gpr, offset: i64) -> Found {
        let mut found = Found::default();
        if let Some(function) = self.program.function_at(access) {
            self.trace(function, register, offset, DEPTH, &mut found);
        }
        found.probes.truncate(MAX_PROBES);
        found
    }

    /// What gave out the pointer behind which an instruction accesses memory, in whichever function on the way to it that was.
    pub(super) fn givers(&self, access: Pc) -> Vec<Giver> {
        let mut found = Found::default();
        let look = || {
            let function = self.program.function_at(access)?;
            let view = self.view(self.program.module(access.module)?, function);
            let at = view.flow.at(access.addr)?;
            Some((view, at))
        };
        if let Some((view, at)) = look() {
            let places = view.values.accesses(at).iter().map(|access| access.place);
            for place in places.filter(|place| !place.thread_local) {
                self.is_followed(&view, place.base, DEPTH, &mut found);
            }
        }
        found.givers
    }

    /// Where the frame of the function around `access` is known, of which an offset is watched.
    pub(super) fn of_frame(&self, access: Pc, offset: i64) -> Option<Probe> {
        let function = self.program.function_at(access)?;
        let view = self.view(self.program.module(access.module)?, function);
        self.points.in_frame(&view, offset)
    }

    /// Where what a call returns was allocated, plus an offset.
    pub(super) fn of_result(&self, call: Pc, offset: i64) -> Vec<Probe> {
        let mut probes = Vec::new();
        self.allocated(call, offset, DEPTH, &mut probes);
        probes.truncate(MAX_PROBES);
        probes
    }

    /// Goes into whoever is called, on all ways that lead to what it returns, down to the calls that allocate it.
    fn allocated(&self, call: Pc, offset: i64, depth: usize, probes: &mut Vec<Probe>) {
        if self.points.is_allocation(call) {
            return probes.extend(self.points.after_call(call, offset));
        }
        let Some(depth) = depth.checked_sub(1) else { return };
        let look = |callee: FunctionRef| {
            // What a library allocates from within, it allocates for everybody.
            let module = self
                .program
                .module(callee.module)
                .filter(|module| !module.is_library())?;
            let view = self.view(module, callee);
            let constants = |slot| module.constant_pointer(slot);
            let makers = view.values.result_makers(&view.flow, &constants);
            Some((view, makers))
        };
        let Some((view, makers)) = self.points.callee(call).and_then(look) else {
            return probes.extend(self.points.after_call(call, offset));
        };
        let calls = makers.iter().filter(|maker| view.is_call(maker.at));
        calls
            .filter_map(|maker| view.pc(maker.at))
            .for_each(|call| self.allocated(call, offset, depth, probes));
    }

    fn trace(&self, function: FunctionRef, register: Gpr, offset: i64, depth: usize, found: &mut Found) {
        let mut sources: Vec<(Pc, Gpr)> = Vec::new();
        if register == Gpr::RDI {
            let creators = self.threads.creators_of(function).into_iter();
            let direct = creators.filter(|creation| creation.entry == Some(function));
            sources.extend(direct.filter_map(|creation| Some((creation.at, creation.argument?))));
        }
        let creations = sources.len();
        let callers = self.program.callers_of(function);
        if callers.len() <= MAX_CALLERS {
            sources.extend(callers.into_iter().map(|call| (call, register)));
        }
        found.others |= sources.is_empty();
        for (number, &(call, passed)) in sources.iter().enumerate() {
            self.source(call, passed, offset, depth, found);
            if number < creations {
                let expression = expression(passed, offset);
                found
                    .probes
                    .extend(expression.and_then(|it| self.points.at(call, it, true)));
            }
        }
        let entry = self.program.module(function.module).and_then(|module| {
            let entry = module.code().functions().get(function.function)?.entry;
            let at = Pc {
                module: function.module,
                addr: entry,
            };
            self.points.at(at, expression(register, offset)?, true)
        });
        found.probes.extend(entry);
    }

    /// What a call passes in a register.
    fn source(&self, call: Pc, passed: Gpr, offset: i64, depth: usize, found: &mut Found) {
        let look = || {
            let function = self.program.function_at(call)?;
            let view = self.view(self.program.module(call.module)?, function);
            let at = view.flow.at(call.addr)?;
            let value = view.state_before(at)?.get(passed).plus(offset);
            Some((view, at, value))
        };
        let Some((view, at, value)) = look() else {
            found.others = true;
            return;
        };
        if let Value::Const(addr @ 1..) = value {
            found.fixed.push((call.module, LinkAddr(addr)));
        } else if !self.is_followed(&view, value, depth, found) {
            found.others = true;
            let constants = |slot| view.module().constant_pointer(slot);
            for maker in view.values.likely_makers(&view.flow, at, passed, &constants) {
                self.is_followed(&view, maker.value.plus(offset), depth, found);
            }
        }
    }

    /// Follows a value to where it comes from, if that is a call, a parameter of the function, or what it shares of its
    /// frame.
    fn is_followed(
        &self,
        view: &FunctionView<'p, 'a>,
        value: Value,
        depth: usize,
        found: &mut Found,
    ) -> bool {
        match value {
            Value::Sum(Base::Made(maker, Gpr::RAX), offset) if view.is_call(maker) => {
                found.others = true;
                if let Some(call) = view.pc(maker) {
                    found.givers.push(Giver::Call(call));
                    self.allocated(call, offset, depth, &mut found.probes);
                }
            }
            Value::Sum(Base::Entry(register), offset) if Gpr::ARGUMENTS.contains(&register) && depth > 0 => {
                self.trace(view.id, register, offset, depth - 1, found);
            }
            Value::Sum(Base::Made(maker, _), _) => {
                found.givers.extend(view.pc(maker).map(Giver::Load));
                return false;
            }
            _ => {
                let shared = |offset: &i64| self.threads.shared_frame(view).contains(*offset);
                let Some(offset) = value.stack_offset().filter(shared) else {
                    return false;
                };
                found.others = true;
                found.probes.extend(self.points.in_frame(view, offset));
            }
        }
        true
    }
}

fn expression(register: Gpr, offset: i64) -> Option<Expression> {
    const WHOLE: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    Some(Expression {
        base: Some(*WHOLE.get(register.index())?),
        index: None,
        disp: offset,
    })
}
