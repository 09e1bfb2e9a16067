//! What can have written beyond an array of a frame, where the check at the function's end found that somebody had.
//!
//! The check itself depends on nothing but a word that nobody names. What it is about are the writes that can go too far:
//! through an index or a pointer that is counted on, here or in functions that got the address of something in the frame.

use iced_x86::Instruction;
use program::code::{AccessKind, InstrIx};
use program::values::{Base, Gpr, PlacedAccess, Value};

use super::calls::{Callee, number_of};
use super::context::{Context, Site};
use super::queue::Point;
use super::{Here, Slice, Why};
use crate::dependence::derived::is_made_from;
use crate::dependence::summary::Summary;
use crate::dependence::uses::Role;
use crate::view::FunctionView;

/// How deep functions are looked into that get the address.
const DEEPEST: u32 = 3;

/// What a pointer must have been made from.
#[derive(Clone, Copy)]
enum Origin {
    /// The function's own frame.
    Frame,
    /// What the function got in a register.
    Argument(Gpr),
}

impl Origin {
    fn is(self, value: Value) -> bool {
        match (self, value) {
            (Self::Frame, Value::Sum(Base::Entry(gpr), offset)) => gpr == Gpr::RSP && offset < 0,
            (Self::Argument(argument), Value::Sum(Base::Entry(gpr), _)) => gpr == argument,
            _ => false,
        }
    }
}

/// Whether a call reports that the frame was overwritten.
pub(super) fn reports_smashing(view: &FunctionView<'_, '_>, call: InstrIx) -> bool {
    let target = view.call_target(call);
    let name = target.and_then(|target| view.module().code().target_name(target));
    name.is_some_and(|name| name.starts_with("__stack_chk_fail"))
}

impl<'p, 'a> Slice<'p, 'a> {
    /// Follows what can have overwritten the frame around a point; says whether anything was found.
    pub(super) fn overwritten_frame(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
    ) -> bool {
        self.overwriting(here, view, point.context, Origin::Frame, DEEPEST)
    }

    /// Queues the writes that can go too far; says whether there are any.
    fn overwriting(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        context: Context,
        origin: Origin,
        depth: u32,
    ) -> bool {
        let mut any = false;
        for (ix, instruction) in (0..).map(InstrIx).zip(&view.flow.instructions) {
            let point = Point {
                function: view.id,
                context,
                ix,
            };
            if view.is_call(ix) {
                // Registers still hold what they held when a check fails: nothing is passed to it.
                if !reports_smashing(view, ix) && self.overwrites(here, view, point, origin, depth) {
                    self.push_visit(here, view, point, Role::Everything, Why::Data);
                    any = true;
                }
            } else if writes_from(view, ix, instruction, origin) {
                self.push_visit(here, view, point, Role::Address, Why::Data);
                any = true;
            }
        }
        any
    }

    /// Whether a call can have written through a pointer that it got.
    fn overwrites(
        &mut self,
        here: Here,
        view: &FunctionView<'p, 'a>,
        point: Point,
        origin: Origin,
        depth: u32,
    ) -> bool {
        let passed: Vec<Gpr> = Gpr::ARGUMENTS
            .into_iter()
            .filter(|gpr| is_made_from(view, point.ix, *gpr, |value| origin.is(value)))
            .collect();
        let mut any = false;
        for argument in passed {
            any |= match self.callee(view, point.ix) {
                Callee::Own(callee) => {
                    let known = depth.checked_sub(1).zip(self.view(callee));
                    let Some((depth, inner)) =
                        known.filter(|_| !self.contexts.passes_through(point.context, callee))
                    else {
                        continue;
                    };
                    let context = self.contexts.enter(Site {
                        function: point.function,
                        call: point.ix,
                        context: point.context,
                    });
                    let here = Here {
                        hops: here.hops + 1,
                        ..here
                    };
                    self.overwriting(here, &inner, context, Origin::Argument(argument), depth)
                }
                Callee::Library(name) => name
                    .map_or(Summary::UNKNOWN, Summary::of)
                    .writes_through(number_of(argument)),
                Callee::Pointer => true,
            };
        }
        any
    }
}

/// Whether an instruction writes through an index, or through a pointer that is not just the origin and a constant.
fn writes_from(view: &FunctionView<'_, '_>, ix: InstrIx, instruction: &Instruction, origin: Origin) -> bool {
    let writes = |access: &&PlacedAccess| access.kind != AccessKind::Read && !access.place.thread_local;
    let repeats = instruction.has_rep_prefix() && instruction.is_string_instruction();
    view.values.accesses(ix).iter().filter(writes).any(|access| {
        if origin.is(access.place.base) {
            let is_elsewhere = matches!(origin, Origin::Argument(_));
            return access.place.index.is_some() || repeats || is_elsewhere && !access.implicit;
        }
        let base = Gpr::of(instruction.memory_base()).filter(|_| !access.implicit);
        let is_known = matches!(access.place.base, Value::Const(_) | Value::Sum(Base::Entry(_), _));
        let base = base.filter(|_| !is_known);
        base.is_some_and(|base| is_made_from(view, ix, base, |value| origin.is(value)))
    })
}
