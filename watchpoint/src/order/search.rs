//! All orders of some items that their values and times allow, and the one of them nearest to the order of the reports.
//!
//! An item of a thread can only change places with those few of other threads whose spans of time overlap with its
//! own. So the orders are not gone through one by one: a *situation* is how far each thread has come and what the
//! locations hold, and however one got there, what can follow is the same. A layer has the situations after so many
//! items, with the steps that lead there. Few are different, and all orders are ways through the layers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::chain::{Branch, Chain, Contents as _, Fit};
use super::item::{Item, Place, Times};
use crate::hit::Content;

/// How many situations of a layer are followed. More only come up when many threads have been running for long.
const MOST_SITUATIONS: usize = 64;
/// The same when none of those led to an order, and some were left out.
const MANY_SITUATIONS: usize = 512;
/// Of how many items that pays: what comes between two moments at which everything is known to be there.
const FEW: usize = 256;
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
pub(super) struct Situation<'s> {
    pub(super) at: Vec<usize>,
    chain: Branch<'s>,
    /// The least that must be believed to get here.
    pub(super) strain: u32,
    /// How far the best way here departs from the order of the reports.
    detour_ns: u64,
    /// The steps that lead here, with the last of the best way first.
    pub(super) edges: Vec<Edge>,
}

/// The situations after so many items.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer<'s> {
    pub(super) situations: Vec<Situation<'s>>,
    /// Where a situation is, by a hash of what it is.
    index: HashMap<u64, Vec<usize>>,
    /// Some were left out.
    pub(super) cut: bool,
    /// Because there were too many.
    crowded: bool,
}

/// The layers of all orders of some items.
pub(super) struct Search<'s> {
    pub(super) threads: Vec<&'s VecDeque<Item>>,
    pub(super) tids: Vec<u32>,
    pub(super) layers: Vec<Layer<'s>>,
    /// How many items of each thread must be in an order.
    required: Vec<usize>,
    /// The last items at each place that can be reached, by thread.
    last: HashMap<Place, Vec<(usize, usize)>>,
    /// Orders were not followed to their ends.
    pub(super) limited: bool,
    /// The times that the orders keep to.
    pub(super) times: Times,
    /// When each place was looked at for the last time.
    last_looks: BTreeMap<Place, u64>,
}

/// What is believed of items that follow nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Nothing: such an order is none.
    Strict,
    /// Looks at memory are left out where they do not fit, but for the last ones. With many threads there are more orders
    /// than can be followed, and what accesses found and left must fit all the same.
    WithoutLooks,
    /// They are believed, if there is no other way.
    Strained,
}

impl<'s> Search<'s> {
    /// Looks for orders of the items that are complete: whatever happened before `complete_ns` is there. Later items may
    /// be in an order, where they came before complete ones, or not: what is not there yet may have come before
    /// them. No more than `horizon` items are looked at. Only if there is no order, one is looked for in which
    /// something does not fit.
    pub(super) fn new(queues: &'s Queues, chain: &'s Chain, complete_ns: u64, horizon: usize) -> Self {
        let required = |queue: &VecDeque<Item>| {
            let last = queue.iter().rposition(|item| item.latest_ns <= complete_ns);
            last.map_or(0, |last| last + 1)
        };
        let mut search = Self {
            threads: queues.values().collect(),
            tids: queues.keys().copied().collect(),
            layers: Vec::new(),
            required: queues.values().map(required).collect(),
            last: last_of_places(queues, horizon),
            limited: false,
            times: Times::Likely,
            last_looks: last_looks(queues, complete_ns),
        };
        if search.run(chain, horizon, Belief::Strict, MOST_SITUATIONS) {
            return search;
        }
        let noted = |item: &Item| item.likely_ns > item.earliest_ns;
        let noted = queues.values().flatten().any(noted);
        if noted {
            search.times = Times::Certain;
            if search.run(chain, horizon, Belief::Strict, MOST_SITUATIONS) {
                return search;
            }
        }
        let crowded = search.layers.iter().any(|layer| layer.crowded);
        let few = search.required.iter().sum::<usize>() <= FEW;
        if crowded && few && search.run(chain, horizon, Belief::Strict, MANY_SITUATIONS) {
            return search;
        }
        // Rare where times are noted (a virtual machine was stopped between an access and its time), and then the last
        // resort; where they are not, it would be the rule, and costs several times as much as everything else.
        let cut = search.layers.iter().any(|layer| layer.cut);
        if noted && cut && search.run(chain, horizon, Belief::WithoutLooks, MOST_SITUATIONS) {
            return search;
        }
        search.run(chain, horizon, Belief::Strained, MOST_SITUATIONS);
        search
    }

