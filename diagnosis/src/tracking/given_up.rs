//! Locations that are touched too often to be watched.
//!
//! A run gives up what stops it thousands of times. That alone does not make the location useless: successful runs are longer
//! than failing ones, which die early, and what was given up in a run that succeeded was seen for long enough. What was given
//! up in a run that failed was not seen when it mattered.

use std::collections::BTreeMap;

use program::LinkAddr;

use crate::record::WatchedRecord;

/// Successful runs that may give a location up before it is taken for hopeless, as long as no failing run had it to the end.
const MOST_SUCCESSFUL: u32 = 3;

/// The access that a location is watched for.
pub(super) type Access = (Option<String>, LinkAddr);

/// What runs gave up.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    tallies: BTreeMap<Access, Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    by_successful: u32,
    by_failing: u32,
    /// Failing runs that watched it to their end.
    kept: u32,
}

impl Tally {
    fn is_hopeless(&self) -> bool {
        self.kept == 0 && (self.by_failing > 0 || self.by_successful >= MOST_SUCCESSFUL)
    }
}

impl GivenUp {
    /// Takes in what a run gave up of what it watched.
    pub(super) fn take(&mut self, failed: bool, watched: &[WatchedRecord]) {
        for watched in watched {
            let access = (watched.module.clone(), watched.access);
            let tally = self.tallies.entry(access).or_default();
            match (watched.given_up, failed) {
                (true, true) => tally.by_failing += 1,
                (true, false) => tally.by_successful += 1,
                (false, true) => tally.kept += 1,
                (false, false) => {}
            }
        }
    }

    /// How many failing runs watched a location to their end.
    pub(super) fn kept(&self, access: &Access) -> u32 {
        self.tallies.get(access).map_or(0, |tally| tally.kept)
    }

    /// Whether a location is watched no more.
    pub(super) fn contains(&self, access: &Access) -> bool {
        self.tallies.get(access).is_some_and(Tally::is_hopeless)
    }

    /// How many are not.
    pub(super) fn len(&self) -> usize {
        self.tallies.values().filter(|tally| tally.is_hopeless()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(given_up: bool) -> WatchedRecord {
        WatchedRecord {
            module: None,
            access: LinkAddr(0x1000),
            passed: None,
            width: 4,
            always_at: None,
            fixed: None,
            late: false,
            given_up,
        }
    }

    /// Whether the location is given up after runs that failed or not, and gave it up or not.
    fn after(runs: &[(bool, bool)]) -> bool {
        let mut given_up = GivenUp::default();
        runs.iter()
            .for_each(|&(failed, gave_up)| given_up.take(failed, &[watched(gave_up)]));
        let contained = given_up.contains(&(None, LinkAddr(0x1000)));
        assert_eq!(given_up.len(), usize::from(contained));
        contained
    }

    #[test]
    fn what_a_failing_run_had_to_its_end_is_never_given_up() {
        assert!(!after(&[
            (true, false),
            (false, true),
            (false, true),
            (false, true)
        ]));
        assert!(!after(&[(true, false), (true, true)]));
    }

    #[test]
    fn what_a_failing_run_lost_is_given_up_at_once_and_what_successful_ones_lost_in_the_end() {
        assert!(after(&[(true, true)]));
        assert!(!after(&[(false, true), (false, true)]));
        assert!(after(&[(false, true), (false, true), (false, true)]));
        assert!(!after(&[(false, false), (false, false), (false, false)]));
    }
}
