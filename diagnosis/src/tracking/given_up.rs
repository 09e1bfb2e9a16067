//! What runs showed of the locations that they watched: which are touched too often, and which tell nothing.
//!
//! A run gives up what stops it thousands of times. That alone does not make the location useless: successful runs are longer
//! than failing ones, which die early, and what was given up in a run that succeeded was seen for long enough. What was given
//! up in a run that failed was not seen when it mattered.
//!
//! Far less than that is too much where a failure stays away because it is looked for: every access that is noticed makes
//! its thread late, and so does every object in which the location is found. Then what stops runs most is spared, one location
//! after the other.
//!
//! Where threads get in each other's way, it is over memory that one of them writes and another one touches. Of any location two runs
//! show whether it is such: most are not, and these are *quiet*. What is not known yet has its turn before them, whether the runs that show it fail or
//! not, so that the failing ones, which are rare, watch what threads share.

use std::collections::{BTreeMap, BTreeSet};

use program::{LinkAddr, RunAddr};

use crate::record::{HitRecord, WatchedRecord};

/// Successful runs that may give a location up before it is taken for hopeless, as long as no failing run had it to the end. The first
/// one that fails may have it, and most bugs fail in more than one of so many.
const MOST_SUCCESSFUL: u32 = 30;

/// Stops in a run that a location has to have to be spared: fewer make nobody late.
const NOTICEABLE: u64 = 12;

/// Runs that have to have watched a location in vain before it is taken for idle.
const IN_VAIN: u32 = 2;

/// Runs that have to have watched a location without a sign of other threads before it is taken for quiet.
const QUIET: u32 = 2;

/// The access that a location is watched for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    /// The file of its instruction; `None` for the executable.
    pub module: Option<String>,
    /// The instruction, or the call that has it made,
    pub addr: LinkAddr,
    /// and then behind which argument, and how far.
    pub passed: Option<(u8, i64)>,
    /// How far into what it accesses the location begins.
    pub within: u32,
}

/// What runs showed.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    tallies: BTreeMap<Access, Tally>,
    /// Whether any two threads were seen.
    threads: bool,
    /// Runs that did not fail.
    successes: u32,
}

#[derive(Debug, Default)]
struct Tally {
    by_successful: u32,
    by_failing: u32,
    /// Failing runs that watched it to their end.
    kept: u32,
    /// Those of them that had it from the start.
    early: u32,
    /// Those of them that were to find it at the statements that store to it.
    stores: u32,
    /// Runs that watched it.
    runs: u32,
    /// The most accesses that a run had to it.
    accesses: u64,
    /// The most stops that a run had for it: at its accesses, and where it was found.
    stops: u64,
    /// It is watched no more, for its stops keep the failure away.
    spared: bool,
    /// It was where nobody writes: a table of virtual functions.
    constant: bool,
    /// A thread wrote what another one touched.
    shared: bool,
    /// Runs that would have shown it, had it been so.
    told: u32,
    /// At how many places threads had it at once, in the run in which they were most.
    places: usize,
}

impl Tally {
    fn is_hopeless(&self) -> bool {
        self.spared
            || self.constant
            || self.kept == 0 && (self.by_failing > 0 || self.by_successful >= MOST_SUCCESSFUL)
    }
}

