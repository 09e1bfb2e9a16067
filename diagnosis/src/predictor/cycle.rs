//! Deadlocks: in a run that hangs, threads that wait for one another, or for one that is over.
//!
//! Who waits for whom, [`super::blocked`] knows. A predictor says who waits where: that is the same in every run, whether memory was
//! watched or not. Where each thread got what the next one wants is seen in some runs and not in others; the evidence
//! gathers it.

use std::collections::BTreeSet;

use super::blocked::{Blocked, Touches, Witness, blocked, is_open};
use super::halves::Half;
use super::interleaving::Found;
use super::{Actor, Ending, Predictor, Role, Wait};
use crate::run::{Catalogue, LocationId, Run, StatementId, ThreadIx, Wanted};

/// Threads that do not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadlock {
    /// Each waits for the next; in a cycle the last for the first.
    pub threads: Vec<Blocked>,
    /// How it goes on behind the last one.
    pub ending: Ending,
    /// Of [`Ending::Elsewhere`]: the thread that has what the last one wants, and where it is.
    pub beyond: Option<(ThreadIx, StatementId)>,
}

/// What a run says of deadlocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether it says something at all: if somebody waits for a lock and nobody knows for whom, it may have had any.
    pub known: bool,
    /// Where what somebody waits for was got.
    pub acquired: BTreeSet<Acquired>,
    /// What it knows if it does not know all.
    pub half: Option<Half>,
}

/// Where somebody got what somebody else waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct Acquired {
    /// Who waits, and where.
    pub wants: Actor,
    /// Who has it, since where.
    pub since: Option<Actor>,
    /// What it is.
    pub location: Option<LocationId>,
    /// It was seen, and does not only follow from the code.
    pub seen: bool,
}

/// Finds the deadlocks of a run that hangs.
pub(crate) fn find(catalogue: &Catalogue, run: &Run, touches: &Touches, roles: &[u16], out: &mut impl Found) {
    for deadlock in deadlocks(catalogue, run, touches) {
        let certain = deadlock.threads.iter().all(|blocked| blocked.certain);
        let events = deadlock.events();
        out.found(deadlock.predictor(roles), &events, certain);
    }
}

/// What a run says of deadlocks, beside which there are.
pub(crate) fn told(catalogue: &Catalogue, run: &Run, touches: &Touches) -> Told {
    if !hangs(run) {
        return Told::default();
    }
    let found = deadlocks(catalogue, run, touches);
    let role = |thread: ThreadIx| -> Role {
        let thread = run.threads.get(thread.0 as usize);
        thread.map_or_else(|| "".into(), |thread| thread.role.clone())
    };
    let actor = |thread, statement| Actor {
        statement,
        role: role(thread),
    };
    let edges = blocked(catalogue, run, touches);
    let known = !found.is_empty() || !is_open(run, &edges);
    let half = Half::of(run, &edges).filter(|_| !known);
    let acquired: Vec<&Blocked> = match half {
        Some(_) => edges.values().collect(),
        None => found.iter().flat_map(|deadlock| &deadlock.threads).collect(),
    };
    let acquired = acquired.into_iter().map(|blocked| Acquired {
        wants: actor(blocked.thread, blocked.wants),
        since: blocked.since.map(|since| actor(blocked.holder, since.statement)),
        location: blocked.location,
        seen: blocked.since.is_some_and(|since| since.event.is_some()),
    });
    Told {
        known,
        acquired: acquired.collect(),
        half,
    }
}

fn hangs(run: &Run) -> bool {
    run.failed.is_some_and(|failed| failed.hang)
}

