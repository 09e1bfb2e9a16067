//! Hits of several threads in an order that their values allow.
//!
//! Threads report their hits on their own; the reports of two accesses that came close together may arrive the
//! other way round. Values tell more than clocks: a read returns the last write, an exchange finds what the one
//! before left. Hits of one thread keep their order; hits of different threads may change places when their
//! times are no further apart than the reports are inexact (the *window*). `search` looks for the order nearest
//! to that of the times in which every exact value fits; what no value decides is marked as uncertain.

mod chain;
mod search;

use std::collections::{BTreeMap, VecDeque};

use crate::hit::Hit;
use crate::values::Update;
use chain::Chain;

/// How many hits are looked at together. Reports are a few hits late, not hundreds.
const HORIZON: usize = 48;
/// How long hits whose order is not certain wait for a later one to decide it.
const PATIENCE_NS: u64 = 100_000_000;

/// A hit on its way, with how its values hang together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The hit; `seq` is given when it leaves.
    pub hit: Hit,
    /// Bytes of its location, at most eight.
    pub len: u32,
    /// How the value after follows from the one before.
    pub update: Option<Update>,
}

/// Puts hits in order as they come.
#[derive(Debug)]
pub struct Orderer {
    window_ns: u64,
    threads: BTreeMap<u32, VecDeque<Pending>>,
    waiting: usize,
    chain: Chain,
    next_seq: u64,
}

impl Orderer {
    /// An orderer for reports that are inexact by so much.
    #[must_use]
    pub fn new(window_ns: u64) -> Self {
        Self {
            window_ns,
            threads: BTreeMap::new(),
            waiting: 0,
            chain: Chain::default(),
            next_seq: 1,
        }
    }

    /// Notes what a location held when its watch was set: `exact` when nobody could write in between.
    pub fn note_initial(&mut self, location: usize, value: u64, exact: bool) {
        self.chain.begin(location, value, exact);
    }

    /// Forgets what a location held: it is somewhere else now.
    pub fn forget(&mut self, location: usize) {
        self.chain.forget(location);
    }

    /// Takes a hit. Those of one thread come in their order.
    pub fn push(&mut self, pending: Pending) {
        self.threads
            .entry(pending.hit.tid)
            .or_default()
            .push_back(pending);
        self.waiting += 1;
    }

    /// The hits that nothing can come before any more, when every hit up to `complete_ns` has been pushed. Some
    /// are kept for a while when a later hit may tell their order.
    pub fn ready(&mut self, complete_ns: u64) -> Vec<Hit> {
        let until = complete_ns.saturating_sub(self.window_ns);
        let mut out = Vec::new();
        while self.earliest().is_some_and(|time| time <= until) {
            // What comes within the window after the last of a batch could still belong before it.
            let found = search::order(&self.threads, &self.chain, self.window_ns, HORIZON);
            let complete = found.len() == self.waiting && complete_ns == u64::MAX;
            let full = found.len() >= HORIZON;
            let impatient = until.saturating_sub(PATIENCE_NS);
            let settled = found
                .iter()
                .take_while(|step| step.time_ns <= until && (!step.uncertain || step.time_ns <= impatient));
            let keep = if complete {
                found.len()
            } else if full {
                found.len() / 2
            } else {
                settled.count()
            };
            if keep == 0 {
                break;
            }
            let taken = found.into_iter().take(keep).collect();
            self.take(taken, &mut out);
        }
        out
    }

    /// All that is left.
    pub fn flush(&mut self) -> Vec<Hit> {
        self.ready(u64::MAX)
    }

    fn earliest(&self) -> Option<u64> {
        let heads = self.threads.values().filter_map(|queue| queue.front());
        heads.map(|pending| pending.hit.time_ns).min()
    }

    fn take(&mut self, order: Vec<search::Step>, out: &mut Vec<Hit>) {
        for step in order {
            let Some(queue) = self.threads.get_mut(&step.tid) else {
                continue;
            };
            let Some(mut pending) = queue.pop_front() else {
                continue;
            };
            if queue.is_empty() {
                self.threads.remove(&step.tid);
            }
            self.waiting = self.waiting.saturating_sub(1);
            self.chain.complete(&mut pending);
            self.chain.follow(&pending);
            pending.hit.order_uncertain = step.uncertain;
            pending.hit.seq = self.next_seq;
            self.next_seq += 1;
            out.push(pending.hit);
        }
    }
}

#[cfg(test)]
mod simulation;
