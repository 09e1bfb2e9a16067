//! What each location holds, as the hits so far tell.

use std::collections::BTreeMap;

use super::Pending;
use crate::hit::{Provenance, Value};

/// Which contents a hit must agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// All, those too that memory told.
    Memory,
    /// Those that are certain.
    Registers,
}

/// A location's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Content {
    bits: u64,
    /// By registers all the way; otherwise memory told, which may have been late.
    exact: bool,
}

/// The contents of all locations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Chain(BTreeMap<usize, Content>);

impl Chain {
    pub(super) fn begin(&mut self, location: usize, bits: u64, exact: bool) {
        self.0.insert(location, Content { bits, exact });
    }

    pub(super) fn forget(&mut self, location: usize) {
        self.0.remove(&location);
    }

    /// What is at a hit's location before it, as far as that is known.
    fn there(&self, pending: &Pending) -> Option<Content> {
        let known = self.0.get(&pending.hit.location).copied();
        known.filter(|_| !pending.is_first)
    }

    /// Whether a hit can come next: what it found for certain is what is there, for certain or by what memory
    /// told.
    pub(super) fn allows(&self, pending: &Pending, trust: Trust) -> bool {
        let found = pending.hit.before.filter(Value::is_exact);
        let there = self
            .there(pending)
            .filter(|content| content.exact || trust == Trust::Memory);
        match (found, there) {
            (Some(found), Some(there)) => found.bits == there.bits,
            _ => true,
        }
    }

    /// Whether what a hit found for certain is what is there.
    pub(super) fn holds(&self, pending: &Pending) -> bool {
        let found = pending.hit.before.filter(Value::is_exact);
        let there = self.there(pending);
        found
            .zip(there)
            .is_some_and(|(found, there)| found.bits == there.bits)
    }

    /// Makes a hit's effect part of the chain.
    pub(super) fn follow(&mut self, pending: &Pending) {
        let location = pending.hit.location;
        match self.after(pending) {
            Some(content) => {
                self.0.insert(location, content);
            }
            None => {
                self.0.remove(&location);
            }
        }
    }

    /// Fills in what a hit could not tell itself and the chain can.
    pub(super) fn complete(&self, pending: &mut Pending) {
        let after = self.after(pending);
        let there = self.there(pending);
        let value = |content: Content| {
            let from = if content.exact {
                Provenance::Computed
            } else {
                Provenance::Memory
            };
            Value::new(content.bits, from)
        };
        let hit = &mut pending.hit;
        if hit.before.is_none_or(|before| !before.is_exact())
            && let Some(there) = there.filter(|there| there.exact || hit.before.is_none())
        {
            let atomic = hit.access.is_some_and(|access| access.atomic);
            // A plain read-modify-write can have read before another thread's write that is in the chain.
            if atomic || hit.before.is_none() || pending.update.is_none() {
                hit.before = Some(value(there));
            }
        }
        if hit.value.is_none_or(|value| !value.is_exact())
            && let Some(after) = after.filter(|after| after.exact || hit.value.is_none())
        {
            hit.value = Some(value(after));
        }
    }

    /// What the location holds after a hit.
    fn after(&self, pending: &Pending) -> Option<Content> {
        let hit = &pending.hit;
        let there = self.there(pending);
        let told = hit.value.map(|value| Content {
            bits: value.bits,
            exact: value.is_exact(),
        });
        if told.is_some_and(|told| told.exact) {
            return told;
        }
        let Some(access) = hit.access else {
            return told;
        };
        if !access.kind.writes() {
            return there.filter(|there| there.exact).or(told).or(there);
        }
        let before = hit.before.filter(Value::is_exact).map(|before| Content {
            bits: before.bits,
            exact: true,
        });
        let derived = before
            .or(there)
            .zip(pending.update)
            .map(|(before, update)| Content {
                bits: update.apply(before.bits, pending.len),
                exact: before.exact && access.atomic,
            });
        match derived {
            Some(derived) if derived.exact => Some(derived),
            _ => told.or(derived),
        }
    }
}
