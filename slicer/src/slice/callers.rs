//! Who made a function run, and with which arguments.

use program::code::InstrIx;
use program::values::{Base, Gpr, Place};
use program::{Attribution, FunctionRef, Pc};

use super::around::passed_to_thread;
use super::context::{Context, Site};
use super::pointers::PointerUse;
use super::queue::{Point, Task};
use super::{Here, Slice, Why};
use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::dependence::uses::Role;
use crate::view::FunctionView;

/// Callers and creators that are followed from one function; a slice of a function that thousands call says
/// nothing more by naming them all.
const MAX_CALLERS: usize = 64;

impl Slice<'_, '_> {
    /// Who called a function: the call on the stack if it is known, else everybody who may.
    pub(super) fn find_calls(&mut self, here: Here, function: FunctionRef, context: Context) {
        for caller in self.call_sites(function, context) {
            self.push_found(here, Task::Visit(caller.point, Role::Executed), caller.why());
        }
    }

    /// What callers passed.
    pub(super) fn find_arguments(
        &mut self,
        here: Here,
        function: FunctionRef,
        context: Context,
        location: Location,
    ) {
        for caller in self.call_sites(function, context) {
            let Some(view) = self.view(caller.point.function) else {
                continue;
            };
            let passed = match caller.how {
                How::Called => outside(&view, caller.point.ix, location),
                How::Started(argument) => passed_to_thread(&view, caller.point.ix, argument, location),
                // Whoever calls it passes the arguments.
                How::HandedOut => None,
            };
            if let Some(passed) = passed {
                // The way here was counted: what prepared the argument is as far away as the call itself.
                let paid = Some(caller.why());
                self.want(Here { paid, ..here }, &view, caller.point, passed);
            }
        }
    }

    fn call_sites(&mut self, function: FunctionRef, context: Context) -> Vec<Caller> {
        let site = self.contexts.site(context);
        if let Some(site) = site.filter(|site| self.program.is_own(site.function)) {
            return vec![Caller::on_stack(site)];
        }
        // Between a thread's first function and the program's own there may be a library's code: the call in
        // it says nothing, the creation of the thread does.
        let started = self.around.creators_of(function).into_iter();
        let mut found: Vec<(Pc, How)> = started
            .map(|(pc, argument)| (pc, How::Started(argument)))
            .collect();
        let creations = found.iter().map(|(pc, _)| self.program.statement_at(*pc));
        self.creations.extend(creations.filter_map(|at| match at {
            Attribution::Statement(statement) => Some(statement.key()),
            Attribution::CompilerMade | Attribution::Library => None,
        }));
        if let Some(site) = site.filter(|_| found.is_empty()) {
            return vec![Caller::on_stack(site)];
        }
        if site.is_none() {
            let calls = self.program.callers_of(function).into_iter();
            found.extend(calls.map(|pc| (pc, How::Called)));
            if found.is_empty() {
                let uses = self.pointer_uses(function).into_iter();
                found.extend(uses.map(|(pc, done)| match done {
                    PointerUse::Call => (pc, How::Called),
                    PointerUse::HandedOut => (pc, How::HandedOut),
                }));
            }
        }
        found.retain(|(pc, _)| self.around.has_run(*pc));
        let mut callers = Vec::new();
        for (pc, how) in found.into_iter().take(MAX_CALLERS) {
            let Some(function) = self.program.function_at(pc) else {
                continue;
            };
            let Some(view) = self.view(function) else { continue };
            let Some(ix) = view.flow.at(pc.addr) else { continue };
            let context = Context::ANY;
            callers.push(Caller {
                point: Point {
                    function,
                    context,
                    ix,
                },
                how,
            });
        }
        callers
    }
}

/// A place that made a function run.
struct Caller {
    point: Point,
    how: How,
}

enum How {
    Called,
    /// By whoever got its address there.
    HandedOut,
    /// As a thread; the register holds what it gets as its argument.
    Started(Option<Gpr>),
}

impl Caller {
    fn on_stack(site: Site) -> Self {
        let point = Point {
            function: site.function,
            context: site.context,
            ix: site.call,
        };
        Self {
            point,
            how: How::Called,
        }
    }

    fn why(&self) -> Why {
        match self.how {
            How::Called | How::HandedOut => Why::Call,
            How::Started(_) => Why::Thread,
        }
    }
}

/// A callee's location at its entry, as the caller names it before the call.
fn outside(view: &FunctionView<'_, '_>, call: InstrIx, location: Location) -> Option<Location> {
    match location {
        Location::Register(register) => Some(location).filter(|_| !register.meets(RegisterSet::FLAGS)),
        // The call pushed the return address: the callee's entry stack pointer is 8 below the caller's.
        Location::Stack { offset, width } if offset >= 8 => {
            let depth = view.values.stack_depth(call)?;
            let pushed = if view.is_tail_call(call) { 0 } else { 8 };
            Some(Location::Stack {
                offset: depth.checked_sub(pushed)?.checked_add(offset)?,
                width,
            })
        }
        Location::Stack { .. } => None,
        Location::Object {
            base: Base::Entry(gpr),
            offset,
            width,
        } => {
            let state = view.state_before(call)?;
            let place = Place::at(state.get(gpr).plus(offset));
            Location::of(&place, Some(width))
        }
        Location::Object { .. } => None,
        Location::Static { .. } | Location::Thread { .. } => Some(location),
    }
}
