//! Hits of several threads in an order that their values allow.
//!
//! Threads report their hits on their own; the reports of two accesses that came close together may arrive the
//! other way round. Values tell more than clocks: a read returns the last write, an exchange finds what the one
//! before left. Hits of one thread keep their order; hits of different threads may change places when the spans
//! of time in which they can have happened overlap. `search` looks for the order nearest to that of the reports
//! in which every exact value fits; what no value decides is marked as uncertain.

mod chain;
mod search;

use std::collections::{BTreeMap, VecDeque};

use crate::hit::{Hit, Provenance, Value};
use crate::values::Update;
use chain::Chain;

/// How many hits are put in order together.
const HORIZON: usize = 512;
/// How many hits wait at most, however late others may be.
const MOST_WAITING: usize = 4096;
/// How long hits whose order is not certain wait for a later one to decide it.
const PATIENCE_NS: u64 = 100_000_000;

/// A hit on its way, with how its values hang together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The hit; `seq` is given when it leaves. Its time is that of the report.
    pub hit: Hit,
    /// It did not happen before this.
    pub earliest_ns: u64,
    /// The watch was set after it: what is known of the location's content is what it left.
    pub is_first: bool,
    /// Bytes of its location, at most eight.
    pub len: u32,
    /// How the value after follows from the one before.
    pub update: Option<Update>,
}

/// Puts hits in order as they come.
#[derive(Debug, Default)]
pub struct Orderer {
    threads: BTreeMap<u32, VecDeque<Pending>>,
    waiting: usize,
    chain: Chain,
    last_seq: u64,
    /// In order already, from the first on whose value the next one may tell.
    unsettled: Vec<Hit>,
}

impl Orderer {
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

    /// The hits that nothing can come before any more, when every hit that can have happened before
    /// `complete_ns` has been pushed. Those that overlap with other threads' are kept for a while: a later hit
    /// may tell their order.
    pub fn ready(&mut self, complete_ns: u64) -> Vec<Hit> {
        let mut out = std::mem::take(&mut self.unsettled);
        self.put_in_order(complete_ns, &mut out);
        let old_ns = complete_ns.saturating_sub(2 * PATIENCE_NS);
        let settled = settled(&out, old_ns);
        self.unsettled = out.split_off(settled);
        out
    }

    fn put_in_order(&mut self, complete_ns: u64, out: &mut Vec<Hit>) {
        loop {
            let full = self.waiting >= MOST_WAITING;
            let old_ns = complete_ns.saturating_sub(PATIENCE_NS);
            let old = full || self.earliest_report().is_some_and(|time| time <= old_ns);
            let alone = self.alone(complete_ns);
            if alone == 0 && !old {
                return;
            }
            let found = search::order(&self.threads, &self.chain, HORIZON);
            let aged = found.iter().take_while(|step| step.time_ns <= old_ns).count();
            let aged = match aged {
                0 if full => found.len().div_ceil(2),
                // The end of a horizon was not looked beyond.
                aged if found.len() < self.waiting => aged.min(found.len().div_ceil(2)),
                aged => aged,
            };
            let keep = aged.max(alone);
            if keep == 0 {
                return;
            }
            let taken = found.into_iter().take(keep).collect();
            self.take(taken, out);
        }
    }

    /// How many of the first hits are one thread's alone, for as long as they can have taken.
    fn alone(&self, complete_ns: u64) -> usize {
        let mut queues = self.threads.values();
        let first = queues.clone().min_by_key(|queue| report_of(queue));
        let Some(first) = first else { return 0 };
        let others = queues.by_ref().filter(|queue| !std::ptr::eq(*queue, first));
        let next = others
            .filter_map(|queue| queue.front())
            .map(|pending| pending.earliest_ns);
        let until = next.min().unwrap_or(u64::MAX);
        let before = first
            .iter()
            .take_while(|pending| pending.hit.time_ns < until && pending.hit.time_ns <= complete_ns);
        before.take(HORIZON).count()
    }

    /// All that is left.
    pub fn flush(&mut self) -> Vec<Hit> {
        self.ready(u64::MAX)
    }

    fn earliest_report(&self) -> Option<u64> {
        self.threads.values().map(report_of).min()
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
            self.last_seq += 1;
            pending.hit.seq = self.last_seq;
            if !step.uncertain {
                tell_back(&pending.hit, out);
            }
            out.push(pending.hit);
        }
    }
}

/// How many of the first hits are not told anything more by later ones; those up to `old_ns` do not wait.
fn settled(hits: &[Hit], old_ns: u64) -> usize {
    let mut followed = Vec::new();
    let mut settled = hits.len();
    for (at, hit) in hits.iter().enumerate().rev() {
        let open = is_open(hit) && !followed.contains(&hit.location);
        if open && hit.time_ns > old_ns {
            settled = at;
        }
        if !followed.contains(&hit.location) {
            followed.push(hit.location);
        }
    }
    settled
}

/// Whether the next access can tell what this one saw or left behind.
fn is_open(hit: &Hit) -> bool {
    hit.access.is_some() && hit.value.is_some_and(|value| !value.is_exact())
}

/// What an access found is what the last one before it left there: where that one could not tell for certain (an
/// exchange keeps what it found, not what it stored), now it is known. So it is for reads in between.
fn tell_back(hit: &Hit, before: &mut [Hit]) {
    let Some(found) = hit.before.filter(Value::is_exact) else {
        return;
    };
    let here = before
        .iter_mut()
        .rev()
        .filter(|other| other.location == hit.location);
    for last in here.take_while(|last| is_open(last)) {
        let agreed = last.value.is_some_and(|value| value.bits == found.bits);
        last.value = Some(Value::new(found.bits, Provenance::Computed));
        // What memory seemed to say about it was about something later.
        last.before = last.before.filter(|before| agreed || before.is_exact());
        if last.access.is_some_and(|access| access.kind.writes()) {
            break;
        }
    }
}

/// When the first hit of a thread was reported.
fn report_of(queue: &VecDeque<Pending>) -> u64 {
    queue.front().map_or(u64::MAX, |pending| pending.hit.time_ns)
}

#[cfg(test)]
mod simulation;
