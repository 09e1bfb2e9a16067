//! A host's share of a plan: who has fewer registers than it takes watches a part of it.
//!
//! Which part follows from the number of the run, so that every location has its turn somewhere. Every other run watches what matters
//! most, if that fits: what the best explanation is about is known or refuted by runs that watch it, and by no others.

use std::collections::BTreeSet;

use watchpoint::{WatchSpec, registers_for};

use super::Assignment;
use super::given_up::{Access, access};
use crate::adapt::Part;
use crate::record::{RunRecord, WatchedRecord};

type Location = (WatchedRecord, WatchSpec);

impl Assignment {
    /// The part of it that a host with so many registers takes.
    #[must_use]
    pub fn share(mut self, registers: usize, run: u64) -> Self {
        if needed(&self.locations) <= registers {
            return self;
        }
        let wanted = self.wanted.iter().filter_map(|&at| self.locations.get(at));
        let wanted: BTreeSet<Access> = wanted.map(|(watched, _)| access(watched)).collect();
        let together = together(std::mem::take(&mut self.locations));
        let planned = together.len();
        let mut kept: Vec<Location> = Vec::new();
        for location in in_turn(together, &wanted, scattered(run)).into_iter().flatten() {
            kept.push(location);
            while needed(&kept) > registers {
                // One of its places is better than none.
                match kept.last_mut() {
                    Some((_, spec)) if spec.places > 1 => spec.places -= 1,
                    _ => {
                        kept.pop();
                    }
                }
            }
        }
        Self {
            locations: kept,
            planned: match self.planned {
                0 => u32::try_from(planned).unwrap_or(u32::MAX),
                planned => planned,
            },
            wanted: Vec::new(),
            ..self
        }
    }
}

/// How much of its plan a run watched.
pub(crate) fn part(record: &RunRecord) -> Part {
    match record.planned {
        0 => Part::WHOLE,
        planned => {
            let in_memory = record.watched.iter().filter(|watched| !watched.result);
            let watched: BTreeSet<Access> = in_memory.map(access).collect();
            Part::of(watched.len(), planned as usize)
        }
    }
}

/// Puts together what is watched for one access: the place that a failing run had it at, and where others find it. Who has a
/// register for one of them only takes the place, which is watched from the start on.
fn together(locations: Vec<Location>) -> Vec<Vec<Location>> {
    let mut together: Vec<Vec<Location>> = Vec::new();
    for location in locations {
        let same = |other: &&mut Vec<Location>| {
            let first = other.first();
            first.is_some_and(|(first, _)| access(first) == access(&location.0))
        };
        match together.iter_mut().find(same) {
            Some(others) => others.push(location),
            None => together.push(vec![location]),
        }
    }
    together
}

/// The locations in the order in which a run takes them.
fn in_turn(mut all: Vec<Vec<Location>>, wanted: &BTreeSet<Access>, turn: u64) -> Vec<Vec<Location>> {
    let rotate = |locations: &mut Vec<Vec<Location>>| {
        let first = (turn / 2).checked_rem(locations.len() as u64).unwrap_or(0);
        locations.rotate_left(usize::try_from(first).unwrap_or(0));
    };
    if !turn.is_multiple_of(2) {
        rotate(&mut all);
        return all;
    }
    let is_wanted = |location: &Vec<Location>| {
        let first = location.first();
        first.is_some_and(|(first, _)| wanted.contains(&access(first)))
    };
    let (mut first, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_wanted);
    rotate(&mut first);
    rotate(&mut others);
    first.append(&mut others);
    first
}

