//! Evidence: what all runs of a bug say together.
//!
//! A run is added at the price of the run; runs are not kept. For each predictor the evidence has the runs in which it
//! held; how many *could* have shown it follows from what each run watched, and runs that watched the same are counted
//! together. So a predictor that appears in the hundredth run has its right share of the ninety-nine before it.
//!
//! A run that watched a predictor's locations and does not show it counts against it, unless
//! - the order of events that it depends on is uncertain in that run,
//! - the run is incomplete: what is not in it may have happened, or
//! - it is about accesses from the start on (`-R`), and the run began to watch late,
//! - it is about several accesses, and the run began to watch so late that it saw none of them, or
//! - it is about several accesses, the run began to watch late, and there are failing and successful runs that did not:
//!   what it missed, they know, or
//! - it is that a thread writes twice and another reads between (`WRW`), and the run failed by the read before the second write, or
//! - it is that a read returns a write (`WR`), and the read met what such a write leaves, left by somebody before the run began to
//!   watch.

mod acquired;
mod behind;
mod left_open;
mod pairs;
mod pieced;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use self::behind::Latest;
use self::left_open::{LeftOpen, Otherwise};
use crate::predictor::cycle::Acquired;
use crate::predictor::extract::{
    Cut, Headless, Observation, Place, Preceded, Values, begins_with, observe, returned_by, torn_by,
};
use crate::predictor::halves::Half;
use crate::predictor::{Actor, OrderPattern, Predictor, Role, Test};
use crate::run::{BranchId, Catalogue, LocationId, Run, StatementId, What};
use crate::statistics::Counts;

/// Different numbers of one access that are told apart over all runs. An access that meets ever new ones is not about
/// one of them.
const NUMBERS: usize = 64;

/// What the runs of a bug say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// All runs.
    runs: Tally,
    /// Of these, the ones whose tracking was cut short or that lost data.
    incomplete: Tally,
    #[serde(with = "pairs")]
    watched: BTreeMap<Watched, Tally>,
    #[serde(with = "pairs")]
    traced: BTreeMap<BranchId, Tally>,
    #[serde(with = "pairs")]
    held: BTreeMap<Predictor, Held>,
    /// Orders of accesses that runs did not fail with.
    succeeded: BTreeSet<Preceded>,
    /// Numbers of each access; `None` once there were too many.
    #[serde(with = "pairs")]
    numbers: BTreeMap<(Actor, LocationId), Option<BTreeSet<u64>>>,
    /// What writes leave.
    #[serde(with = "pairs")]
    wrote: BTreeMap<Place, Values>,
    /// Runs in which a read met what was left before they began to watch.
    #[serde(with = "pairs")]
    unseen: BTreeMap<(Place, Values), Tally>,
    /// Runs in which a pair of accesses may have been torn before they began to watch.
    #[serde(with = "pairs", default)]
    headless: BTreeMap<Headless, Tally>,
    /// Runs that failed by a read before the thread that had written could write again.
    #[serde(with = "pairs", default)]
    cut: BTreeMap<Cut, Tally>,
    /// Runs in which a read met what nobody was seen to write.
    #[serde(with = "pairs", default)]
    missed: BTreeMap<Place, Tally>,
    /// Pairs of reads of which the first does not decide on the second.
    #[serde(default)]
    unguarded: BTreeSet<(LocationId, Actor, Actor)>,
    /// What writes are followed by in successful runs.
    #[serde(default)]
    followed: BTreeSet<(Place, Option<StatementId>)>,
    /// The kinds of threads that failed.
    #[serde(default)]
    failed: BTreeSet<Role>,
    /// In how many failing runs a read found nothing written, and no thread of some kind was left to write it.
    #[serde(default, with = "pairs")]
    nobody_left: BTreeMap<(LocationId, Actor, Role), u64>,
    /// A failing run was over when it failed; one that hangs goes on in the other threads.
    #[serde(default)]
    dies: bool,
    /// Failing runs of which it is known who waits for whom.
    told: u64,
    /// Where what threads wait for was got, and in how many failing runs.
    #[serde(with = "pairs")]
    acquired: BTreeMap<Acquired, u64>,
    /// What failing runs know that do not know who waits for whom.
    #[serde(with = "pairs", default)]
    halves: BTreeMap<Half, u64>,
}

/// Runs, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Runs that failed.
    pub failing: u64,
    /// Runs that did not.
    pub successful: u64,
}

impl Tally {
    fn add(&mut self, failed: bool) {
        if failed {
            self.failing += 1;
        } else {
            self.successful += 1;
        }
    }
}

