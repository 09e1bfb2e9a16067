//! Across calls: arguments, results, callers, and the threads that a function starts in.

use program::code::{InstrIx, Target};
use program::values::{Gpr, Place};
use program::{FunctionRef, Pc};

use super::around::passed_to_thread;
use super::context::{Context, Site};
use super::queue::{Point, Task};
use super::{Here, Slice, Why};
use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::dependence::reaching::{Definition, reaching};
use crate::dependence::summary::{ResultOf, Summary};
use crate::dependence::uses::Role;
use crate::view::FunctionView;

/// Who is called, as far as the slice cares.
enum Callee<'a> {
    /// A function of the program itself.
    Own(FunctionRef),
    /// A library function, by its symbol where it has one.
    Library(Option<&'a str>),
    /// Whoever a register or memory operand points to.
    Pointer,
}

/// Callers and creators that are followed from one function; a slice of a function that thousands call says
/// nothing more by naming them all.
const MAX_CALLERS: usize = 64;

impl<'p, 'a> Slice<'p, 'a> {
    fn callee(&self, view: &FunctionView<'p, 'a>, call: InstrIx) -> Callee<'a> {
        match view.call_target(call) {
            Some(Target::Function(function)) => {
                let id = FunctionRef {
                    module: view.id.module,
                    function,
                };
                self.own_or_library(id)
            }
            Some(Target::Import(import)) => {
                let name = view.module().elf().import_name(import);
                match name.and_then(|name| self.program.exported(name)) {
                    Some(function) => self.own_or_library(function),
                    None => Callee::Library(name),
                }
            }
            Some(Target::Unknown(_)) | None => Callee::Library(None),
            Some(Target::Indirect) => Callee::Pointer,
        }
    }

    fn own_or_library(&self, id: FunctionRef) -> Callee<'a> {
        if self.program.is_own(id) {
            Callee::Own(id)
        } else {
            Callee::Library(self.program.symbol(id))
        }
    }

    /// What a call that is itself of interest (the failing one) depends on.
    pub(super) fn inputs_of_call(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        role: Role,
    ) {
        if role == Role::Executed {
            return;
        }
        if let Some(Target::Indirect) = view.call_target(point.ix) {
            self.want_target(here, view, point);
            if role == Role::Address {
                return;
            }
        }
        for argument in self.arguments(view, point.ix) {
            self.want(here, view, point, Location::Register(argument));
        }
        // A call that waits for a lock depends on whoever took it.
        let lock = view.library_summary(point.ix).filter(|summary| summary.locks);
        let place = lock
            .and_then(|_| view.state_before(point.ix))
            .map(|state| Place::at(state.get(Gpr::RDI)));
        if let Some(held) = place.and_then(|place| Location::of(&place, Some(8))) {
            self.want(here, view, point, held);
        }
    }

    fn want_target(&mut self, here: Here, view: &FunctionView<'p, 'a>, point: Point) {
        for location in crate::dependence::uses::uses(view, point.ix, Role::Everything) {
            self.want(here, view, point, location);
        }
    }

    /// The registers in which a call passes arguments.
    fn arguments(&self, view: &FunctionView<'p, 'a>, call: InstrIx) -> Vec<RegisterSet> {
        let count = match self.callee(view, call) {
            Callee::Own(id) => self.program.parameter_count(id),
            Callee::Library(Some(name)) => Summary::of(name).arguments.map(usize::from),
            Callee::Library(None) | Callee::Pointer => None,
        };
        match count {
            Some(count) => Gpr::ARGUMENTS
                .iter()
                .take(count)
                .map(|&gpr| RegisterSet::gpr(gpr))
                .collect(),
            None => prepared_arguments(view, call),
        }
    }

    /// A call's result: from the callee's returns if it is ours, from its arguments if it is not.
    pub(super) fn result_of_call(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        location: Location,
    ) {
        match self.callee(view, point.ix) {
            Callee::Own(callee) if !self.contexts.passes_through(point.context, callee) => {
                self.want_at_returns(here, point, callee, location);
            }
            // A recursive call's result: the function's returns are in the slice already.
            Callee::Own(_) => {}
            Callee::Library(name) => {
                let summary = name.map_or(Summary::UNKNOWN, Summary::of);
                if summary.result == ResultOf::Arguments {
                    for argument in self.arguments(view, point.ix) {
                        self.want(here, view, point, Location::Register(argument));
                    }
                }
            }
            Callee::Pointer => {
                self.want_target(here, view, point);
                for argument in prepared_arguments(view, point.ix) {
                    self.want(here, view, point, Location::Register(argument));
                }
            }
        }
    }

    fn want_at_returns(&mut self, here: Here, call: Point, callee: FunctionRef, location: Location) {
        let site = Site {
            function: call.function,
            call: call.ix,
            context: call.context,
        };
        let context = self.contexts.enter(site);
        let Some(inner) = self.view(callee) else { return };
        let here = Here {
            hops: here.hops + 1,
            ..here
        };
        for ix in inner.leaving() {
            let point = Point {
                function: callee,
                context,
                ix,
            };
            match inner.call_target(ix) {
                // What a tail call returns, this function returns.
                Some(_) if matches!(location, Location::Register(_)) => {
                    self.push_result(here, &inner, point, location);
                }
                _ => self.want(here, &inner, point, location),
            }
        }
    }

    /// A call got a pointer to bytes that are wanted: the slice goes through it if it may have written them.
    pub(super) fn lent_to_call(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        argument: Gpr,
        offset: i64,
        width: u32,
    ) {
        let number = Gpr::ARGUMENTS
            .iter()
            .position(|&gpr| gpr == argument)
            .unwrap_or(usize::MAX);
        match self.callee(view, point.ix) {
            Callee::Own(callee) => {
                let inside = Location::Object {
                    base: program::values::Base::Entry(argument),
                    offset,
                    width,
                };
                if self.writes_back(callee, inside) && !self.contexts.passes_through(point.context, callee) {
                    self.push_visit(here, view, point, Role::Executed, Why::Data);
                    self.want_at_returns(here, point, callee, inside);
                }
            }
            Callee::Library(name) => {
                if name.map_or(Summary::UNKNOWN, Summary::of).writes_through(number) {
                    self.push_visit(here, view, point, Role::Everything, Why::Data);
                }
            }
            Callee::Pointer => self.push_visit(here, view, point, Role::Everything, Why::Data),
        }
    }

    /// Whether a function writes (or lends further) bytes behind one of its arguments.
    fn writes_back(&mut self, callee: FunctionRef, location: Location) -> bool {
        let Some(inner) = self.view(callee) else {
            return false;
        };
        inner.leaving().into_iter().any(|ix| {
            reaching(&inner, ix, location)
                .definitions
                .iter()
                .any(|definition| !matches!(definition, Definition::Returned(_)))
        })
    }

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
            };
            if let Some(passed) = passed {
                self.want_found(here, &view, caller.point, passed, caller.why());
            }
        }
    }

    /// Follows an argument in its caller; the way there was paid for already, so the statement that prepared
    /// it is as far away as the call itself.
    fn want_found(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        passed: Location,
        why: Why,
    ) {
        if !self.wanted.insert((point, passed)) {
            return;
        }
        let found = reaching(view, point.ix, passed);
        for definition in found.definitions {
            let task = match definition {
                Definition::Written(ix) => Task::Visit(Point { ix, ..point }, Role::Value),
                Definition::Returned(ix) => Task::Result(Point { ix, ..point }, passed),
                Definition::Lent {
                    call,
                    argument,
                    offset,
                    width,
                } => {
                    let point = Point { ix: call, ..point };
                    self.lent_to_call(here, view, point, argument, offset, width);
                    continue;
                }
            };
            self.push_found(here, task, why);
        }
        if let Location::Static { addr, width } = passed {
            self.push_later(here, Task::Writers(point.function, addr, width), Why::Data);
        } else if found.from_entry {
            self.push_later(here, Task::Argument(point.function, point.context, passed), why);
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
        if let Some(site) = site.filter(|_| found.is_empty()) {
            return vec![Caller::on_stack(site)];
        }
        if site.is_none() {
            let calls = self.program.callers_of(function).into_iter();
            found.extend(calls.map(|pc| (pc, How::Called)));
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
            How::Called => Why::Call,
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
            base: program::values::Base::Entry(gpr),
            offset,
            width,
        } => {
            let state = view.state_before(call)?;
            let place = Place::at(state.get(gpr).plus(offset));
            Location::of(&place, Some(width))
        }
        Location::Object { .. } => None,
        Location::Static { .. } => Some(location),
    }
}

/// The argument registers that the code before a call sets up, when nothing tells how many it takes.
fn prepared_arguments(view: &FunctionView<'_, '_>, call: InstrIx) -> Vec<RegisterSet> {
    let Some(block) = view
        .flow
        .block_of(call)
        .and_then(|id| view.flow.blocks.get(id.0 as usize))
    else {
        return Vec::new();
    };
    let written = (block.instrs.start..call.0)
        .map(|ix| view.effects(InstrIx(ix)).writes)
        .fold(RegisterSet::EMPTY, RegisterSet::with);
    Gpr::ARGUMENTS
        .iter()
        .map(|&gpr| RegisterSet::gpr(gpr))
        .take_while(|&set| written.meets(set))
        .collect()
}
