//! From an instruction in the slice to what it depends on.

use std::cmp::Reverse;

use program::Attribution;
use program::code::InstrIx;

use super::queue::{Point, Queued, Task};
use super::{Here, Slice, SliceStatement, Why, smashed};
use crate::dependence::location::Location;
use crate::dependence::reaching::{Definition, reaching};
use crate::dependence::uses::{Role, uses};
use crate::view::FunctionView;

/// Contexts in which a function is followed that got a pointer through another one.
const MOST_CONTEXTS: u32 = 4;

impl<'p, 'a> Slice<'p, 'a> {
    /// Works on one task; gives the statement that it added to the slice, if any.
    pub(super) fn work_on(&mut self, queued: &Queued) -> Option<SliceStatement> {
        let here = Here::of(queued, queued.from);
        match queued.task {
            Task::Visit(point, role) => self.visit(queued, point, role),
            Task::Result(point, location) => self.visit_result(queued, point, location),
            Task::Lent(call, callee, location) => {
                let entered = self.lent.entry((callee, location)).or_default();
                *entered += 1;
                if *entered <= MOST_CONTEXTS {
                    self.want_at_returns(here, call, callee, location);
                }
                None
            }
            Task::Called(function, context) => {
                self.find_calls(here, function, context);
                None
            }
            Task::Argument(function, context, location) => {
                self.find_arguments(here, function, context, location);
                None
            }
            Task::Writers(function, variable) => {
                self.find_writers(here, function, variable);
                None
            }
        }
    }

    fn visit(&mut self, queued: &Queued, point: Point, role: Role) -> Option<SliceStatement> {
        let view = self.view(point.function)?;
        let (emitted, here) = self.note(&view, queued, point.ix);
        if view.is_call(point.ix) {
            self.inputs_of_call(here, &view, point, role);
            let smashed = role == Role::Executed && smashed::reports_smashing(&view, point.ix);
            if smashed && self.overwritten_frame(here, &view, point) {
                // What the check compares is a word that nobody names: those writes are what it is about.
                self.depend_on_callers(here, point);
                return emitted;
            }
        } else {
            for location in uses(&view, point.ix, role) {
                self.want(here, &view, point, location);
            }
        }
        self.depend_on_control(here, &view, point);
        emitted
    }

    fn visit_result(&mut self, queued: &Queued, point: Point, location: Location) -> Option<SliceStatement> {
        let view = self.view(point.function)?;
        if self.is_kept_by_call(&view, point.ix, location) {
            self.want(Here::of(queued, queued.from), &view, point, location);
            return None;
        }
        let (emitted, here) = self.note(&view, queued, point.ix);
        self.result_of_call(here, &view, point, location);
        self.depend_on_control(here, &view, point);
        emitted
    }

    /// An instruction runs because branches went its way and because its function was called.
    fn depend_on_control(&mut self, here: Here, view: &FunctionView<'p, 'a>, point: Point) {
        let Some(block) = view.flow.block_of(point.ix) else {
            return;
        };
        // Why a move ran is a step of its own.
        let here = Here {
            moving: false,
            ..here
        };
        for branch in view.deciding_branches(block) {
            self.push_visit(
                here,
                view,
                Point { ix: branch, ..point },
                Role::Everything,
                Why::Control,
            );
        }
        self.depend_on_callers(here, point);
    }

    /// Two steps: the statement depends on its function's entry, and that on the calls.
    fn depend_on_callers(&mut self, here: Here, point: Point) {
        self.push_at(here, Task::Called(point.function, point.context), Why::Call, 2);
    }

    /// Follows a location back to the definitions that reach a point.
    pub(super) fn want(&mut self, here: Here, view: &FunctionView<'p, 'a>, point: Point, location: Location) {
        if !self.wanted.insert((point, location)) {
            return;
        }
        let reaching = reaching(view, point.ix, location);
        for definition in reaching.definitions {
            match definition {
                Definition::Written(ix) => {
                    self.push_visit(here, view, Point { ix, ..point }, Role::Value, Why::Data);
                }
                Definition::Thrown(ix) => {
                    self.push_visit(here, view, Point { ix, ..point }, Role::Executed, Why::Control);
                }
                Definition::Returned(ix) => {
                    self.push_result(here, view, Point { ix, ..point }, location);
                }
                Definition::Lent {
                    call,
                    argument,
                    offset,
                    width,
                } => {
                    let point = Point { ix: call, ..point };
                    let here = Here { paid: None, ..here };
                    self.lent_to_call(here, view, point, argument, offset, width);
                }
            }
        }
        if matches!(location, Location::Static { .. } | Location::Thread { .. }) {
            self.push_later(here, Task::Writers(point.function, location), Why::Data);
        } else if reaching.from_entry {
            let task = Task::Argument(point.function, point.context, location);
            self.push_later(here, task, here.paid.unwrap_or(Why::Call));
        }
    }

    /// Queues an instruction: at this distance if it belongs to the statement we come from (or to none), or if
    /// the step was paid for; else one further.
    pub(super) fn push_visit(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        role: Role,
        why: Why,
    ) {
        self.push_statement(here, view, point.ix, Task::Visit(point, role), why);
    }

    pub(super) fn push_result(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        location: Location,
    ) {
        self.push_statement(here, view, point.ix, Task::Result(point, location), Why::Data);
    }

    fn push_statement(&mut self, here: Here, view: &FunctionView<'p, 'a>, ix: InstrIx, task: Task, why: Why) {
        if self.done.contains(&task) {
            return;
        }
        let Some(pc) = view.pc(ix) else { return };
        let is_move = matches!(task, Task::Visit(..)) && view.is_move(ix);
        let (cost, line, moving) = match self.program.statement_at(pc) {
            Attribution::Statement(statement) => {
                let same = self.numbers.get(&statement.key()) == Some(&here.from);
                let free = same || here.moving || here.paid.is_some();
                let moving = is_move && (here.moving || !same);
                (u32::from(!free), statement.line.unwrap_or(0), moving)
            }
            Attribution::CompilerMade | Attribution::Library => (0, 0, here.moving),
        };
        self.queue.push(Queued {
            distance: here.distance.saturating_add(cost),
            hops: here.hops,
            line: Reverse(line),
            serial: 0,
            task,
            why: here.paid.unwrap_or(why),
            from: here.from,
            moving,
        });
    }

    /// Queues a search that leads into other statements, to be made when those are due.
    pub(super) fn push_later(&mut self, here: Here, task: Task, why: Why) {
        self.push_at(here, task, why, 1);
    }

    /// Queues what a search found: its distance was paid when the search was queued.
    pub(super) fn push_found(&mut self, here: Here, task: Task, why: Why) {
        self.push_at(here, task, why, 0);
    }

    fn push_at(&mut self, here: Here, task: Task, why: Why, cost: u32) {
        if self.done.contains(&task) {
            return;
        }
        self.queue.push(Queued {
            distance: here.distance.saturating_add(cost),
            hops: here.hops.saturating_add(u32::from(cost > 0)),
            line: Reverse(0),
            serial: 0,
            task,
            why,
            from: here.from,
            moving: false,
        });
    }
}