    fn run(&mut self, chain: &'s Chain, horizon: usize, belief: Belief, most: usize) -> bool {
        let start = Situation {
            at: vec![0; self.threads.len()],
            chain: chain.branch(),
            strain: 0,
            detour_ns: 0,
            edges: Vec::new(),
        };
        let mut layer = Layer::default();
        layer.reach(start);
        let mut has_end = false;
        self.limited = false;
        self.layers = Vec::new();
        for _ in 0..horizon {
            let ends = layer.situations.iter().filter(|situation| self.is_end(situation));
            let ends = ends.count();
            has_end |= ends > 0;
            let over = ends == layer.situations.len();
            self.layers.push(layer);
            if over {
                return has_end;
            }
            layer = self.next_layer(belief, false, most);
            if layer.situations.is_empty() && !has_end && belief == Belief::Strained {
                layer = self.next_layer(belief, true, most);
            }
            if layer.situations.is_empty() {
                return has_end;
            }
        }
        self.limited = layer.situations.iter().any(|situation| !self.is_end(situation));
        self.layers.push(layer);
        true
    }

    /// Whether a situation has everything that must be in an order.
    fn is_end(&self, situation: &Situation<'_>) -> bool {
        situation
            .at
            .iter()
            .zip(&self.required)
            .all(|(at, required)| at >= required)
    }

    /// Whether an order may end with a situation of a layer.
    pub(super) fn may_end(&self, layer: usize, situation: &Situation<'_>) -> bool {
        self.is_end(situation) || (self.limited && layer + 1 == self.layers.len())
    }

