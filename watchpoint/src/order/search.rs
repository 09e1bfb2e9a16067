//! All orders of some items that their values and times allow, and the one of them nearest to the order of the reports.
//!
//! An item of a thread can only change places with those few of other threads whose spans of time overlap with its
//! own. So the orders are not gone through one by one: a *situation* is how far each thread has come and what the
//! locations hold, and however one got there, what can follow is the same. A layer has the situations after so many
//! items, with the steps that lead there. Few are different, and all orders are ways through the layers.

use std::collections::{BTreeMap, VecDeque};

use super::chain::{Chain, Fit};
use super::item::Item;

/// How many situations of a layer are followed. More only come up when many threads have been running for long.
const MOST_SITUATIONS: usize = 64;
/// How many threads are tried for the next step.
const MOST_HEADS: usize = 8;

pub(super) type Queues = BTreeMap<u32, VecDeque<Item>>;

/// A step from a situation of the layer before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) thread: usize,
    pub(super) fit: Fit,
}

/// How far each thread has come, and what is where then.
#[derive(Clone, Debug)]
pub(super) struct Situation {
    pub(super) at: Vec<usize>,
    chain: Chain,
    /// The least that must be believed to get here.
    pub(super) strain: u32,
    /// How far the best way here departs from the order of the reports.
    detour_ns: u64,
    /// The steps that lead here, with the last of the best way first.
    pub(super) edges: Vec<Edge>,
}

/// The situations after so many items.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub(super) situations: Vec<Situation>,
    /// Some were left out.
    pub(super) cut: bool,
}

/// The layers of an order of `goal` items.
pub(super) struct Search<'s> {
    pub(super) threads: Vec<&'s VecDeque<Item>>,
    pub(super) tids: Vec<u32>,
    pub(super) layers: Vec<Layer>,
}

impl<'s> Search<'s> {
    /// Looks for orders of the first items that wait, at most `horizon`, from these contents on. Only if there is
    /// none, for those in which something does not fit.
    pub(super) fn new(queues: &'s Queues, chain: &Chain, horizon: usize) -> Self {
        let mut search = Self {
            threads: queues.values().collect(),
            tids: queues.keys().copied().collect(),
            layers: Vec::new(),
        };
        let waiting: usize = search.threads.iter().map(|queue| queue.len()).sum();
        let goal = waiting.min(horizon);
        if !search.run(chain, goal, false) {
            search.run(chain, goal, true);
        }
        search
    }

    fn run(&mut self, chain: &Chain, goal: usize, strained: bool) -> bool {
        let start = Situation {
            at: vec![0; self.threads.len()],
            chain: chain.clone(),
            strain: 0,
            detour_ns: 0,
            edges: Vec::new(),
        };
        self.layers = vec![Layer {
            situations: vec![start],
            cut: false,
        }];
        for _ in 0..goal {
            let mut next = self.next_layer(strained, false);
            if next.situations.is_empty() && strained {
                next = self.next_layer(true, true);
            }
            if next.situations.is_empty() {
                return false;
            }
            self.layers.push(next);
        }
        true
    }

    /// What the last layer leads to; `forced` when nothing that fits is left.
    fn next_layer(&self, strained: bool, forced: bool) -> Layer {
        let mut next = Layer::default();
        let Some(last) = self.layers.last() else {
            return next;
        };
        for (from, situation) in last.situations.iter().enumerate() {
            let heads = self.heads(&situation.at);
            next.cut |= heads.len() > MOST_HEADS;
            let earliest = heads.first().map_or(0, |(time, _)| *time);
            for &(time, thread) in heads.iter().take(MOST_HEADS) {
                let Some(item) = self.item(thread, situation.at[thread]) else {
                    continue;
                };
                for fit in fits(item, &situation.chain, strained, forced) {
                    let mut at = situation.at.clone();
                    at[thread] += 1;
                    let mut chain = situation.chain.clone();
                    chain.follow(item, fit);
                    next.reach(Situation {
                        at,
                        chain,
                        strain: situation.strain + fit.strain(),
                        detour_ns: situation.detour_ns.saturating_add(time - earliest),
                        edges: vec![Edge { from, thread, fit }],
                    });
                }
            }
        }
        next.cut_to_the_best();
        next
    }

    pub(super) fn item(&self, thread: usize, at: usize) -> Option<&'s Item> {
        self.threads.get(thread)?.get(at)
    }

    /// The threads whose next item can be the next of all, with its time, earliest first.
    fn heads(&self, at: &[usize]) -> Vec<(u64, usize)> {
        let heads = self.threads.iter().zip(at).enumerate();
        let heads = heads.filter_map(|(thread, (queue, &at))| {
            let item = queue.get(at)?;
            Some((item.latest_ns, thread, item.earliest_ns))
        });
        let mut heads: Vec<(u64, usize, u64)> = heads.collect();
        heads.sort_unstable();
        // Whatever can have happened before the first report may be first.
        let first = heads.first().map_or(0, |(time, ..)| *time);
        let can_be_first = heads.into_iter().filter(|(_, _, earliest)| *earliest <= first);
        can_be_first.map(|(time, thread, _)| (time, thread)).collect()
    }
}

/// How an item may stand as the next one.
fn fits(item: &Item, chain: &Chain, strained: bool, forced: bool) -> Vec<Fit> {
    let mut fits = Vec::new();
    if chain.allows(item) {
        fits.push(Fit::Fits);
    }
    if strained && item.access().is_some_and(|pending| pending.can_be_overtaken()) {
        fits.push(Fit::Overtaken);
    }
    if forced {
        fits.push(Fit::Contradicts);
        if item.access().is_none() {
            fits.push(Fit::Disregarded);
        }
    }
    fits
}

impl Layer {
    fn reach(&mut self, new: Situation) {
        let same = |old: &&mut Situation| old.at == new.at && old.chain == new.chain;
        let Some(old) = self.situations.iter_mut().find(same) else {
            self.situations.push(new);
            return;
        };
        old.edges.extend(new.edges);
        if (new.strain, new.detour_ns) < (old.strain, old.detour_ns) {
            (old.strain, old.detour_ns) = (new.strain, new.detour_ns);
            let last = old.edges.len() - 1;
            old.edges.swap(0, last);
        }
    }

    fn cut_to_the_best(&mut self) {
        if self.situations.len() > MOST_SITUATIONS {
            self.situations.sort_by_key(Situation::cost);
            self.situations.truncate(MOST_SITUATIONS);
            self.cut = true;
        }
    }
}

impl Situation {
    pub(super) fn cost(&self) -> (u32, u64) {
        (self.strain, self.detour_ns)
    }
}
