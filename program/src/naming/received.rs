//! What a value is called by the variable that it is put into.
//!
//! What a call returned stands in no memory, and what was copied out of a container is behind a pointer that no variable has:
//! `Value* source = resolve(from)`, `Variable next = work.front()`. The variable that holds it right afterwards has the name that the source
//! gives it there.

use std::rc::Rc;

use super::memory::{Lvalue, only_innermost};
use super::parts::Wanted;
use super::scope::{InScope, Where};
use super::{AccessName, Namer, RootKind};
use crate::code::InstrIx;
use crate::values::{Base, State, Value};

/// A variable is there soon after its value, or never.
const MOST_INSTRUCTIONS: usize = 24;

impl<'m, 'a> Namer<'m, 'a> {
    /// The variable, or the part of one, that holds what an instruction loaded or a call returned, as long as no other way leads there.
    #[must_use]
    pub fn name_received(&self, made: InstrIx, width: u32) -> Option<AccessName> {
        if !self.module.has_debug_information() {
            return None;
        }
        self.begin();
        let after = self.straight_on(made, MOST_INSTRUCTIONS).into_iter();
        Self::finish({ after }.find_map(|ix| self.holding(ix, made, width))?)
    }

    fn holding(&self, ix: InstrIx, made: InstrIx, width: u32) -> Option<Lvalue<'m, 'a>> {
        let state = self.state(ix)?;
        let scope = self.scope(ix);
        let own = scope
            .iter()
            .filter(|variable| variable.root.kind == RootKind::Local && !variable.root.of_library);
        let found = own.filter_map(|variable| {
            let offset = part_that_holds(variable, &state, made, width)?;
            let wanted = Wanted {
                offset: i64::try_from(offset).ok()?,
                width: u64::from(width),
                varying: Vec::new(),
                members: Rc::clone(&self.members),
            };
            Some((variable.frame, Lvalue::variable(variable).part(wanted)?))
        });
        only_innermost(found)
    }
}

/// How far into a variable the bytes are that hold what an instruction made.
fn part_that_holds(variable: &InScope<'_, '_>, state: &State, made: InstrIx, width: u32) -> Option<u64> {
    let is_it = |value: Value| matches!(value, Value::Sum(Base::Made(by, _), 0) if by == made);
    variable.pieces.iter().find_map(|piece| {
        let at = match piece.at {
            Where::Register(_, value) => (piece.size == u64::from(width) && is_it(value)).then_some(0),
            Where::Memory(addr) => {
                let start = addr.stack_offset()?;
                let step = u64::from(width.max(1));
                (0..piece.size.min(MOST_BYTES) / step)
                    .map(|number| number * step)
                    .find(|&into| {
                        let slot = i64::try_from(into).ok().and_then(|into| start.checked_add(into));
                        slot.and_then(|slot| state.slot(slot, width)).is_some_and(is_it)
                    })
            }
            Where::Behind(..) | Where::Computed(..) => None,
        };
        piece.offset.checked_add(at?)
    })
}

/// Of a variable of the frame.
const MOST_BYTES: u64 = 256;
