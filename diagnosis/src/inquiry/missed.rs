//! Other objects than the one that a thread failed over.
//!
//! Registers follow what is used, and are with one of many objects while threads get in each other's way over another one. That shows when the
//! failing thread comes to its object in the end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::run::{Access, Catalogue, Event, LocationId, Run, StatementId, ThreadIx, What};
use crate::tracking::Promising;

/// Statements of the slice of which it is worth more than one register.
const NEAREST: u32 = 16;
/// Failing runs for which it is.
const MOST_RUNS: u32 = 10;

/// A location of which a failing run watched other objects than the failing thread had.
#[derive(Debug, Default)]
pub(super) struct Missed {
    latest: Option<Promising>,
    runs: u32,
}

impl Missed {
    /// Takes in a failing run, which tells nothing of such locations.
    pub(super) fn take(&mut self, run: &mut Run, catalogue: &Catalogue) {
        let missed = of_other_objects(run);
        run.watched
            .retain(|location| missed.iter().all(|(other, _)| other != location));
        let is_near = |(location, statement): &&(LocationId, StatementId)| {
            let named = catalogue.locations.get(location.0 as usize);
            let place = catalogue
                .statements
                .get(statement.0 as usize)
                .and_then(|it| it.slice);
            named.is_some_and(|it| it.variable.is_some()) && place.is_some_and(|it| it.number < NEAREST)
        };
        let near = missed.iter().find(is_near);
        self.latest = near
            .map(|&(location, statement)| Promising {
                statement,
                location: Some(location),
            })
            .or(self.latest);
        self.runs += u32::from(self.latest.is_some());
    }

    /// What is to have several registers.
    pub(super) fn wanted(&self) -> Option<Promising> {
        self.latest.filter(|_| self.runs <= MOST_RUNS)
    }
}

/// The locations of which a run watched other objects than the one that the failing thread had in the end, the last one first, each with
/// the statement by which that thread accessed its object. A register that came to it from one that several threads use, and change, tells nothing
/// of what was done to it before.
fn of_other_objects(run: &Run) -> Vec<(LocationId, StatementId)> {
    let Some(failing) = run.failed.and_then(|failed| failed.thread) else {
        return Vec::new();
    };
    let mut accesses: BTreeMap<LocationId, Vec<(usize, &Event, Access)>> = BTreeMap::new();
    for (number, event) in run.events.iter().enumerate() {
        if let What::Access(access) = event.what
            && run.late.contains(&access.location)
            && run.watched.contains(&access.location)
        {
            let all = accesses.entry(access.location).or_default();
            all.push((number, event, access));
        }
    }
    let mut missed: Vec<_> = accesses
        .values()
        .filter_map(|all| came_late(all, failing))
        .collect();
    missed.sort_by_key(|(number, ..)| Reverse(*number));
    let missed = missed.into_iter();
    missed
        .map(|(_, event, access)| (access.location, event.statement))
        .collect()
}

/// The failing thread's last access of a location, if it had an object to itself in the end while others shared one.
fn came_late<'r>(
    all: &[(usize, &'r Event, Access)],
    failing: ThreadIx,
) -> Option<(usize, &'r Event, Access)> {
    let last = all.iter().rposition(|(_, event, _)| event.thread == failing)?;
    let (before, from) = all.split_at_checked(last)?;
    let found @ (_, _, access) = *from.first()?;
    let alone = all
        .iter()
        .all(|(_, event, other)| other.addr != access.addr || event.thread == failing);
    let mut shared: BTreeMap<u64, (BTreeSet<ThreadIx>, bool)> = BTreeMap::new();
    for (_, event, other) in before.iter().filter(|(.., other)| other.addr != access.addr) {
        let (threads, written) = shared.entry(other.addr).or_default();
        threads.insert(event.thread);
        *written |= other.kind.writes() && event.thread != failing;
    }
    let mut shared = shared.into_values();
    let elsewhere = shared.any(|(threads, written)| threads.len() > 1 && written);
    (alone && elsewhere).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// Two workers change the stock of some article (51, 55), and in the end another one's is wrong (29).
    #[test]
    fn a_register_that_came_to_an_object_in_the_end_tells_nothing_of_it() {
        let mut lab = Lab::new(
            &[('m', "main"), ('a', "work")],
            &[("available", Shape::Signed), ("available", Shape::Signed)],
        );
        let location = LocationId(0);
        let missed = |lab: &mut Lab, text: &str, moved: bool| {
            let mut run = lab.failure(text, 'm', &[29]);
            run.late.insert(location);
            for (number, event) in run.events.iter_mut().enumerate() {
                if let (What::Access(access), true) = (&mut event.what, number >= 3 && moved) {
                    access.addr += 0x100;
                }
            }
            of_other_objects(&run)
        };
        let end = lab.line(29);
        let text = "m:W44=4 a:R51=4 a:W55=0 m:R29=11";
        assert_eq!(missed(&mut lab, text, true), [(location, end)]);
        assert_eq!(missed(&mut lab, text, false), [], "it was that object");
        let both = "m:W44=4 a:R51=4 a:W55=0 a:R51=12 m:R29=11";
        assert_eq!(missed(&mut lab, both, true), [], "somebody else was there");
    }
}
