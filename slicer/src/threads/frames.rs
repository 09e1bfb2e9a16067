//! Which part of a function's frame other threads may use.
//!
//! A frame is its thread's own, except for what a function that creates threads gives away: `Bank bank; std::thread
//! teller(work, std::ref(bank));`. What is asked for is an object whose address is passed to a call or stored somewhere,
//! in a function that creates threads itself or passes the object to one that does.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use iced_x86::{Mnemonic, OpKind};
use program::FunctionRef;
use program::code::{InstrIx, Target};
use program::values::Gpr;

use super::model::ThreadModel;
use crate::view::FunctionView;

/// Callees that get an address in the frame and are asked whether they create threads.
const MAX_CALLEES: usize = 16;

/// Parts of a frame, as offsets from the stack pointer at the function's entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedFrame(Vec<Range<i64>>);

impl SharedFrame {
    /// Whether other threads may use what is at an offset.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        self.0.iter().any(|object| object.contains(&offset))
    }
}

/// An address in the frame that is given away by an instruction, and to whom if that is a function of the program.
struct Given {
    at: InstrIx,
    offset: i64,
    to: Option<FunctionRef>,
}

impl ThreadModel<'_, '_> {
    /// What of a function's frame other threads may use, found out once.
    #[must_use]
    pub fn shared_frame(&self, view: &FunctionView<'_, '_>) -> Rc<SharedFrame> {
        if let Some(known) = self.frames.borrow().get(&view.id) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.find_shared(view));
        self.frames.borrow_mut().insert(view.id, Rc::clone(&found));
        found
    }

    fn find_shared(&self, view: &FunctionView<'_, '_>) -> SharedFrame {
        let given = given_away(view);
        if given.is_empty() {
            return SharedFrame::default();
        }
        let creates = |id| !self.created_in(id).is_empty() || !self.created_by_closures_of(id).is_empty();
        let creates_itself = creates(view.id);
        let callees: BTreeSet<FunctionRef> = given.iter().filter_map(|given| given.to).collect();
        let creating: BTreeSet<FunctionRef> = callees
            .into_iter()
            .filter(|callee| *callee != view.id)
            .take(MAX_CALLEES)
            .filter(|callee| !creates_itself && creates(*callee))
            .collect();
        let shared = given.iter().filter(|given| {
            let to_creator = given.to.is_some_and(|callee| creating.contains(&callee));
            creates_itself || to_creator
        });
        let mut objects: Vec<Range<i64>> = shared
            .filter_map(|given| view.frame_object(given.at, given.offset))
            .collect();
        objects.sort_unstable_by_key(|object| (object.start, object.end));
        objects.dedup();
        SharedFrame(objects)
    }
}

fn given_away(view: &FunctionView<'_, '_>) -> Vec<Given> {
    let mut given = Vec::new();
    for (ix, instruction) in (0..).map(InstrIx).zip(&view.flow.instructions) {
        if view.is_call(ix) {
            let Some(state) = view.state_before(ix) else {
                continue;
            };
            let to = match view.call_target(ix) {
                Some(Target::Function(function)) => Some(FunctionRef { function, ..view.id }),
                _ => None,
            };
            let passed = Gpr::ARGUMENTS.iter().map(|gpr| state.get(*gpr));
            let offsets = passed.filter_map(|value| value.stack_offset());
            given.extend(offsets.map(|offset| Given { at: ix, offset, to }));
        } else if instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_kind() == OpKind::Register
        {
            let value = Gpr::of(instruction.op1_register())
                .zip(view.state_before(ix))
                .map(|(gpr, state)| state.get(gpr));
            let offset = value.and_then(|value| value.stack_offset());
            given.extend(offset.map(|offset| Given {
                at: ix,
                offset,
                to: None,
            }));
        }
    }
    given
}
