//! Deadlocks: in a run that hangs, threads whose last access is to what another one of them wrote last.
//!
//! Nothing here knows what a lock is. Taking one writes to it, and waiting for one is an access that the thread does
//! not come back from; a cycle of these is what a deadlock looks like from outside, whoever made the lock.

use std::collections::BTreeMap;

use super::accesses::Touch;
use super::interleaving::Found;
use super::{Actor, Predictor, Wait};
use crate::run::{LocationId, Run, ThreadIx};

#[derive(Clone, Copy)]
struct Edge {
    location: LocationId,
    wants: Touch,
    holder: Touch,
}

/// Finds the cycles of a run that hangs.
pub(crate) fn find(
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
        let whole = thread == start && cycle.len() > 1;
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
                location: edge.location,
                wants: actor(&edge.wants),
                held_since: actor(&edge.holder),
            })
            .collect();
        let held = cycle.iter().map(|edge| edge.holder.event);
        let events: Vec<usize> = held.chain(cycle.iter().map(|edge| edge.wants.event)).collect();
        out.found(Predictor::Deadlock { waits }, &events, certain);
    }
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
                    wants,
                    holder,
                },
            ))
        })
        .collect()
}
