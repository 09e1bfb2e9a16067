//! Into calls: their arguments, their results, and what they write through pointers.

use program::FunctionRef;
use program::code::{InstrIx, Target};
use program::values::{Base, Gpr, Place, Value};

use super::context::Site;
use super::queue::{Point, Task};
use super::{Here, Slice, Why};
use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::dependence::reaching::{Definition, lent_to, reaching};
use crate::dependence::summary::{ResultOf, Summary};
use crate::dependence::uses::Role;
use crate::view::FunctionView;

/// Calls that functions are left by and through which lent bytes are followed, before they are taken to be written.
const MOST_CALLS: u32 = 4;

/// Registers in which floating-point numbers are passed, the first of which returns one.
const FLOATS: u32 = 8;
const FLOAT: RegisterSet = RegisterSet::vector(0);

/// Who is called, as far as the slice cares.
pub(super) enum Callee<'a> {
    /// A function of the program itself.
    Own(FunctionRef),
    /// A library function, by its symbol where it has one.
    Library(Option<&'a str>),
    /// Whoever a register or memory operand points to.
    Pointer,
}

impl<'p, 'a> Slice<'p, 'a> {
    pub(super) fn callee(&self, view: &FunctionView<'p, 'a>, call: InstrIx) -> Callee<'a> {
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
        self.want_passed(here, view, point);
    }

    /// What a library reads for a call: the value that is loaded, and the lock that is waited for, which depends on
    /// whoever took it.
    fn want_passed(&mut self, here: Here, view: &FunctionView<'p, 'a>, point: Point) {
        let passed = self.library.accesses(view, point.ix);
        let Some(state) = Some(&passed)
            .filter(|passed| !passed.is_empty())
            .and_then(|_| view.state_before(point.ix))
        else {
            return;
        };
        for passed in passed.iter().filter(|passed| passed.reads()) {
            let place = Place::at(state.get(passed.argument).plus(passed.offset));
            if let Some(read) = Location::of(&place, Some(passed.width)) {
                self.want(here, view, point, read);
            }
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
                    let mut arguments = self.arguments(view, point.ix);
                    if location == Location::Register(FLOAT) {
                        arguments.extend(prepared_floats(view, point.ix));
                    }
                    for argument in arguments {
                        self.want(here, view, point, Location::Register(argument));
                    }
                    self.want_passed(here, view, point);
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

    /// Whether a call leaves a register alone in which results may come back: compilers use such registers
    /// across calls of functions that they know not to touch them.
    pub(super) fn is_kept_by_call(
        &mut self,
        view: &FunctionView<'p, 'a>,
        call: InstrIx,
        location: Location,
    ) -> bool {
        let Callee::Own(callee) = self.callee(view, call) else {
            return false;
        };
        let Some(inner) = self.view(callee) else {
            return false;
        };
        let leaving = inner.leaving();
        !leaving.is_empty()
            && leaving.into_iter().all(|ix| {
                let found = reaching(&inner, ix, location);
                !inner.is_call(ix) && found.from_entry && found.definitions.is_empty()
            })
    }

    pub(super) fn want_at_returns(
        &mut self,
        here: Here,
        call: Point,
        callee: FunctionRef,
        location: Location,
    ) {
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
            if let Some(Definition::Lent {
                argument,
                offset,
                width,
                ..
            }) = lent_to(&inner, ix, location)
            {
                let here = Here { paid: None, ..here };
                self.lent_to_call(here, &inner, point, argument, offset, width);
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
        let number = number_of(argument);
        match self.callee(view, point.ix) {
            Callee::Own(callee) => {
                let inside = Location::Object {
                    base: Base::Entry(argument),
                    offset,
                    width,
                };
                if self.writes_back(callee, inside, MOST_CALLS)
                    && !self.contexts.passes_through(point.context, callee)
                {
                    self.push_visit(here, view, point, Role::Executed, Why::Data);
                    // What hands one structure to everything that it calls would be followed along every way through all of it,
                    // and those are as many as there are ways: a call further is a step further.
                    match here.lent {
                        true => self.push_later(here, Task::Lent(point, callee, inside), Why::Data),
                        false => self.want_at_returns(Here { lent: true, ..here }, point, callee, inside),
                    }
                }
            }
            Callee::Library(name) => {
                if name.map_or(Summary::UNKNOWN, Summary::of).writes_through(number) {
                    self.push_visit(here, view, point, Role::Everything, Why::Data);
                }
                let source = name
                    .filter(|name| number == 0 && Summary::copies(name))
                    .and_then(|_| view.state_before(point.ix))
                    .map(|state| Place::at(state.get(Gpr::RSI).plus(offset)));
                if let Some(copied) = source.and_then(|place| Location::of(&place, Some(width))) {
                    self.want(here, view, point, copied);
                }
            }
            Callee::Pointer => self.push_visit(here, view, point, Role::Everything, Why::Data),
        }
    }

    /// Whether a function writes (or lends further) bytes behind one of its arguments. Where it is left by a call, whoever
    /// is called does; `calls` is how far that is followed.
    fn writes_back(&mut self, callee: FunctionRef, location: Location, calls: u32) -> bool {
        let question = (callee, location, calls);
        if let Some(&known) = self.writes_back.get(&question) {
            return known;
        }
        let writes = self.may_write_back(callee, location, calls);
        self.writes_back.insert(question, writes);
        writes
    }

    fn may_write_back(&mut self, callee: FunctionRef, location: Location, calls: u32) -> bool {
        let Some(inner) = self.view(callee) else {
            return false;
        };
        inner.leaving().into_iter().any(|ix| {
            let writes = |definition: &Definition| !matches!(definition, Definition::Returned(_));
            if reaching(&inner, ix, location).definitions.iter().any(writes) {
                return true;
            }
            let Some(Definition::Lent {
                argument,
                offset,
                width,
                ..
            }) = lent_to(&inner, ix, location)
            else {
                return false;
            };
            match self.callee(&inner, ix) {
                Callee::Own(next) => {
                    let inside = Location::Object {
                        base: Base::Entry(argument),
                        offset,
                        width,
                    };
                    calls == 0 || self.writes_back(next, inside, calls - 1)
                }
                Callee::Library(name) => name
                    .map_or(Summary::UNKNOWN, Summary::of)
                    .writes_through(number_of(argument)),
                Callee::Pointer => true,
            }
        })
    }
}

/// Which argument a register carries.
pub(super) fn number_of(argument: Gpr) -> usize {
    let mut registers = Gpr::ARGUMENTS.iter();
    registers.position(|&gpr| gpr == argument).unwrap_or(usize::MAX)
}

/// The argument registers that the code before a call sets up, when nothing tells how many it takes. What the function was passed itself and
/// hands on in the same register needs no code: `index(&self.items, n)` sets up the second one alone.
fn prepared_arguments(view: &FunctionView<'_, '_>, call: InstrIx) -> Vec<RegisterSet> {
    let state = view.state_before(call);
    let passed_on = |gpr: Gpr| {
        let value = state.as_ref().map(|state| state.get(gpr));
        value == Some(Value::Sum(Base::Entry(gpr), 0))
    };
    let set_up = prepared(
        view,
        call,
        Gpr::ARGUMENTS.iter().map(|&gpr| RegisterSet::gpr(gpr)),
    );
    let count = number_of_arguments(|gpr| set_up.contains(&RegisterSet::gpr(gpr)), passed_on);
    let registers = Gpr::ARGUMENTS.iter().take(count);
    registers.map(|&gpr| RegisterSet::gpr(gpr)).collect()
}

/// Up to the last register that is set up, if those before it are, or hold what the function was passed in them.
fn number_of_arguments(set_up: impl Fn(Gpr) -> bool, passed_on: impl Fn(Gpr) -> bool) -> usize {
    let known = Gpr::ARGUMENTS
        .iter()
        .take_while(|&&gpr| set_up(gpr) || passed_on(gpr));
    let last = known.enumerate().filter(|(_, gpr)| set_up(**gpr)).last();
    last.map_or(0, |(number, _)| number + 1)
}

/// The same for floating-point numbers. Structures are copied through these registers, too, so only a function that returns such a
/// number is taken to get some.
fn prepared_floats(view: &FunctionView<'_, '_>, call: InstrIx) -> Vec<RegisterSet> {
    let registers = prepared(view, call, (0..FLOATS).map(RegisterSet::vector));
    let in_order = registers.into_iter().zip((0..FLOATS).map(RegisterSet::vector));
    in_order
        .take_while(|(set, next)| set == next)
        .map(|(set, _)| set)
        .collect()
}

fn prepared(
    view: &FunctionView<'_, '_>,
    call: InstrIx,
    registers: impl Iterator<Item = RegisterSet>,
) -> Vec<RegisterSet> {
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
    registers.filter(|&set| written.meets(set)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_on_as_it_came_is_an_argument_before_one_that_is_set_up() {
        let [rdi, rsi, rdx, ..] = Gpr::ARGUMENTS;
        let count = |set_up: &[Gpr], passed_on: &[Gpr]| {
            number_of_arguments(|gpr| set_up.contains(&gpr), |gpr| passed_on.contains(&gpr))
        };
        assert_eq!(count(&[rdi, rsi], &[]), 2);
        assert_eq!(
            count(&[rsi], &[rdi, rdx]),
            2,
            "nobody says that the third one is meant"
        );
        assert_eq!(count(&[rsi], &[]), 0, "the first one holds something else");
        assert_eq!(count(&[rdi, rdx], &[]), 1);
        assert_eq!(count(&[], &[rdi]), 0);
    }
}
