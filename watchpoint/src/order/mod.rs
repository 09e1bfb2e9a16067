//! Hits of several threads in an order that their values allow.
//!
//! Threads report their hits on their own; the reports of two accesses that came close together may arrive the
//! other way round. Values tell more than clocks: a read returns the last write, an exchange finds what the one
//! before left, and so does whoever looks at memory when a hit is reported. Hits of one thread keep their order;
//! hits of different threads may change places when the spans of time in which they can have happened overlap.
//!
//! - `armings`: where locations are
//! - `item`: accesses and looks at memory
//! - `chain`: what is where after some of them
//! - `search`: all orders in which every certain value fits
//! - `judge`: the one nearest to the order of the reports, and which places in it are certain
//! - `settle`: values that only later hits tell

mod armings;
mod chain;
mod item;
mod judge;
mod search;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use program::RunAddr;

use crate::hit::{Content, Hit, Provenance};
use armings::Armings;
use chain::{Chain, Contents as _, Fit};
use item::{Item, Place, What};
pub use item::{Pending, Seen};
use judge::Step;
use search::{Queues, Search};
use settle::Settling;

/// How many hits and looks at memory are put in order together.
const HORIZON: usize = 512;
/// How many wait at most, however late others may be.
const MOST_WAITING: usize = 16_384;
/// How long hits whose order is not certain wait for a later one to decide it.
const PATIENCE_NS: u64 = 100_000_000;
/// How long they wait at most for a moment that everybody was before or after.
const MOST_PATIENCE_NS: u64 = 10 * PATIENCE_NS;
/// How long a hit in its place waits at most for what those that wait tell about its values: they may be as late again.
const MOST_SETTLING_NS: u64 = 2 * MOST_PATIENCE_NS;
/// How much time must have passed for another search to be worth its while.
const BETWEEN_SEARCHES_NS: u64 = 10_000_000;

/// When everything is complete and nobody waits for anything.
const END: u64 = u64::MAX;

/// Puts hits in order as they come.
#[derive(Debug, Default)]
pub struct Orderer {
    queues: Queues,
    waiting: usize,
    chain: Chain,
    settling: Settling,
    armings: Armings,
    last_seq: u64,
    searched_ns: u64,
}

impl Orderer {
    /// A location is watched at an address from now on. `content` is what it held when the watch was set, if nobody can
    /// have written in between.
    pub fn arm(&mut self, location: usize, at: RunAddr, content: Option<Content>) {
        let place = self.armings.arm(location, at);
        self.chain.set(place, content);
    }

    /// A location is no longer watched at an address.
    pub fn leave(&mut self, location: usize, at: RunAddr) {
        self.armings.leave(location, at);
    }

    /// Takes a hit. Those of one thread come in their order, or their times tell it.
    pub fn push(&mut self, pending: Pending) {
        let item = Item {
            place: self.armings.place(pending.hit.location, pending.at),
            earliest_ns: pending.earliest_ns,
            likely_ns: pending.likely_ns,
            latest_ns: pending.hit.time_ns,
            what: What::Access(Box::new(pending.clone())),
        };
        self.enqueue(pending.hit.tid, item);
    }

    /// Takes what memory held after the last hit of a thread, and before its next.
    pub fn see(&mut self, tid: u32, seen: Seen) {
        let item = Item {
            place: self.armings.place(seen.location, seen.at),
            earliest_ns: seen.from_ns,
            likely_ns: seen.from_ns,
            latest_ns: seen.until_ns,
            what: What::Look(seen.content),
        };
        self.enqueue(tid, item);
    }

    /// Puts an item where its time says. In observe mode a thread's stops at probes and its hits come on two ways, of which
    /// either may be the quicker.
    fn enqueue(&mut self, tid: u32, item: Item) {
        let item = item.with_a_span();
        let queue = self.queues.entry(tid).or_default();
        let before = |other: &Item| other.reported_ns() <= item.reported_ns();
        let at = queue.iter().rposition(before).map_or(0, |last| last + 1);
        // What a thread did before this it did no later than this: a look at memory may have had more time than it took.
        let later = |other: &&mut Item| other.latest_ns > item.latest_ns;
        for other in queue.iter_mut().take(at).rev().take_while(later) {
            other.latest_ns = item.latest_ns;
        }
        queue.insert(at, item);
        self.waiting += 1;
    }