/// What complete runs watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Watched {
    locations: BTreeSet<LocationId>,
    late: BTreeSet<LocationId>,
    /// What was seen of the late ones.
    #[serde(default)]
    seen: BTreeSet<(LocationId, StatementId)>,
}

impl Watched {
    fn of(run: &Run) -> Self {
        let accesses = run.events.iter().filter_map(|happened| match happened.what {
            What::Access(access) => Some((access.location, happened.statement)),
            _ => None,
        });
        Self {
            locations: run.watched.clone(),
            late: run.late.clone(),
            seen: accesses
                .filter(|(location, _)| run.late.contains(location))
                .collect(),
        }
    }

    /// Whether all of a predictor's accesses to a location may have been before it was watched.
    fn missed(&self, predictor: &Predictor) -> bool {
        let late = |location: &&LocationId| self.late.contains(location);
        let accesses = predictor.accesses();
        let was_seen = |location: &LocationId| {
            let mut here = accesses.iter().filter(|(_, at, _)| *at == Some(*location));
            here.any(|(actor, ..)| self.seen.contains(&(*location, actor.statement)))
        };
        let locations = predictor.locations();
        is_interleaving(predictor) && locations.iter().filter(late).any(|location| !was_seen(location))
    }
}

/// What the runs say of one predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    with: Tally,
    /// Of these, in runs that do not count for predictors that they do not show.
    with_otherwise_silent: Tally,
    /// Complete runs that could have shown it, but leave it open.
    unknown: Tally,
    /// Of those that count for what they do not show, the ones with it that began to watch late.
    with_late: Tally,
    /// Of those that leave it open, the ones that began to watch late.
    unknown_late: Tally,
    /// Complete runs that would be silent about it if they did not show it, or left it open.
    #[serde(default)]
    with_headless: Tally,
    /// The same of those that were over too early.
    #[serde(default)]
    with_cut: Tally,
    /// The same of those that missed a write.
    #[serde(default)]
    with_missed: Tally,
    /// No run had it: all those counted failed elsewhere, and would have.
    #[serde(default)]
    instead: bool,
    /// Events after it, summed over the failing runs with it.
    events_after: u64,
    /// Of these runs, the ones in which it ended with what the failing thread met.
    #[serde(default)]
    by_failing: u64,
    /// Those in which the failing thread wrote, and another one met that.
    #[serde(default)]
    harmless: u64,
    /// Some of the runs with it.
    #[serde(default)]
    latest: Latest,
}

impl Held {
    /// Notes what a run would have left open if it had not told of the predictor.
    fn tell(&mut self, otherwise: Otherwise, failed: bool) {
        let Otherwise {
            headless,
            cut,
            missed,
        } = otherwise;
        for (is_so, tally) in [
            (headless, &mut self.with_headless),
            (cut, &mut self.with_cut),
            (missed, &mut self.with_missed),
        ] {
            if is_so {
                tally.add(failed);
            }
        }
    }
}

impl Evidence {
    /// No runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run.
    pub fn add(&mut self, catalogue: &Catalogue, run: &Run) {
        let observation = observe(catalogue, run);
        let failed = run.failed.is_some();
        let complete = run.incomplete.is_none();
        self.runs.add(failed);
        if complete {
            self.watched.entry(Watched::of(run)).or_default().add(failed);
            for branch in &run.traced {
                self.traced.entry(*branch).or_default().add(failed);
            }
        } else {
            self.incomplete.add(failed);
        }
        if let Some(failed) = &run.failed {
            let thread = failed
                .thread
                .and_then(|thread| run.threads.get(thread.0 as usize));
            self.failed.extend(thread.map(|thread| thread.role.clone()));
            self.dies |= !failed.hang;
        } else {
            self.succeeded.extend(observation.preceded.iter().cloned());
            self.followed.extend(observation.followed.iter().cloned());
        }
        self.add_observation(run, observation, failed, complete);
    }