impl GivenUp {
    /// Takes in what a run gave up of what it watched, and how often that was touched. `is_findable` says of what is found too late whether
    /// it is known by now where it could be watched from the start, `is_constant` of an address whether nobody writes there.
    pub(super) fn take(
        &mut self,
        failed: bool,
        watched: &[WatchedRecord],
        hits: &[HitRecord],
        is_findable: impl Fn(&WatchedRecord) -> bool,
        is_constant: impl Fn(RunAddr) -> bool,
    ) {
        let threads: BTreeSet<u32> = hits.iter().map(|hit| hit.tid).collect();
        self.threads |= threads.len() > 1;
        self.successes += u32::from(!failed);
        // To note what a call returned stops nobody.
        let in_memory = |(_, watched): &(usize, &WatchedRecord)| !watched.result;
        for (number, watched) in watched.iter().enumerate().filter(in_memory) {
            let tally = self.tallies.entry(access(watched)).or_default();
            let touching = hits.iter().filter(|hit| hit.location as usize == number);
            tally.runs += 1;
            tally.shared = tally.shared || is_shared(touching.clone());
            // Where a location is found too late, a failing run shows where it has to be watched. Runs that were on their way by then
            // do not know it yet.
            tally.places = tally.places.max(places(touching.clone()));
            tally.told += u32::from(!watched.late || tally.kept > 0 && !is_findable(watched));
            let addrs: BTreeSet<RunAddr> = touching.clone().map(|hit| hit.addr).collect();
            if !addrs.is_empty() {
                tally.constant = addrs.into_iter().all(&is_constant);
            }
            let touched = touching.count() as u64;
            tally.accesses = tally.accesses.max(touched);
            tally.stops = tally.stops.max(touched + u64::from(watched.found));
            match (watched.given_up, failed) {
                (true, true) => tally.by_failing += 1,
                (true, false) => tally.by_successful += 1,
                (false, true) => {
                    tally.kept += 1;
                    tally.early += u32::from(!watched.late);
                    tally.stores += u32::from(watched.stores);
                }
                (false, false) => {}
            }
        }
    }

    /// Spares what stopped runs most, of what is not to be kept. Says whether there was anything.
    pub(super) fn spare_busiest(&mut self, kept: impl Fn(&Access) -> bool) -> bool {
        let noticeable = |(access, tally): &(&Access, &mut Tally)| {
            tally.stops >= NOTICEABLE && !tally.is_hopeless() && !kept(access)
        };
        let busy = self.tallies.iter_mut().filter(noticeable);
        let busiest = busy.max_by_key(|(_, tally)| tally.stops);
        busiest.map(|(_, tally)| tally.spared = true).is_some()
    }

    /// How many failing runs watched a location to their end.
    pub(super) fn kept(&self, access: &Access) -> u32 {
        self.tallies.get(access).map_or(0, |tally| tally.kept)
    }

    /// How many successful runs have watched it.
    fn compared(&self, access: &Access) -> u32 {
        let successful = |tally: &Tally| tally.runs.saturating_sub(tally.kept + tally.by_failing);
        self.tallies.get(access).map_or(0, successful)
    }

    /// Whether so many successful runs have watched it, or all that there were.
    pub(super) fn is_compared(&self, access: &Access, least: u32) -> bool {
        self.compared(access) >= least.min(self.successes)
    }

    /// How many of them had it from the start.
    pub(super) fn early(&self, access: &Access) -> u32 {
        self.tallies.get(access).map_or(0, |tally| tally.early)
    }

    /// How many failing runs were to find it where it is stored to.
    pub(super) fn at_stores(&self, access: &Access) -> u32 {
        self.tallies.get(access).map_or(0, |tally| tally.stores)
    }

    /// Whether nobody touches a location, as far as runs have shown.
    pub(super) fn is_idle(&self, access: &Access) -> bool {
        let idle = |tally: &Tally| tally.runs >= IN_VAIN && tally.accesses == 0;
        self.tallies.get(access).is_some_and(idle)
    }

    /// Whether a run has shown several threads.
    pub(super) fn saw_threads(&self) -> bool {
        self.threads
    }

    /// At how many places threads had a location at once, as far as runs have shown.
    pub(super) fn places(&self, access: &Access) -> usize {
        self.tallies.get(access).map_or(0, |tally| tally.places)
    }

    /// Whether a run has shown that a thread writes what another one touches there.
    pub(super) fn is_shared(&self, access: &Access) -> bool {
        self.tallies.get(access).is_some_and(|tally| tally.shared)
    }

    /// Whether no thread writes what another one touches there, as far as runs have shown.
    pub(super) fn is_quiet(&self, access: &Access) -> bool {
        let quiet = |tally: &Tally| tally.told >= QUIET && !tally.shared;
        self.threads && self.tallies.get(access).is_some_and(quiet)
    }