    /// The hits that nothing can come before any more, when every hit that can have happened before
    /// `complete_ns` has been pushed. Those whose order is open are kept for a while: a later hit may tell it.
    pub fn ready(&mut self, complete_ns: u64) -> Vec<Hit> {
        while self.is_due(complete_ns) {
            // With no room left, whatever is there must do.
            let known_ns = if self.is_full() { u64::MAX } else { complete_ns };
            let search = Search::new(&self.queues, &self.chain, known_ns, HORIZON);
            let (steps, limited) = (judge::judged(&search), search.limited);
            let keep = self.ready_steps(&steps, limited, complete_ns);
            if keep == 0 {
                break;
            }
            for step in steps.into_iter().take(keep) {
                self.take(step);
            }
        }
        self.searched_ns = self.searched_ns.max(complete_ns);
        let waiting: BTreeSet<Place> = self.queues.values().flatten().map(|item| item.place).collect();
        // A location may be armed a million times: what it held elsewhere is only asked for while hits of then wait.
        self.chain
            .keep(|place| self.armings.is_last(place) || waiting.contains(&place));
        self.settling.release(|place, time_ns| {
            // Whatever waits there is the next to tell.
            let patience_ns = if waiting.contains(&place) {
                MOST_SETTLING_NS
            } else {
                2 * PATIENCE_NS
            };
            time_ns <= so_long_before(complete_ns, patience_ns)
        })
    }

    /// All that is left.
    pub fn flush(&mut self) -> Vec<Hit> {
        self.ready(END)
    }

    fn is_due(&self, complete_ns: u64) -> bool {
        let first = self.queues.values().filter_map(|queue| queue.front());
        let first = first.map(|item| item.latest_ns).min();
        let long_ago = complete_ns.saturating_sub(self.searched_ns) >= BETWEEN_SEARCHES_NS;
        let worth = long_ago || complete_ns == END;
        self.is_full() || first.is_some_and(|first| first <= complete_ns && worth)
    }

    fn is_full(&self) -> bool {
        self.waiting >= MOST_WAITING
    }

    /// How many of the first steps are taken now: those that nothing later changes, and those that have waited
    /// long enough.
    fn ready_steps(&self, steps: &[Step], limited: bool, complete_ns: u64) -> usize {
        let half = steps.len().div_ceil(2);
        let up_to = |time_ns| steps.iter().take_while(|step| step.latest_ns <= time_ns).count();
        let decided = steps.iter().rposition(|step| step.decided);
        let decided = decided.map_or(0, |last| last + 1);
        let waited = if self.is_full() {
            half
        } else if limited {
            // To wait does not help where no more is looked at together; but nobody looked beyond the end.
            up_to(complete_ns).min(half)
        } else {
            let old = up_to(so_long_before(complete_ns, PATIENCE_NS));
            let too_old = up_to(so_long_before(complete_ns, MOST_PATIENCE_NS));
            let parts = self.parts(steps);
            let waited = parts.iter().rfind(|part| **part <= old).copied().unwrap_or(0);
            if waited >= too_old {
                waited
            } else {
                // What is taken together tells most about its values.
                let complete = up_to(complete_ns);
                let next = parts.iter().find(|part| (too_old..=complete).contains(*part));
                next.copied().unwrap_or(too_old)
            }
        };
        decided.max(waited)
    }

    /// After how many of the first steps all is over before anything else can have begun: what tells about others tells
    /// nothing about these.
    fn parts(&self, steps: &[Step]) -> Vec<usize> {
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        for step in steps {
            *taken.entry(step.tid).or_default() += 1;
        }
        let others = self.queues.iter().filter_map(|(tid, queue)| {
            let next = queue.get(taken.get(tid).copied().unwrap_or(0))?;
            Some(next.earliest_ns)
        });
        let mut begins_ns = others.min().unwrap_or(u64::MAX);
        let mut begin = vec![begins_ns; steps.len() + 1];
        for (at, step) in steps.iter().enumerate().rev() {
            begins_ns = begins_ns.min(step.earliest_ns);
            begin[at] = begins_ns;
        }
        let mut ends_ns = 0;
        let mut parts = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            ends_ns = ends_ns.max(step.latest_ns);
            if begin[at + 1] > ends_ns {
                parts.push(at + 1);
            }
        }
        parts
    }

    fn take(&mut self, step: Step) {
        let Some(queue) = self.queues.get_mut(&step.tid) else {
            return;
        };
        let Some(item) = queue.pop_front() else { return };
        if queue.is_empty() {
            self.queues.remove(&step.tid);
        }
        self.waiting = self.waiting.saturating_sub(1);
        let found = item.found().filter(|_| step.fit == Fit::Fits);
        if let Some(found) = found {
            let from = if step.uncertain {
                Provenance::Memory
            } else {
                Provenance::Computed
            };
            self.settling.tell(item.place, found, from);
        }
        let mut completed = item.access().cloned();
        if let Some(pending) = &mut completed {
            self.chain.complete(item.place, pending, step.fit);
        }
        self.chain.follow(&item, step.fit);
        let Some(mut pending) = completed else { return };
        pending.hit.order_uncertain = step.uncertain;
        self.last_seq += 1;
        pending.hit.seq = self.last_seq;
        self.settling.push(item.place, pending);
    }
}

/// The time that hits must be from to have waited so long.
fn so_long_before(complete_ns: u64, patience_ns: u64) -> u64 {
    match complete_ns {
        END => END,
        complete_ns => complete_ns.saturating_sub(patience_ns),
    }
}

#[cfg(test)]
mod late_stops;
#[cfg(test)]
mod moving;
#[cfg(test)]
mod simulation;
