//! What a pointer was called when it was made.
//!
//! Optimised code keeps a pointer in a register long after the debug information has lost the variable: `p->offset = at` behind an
//! inlined `p = packet_get(pool)` has no `p` any more. But `packet_get`'s own variable held the same value, and says what it
//! points to.

use super::Namer;
use super::memory::{Guard, Lvalue};
use super::parts::Wanted;
use crate::code::{BlockId, InstrIx};
use crate::values::Base;

/// A variable is there soon after its value, or never.
const MOST_INSTRUCTIONS: usize = 24;

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
