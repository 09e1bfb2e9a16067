//! Part of a deadlock: who waits where in a hanging run that did not see who has everything.
//!
//! A lock that does not say who holds it is told by what happened to it, and a run that watched one lock of two knows half of
//! the circle. Another host may have watched the other lock: the evidence puts together what each of them saw.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::blocked::{Blocked, Witness};
use super::{Actor, Role};
use crate::run::{Run, ThreadIx, Wanted};

/// What a run knows of threads that wait for one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Half {
    /// Everybody who waits for a lock or for another thread's end, in order. Who waits where another one of its kind does, is there
    /// twice.
    pub waiting: Vec<Actor>,
    /// Who waits for whom, as far as that was seen.
    pub known: BTreeMap<Actor, Actor>,
}

impl Half {
    /// Of a run; `None` if it tells nothing.
    pub(crate) fn of(run: &Run, edges: &BTreeMap<ThreadIx, Blocked>) -> Option<Self> {
        let waits = |wanted: &Wanted| matches!(wanted, Wanted::Lock { .. } | Wanted::End(_));
        let waiting = run.waits.iter().filter(|waiting| waits(&waiting.wanted));
        let waiting = waiting.filter_map(|waiting| place(run, waiting.thread));
        let mut waiting: Vec<Actor> = waiting.collect();
        waiting.sort();
        let seen = edges.values().filter(|edge| edge.certain && is_seen(edge));
        let seen = seen.filter_map(|edge| Some((place(run, edge.thread)?, place(run, edge.holder)?)));
        let mut half = Self {
            waiting,
            known: seen.collect(),
        };
        let known = std::mem::take(&mut half.known);
        let alone = |(from, to): &(Actor, Actor)| half.waits_alone(from) && half.waits_alone(to);
        let known: BTreeMap<Actor, Actor> = known.into_iter().filter(alone).collect();
        (!known.is_empty()).then_some(Self { known, ..half })
    }

    /// Whether this is one of those who wait, and no other one of its kind waits there.
    fn waits_alone(&self, actor: &Actor) -> bool {
        self.waiting.iter().filter(|waiting| *waiting == actor).count() == 1
    }

    /// Whether it fits a circle: everybody in it waits, some of them were seen to wait for the next one, and nobody for another one.
    /// `None` if nobody was seen to wait for anybody in it.
    pub(crate) fn fits(&self, circle: &[&Actor]) -> Option<bool> {
        if !circle.iter().all(|actor| self.waits_alone(actor)) {
            return Some(false);
        }
        let next = circle.iter().cycle().skip(1);
        let known = circle.iter().zip(next);
        let known = known.filter_map(|(from, to)| Some((self.known.get(*from)?, *to)));
        let known: Vec<bool> = known.map(|(seen, to)| seen == to).collect();
        (!known.is_empty()).then(|| known.iter().all(|fits| *fits))
    }
}

/// Whether it was seen, and does not only follow from the code.
fn is_seen(edge: &Blocked) -> bool {
    edge.witness != Witness::Slice
}

/// Who a thread is, and where it waits.
fn place(run: &Run, thread: ThreadIx) -> Option<Actor> {
    let thread = run.threads.get(thread.0 as usize)?;
    let role: Role = thread.role.clone();
    let statement = *thread.stack.first()?;
    Some(Actor { statement, role })
}

/// The circles that many runs' halves make: each waits for the next, and the last one for the first. Of one that was seen to wait for
/// different others nothing is known.
pub(crate) fn circles<'h>(
    halves: impl Iterator<Item = (&'h Half, u64)>,
    least: u64,
) -> BTreeSet<Vec<&'h Actor>> {
    let mut seen: BTreeMap<&Actor, BTreeMap<&Actor, u64>> = BTreeMap::new();
    for (half, runs) in halves {
        for (from, to) in &half.known {
            *seen.entry(from).or_default().entry(to).or_default() += runs;
        }
    }
    let one = |(from, to): (&'h Actor, BTreeMap<&'h Actor, u64>)| {
        let mut to = to.into_iter();
        let (only, runs) = to.next().filter(|_| to.len() == 0)?;
        (runs >= least).then_some((from, only))
    };
    let next: BTreeMap<&Actor, &Actor> = seen.into_iter().filter_map(one).collect();
    let circle = |&start: &&'h Actor| {
        let mut circle = vec![start];
        let mut at = *next.get(start)?;
        while at != start {
            // Each circle once: from its smallest on. One that leads into another circle is none.
            if at < start || circle.contains(&at) {
                return None;
            }
            circle.push(at);
            at = next.get(at)?;
        }
        (circle.len() > 1).then_some(circle)
    };
    next.keys().filter_map(circle).collect()
}
