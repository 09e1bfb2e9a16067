//! Whether what was loaded earlier is still what memory holds.
//!
//! A pointer that was loaded from `q->head` is called so only as long as nothing in between can have stored
//! to `q->head`: otherwise the name would be that of another object. Other threads' stores are another
//! matter: those are what is being looked for.

use super::Namer;
use crate::code::{BlockId, InstrIx};
use crate::values::{Place, PlacedAccess, Value};

/// Longer ways are not looked at: what was loaded so long ago has no name.
const MOST_BLOCKS: usize = 64;
const MOST_INSTRUCTIONS: usize = 2048;
const POINTER: u32 = 8;

impl Namer<'_, '_> {
    /// Whether memory that `load` read still holds the same at `user`, on every way between them.
    pub(super) fn is_fresh(&self, load: InstrIx, user: InstrIx) -> bool {
        let Some(access) = self.values.accesses(load).iter().find(|access| !access.implicit) else {
            return false;
        };
        self.between(load, user)
            .is_some_and(|way| way.into_iter().all(|ix| self.keeps(ix, access)))
    }

    /// Whether two instructions belong to the same source line.
    pub(super) fn same_line(&self, one: InstrIx, other: InstrIx) -> bool {
        let line = |ix| {
            let frame = self
                .module
                .sources()
                .frames_at(self.flow.addr(ix)?)
                .into_iter()
                .next()?;
            (frame.line > 0).then_some((frame.function, frame.file, frame.line))
        };
        one == other || line(one).is_some_and(|found| Some(found) == line(other))
    }

    /// The instructions that may run after `load` and before `user`.
    fn between(&self, load: InstrIx, user: InstrIx) -> Option<Vec<InstrIx>> {
        let (first, last) = (self.flow.block_of(load)?, self.flow.block_of(user)?);
        if first == last {
            // Around a loop the load would have run again.
            return (load < user).then(|| (load.0 + 1..user.0).map(InstrIx).collect());
        }
        let mut blocks: Vec<BlockId> = vec![last];
        let mut next = 0;
        let mut found: Vec<InstrIx> = self
            .flow
            .block(first)?
            .indices()
            .filter(|ix| *ix > load)
            .collect();
        while let Some(&id) = blocks.get(next) {
            next += 1;
            let block = self.flow.block(id)?;
            if block.preds.is_empty() || blocks.len() > MOST_BLOCKS || found.len() > MOST_INSTRUCTIONS {
                return None;
            }
            if id == last {
                found.extend(block.indices().filter(|ix| *ix < user));
            } else {
                found.extend(block.indices());
            }
            for &before in &block.preds {
                if before == last {
                    // A loop around the user: all of its block runs in between.
                    found.extend(self.flow.block(last)?.indices().filter(|ix| *ix >= user));
                } else if before != first && !blocks.contains(&before) {
                    blocks.push(before);
                }
            }
        }
        Some(found)
    }

    fn keeps(&self, ix: InstrIx, loaded: &PlacedAccess) -> bool {
        if self.is_call(ix) {
            return false;
        }
        let mut stores = self
            .values
            .accesses(ix)
            .iter()
            .filter(|access| access.kind.writes());
        stores.all(|store| are_apart(store, loaded))
    }
}

fn are_apart(store: &PlacedAccess, loaded: &PlacedAccess) -> bool {
    let on_stack = |place: &Place| place.stack_offset().is_some();
    if on_stack(&store.place) != on_stack(&loaded.place) && known(&store.place) && known(&loaded.place) {
        return true;
    }
    let (Some(first), Some(second)) = (store.width, loaded.width) else {
        return false;
    };
    // No language lets a pointer be changed through a narrower type: compilers count on it, and keep the
    // pointer in its register.
    if first < second && second == POINTER {
        return true;
    }
    if store.place.index.is_some()
        || loaded.place.index.is_some()
        || store.place.thread_local != loaded.place.thread_local
    {
        return false;
    }
    let distance = match (store.place.base, loaded.place.base) {
        (Value::Sum(one, at), Value::Sum(other, from)) if one == other => from.checked_sub(at),
        (Value::Const(at), Value::Const(from)) => from.cast_signed().checked_sub(at.cast_signed()),
        _ => None,
    };
    distance.is_some_and(|distance| distance >= i64::from(first) || distance <= -i64::from(second))
}

fn known(place: &Place) -> bool {
    place.base != Value::Unknown
}