    /// Whether a location is watched no more.
    pub(super) fn contains(&self, access: &Access) -> bool {
        self.tallies.get(access).is_some_and(Tally::is_hopeless)
    }

    /// How many are watched no more, and how many are quiet: what plans depend on.
    pub(super) fn state(&self) -> (usize, usize) {
        let hopeless = self.tallies.values().filter(|tally| tally.is_hopeless());
        let quiet = self.tallies.keys().filter(|access| self.is_quiet(access));
        (hopeless.count(), quiet.count())
    }
}

/// Whether one of some accesses is a write, in a place that another thread touched.
fn is_shared<'h>(hits: impl Iterator<Item = &'h HitRecord>) -> bool {
    let mut places: BTreeMap<RunAddr, (u32, bool, bool)> = BTreeMap::new();
    for hit in hits {
        let writes = hit.access.is_none_or(|access| access.writes());
        let (first, several, written) = places.entry(hit.addr).or_insert((hit.tid, false, false));
        *several |= *first != hit.tid;
        *written |= writes;
    }
    places.values().any(|(_, several, written)| *several && *written)
}

/// At how many places threads had a location, each at the last one where it accessed it.
fn places<'h>(touching: impl Iterator<Item = &'h HitRecord>) -> usize {
    let last: BTreeMap<u32, RunAddr> = touching.map(|hit| (hit.tid, hit.addr)).collect();
    last.into_values().collect::<BTreeSet<_>>().len()
}