    fn add_observation(&mut self, run: &Run, observation: Observation, failed: bool, complete: bool) {
        self.told += u64::from(observation.told.known);
        if let Some(half) = observation.told.half {
            *self.halves.entry(half).or_default() += 1;
        }
        for acquired in observation.told.acquired {
            *self.acquired.entry(acquired).or_default() += 1;
        }
        self.unguarded.extend(observation.unguarded);
        for (place, values) in observation.wrote {
            let known = self.wrote.entry(place).or_default();
            *known = known.and(values);
        }
        for unseen in observation.unseen.into_iter().filter(|_| complete) {
            self.unseen.entry(unseen).or_default().add(failed);
        }
        let open = LeftOpen::by(
            observation.headless,
            observation.cut,
            observation.missed,
            complete,
        );
        for headless in &open.headless {
            self.headless.entry(headless.clone()).or_default().add(failed);
        }
        for cut in &open.cut {
            self.cut.entry(cut.clone()).or_default().add(failed);
        }
        for missed in &open.missed {
            self.missed.entry(missed.clone()).or_default().add(failed);
        }
        for (predictor, end) in observation.held {
            if !self.takes(&predictor) {
                continue;
            }
            let silent = !complete || !silence_counts(run, &predictor);
            let late = began_late(run, &predictor);
            let told = open.otherwise(&predictor);
            let instead = observation.instead.contains(&predictor);
            let unwritten = match &predictor {
                Predictor::Unwritten { location, read } => Some((*location, read.clone())),
                _ => None,
            };
            let held = self.held.entry(predictor).or_default();
            held.instead = instead && (held.instead || held.with == Tally::default());
            held.with.add(failed);
            held.latest.add(run.number, failed);
            held.tell(told, failed);
            if silent {
                held.with_otherwise_silent.add(failed);
            } else if late {
                held.with_late.add(failed);
            }
            if failed {
                held.events_after += end.events_after;
                held.by_failing += u64::from(end.by_failing);
                held.harmless += u64::from(end.harmless);
                if let Some((location, read)) = unwritten {
                    for role in &observation.over {
                        let nobody = (location, read.clone(), role.clone());
                        *self.nobody_left.entry(nobody).or_default() += 1;
                    }
                }
            }
        }
        let unknown = observation.unknown.into_iter().filter(|_| complete);
        for predictor in unknown.filter(|predictor| silence_counts(run, predictor)) {
            let late = began_late(run, &predictor);
            let told = open.otherwise(&predictor);
            let held = self.held.entry(predictor).or_default();
            held.unknown.add(failed);
            held.tell(told, failed);
            if late {
                held.unknown_late.add(failed);
            }
        }
    }

    /// Whether a value predictor is still worth counting; forgets all numbers of an access that met too many.
    fn takes(&mut self, predictor: &Predictor) -> bool {
        let Predictor::Value {
            at,
            location,
            test: Test::Is(number),
            ..
        } = predictor
        else {
            return true;
        };
        let key = (at.clone(), *location);
        let numbers = self
            .numbers
            .entry(key.clone())
            .or_insert_with(|| Some(BTreeSet::new()));
        let Some(known) = numbers else {
            return false;
        };
        known.insert(*number);
        if known.len() <= NUMBERS {
            return true;
        }
        *numbers = None;
        self.held.retain(|other, _| {
            !matches!(other, Predictor::Value { at, location, test: Test::Is(_), .. }
                if (at, location) == (&key.0, &key.1))
        });
        false
    }

    /// How many things it knows: what grows with runs that show ever new ones.
    #[must_use]
    pub fn size(&self) -> usize {
        // Of what is known of accesses there is no more than of these, but for a factor.
        let seen: usize = self.watched.len()
            + self.succeeded.len()
            + self.followed.len()
            + self.unseen.len()
            + self.headless.len()
            + self.cut.len()
            + self.missed.len()
            + self.unguarded.len();
        self.held.len()
            + seen
            + self.numbers.len()
            + self.wrote.len()
            + self.acquired.len()
            + self.halves.len()
    }

    /// All runs.
    #[must_use]
    pub fn runs(&self) -> Tally {
        self.runs
    }

    /// The runs whose tracking was cut short, or that lost data.
    #[must_use]
    pub fn incomplete(&self) -> Tally {
        self.incomplete
    }

    /// The predictors that held in a failing run, or could have.
    pub fn predictors(&self) -> impl Iterator<Item = &Predictor> {
        let held = self.held.iter().filter(|(_, held)| !held.instead);
        held.map(|(predictor, _)| predictor)
    }

    /// The value predictors about the same access to the same location.
    pub(crate) fn values_from<'a>(&'a self, like: &'a Predictor) -> impl Iterator<Item = &'a Predictor> {
        let same = move |other: &&Predictor| match (like, other) {
            (
                Predictor::Value { at, location, .. },
                Predictor::Value {
                    at: other_at,
                    location: other_location,
                    ..
                },
            ) => at == other_at && location == other_location,
            _ => false,
        };
        self.held
            .range(like..)
            .map(|(predictor, _)| predictor)
            .take_while(same)
    }