/// A number that has nothing to do with the runs before and after it. Which locations a plan has also follows from the number of the
/// run, and two rotations by one number would bring the same together every time, and others never.
fn scattered(run: u64) -> u64 {
    let mixed = (run ^ (run >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How many registers some locations take together.
fn needed(locations: &[(WatchedRecord, WatchSpec)]) -> usize {
    registers_for(&locations.iter().map(|(_, spec)| spec).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use program::LinkAddr;
    use watchpoint::{Address, Trigger};

    use super::*;

    /// A location of so many bytes, known by its access.
    fn location(access: u64, bytes: u32) -> (WatchedRecord, WatchSpec) {
        let watched = WatchedRecord {
            module: None,
            access: LinkAddr(access),
            passed: None,
            width: bytes,
            within: 0,
            always_at: None,
            fixed: None,
            late: false,
            given_up: false,
            stores: false,
            result: false,
            found: 0,
        };
        let spec = WatchSpec {
            address: Address::Static {
                module: None,
                addr: LinkAddr(0x1000 * access),
            },
            len: bytes,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        (watched, spec)
    }

    fn assignment(locations: Vec<Location>, wanted: Vec<usize>) -> Assignment {
        Assignment {
            locations,
            wanted,
            ..Assignment::default()
        }
    }

    fn accesses(share: &Assignment) -> BTreeSet<u64> {
        let accesses = share.locations.iter().map(|(watched, _)| watched.access.0);
        accesses.collect()
    }

    fn shares(locations: &[(u64, u32)], registers: usize) -> Vec<BTreeSet<u64>> {
        let locations = locations.iter().map(|&(access, bytes)| location(access, bytes));
        let all = assignment(locations.collect(), Vec::new());
        let share = |run| accesses(&all.clone().share(registers, run));
        (0..64).map(share).collect()
    }

    #[test]
    fn who_has_registers_for_everything_takes_everything() {
        let all = BTreeSet::from([1, 2, 3]);
        assert!(
            shares(&[(1, 8), (2, 8), (3, 8)], 4)
                .iter()
                .all(|share| *share == all)
        );
    }

    #[test]
    fn of_a_location_that_is_at_several_places_some_are_better_than_none() {
        let (watched, spec) = location(1, 8);
        let several = (watched, WatchSpec { places: 3, ..spec });
        let all = assignment(vec![several, location(2, 8)], vec![0]);
        let places = |registers| {
            let shares = (0..16).map(|run| all.clone().share(registers, run));
            let of_first = shares
                .flat_map(|share| share.locations)
                .filter(|(of, _)| of.access.0 == 1);
            of_first.map(|(_, spec)| spec.places).collect::<BTreeSet<_>>()
        };
        assert_eq!(places(1), BTreeSet::from([1]));
        assert_eq!(places(4), BTreeSet::from([3]));
        assert!(places(2).contains(&2));
    }

    #[test]
    fn everything_has_its_turn_with_those_who_have_few() {
        let shares = shares(&[(1, 8), (2, 8), (3, 16), (4, 8)], 2);
        let seen: BTreeSet<u64> = shares.iter().flatten().copied().collect();
        assert_eq!(seen, BTreeSet::from([1, 2, 3, 4]));
        assert!(
            shares.iter().all(|share| !share.is_empty() && share.len() <= 2),
            "{shares:?}"
        );
        assert!(shares.contains(&BTreeSet::from([3])), "one that takes both");
    }

    #[test]
    fn what_matters_most_has_half_of_the_runs_and_all_others_their_turn() {
        let locations = (1..=4).map(|access| location(access, 8)).collect();
        let all = assignment(locations, vec![2]);
        let mut runs = [0; 5];
        for run in 0..400 {
            let share = all.clone().share(1, run);
            assert_eq!((share.locations.len(), share.planned), (1, 4));
            accesses(&share)
                .iter()
                .for_each(|&access| runs[usize::try_from(access).unwrap()] += 1);
        }
        let [_, one, two, three, four] = runs;
        assert!(three > 200 && one > 30 && two > 30 && four > 30, "{runs:?}");
    }

    #[test]
    fn turns_by_the_same_number_do_not_keep_a_location_from_everybody() {
        // As runs take turns at a plan's locations, two by two, so do hosts with one register at those of a run.
        let seen: BTreeSet<u64> = (0..64)
            .flat_map(|run| {
                let of_run = [run % 4, (run + 1) % 4].map(|access| location(access, 8));
                accesses(&assignment(of_run.to_vec(), Vec::new()).share(1, run))
            })
            .collect();
        assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
    }

    #[test]
    fn of_a_place_and_its_access_the_place_comes_first_and_both_count_as_one() {
        let (mut fixed, at) = location(1, 8);
        fixed.fixed = Some((None, LinkAddr(0x40)));
        let all = assignment(vec![(fixed, at), location(1, 8), location(2, 8)], Vec::new());
        for run in 0..16 {
            let share = all.clone().share(1, run);
            assert_eq!(share.planned, 2);
            let (watched, _) = &share.locations[0];
            assert_eq!(watched.fixed.is_some(), watched.access == LinkAddr(1));
        }
    }
}
