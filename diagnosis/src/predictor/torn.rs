//! Two locations that belong together, of which a thread saw one after another thread's change and the other one before.
//!
//! One pass over all accesses in their order. It remembers the last write at each address, and of each thread the last reads
//! with the write that each returned; a read is put together with the few before it that were of other locations.

use std::collections::{BTreeMap, HashMap};

use super::accesses::Touch;
use super::interleaving::Found;
use super::{Actor, Predictor};
use crate::run::{LocationId, ThreadIx};

/// Reads of a thread, of different locations, that are taken for a look at things that belong together.
const TOGETHER: usize = 3;

/// A read, and the write that it returned.
#[derive(Clone, Copy)]
struct Read {
    location: LocationId,
    touch: Touch,
    returned: Option<Touch>,
    /// That was the first one there.
    initial: bool,
}

/// Finds them.
pub(crate) fn find(touches: &BTreeMap<(LocationId, u64), Vec<Touch>>, roles: &[u16], out: &mut impl Found) {
    let all = touches
        .iter()
        .flat_map(|((location, addr), list)| list.iter().map(move |touch| (*location, *addr, *touch)));
    let mut all: Vec<(LocationId, u64, Touch)> = all.collect();
    all.sort_by_key(|(_, _, touch)| touch.event);
    let mut written: HashMap<u64, (Touch, bool)> = HashMap::new();
    let mut recent: HashMap<ThreadIx, Vec<Read>> = HashMap::new();
    for (location, addr, touch) in all {
        if touch.kind.reads() {
            let last = written.get(&addr).copied();
            let read = Read {
                location,
                touch,
                returned: last.map(|(write, _)| write),
                initial: last.is_some_and(|(_, initial)| initial),
            };
            let before = recent.entry(touch.thread).or_default();
            before.retain(|other| other.location != location);
            for other in &*before {
                pair(other, &read, roles, out);
                pair(&read, other, roles, out);
            }
            before.push(read);
            if before.len() > TOGETHER {
                before.remove(0);
            }
        }
        if touch.kind.writes() {
            let initial = !written.contains_key(&addr);
            written.insert(addr, (touch, initial));
        }
    }
}

/// Whether `fresh` returned another thread's write after which nobody had changed what `stale` met.
fn pair(fresh: &Read, stale: &Read, roles: &[u16], out: &mut impl Found) {
    let Some(write) = fresh.returned.filter(|write| write.thread != fresh.touch.thread) else {
        return;
    };
    if stale.returned.is_some_and(|older| older.event > write.event) {
        return;
    }
    // Where both are as one statement made them in the beginning, nobody has changed anything.
    let same = |older: Touch| (older.thread, older.statement) == (write.thread, write.statement);
    if fresh.initial && stale.initial && stale.returned.is_some_and(same) {
        return;
    }
    let actor = |touch: &Touch| Actor {
        statement: touch.statement,
        role: roles.get(touch.thread.0 as usize).copied().unwrap_or(0),
    };
    let predictor = Predictor::Torn {
        changed: fresh.location,
        kept: stale.location,
        write: actor(&write),
        fresh: actor(&fresh.touch),
        stale: actor(&stale.touch),
        stale_first: stale.touch.event < fresh.touch.event,
    };
    let (first, second) = match stale.touch.event < fresh.touch.event {
        true => (stale, fresh),
        false => (fresh, stale),
    };
    let involved = [Some(write), Some(fresh.touch), Some(stale.touch), stale.returned];
    let certain = involved.iter().flatten().all(|touch| touch.block.is_none());
    let events = [write.event, first.touch.event, second.touch.event];
    out.found(predictor, &events, certain);
}
