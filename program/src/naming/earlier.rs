//! What a pointer was called when it was made.
//!
//! Optimised code keeps a pointer in a register long after the debug information has lost the variable: `p->offset = at` behind an
//! inlined `p = packet_get(pool)` has no `p` any more. But `packet_get`'s own variable held the same value, and says what it
//! points to. The other way round, the variable of an inlined function may begin where the code that it stands for goes on, behind
//! a load that the compiler moved ahead of it: what holds the same value soon afterwards says it as well.

use super::Namer;
use super::memory::{Guard, Lvalue};
use super::parts::Wanted;
use super::pointers::is_reserved;
use crate::code::{Block, BlockId, Exit, InstrIx};
use crate::values::Base;

/// A variable is there soon after its value, or never.
const MOST_INSTRUCTIONS: usize = 24;
/// A load is moved this far ahead of the beginning of the code that it is for.
const MOST_AHEAD: usize = 8;

impl<'m, 'a> Namer<'m, 'a> {
    /// The bytes at an offset from a pointer, through a variable that held it soon after it was made.
    pub(super) fn held_earlier(&self, ix: InstrIx, base: Base, wanted: &Wanted) -> Option<Lvalue<'m, 'a>> {
        let after = self.after(base)?;
        let earlier = after.take_while(|&earlier| earlier != ix).take(MOST_INSTRUCTIONS);
        let mut found = { earlier }.find_map(|earlier| self.held(earlier, base, None, wanted))?;
        // The variable may hold something else by now; the pointer is what it was.
        found.guards.retain(|guard| !matches!(guard, Guard::Held { .. }));
        Some(found)
    }

    /// The same through a variable that holds the pointer soon after an instruction.
    pub(super) fn held_later(&self, ix: InstrIx, base: Base, wanted: &Wanted) -> Option<Lvalue<'m, 'a>> {
        let later = self.straight_on(ix, MOST_AHEAD).into_iter();
        let held = |later| self.held(later, base, None, wanted);
        // What the library calls it, other accesses may have a better name for.
        let mut found = { later }.find_map(|later| held(later).filter(|held| !is_reserved(held)))?;
        found.guards.retain(|guard| !matches!(guard, Guard::Held { .. }));
        Some(found)
    }

    /// The next instructions after one, behind calls too, as long as nobody comes there by another way.
    pub(super) fn straight_on(&self, from: InstrIx, most: usize) -> Vec<InstrIx> {
        let mut found = Vec::new();
        let mut next = self.flow.block_of(from);
        while let Some(block) = next.and_then(|id| self.flow.block(id)) {
            found.extend(block.indices().filter(|&ix| ix > from));
            let goes_on = matches!(block.exit, Exit::Call(_) | Exit::FallThrough) && found.len() < most;
            next = block.succs.iter().copied().find(|&id| {
                let only = |after: &Block| after.start == block.end && after.preds.len() == 1;
                goes_on && self.flow.block(id).is_some_and(only)
            });
        }
        found.truncate(most);
        found
    }

    /// The instructions that run after a value was made, until ways part.
    fn after(&self, base: Base) -> Option<impl Iterator<Item = InstrIx>> {
        let (block, first) = match base {
            Base::Entry(_) => (self.flow.entry?, None),
            Base::Made(made, _) => (self.flow.block_of(made)?, Some(made)),
            Base::Joined(block, _) => (BlockId(block), None),
        };
        let here = self.flow.block(block)?.indices();
        Some(here.filter(move |&ix| first.is_none_or(|made| ix > made)))
    }
}