    /// What the runs say of a predictor.
    #[must_use]
    pub fn counts(&self, predictor: &Predictor) -> Counts {
        if matches!(predictor, Predictor::Unfinished { .. }) {
            return self.counts(&predictor.in_one_run());
        }
        let held = self.held.get(&*predictor.in_one_run()).copied();
        let held = held.unwrap_or_default();
        if matches!(predictor, Predictor::Deadlock { .. }) {
            let (half, not_half) = self.halves_of(predictor);
            // It needs no watching to tell that a run ended.
            return Counts {
                failing_with: held.with.failing + half,
                failing: self.told.saturating_sub(held.unknown.failing) + half + not_half,
                successful_with: held.with.successful,
                successful: self.runs.successful,
            };
        }
        let could = match predictor {
            Predictor::Branch { branch, .. } => self.traced.get(branch).copied().unwrap_or_default(),
            _ => self.watching(predictor, false),
        };
        let from_the_start = self.watching(predictor, true);
        // Those that watched from the start know better, if they are not the few that happened to.
        let most = |some: u64, all: u64| some > 0 && 2 * some >= all;
        let early = is_interleaving(predictor)
            && most(from_the_start.failing, could.failing)
            && most(from_the_start.successful, could.successful);
        let unseen = match torn_by(predictor) {
            Some(headless) => {
                let all = self.headless.get(&headless).copied().unwrap_or_default();
                Tally {
                    failing: all.failing.saturating_sub(held.with_headless.failing),
                    successful: all.successful.saturating_sub(held.with_headless.successful),
                }
            }
            None => self.unseen(predictor),
        };
        let cut = begins_with(predictor).and_then(|begun| self.cut.get(&begun));
        let cut = cut.copied().unwrap_or_default();
        let missed = returned_by(predictor).and_then(|read| self.missed.get(&read));
        let missed = missed.copied().unwrap_or_default();
        let of = |tally: fn(&Tally) -> u64| {
            let missed = tally(&missed).saturating_sub(tally(&held.with_missed));
            let cut = tally(&cut).saturating_sub(tally(&held.with_cut));
            let (could, unknown, silent) = (
                tally(&could),
                tally(&held.unknown),
                tally(&held.with_otherwise_silent),
            );
            if early {
                let unknown = unknown.saturating_sub(tally(&held.unknown_late));
                tally(&from_the_start).saturating_sub(unknown + cut) + silent + tally(&held.with_late)
            } else {
                could.saturating_sub(unknown + cut + missed + tally(&unseen)) + silent
            }
        };
        Counts {
            failing_with: held.with.failing,
            failing: of(|tally| tally.failing),
            successful_with: held.with.successful,
            successful: of(|tally| tally.successful),
        }
    }