    /// What the last layer leads to; `forced` when nothing that fits is left.
    fn next_layer(&self, belief: Belief, forced: bool, most: usize) -> Layer<'s> {
        let mut next = Layer::default();
        let Some(last) = self.layers.last() else {
            return next;
        };
        let open = last.situations.iter().enumerate();
        for (from, situation) in open.filter(|(_, situation)| !self.is_end(situation)) {
            let heads = self.heads(&situation.at);
            next.cut |= heads.len() > MOST_HEADS;
            let earliest = heads.first().map_or(0, |(time, _)| *time);
            let wanted = match belief {
                Belief::WithoutLooks => self.wanted(situation, &heads),
                Belief::Strict | Belief::Strained => Wanted::default(),
            };
            for (number, &(time, thread)) in heads.iter().enumerate() {
                let Some(item) = self.item(thread, situation.at[thread]) else {
                    continue;
                };
                if number >= MOST_HEADS && !wanted.serves(item, &situation.chain) {
                    continue;
                }
                for fit in self.fits(item, &situation.chain, belief, forced) {
                    let mut at = situation.at.clone();
                    at[thread] += 1;
                    let mut chain = situation.chain.clone();
                    chain.follow(item, fit);
                    if self.is_over(item.place, &at) {
                        chain.forget(item.place);
                    }
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
        next.cut_to_the_best(most);
        next
    }

    /// Whether nothing happens at a place any more when threads have come so far.
    fn is_over(&self, place: Place, at: &[usize]) -> bool {
        let last = self.last.get(&place);
        last.is_none_or(|last| last.iter().all(|&(thread, last)| at[thread] > last))
    }

    pub(super) fn item(&self, thread: usize, at: usize) -> Option<&'s Item> {
        self.threads.get(thread)?.get(at)
    }

    /// What must be there for accesses that do not fit yet.
    fn wanted(&self, situation: &Situation<'_>, heads: &[(u64, usize)]) -> Wanted {
        let mut wanted = Wanted::default();
        let items = heads
            .iter()
            .filter_map(|&(_, thread)| self.item(thread, situation.at[thread]));
        let accesses = || {
            items
                .clone()
                .filter_map(|item| Some((item.place, item.access()?)))
        };
        for (place, access) in accesses().take(MOST_HEADS) {
            let found = access.found().zip(situation.chain.get(place));
            let Some((found, _)) = found.filter(|(found, there)| found != there) else {
                continue;
            };
            wanted.0.insert((place, found));
            let others = accesses().filter(|(other, _)| *other == place);
            let before = others.filter_map(|(place, access)| Some((place, access.undone(found)?)));
            wanted.0.extend(before);
        }
        wanted
    }

    /// How an item may stand as the next one.
    fn fits(&self, item: &Item, chain: &Branch<'_>, belief: Belief, forced: bool) -> Vec<Fit> {
        let mut fits = Vec::new();
        if chain.allows(item) {
            fits.push(Fit::Fits);
        } else if belief == Belief::WithoutLooks && item.access().is_none() {
            let is_last = self.last_looks.get(&item.place) == Some(&item.latest_ns);
            fits.extend((!is_last).then_some(Fit::Disregarded));
        }
        let strained = belief == Belief::Strained;
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

    /// The threads whose next item can be the next of all, with its time, earliest first.
    fn heads(&self, at: &[usize]) -> Vec<(u64, usize)> {
        let heads = self.threads.iter().zip(at).enumerate();
        let heads = heads.filter_map(|(thread, (queue, &at))| {
            let item = queue.get(at)?;
            Some((item.latest_ns, thread, item.begins_ns(self.times)))
        });
        let mut heads: Vec<(u64, usize, u64)> = heads.collect();
        heads.sort_unstable();
        // Whatever can have happened before the first report may be first.
        let first = heads.first().map_or(0, |(time, ..)| *time);
        let can_be_first = heads.into_iter().filter(|(_, _, earliest)| *earliest <= first);
        can_be_first.map(|(time, thread, _)| (time, thread)).collect()
    }
}

/// Contents that some access found, or that are one access away from that.
#[derive(Default)]
struct Wanted(HashSet<(Place, Content)>);

impl Wanted {
    /// Whether an access of a thread that is reported much later explains what others found, or fits just now: it had to
    /// wait for a processor before it stopped, while many others stopped.
    fn serves(&self, item: &Item, chain: &Branch<'_>) -> bool {
        let (Some(access), Some(there)) = (item.access(), chain.get(item.place)) else {
            return false;
        };
        if let Some(found) = access.found() {
            return found == there;
        }
        let then = access.left().or_else(|| access.applied(there));
        then.is_some_and(|then| self.0.contains(&(item.place, then)))
    }
}

/// When each place was looked at for the last time, of what is complete.
fn last_looks(queues: &Queues, complete_ns: u64) -> BTreeMap<Place, u64> {
    let mut last = BTreeMap::new();
    let complete = queues
        .values()
        .flatten()
        .filter(|item| item.latest_ns <= complete_ns);
    for look in complete.filter(|item| item.access().is_none()) {
        let at = last.entry(look.place).or_insert(0);
        *at = look.latest_ns.max(*at);
    }
    last
}

/// Where the last item of each thread at each place is, of those that so many steps can reach.
fn last_of_places(queues: &Queues, horizon: usize) -> HashMap<Place, Vec<(usize, usize)>> {
    let mut last: HashMap<Place, Vec<(usize, usize)>> = HashMap::new();
    for (thread, queue) in queues.values().enumerate() {
        for (at, item) in queue.iter().take(horizon).enumerate() {
            let here = last.entry(item.place).or_default();
            match here.last_mut().filter(|(other, _)| *other == thread) {
                Some((_, last)) => *last = at,
                None => here.push((thread, at)),
            }
        }
    }
    last
}

impl<'s> Layer<'s> {
    fn reach(&mut self, new: Situation<'s>) {
        let here = self.index.entry(new.key()).or_default();
        let same = |at: &&usize| {
            let old = &self.situations[**at];
            old.at == new.at && old.chain == new.chain
        };
        let Some(&at) = here.iter().find(same) else {
            here.push(self.situations.len());
            self.situations.push(new);
            return;
        };
        let old = &mut self.situations[at];
        old.edges.extend(new.edges);
        if (new.strain, new.detour_ns) < (old.strain, old.detour_ns) {
            (old.strain, old.detour_ns) = (new.strain, new.detour_ns);
            let last = old.edges.len() - 1;
            old.edges.swap(0, last);
        }
    }

    fn cut_to_the_best(&mut self, most: usize) {
        self.index = HashMap::new();
        if self.situations.len() > most {
            self.situations.sort_by_key(Situation::cost);
            self.situations.truncate(most);
            self.cut = true;
            self.crowded = true;
        }
    }
}

impl Situation<'_> {
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.at, &self.chain).hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn cost(&self) -> (u32, u64) {
        (self.strain, self.detour_ns)
    }
}