pub(super) fn access(watched: &WatchedRecord) -> Access {
    Access {
        module: watched.module.clone(),
        addr: watched.access,
        passed: watched.passed,
        within: watched.within,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::AccessKind;

    const AT: LinkAddr = LinkAddr(0x1000);

    fn watched(given_up: bool) -> WatchedRecord {
        WatchedRecord {
            module: None,
            access: AT,
            passed: None,
            width: 4,
            within: 0,
            always_at: None,
            fixed: None,
            late: false,
            given_up,
            stores: false,
            result: false,
            found: 0,
        }
    }

    fn at(addr: LinkAddr) -> Access {
        Access {
            module: None,
            addr,
            passed: None,
            within: 0,
        }
    }

    /// Whether the location is given up after runs that failed or not, and gave it up or not.
    fn after(runs: &[(bool, bool)]) -> bool {
        let mut given_up = GivenUp::default();
        runs.iter().for_each(|&(failed, gave_up)| {
            given_up.take(failed, &[watched(gave_up)], &[], |_| false, |_| false)
        });
        let contained = given_up.contains(&at(AT));
        assert_eq!(given_up.state().0, usize::from(contained));
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
        assert!(!after(&[(false, true); 29]));
        assert!(after(&[(false, true); 30]));
        assert!(!after(&[(false, false), (false, false), (false, false)]));
    }

    #[test]
    fn who_watched_a_location_where_it_is_stored_to_is_counted_apart() {
        let stores = WatchedRecord {
            stores: true,
            late: true,
            ..watched(false)
        };
        let mut given_up = GivenUp::default();
        given_up.take(true, &[watched(false)], &[], |_| false, |_| false);
        assert_eq!((given_up.kept(&at(AT)), given_up.at_stores(&at(AT))), (1, 0));
        given_up.take(false, std::slice::from_ref(&stores), &[], |_| false, |_| false);
        given_up.take(true, &[stores], &[], |_| false, |_| false);
        assert_eq!((given_up.kept(&at(AT)), given_up.at_stores(&at(AT))), (2, 1));
    }

    #[test]
    fn what_nobody_writes_is_not_watched_again() {
        let hit = |addr| HitRecord {
            addr: RunAddr(addr),
            ..hit(0)
        };
        let mut given_up = GivenUp::default();
        let constant = |addr: RunAddr| addr.0 < 0x2000;
        given_up.take(false, &[watched(false)], &[], |_| false, constant);
        assert!(!given_up.contains(&at(AT)), "nobody saw where it was");
        given_up.take(false, &[watched(false)], &[hit(0x1000)], |_| false, constant);
        assert!(given_up.contains(&at(AT)));
        let mut given_up = GivenUp::default();
        given_up.take(
            false,
            &[watched(false)],
            &[hit(0x1000), hit(0x3000)],
            |_| false,
            constant,
        );
        assert!(!given_up.contains(&at(AT)));
    }

    #[test]
    fn what_is_touched_most_is_spared_first_and_what_is_hardly_touched_never() {
        let location = |addr| WatchedRecord {
            access: LinkAddr(addr),
            ..watched(false)
        };
        let hits = |location, count| std::iter::repeat_with(move || hit(location)).take(count);
        let mut given_up = GivenUp::default();
        let all: Vec<HitRecord> = hits(0, 20)
            .chain(hits(1, 90))
            .chain(hits(2, 2))
            .chain(hits(3, 50))
            .collect();
        given_up.take(true, &[1, 2, 3, 4].map(location), &all, |_| false, |_| false);
        let explaining = |access: &Access| access.addr == LinkAddr(2);
        assert!(given_up.spare_busiest(explaining));
        assert!(given_up.contains(&at(LinkAddr(4))) && given_up.state().0 == 1);
        assert!(given_up.spare_busiest(explaining));
        assert!(given_up.contains(&at(LinkAddr(1))) && given_up.state().0 == 2);
        assert!(!given_up.spare_busiest(explaining));
    }

    #[test]
    fn what_nobody_touched_in_two_runs_is_idle() {
        let mut given_up = GivenUp::default();
        let at = at(AT);
        given_up.take(false, &[watched(false)], &[], |_| false, |_| false);
        assert!(!given_up.is_idle(&at));
        given_up.take(true, &[watched(false)], &[], |_| false, |_| false);
        assert!(given_up.is_idle(&at));
        given_up.take(true, &[watched(false)], &[hit(0)], |_| false, |_| false);
        assert!(!given_up.is_idle(&at));
    }

    #[test]
    fn what_no_thread_writes_while_others_touch_it_is_quiet() {
        let by = |tid, access| HitRecord {
            tid,
            access: Some(access),
            ..hit(0)
        };
        let after = |runs: &[&[HitRecord]]| {
            let mut given_up = GivenUp::default();
            runs.iter()
                .for_each(|hits| given_up.take(false, &[watched(false)], hits, |_| false, |_| false));
            given_up.is_quiet(&at(AT))
        };
        let [read, write, other] = [
            by(1, AccessKind::Read),
            by(1, AccessKind::Write),
            by(2, AccessKind::Read),
        ];
        let reads: &[HitRecord] = &[read.clone(), other.clone()];
        assert!(after(&[reads, reads]));
        assert!(!after(&[reads]), "one run may be the exception");
        assert!(!after(&[reads, &[write.clone(), other]]));
        let own: &[HitRecord] = &[read, write];
        assert!(!after(&[own, own]), "where there is one thread, values count");
        assert!(after(&[own, reads, own]));
        let [mut found_late, mut findable] = [GivenUp::default(), GivenUp::default()];
        let late = WatchedRecord {
            late: true,
            ..watched(false)
        };
        for (failed, quiet) in [
            (false, false),
            (false, false),
            (true, false),
            (false, false),
            (false, true),
        ] {
            let watched = std::slice::from_ref(&late);
            found_late.take(failed, watched, reads, |_| false, |_| false);
            assert_eq!(found_late.is_quiet(&at(AT)), quiet);
            findable.take(failed, watched, reads, |_| true, |_| false);
            assert!(!findable.is_quiet(&at(AT)), "it was not watched where it can be");
        }
    }

    fn hit(location: u32) -> HitRecord {
        HitRecord {
            tid: 1,
            time_ns: 0,
            pc: RunAddr(0),
            callers: Vec::new(),
            access: None,
            addr: RunAddr(0),
            location,
            value: None,
            before: None,
            uncertain: false,
            in_frame: None,
        }
    }
}