    /// Complete runs without a predictor in which it may have held before they began to watch.
    fn unseen(&self, predictor: &Predictor) -> Tally {
        let mut all = Tally::default();
        let Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            first,
            second,
        } = predictor
        else {
            return all;
        };
        let leaves = self.wrote.get(&(*location, first.clone()));
        let leaves = leaves.copied().unwrap_or_default();
        let read: Place = (*location, second.clone());
        let runs = self.unseen.range((read.clone(), Values::default())..);
        for ((place, met), tally) in runs {
            if *place != read {
                break;
            }
            if met.meet(leaves) {
                all.failing += tally.failing;
                all.successful += tally.successful;
            }
        }
        all
    }

    /// Complete runs whose silence about a predictor says that it did not hold; of these, the ones that watched from the
    /// start on.
    fn watching(&self, predictor: &Predictor, from_the_start: bool) -> Tally {
        let locations = predictor.locations();
        let from_the_start = from_the_start || predictor.needs_the_start();
        let mut all = Tally::default();
        for (watched, tally) in &self.watched {
            let says = |location| {
                watched.locations.contains(location) && !(from_the_start && watched.late.contains(location))
            };
            if locations.iter().all(says) && !watched.missed(predictor) {
                all.failing += tally.failing;
                all.successful += tally.successful;
            }
        }
        all
    }

    /// How many events came after a predictor in the failing runs with it, on average.
    #[must_use]
    pub(crate) fn events_after(&self, predictor: &Predictor) -> (u64, u64) {
        let held = self.held.get(&*predictor.in_one_run()).copied();
        let held = held.unwrap_or_default();
        (held.events_after, held.with.failing.max(1))
    }

    /// Whether a predictor did not end with what the failing thread met, in most of the failing runs with it.
    #[must_use]
    pub(crate) fn ends_elsewhere(&self, predictor: &Predictor) -> bool {
        let held = self.held.get(&*predictor.in_one_run());
        held.is_some_and(|held| held.by_failing * 2 < held.with.failing)
    }

    /// Whether a predictor shows what became of another thread than the failing one, in most of the failing runs with it.
    #[must_use]
    pub(crate) fn is_harmless(&self, predictor: &Predictor) -> bool {
        let held = self.held.get(&*predictor.in_one_run());
        held.is_some_and(|held| held.harmless * 2 > held.with.failing)
    }

    /// Whether a thread of one of these kinds could still have come to do something when a read found nothing written, in most of the failing
    /// runs in which one did.
    #[must_use]
    pub(crate) fn may_still_come(
        &self,
        location: LocationId,
        read: &Actor,
        failing: u64,
        mut kinds: impl Iterator<Item = Role>,
    ) -> bool {
        let nobody_left = |role| self.nobody_left.get(&(location, read.clone(), role));
        kinds.any(|role| nobody_left(role).is_none_or(|runs| runs * 2 <= failing))
    }

    /// Whether a successful run had `first` before another thread's `second`, at one address.
    #[must_use]
    pub fn succeeded_with(&self, location: LocationId, first: &Actor, second: &Actor) -> bool {
        self.succeeded.contains(&Preceded {
            location,
            first: first.clone(),
            second: second.clone(),
        })
    }

    /// The write that would have followed: the only one that follows a thread's write in successful runs, where all failing runs with
    /// the read of it were over before it came.
    #[must_use]
    pub(crate) fn cut_off(&self, location: LocationId, write: &Actor, read: &Actor) -> Option<StatementId> {
        let cut = self.cut.get(&(location, write.clone(), read.clone()))?;
        let with = self.counts(&Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            first: write.clone(),
            second: read.clone(),
        });
        let place: Place = (location, write.clone());
        let mut next = self.followed.range((place.clone(), None)..);
        let only = next.next().filter(|(at, _)| *at == place)?.1;
        let another = next.next().is_some_and(|(at, _)| *at == place);
        only.filter(|_| !another && cut.failing >= with.failing_with)
    }

    /// Whether a successful run had an access, beside another thread's to the same address.
    #[must_use]
    pub fn succeeded_by(&self, location: LocationId, actor: &Actor) -> bool {
        let mut here = self.succeeded.iter().filter(|order| order.location == location);
        here.any(|order| [&order.first, &order.second].contains(&actor))
    }

    /// Whether a thread may make the first of two reads to decide on the second: none made the second before it had ever made the first.
    #[must_use]
    pub(crate) fn may_guard(&self, location: LocationId, first: &Actor, second: &Actor) -> bool {
        !self
            .unguarded
            .contains(&(location, first.clone(), second.clone()))
    }

    /// Whether a write leaves anything else than zero, as far as one can tell.
    #[must_use]
    pub(crate) fn fills(&self, location: LocationId, writer: &Actor) -> bool {
        let left = self.wrote.get(&(location, writer.clone()));
        left.is_none_or(|values| values.other || !values.zero)
    }

    /// Whether a statement was seen to write to a location.
    #[must_use]
    pub(crate) fn is_written_by(&self, location: LocationId, statement: StatementId) -> bool {
        let mut places = self.wrote.keys();
        places.any(|(at, writer)| *at == location && writer.statement == statement)
    }

    /// Whether failing runs are over when they fail.
    #[must_use]
    pub(crate) fn dies(&self) -> bool {
        self.dies
    }

    /// Whether threads of a kind were in the middle of what they did when another one failed: what they did last tells how far they were.
    #[must_use]
    pub(crate) fn was_interrupted(&self, role: &Role) -> bool {
        self.dies && !self.failed.is_empty() && !self.failed_in(role)
    }

    /// Whether a thread of this kind failed.
    #[must_use]
    pub(crate) fn failed_in(&self, role: &Role) -> bool {
        self.failed.contains(role)
    }
}

/// Whether a predictor is about several accesses, of which a run that began to watch late may have missed one.
fn is_interleaving(predictor: &Predictor) -> bool {
    matches!(
        predictor,
        Predictor::Order { .. } | Predictor::Atomicity { .. } | Predictor::Torn { .. }
    )
}

fn began_late(run: &Run, predictor: &Predictor) -> bool {
    let locations = predictor.locations();
    is_interleaving(predictor) && locations.iter().any(|location| run.late.contains(location))
}

/// Whether a complete run that does not show a predictor says that it did not hold.
fn silence_counts(run: &Run, predictor: &Predictor) -> bool {
    match predictor {
        Predictor::Branch { branch, .. } => run.traced.contains(branch),
        _ => predictor.locations().iter().all(|location| {
            let late = predictor.needs_the_start() && run.late.contains(location);
            run.watched.contains(location) && !late
        }),
    }
}
