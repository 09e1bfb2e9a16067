//! Hits that have their place, until nothing more is told about their values.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Pending, Place};
use crate::hit::{Content, Hit, Provenance, Value};

/// A hit in its place.
#[derive(Debug)]
struct Placed {
    place: Place,
    pending: Pending,
}

/// Hits in order. They leave when their values are settled, and only with values that do not contradict each other:
/// this is where that is made sure of, whatever was found out before.
#[derive(Debug, Default)]
pub(super) struct Settling {
    placed: Vec<Placed>,
    /// What the last hit that left claimed of its place.
    claimed: BTreeMap<Place, Claim>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    value: Value,
    uncertain: bool,
}

impl Settling {
    pub(super) fn push(&mut self, place: Place, pending: Pending) {
        self.placed.push(Placed { place, pending });
    }

    /// What is there is what the last access left: where that one could not tell for certain (an exchange keeps what
    /// it found, not what it stored), now it is known. So it is for reads in between, and for what can be undone.
    pub(super) fn tell(&mut self, place: Place, content: Content, from: Provenance) {
        let (mut content, mut from) = (content, from);
        let here = self.placed.iter_mut().rev().filter(|other| other.place == place);
        for Placed { pending, .. } in here.take_while(|other| is_open(&other.pending.hit)) {
            pending.hit.value = Some(Value::new(content, from));
            if pending.may_write() {
                let undone = pending.undone(content).filter(|_| pending.found().is_none());
                let Some(undone) = undone else {
                    // What memory seemed to say about it may have been about something later.
                    pending.hit.before = pending.hit.before.filter(Value::is_exact);
                    break;
                };
                pending.hit.before = Some(Value::new(undone, from));
                if pending.hit.order_uncertain {
                    from = Provenance::Memory;
                }
                content = undone;
            } else {
                pending.hit.before = pending.hit.value;
            }
        }
    }

    /// The hits about which nothing more is going to be told: what is told reaches back over those that are open
    /// themselves, as `tell` does, and no further. Those that are old, by their place and time, do not wait for it.
    pub(super) fn release(&mut self, is_old: impl Fn(Place, u64) -> bool) -> Vec<Hit> {
        let mut out_of_reach = BTreeSet::new();
        let mut settled = self.placed.len();
        for (at, Placed { place, pending }) in self.placed.iter().enumerate().rev() {
            if out_of_reach.contains(place) {
                continue;
            }
            let open = is_open(&pending.hit);
            if open && !is_old(*place, pending.hit.time_ns) {
                settled = at;
            }
            if !open || !passes_on(pending) {
                out_of_reach.insert(*place);
            }
        }
        let rest = self.placed.split_off(settled);
        let leaving = std::mem::replace(&mut self.placed, rest);
        leaving.into_iter().map(|placed| self.agreed(placed)).collect()
    }

    /// Makes a hit say what the ones before it said, where only memory spoke for it, which was looked at later; and says
    /// that its place is not certain where it knows better.
    fn agreed(&mut self, placed: Placed) -> Hit {
        let Placed { place, mut pending } = placed;
        let claim = self.claimed.get(&place).filter(|_| !pending.is_first);
        if let Some(Claim { value, uncertain }) = claim.copied() {
            let hit = &mut pending.hit;
            match hit.before.filter(Value::is_exact) {
                Some(found) => hit.order_uncertain |= found.content() != value.content() && !uncertain,
                None => continue_from(&mut pending, value),
            }
        }
        let hit = pending.hit;
        match hit.value {
            Some(value) => {
                let uncertain = hit.order_uncertain;
                self.claimed.insert(place, Claim { value, uncertain });
            }
            None => {
                self.claimed.remove(&place);
            }
        }
        hit
    }
}

/// Whether a later access, or look at memory, can tell what this one saw or left behind.
fn is_open(hit: &Hit) -> bool {
    hit.access.is_some() && hit.value.is_none_or(|value| !value.is_exact())
}

/// Whether what is told of the value after an access tells the value before it.
fn passes_on(pending: &Pending) -> bool {
    !pending.may_write() || (pending.can_be_undone() && pending.found().is_none())
}

/// Has a hit whose values are not certain start from what was there.
fn continue_from(pending: &mut Pending, there: Value) {
    let uncertain = pending.hit.order_uncertain;
    let known = |content: Content| {
        let from = match there.from {
            Provenance::Register | Provenance::Computed if !uncertain => Provenance::Computed,
            _ => Provenance::Memory,
        };
        Some(Value::new(content, from))
    };
    let may_write = pending.may_write();
    let applied = pending.applied(there.content());
    let hit = &mut pending.hit;
    hit.before = known(there.content());
    if hit.value.is_some_and(|value| value.is_exact()) || hit.access.is_none() {
        return;
    }
    if !may_write {
        hit.value = hit.before;
    } else if let Some(applied) = applied {
        hit.value = known(applied);
    }
}
