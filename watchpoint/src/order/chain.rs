//! What each location holds, as the order so far tells.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::item::{Item, Pending, Place, What};
use crate::hit::{Content, Provenance, Value};

/// How an item stands at its place in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// What it found is what was there.
    Fits,
    /// An update that is not one step: another thread wrote between its read and its write.
    Overtaken,
    /// What it found was put there by nobody who was seen.
    Contradicts,
    /// A look at memory that agrees with nothing, as one that fell in the middle of a write.
    Disregarded,
}

impl Fit {
    /// How much it takes to believe it. An order that needs less of that is the better one.
    pub(super) fn strain(self) -> u32 {
        match self {
            Self::Fits => 0,
            Self::Overtaken => 1,
            Self::Contradicts | Self::Disregarded => 2,
        }
    }
}

/// The contents of all places, where they are certain.
#[derive(Debug, Default)]
pub(super) struct Chain(BTreeMap<Place, Content>);

/// A chain that was gone on from. There are many of them at once, so each has only what is different since.
#[derive(Clone, Debug)]
pub(super) struct Branch<'c> {
    trunk: &'c Chain,
    changed: BTreeMap<Place, Option<Content>>,
}

impl Chain {
    /// Forgets what nobody will ask for.
    pub(super) fn keep(&mut self, is_of_use: impl Fn(Place) -> bool) {
        self.0.retain(|place, _| is_of_use(*place));
    }

    /// To go on from here in several ways.
    pub(super) fn branch(&self) -> Branch<'_> {
        Branch {
            trunk: self,
            changed: BTreeMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Branch<'_> {
    /// Nothing happens at a place any more.
    pub(super) fn forget(&mut self, place: Place) {
        self.changed.remove(&place);
    }
}

/// Branches of one chain are compared, never others.
impl PartialEq for Branch<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.changed == other.changed
    }
}

impl Hash for Branch<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.changed.hash(state);
    }
}

impl Contents for Chain {
    fn get(&self, place: Place) -> Option<Content> {
        self.0.get(&place).copied()
    }

    fn set(&mut self, place: Place, content: Option<Content>) {
        match content {
            Some(content) => self.0.insert(place, content),
            None => self.0.remove(&place),
        };
    }
}

impl Contents for Branch<'_> {
    fn get(&self, place: Place) -> Option<Content> {
        let changed = self.changed.get(&place).copied();
        changed.unwrap_or_else(|| self.trunk.get(place))
    }

    fn set(&mut self, place: Place, content: Option<Content>) {
        // What is as it was is no difference: the same situation may be reached in several ways.
        match content == self.trunk.get(place) {
            true => self.changed.remove(&place),
            false => self.changed.insert(place, content),
        };
    }
}

/// What each place holds, and what items make of it.
pub(super) trait Contents {
    /// What a place holds, if that is certain.
    fn get(&self, place: Place) -> Option<Content>;

    /// From now on it holds this.
    fn set(&mut self, place: Place, content: Option<Content>);

    /// Whether an item can come next: what it found for certain is there, or may be.
    fn allows(&self, item: &Item) -> bool {
        let there = self.get(item.place);
        item.found()
            .zip(there)
            .is_none_or(|(found, there)| found == there)
    }

    /// Makes an item's effect part of the chain.
    fn follow(&mut self, item: &Item, fit: Fit) {
        let content = match &item.what {
            What::Look(_) if fit == Fit::Disregarded => return,
            What::Look(content) => Some(*content),
            What::Access(pending) => self.after(item.place, pending, fit),
        };
        self.set(item.place, content);
    }

    /// Fills in what a hit could not tell itself and the chain can.
    fn complete(&self, place: Place, pending: &mut Pending, fit: Fit) {
        let computed = |content: Content| Value::new(content, Provenance::Computed);
        let after = self.after(place, pending, fit);
        let there = self.get(place).filter(|_| !pending.is_first);
        let unknown = |value: Option<Value>| value.is_none_or(|value| !value.is_exact());
        if unknown(pending.hit.before) && fit == Fit::Fits {
            pending.hit.before = there.map(computed).or(pending.hit.before);
        }
        if unknown(pending.hit.value) {
            pending.hit.value = after.map(computed).or(pending.hit.value);
        }
    }

    /// What the place holds after an access.
    fn after(&self, place: Place, pending: &Pending, fit: Fit) -> Option<Content> {
        if let Some(left) = pending.left() {
            return Some(left);
        }
        // Whether the chain's content was known before it or after is not known.
        let there = self.get(place).filter(|_| !pending.is_first);
        if !pending.may_write() {
            return there;
        }
        let before = pending.found().or(there.filter(|_| fit != Fit::Overtaken));
        before.and_then(|before| pending.applied(before))
    }
}
