//! The search for an order: depth first, never the same situation twice.
//!
//! First the earliest hit is tried first, which keeps the order of the reports where it fits. When reports are so
//! late that this leads nowhere, reads that find what is there are taken before anything else: such a read
//! changes nothing, so taking it at once can never be the mistake.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::Pending;
use super::chain::{Chain, Trust};

/// How many steps are tried before another way is taken.
const BUDGET: usize = 5_000;

/// Which hit is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Earliest,
    FittingRead,
}

/// The next hit to take: the first that waits of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) tid: u32,
    pub(super) time_ns: u64,
    /// Another place among its neighbours would do as well, or none does.
    pub(super) uncertain: bool,
}

type Queues = BTreeMap<u32, VecDeque<Pending>>;

/// An order of the first `horizon` hits that wait. When no order fits all of them, the longest that fits the
/// first of them, and then the next by time.
pub(super) fn order(threads: &Queues, chain: &Chain, horizon: usize) -> Vec<Step> {
    let waiting: usize = threads.values().map(VecDeque::len).sum();
    let threads: Vec<&VecDeque<Pending>> = threads.values().collect();
    let goal = waiting.min(horizon);
    let try_with = |first, trust| {
        let mut search = Search {
            threads: &threads,
            first,
            trust,
            goal,
            path: Vec::new(),
            best: Vec::new(),
            dead: HashSet::new(),
            budget: BUDGET,
        };
        let fits = search.extend(&mut vec![0; threads.len()], chain.clone());
        (fits, if fits { search.path } else { search.best })
    };
    let ways = [
        (First::Earliest, Trust::Memory),
        (First::FittingRead, Trust::Memory),
        (First::Earliest, Trust::Registers),
        (First::FittingRead, Trust::Registers),
    ];
    let (mut fits, mut path) = (false, Vec::new());
    for (first, trust) in ways {
        let (found, longest) = try_with(first, trust);
        if found || longest.len() > path.len() {
            (fits, path) = (found, longest);
        }
        if fits {
            break;
        }
    }
    let contradiction = !fits;
    if contradiction {
        // Somebody must be next although nothing fits: the earliest.
        let mut at = vec![0; threads.len()];
        for &thread in &path {
            at[thread] += 1;
        }
        let heads = threads.iter().enumerate();
        let heads = heads.filter_map(|(thread, queue)| Some((queue.get(at[thread])?.hit.time_ns, thread)));
        path.extend(heads.min().map(|(_, thread)| thread));
    }
    judged(&threads, chain, &path, contradiction)
}

struct Search<'s> {
    threads: &'s [&'s VecDeque<Pending>],
    first: First,
    trust: Trust,
    goal: usize,
    path: Vec<usize>,
    /// The longest way that fitted.
    best: Vec<usize>,
    dead: HashSet<(Vec<usize>, Chain)>,
    budget: usize,
}

impl Search<'_> {
    fn extend(&mut self, at: &mut Vec<usize>, chain: Chain) -> bool {
        if self.path.len() == self.goal {
            return true;
        }
        let known_dead = !self.dead.is_empty() && self.dead.contains(&(at.clone(), chain.clone()));
        if self.budget == 0 || known_dead {
            self.note_best();
            return false;
        }
        self.budget -= 1;
        let mut heads = self.heads(at);
        if self.first == First::FittingRead
            && let Some(&fitting) = heads
                .iter()
                .find(|&&thread| self.is_fitting_read(thread, at, &chain))
        {
            heads = vec![fitting];
        }
        for thread in heads {
            let Some(pending) = self.threads[thread].get(at[thread]) else {
                continue;
            };
            if !chain.allows(pending, self.trust) {
                continue;
            }
            let mut next = chain.clone();
            next.follow(pending);
            at[thread] += 1;
            self.path.push(thread);
            if self.extend(at, next) {
                return true;
            }
            self.path.pop();
            at[thread] -= 1;
        }
        self.note_best();
        self.dead.insert((at.clone(), chain));
        false
    }

    /// Remembers the way that leads no further, if it is the longest.
    fn note_best(&mut self) {
        if self.path.len() > self.best.len() {
            self.best.clone_from(&self.path);
        }
    }

    /// Whether a thread's next hit is a read that for certain finds what is there.
    fn is_fitting_read(&self, thread: usize, at: &[usize], chain: &Chain) -> bool {
        let next = self.threads.get(thread).zip(at.get(thread));
        let next = next.and_then(|(queue, &at)| queue.get(at));
        next.is_some_and(|pending| {
            let reads = pending.hit.access.is_some_and(|access| !access.kind.writes());
            reads && chain.holds(pending)
        })
    }

    /// The threads whose next hit can be the next of all, earliest first.
    fn heads(&self, at: &[usize]) -> Vec<usize> {
        let heads = self.threads.iter().zip(at).enumerate();
        let heads = heads.filter_map(|(thread, (queue, &at))| {
            let pending = queue.get(at)?;
            Some((pending.hit.time_ns, thread, pending.earliest_ns))
        });
        let mut heads: Vec<(u64, usize, u64)> = heads.collect();
        heads.sort_unstable();
        // Whoever can have happened before the first report may be first.
        let first = heads.first().map_or(0, |(time, ..)| *time);
        let can_be_first = heads.into_iter().filter(|(_, _, earliest)| *earliest <= first);
        can_be_first.map(|(_, thread, _)| thread).collect()
    }
}

/// Goes along an order and marks the neighbours that could as well have come the other way round.
fn judged(threads: &[&VecDeque<Pending>], chain: &Chain, path: &[usize], contradiction: bool) -> Vec<Step> {
    let mut at = vec![0; threads.len()];
    let mut chain = chain.clone();
    let mut steps: Vec<Step> = Vec::new();
    let mut before: Option<(&Pending, Chain)> = None;
    for &thread in path {
        let Some(pending) = threads[thread].get(at[thread]) else {
            break;
        };
        at[thread] += 1;
        let mut uncertain = !chain.allows(pending, Trust::Registers);
        if let Some((neighbour, before)) = &before
            && could_swap(neighbour, pending, before)
        {
            uncertain = true;
            if let Some(last) = steps.last_mut() {
                last.uncertain = true;
            }
        }
        let was = chain.clone();
        chain.follow(pending);
        before = Some((pending, was));
        steps.push(Step {
            tid: pending.hit.tid,
            time_ns: pending.hit.time_ns,
            uncertain,
        });
    }
    if contradiction && let Some(last) = steps.last_mut() {
        last.uncertain = true;
    }
    steps
}

/// Whether two neighbours fit as well the other way round, and that would make a difference.
fn could_swap(first: &Pending, second: &Pending, before: &Chain) -> bool {
    let (a, b) = (&first.hit, &second.hit);
    let close = second.earliest_ns <= a.time_ns;
    let writes = |hit: &crate::hit::Hit| hit.access.is_none_or(|access| access.kind.writes());
    if a.tid == b.tid || !close || !(writes(a) || writes(b)) {
        return false;
    }
    let mut swapped = before.clone();
    let mut fits = swapped.allows(second, Trust::Registers);
    swapped.follow(second);
    fits &= swapped.allows(first, Trust::Registers);
    // That memory ends up the same is no condition: two writers may come in either order when nobody reads.
    fits
}
