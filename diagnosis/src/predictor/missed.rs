//! News that a thread did not see: it looked for the last time before they came.
//!
//! Whoever waits to be told that something has changed looks first whether it has. If it changes between the look and the wait, and
//! whoever changes it does not hold the lock that the waiting thread looks under, then it is told while nobody waits yet.

use std::collections::{BTreeMap, BTreeSet};

use super::accesses::Touch;
use super::interleaving::Found;
use super::{Actor, Predictor};
use crate::run::{AccessKind, LocationId};

/// The last reads of threads, each with the first write of another one after it that left something else.
pub(super) fn find(touches: &BTreeMap<(LocationId, u64), Vec<Touch>>, roles: &[u16], out: &mut impl Found) {
    let actor = |touch: &Touch| Actor {
        statement: touch.statement,
        role: roles.get(touch.thread.0 as usize).copied().unwrap_or(0),
    };
    for ((location, _), list) in touches {
        let mut seen = BTreeSet::new();
        for (at, read) in list.iter().enumerate().rev() {
            if !seen.insert(read.thread) || read.kind != AccessKind::Read {
                continue;
            }
            let is_news =
                |write: &&Touch| write.kind.writes() && (write.value.is_none() || write.value != read.value);
            if let Some(write) = list.iter().skip(at + 1).find(is_news) {
                let missed = Predictor::Missed {
                    location: *location,
                    read: actor(read),
                    write: actor(write),
                };
                out.found(missed, &[read.event, write.event], read.certainly_before(write));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::{Run, Shape};
    use crate::testkit::Lab;

    /// A writer (24) waits (26) until a flusher says (28) that it is done, without the lock.
    fn best(waits: bool, runs: impl Fn(&mut Lab) -> Vec<Run>) -> String {
        let mut lab = Lab::new(&[('m', "main"), ('f', "flusher")], &[("dirty", Shape::Bool)]);
        lab.catalogue.waits = waits;
        let runs = runs(&mut lab);
        let (_, ranked) = lab.rank(&runs);
        lab.describe(&ranked[0])
    }

    fn journal(lab: &mut Lab) -> Vec<Run> {
        let mut runs = vec![
            lab.success("m:W34=1 m:R24=1 f:W28=0 m:R24=0"),
            lab.success("m:W34=1 f:W28=0 m:R24=0"),
            lab.success("m:W34=1 m:R24=1 f:W28=0 m:R24=0"),
        ];
        runs.extend((0..3).map(|_| lab.hang("m:W34=1 m:R24=1 f:W28=0", &[('m', &[26])])));
        runs
    }

    #[test]
    fn a_thread_that_looked_before_the_news_waits_for_them_in_vain() {
        assert_eq!(best(true, journal), "RW 24 28");
    }

    #[test]
    fn where_nobody_waits_for_news_a_last_look_is_nothing_special() {
        assert_eq!(best(false, journal), "value 24 Is(1) Last");
    }

    #[test]
    fn news_that_come_while_somebody_waits_wake_him() {
        let runs = |lab: &mut Lab| {
            let mut runs = vec![
                lab.success("m:W34=1 m:R24=1 f:W28=0"),
                lab.success("m:W34=1 f:W28=0 m:R24=0"),
            ];
            runs.push(lab.hang("m:W34=1 m:R24=1 f:W28=0", &[('m', &[26])]));
            runs.push(lab.hang("m:W34=1 m:R24=1", &[('m', &[26])]));
            runs
        };
        assert_ne!(best(true, runs), "RW 24 28", "a run succeeded so");
    }
}