/// The deadlocks of a run.
pub(crate) fn deadlocks(catalogue: &Catalogue, run: &Run, touches: &Touches) -> Vec<Deadlock> {
    if !hangs(run) {
        return Vec::new();
    }
    let edges = blocked(catalogue, run, touches);
    let mut found = Vec::new();
    for &start in edges.keys() {
        let mut cycle = Vec::new();
        let mut thread = start;
        while let Some(edge) = edges.get(&thread) {
            cycle.push(*edge);
            thread = edge.holder;
            if thread == start || cycle.len() > edges.len() {
                break;
            }
        }
        // Threads that all wait for one counter to change do not wait for one another.
        let places = cycle.iter().filter(|edge| edge.witness != Witness::Lock);
        let places: Vec<u64> = places.filter_map(|edge| edge.addr).collect();
        let apart = places.iter().collect::<BTreeSet<_>>().len() == places.len();
        // Each cycle once: from its thread with the smallest number.
        if thread == start && apart && cycle.iter().all(|edge| edge.thread >= start) {
            found.push(Deadlock {
                threads: cycle,
                ending: Ending::Cycle,
                beyond: None,
            });
        }
    }
    let ended = |thread: ThreadIx| {
        run.threads
            .get(thread.0 as usize)
            .is_some_and(|thread| thread.ended)
    };
    // A flag that somebody set before he ended is not his.
    let is_lock = |edge: &&Blocked| matches!(edge.witness, Witness::Lock | Witness::History);
    let left = edges.values().filter(|edge| ended(edge.holder)).filter(is_lock);
    found.extend(left.map(|edge| Deadlock {
        threads: vec![*edge],
        ending: Ending::Ended,
        beyond: None,
    }));
    if found.is_empty() {
        found.extend(edges.values().filter_map(|edge| elsewhere(run, edge)));
    }
    found
}

/// A thread that waits for a lock whose holder waits for a signal.
fn elsewhere(run: &Run, edge: &Blocked) -> Option<Deadlock> {
    let waits = run.waits.iter().find(|waits| waits.thread == edge.holder)?;
    let place = run.threads.get(edge.holder.0 as usize)?.stack.first()?;
    let is_lock = edge.witness == Witness::Lock && edge.addr.is_some();
    (is_lock && matches!(waits.wanted, Wanted::Word(_))).then_some(Deadlock {
        threads: vec![*edge],
        ending: Ending::Elsewhere,
        beyond: Some((edge.holder, *place)),
    })
}

impl Deadlock {
    /// Its accesses: where what is wanted was got, then where it is wanted, as far as that was seen.
    pub(crate) fn events(&self) -> Vec<usize> {
        let since = self.threads.iter().filter_map(|blocked| blocked.since?.event);
        let wants = self.threads.iter().filter_map(|blocked| blocked.event);
        since.chain(wants).collect()
    }

    /// How many accesses were not seen.
    pub(crate) fn unseen(&self) -> usize {
        (2 * self.threads.len()).saturating_sub(self.events().len())
    }

    fn predictor(&self, roles: &[u16]) -> Predictor<u16> {
        let wait = |thread: ThreadIx, statement| Wait {
            location: None,
            wants: Actor {
                statement,
                role: roles.get(thread.0 as usize).copied().unwrap_or(0),
            },
            held_since: None,
        };
        let mut waits: Vec<Wait<u16>> = self
            .threads
            .iter()
            .map(|blocked| wait(blocked.thread, blocked.wants))
            .collect();
        if self.ending == Ending::Cycle {
            waits = as_one(&waits);
        }
        waits.extend(self.beyond.map(|(thread, place)| wait(thread, place)));
        Predictor::Deadlock {
            waits,
            ending: self.ending,
        }
    }
}

/// A cycle by what it consists of: three philosophers who each wait for the next are the same deadlock as five. Two is the fewest
/// that can stand for many; one alone waits for itself.
fn as_one(cycle: &[Wait<u16>]) -> Vec<Wait<u16>> {
    let count = cycle.len();
    let repeats = |period: usize| (0..count).all(|at| cycle[at] == cycle[(at + period) % count]);
    let period = (1..=count)
        .find(|&period| count.is_multiple_of(period) && repeats(period))
        .unwrap_or(count);
    let least = period.max(count.min(2));
    let rotations = (0..count).map(|first| {
        let from_here = (0..least).map(|at| cycle[(first + at) % count]);
        from_here.collect::<Vec<_>>()
    });
    rotations.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(statements: &[u32]) -> Vec<Wait<u16>> {
        let wait = |&statement: &u32| Wait {
            location: None,
            wants: Actor {
                statement: StatementId(statement),
                role: 0,
            },
            held_since: None,
        };
        statements.iter().map(wait).collect()
    }

    #[test]
    fn a_cycle_is_what_it_consists_of() {
        for (threads, expected) in [
            (&[7][..], &[7][..]),
            (&[7, 7], &[7, 7]),
            (&[7, 7, 7, 7, 7], &[7, 7]),
            (&[9, 7], &[7, 9]),
            (&[9, 7, 9, 7], &[7, 9]),
            (&[9, 7, 7], &[7, 7, 9]),
        ] {
            assert_eq!(as_one(&cycle(threads)), cycle(expected), "{threads:?}");
        }
    }
}
