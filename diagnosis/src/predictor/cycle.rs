//! Deadlocks: in a run that hangs, threads whose last access is to what another one of them wrote last.
//!
//! Where that memory was not watched, the stacks and the slice tell: a thread that waits at a statement depends on a statement
//! that another waiting thread has come past in the function that it waits in.
//!
//! Nothing here knows what a lock is. Taking one writes to it, and waiting for one is an access that the thread does
//! not come back from; a cycle of these is what a deadlock looks like from outside, whoever made the lock. Each thread of it waits
//! for another place: threads that all wait for one counter to change do not wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use super::accesses::Touch;
use super::interleaving::Found;
use super::{Actor, Predictor, Wait};
use crate::run::{Catalogue, LocationId, Run, StatementId, ThreadIx};
use crate::sketch::Why;

#[derive(Clone, Copy)]
struct Edge {
    location: LocationId,
    addr: u64,
    wants: Touch,
    holder: Touch,
}

/// Finds the cycles of a run that hangs.
pub(crate) fn find(
    catalogue: &Catalogue,
    run: &Run,
    touches: &BTreeMap<(LocationId, u64), Vec<Touch>>,
    roles: &[u16],
    out: &mut impl Found,
) {
    if !run.failed.is_some_and(|failed| failed.hang) {
        return;
    }
    let edges = waits(run, touches);
    let role = |thread: ThreadIx| roles.get(thread.0 as usize).copied().unwrap_or(0);
    let actor = |touch: &Touch| Actor {
        statement: touch.statement,
        role: role(touch.thread),
    };
    for &start in edges.keys() {
        let mut cycle = Vec::new();
        let mut thread = start;
        while let Some(edge) = edges.get(&thread) {
            cycle.push(edge);
            thread = edge.holder.thread;
            if thread == start || cycle.len() > edges.len() {
                break;
            }
        }
        // Each cycle once: from its thread with the smallest number.
        let places: BTreeSet<_> = cycle.iter().map(|edge| (edge.location, edge.addr)).collect();
        let whole = thread == start && cycle.len() > 1 && places.len() == cycle.len();
        if !whole || cycle.iter().any(|edge| edge.wants.thread < start) {
            continue;
        }
        let certain = cycle.iter().all(|edge| edge.holder.certainly_before(&edge.wants));
        let least = (0..cycle.len())
            .min_by_key(|&at| (cycle[at].location, actor(&cycle[at].wants)))
            .unwrap_or(0);
        cycle.rotate_left(least);
        let waits = cycle
            .iter()
            .map(|edge| Wait {
                location: Some(edge.location),
                wants: actor(&edge.wants),
                held_since: actor(&edge.holder),
            })
            .collect();
        let held = cycle.iter().map(|edge| edge.holder.event);
        let events: Vec<usize> = held.chain(cycle.iter().map(|edge| edge.wants.event)).collect();
        out.found(Predictor::Deadlock { waits }, &events, certain);
    }
    // Runs that did not watch the locks know it as well: it is counted over all of them.
    if let Some(waits) = by_stacks(catalogue, run, roles) {
        out.found(Predictor::Deadlock { waits }, &[], true);
    }
}

/// The statement at which a thread of a hanging run waits, for one that another waiting thread has come past.
pub(crate) struct Blocked {
    pub thread: ThreadIx,
    pub wants: StatementId,
    pub holder: ThreadIx,
    pub held_since: StatementId,
}

/// Whom each thread of a hanging run waits for, by the stacks and the slice.
pub(crate) fn blocked(catalogue: &Catalogue, run: &Run) -> Vec<Blocked> {
    if run.failed.is_some_and(|failed| failed.polls) {
        return Vec::new();
    }
    let info = |id: StatementId| catalogue.statements.get(id.0 as usize);
    let threads = || (0..).map(ThreadIx).zip(&run.threads);
    let mut all = Vec::new();
    for (thread, wants) in threads().filter_map(|(at, thread)| Some((at, *thread.stack.first()?))) {
        let holding = threads()
            .filter(|(other, _)| *other != thread)
            .find_map(|(holder, other)| {
                let place = info(*other.stack.first()?)?;
                let passed = catalogue.statements.iter().enumerate().filter(|(_, passed)| {
                    let needed = passed
                        .because
                        .is_some_and(|because| because.of == wants && because.why == Why::Data);
                    needed && passed.function == place.function && passed.pc < place.pc
                });
                let (at, _) = passed.max_by_key(|(_, passed)| passed.pc)?;
                Some((holder, StatementId(u32::try_from(at).ok()?)))
            });
        if let Some((holder, held_since)) = holding {
            all.push(Blocked {
                thread,
                wants,
                holder,
                held_since,
            });
        }
    }
    // Who waits for nobody is in no cycle, and whoever waits for him is not, either.
    loop {
        let waiting: Vec<ThreadIx> = all.iter().map(|blocked| blocked.thread).collect();
        let before = all.len();
        all.retain(|blocked| waiting.contains(&blocked.holder));
        if all.len() == before {
            return all;
        }
    }
}

fn by_stacks(catalogue: &Catalogue, run: &Run, roles: &[u16]) -> Option<Vec<Wait<u16>>> {
    let actor = |thread: ThreadIx, statement| Actor {
        statement,
        role: roles.get(thread.0 as usize).copied().unwrap_or(0),
    };
    let mut waits: Vec<Wait<u16>> = blocked(catalogue, run)
        .iter()
        .map(|blocked| Wait {
            location: None,
            wants: actor(blocked.thread, blocked.wants),
            held_since: actor(blocked.holder, blocked.held_since),
        })
        .collect();
    waits.sort_unstable();
    waits.dedup();
    (waits.len() > 1).then_some(waits)
}

/// For each thread that ends in an access: to what, and who wrote there last before it.
fn waits(run: &Run, touches: &BTreeMap<(LocationId, u64), Vec<Touch>>) -> BTreeMap<ThreadIx, Edge> {
    let mut ends: BTreeMap<ThreadIx, (LocationId, u64, Touch)> = BTreeMap::new();
    for ((location, addr), list) in touches {
        for touch in list {
            let end = ends.entry(touch.thread).or_insert((*location, *addr, *touch));
            if touch.event >= end.2.event {
                *end = (*location, *addr, *touch);
            }
        }
    }
    ends.retain(|thread, (_, _, touch)| {
        let stack = run
            .threads
            .get(thread.0 as usize)
            .map_or(&[][..], |thread| &thread.stack);
        stack.is_empty() || stack.contains(&touch.statement)
    });
    ends.into_iter()
        .filter_map(|(thread, (location, addr, wants))| {
            let list = touches.get(&(location, addr))?;
            let mut others = list
                .iter()
                .filter(|touch| touch.event < wants.event && touch.thread != thread);
            let holder = *others.rfind(|touch| touch.kind.writes())?;
            Some((
                thread,
                Edge {
                    location,
                    addr,
                    wants,
                    holder,
                },
            ))
        })
        .collect()
}
