//! Adaptive tracking: how many statements of the slice, σ, the next runs track.
//!
//! σ starts at 2 and doubles after each recurrence of the failure, so a predictor that held in two recurrences stayed
//! while σ doubled. Tracking stops when the best predictor is an explanation that held in [`RECURRENCES`] of them,
//! enough successful runs could have shown it, and all that is hardly chance. A value or a branch that is the best so far does
//! not end the search before the whole slice is tracked, and not even then where there are threads: it may well be the trace of
//! something farther back. Neither does, of threads that wait for locks, what is no deadlock: that a lock was taken before somebody
//! else wanted it is how every deadlock begins. After [`PATIENCE`] recurrences what there is has to do, unless it explains the
//! failure by what may well be chance, once successful runs have tracked as much; after [`MOST_PATIENCE`] or [`LAST_PATIENCE`] if it only restates the
//! failure. An explanation that stands after so many waits for the successful runs that could refute it, and needs no more failing
//! ones; neither does a value or a branch that would do, nor a search that has hardly any successful runs to compare with. One beside
//! which a longer pattern is open, because no successful run got to its last access, waits for more of them, and from the start.
//!
//! All of this counts runs that watched their whole plan. Where hosts share a plan, a run counts as the part of it that it watched
//! ([`Part`]): four hosts of one register each see in four recurrences what one of four registers sees in one. But none of their runs
//! shows how locations go together, so such a search takes twice the patience, and looks for what speaks against its best
//! predictor in runs that watched what that is about.

mod part;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::predictor::Predictor;
use crate::rank::{Open, Ranked};
pub use part::Part;

/// σ at first.
pub const FIRST: u32 = 2;

/// Recurrences in which a predictor must have held: two would be enough for a doubling, but among many interleavings
/// one that has nothing to do with the failure is in two runs of two too often.
const RECURRENCES: u64 = 3;
/// Successful runs that could have shown it.
const LEAST_SUCCESSES: u64 = 5;
/// The same while a longer pattern could still turn out to be the better explanation: by what comes after it, or if it is no chance,
const SUCCESSES_TO_CLOSE: u64 = 20;
/// or by what comes before.
const SUCCESSES_TO_REVERSE: u64 = 10;
const SUCCESSES: Part = Part::runs_of(LEAST_SUCCESSES);
/// Recurrences after which less is enough, and a symptom is: what is hardly chance, however few runs say so.
const PATIENCE: Part = Part::runs_of(5);
/// The same as long as nothing says more than that the failure happened, and there is more to track.
const MOST_PATIENCE: Part = Part::runs_of(8);
/// The same where there are threads: what they do to each other has to have its turn in a failing run.
const LAST_PATIENCE: Part = Part::runs_of(12);
/// Successful runs that have tracked as much as the last ones, before it ends without an explanation,
const TO_END: Part = Part::runs_of(2);
/// or that the best predictor was not in.
const MANY: u64 = 10;
/// Successful runs that there have to be before it gives up.
const FEW_SUCCESSES: Part = Part::runs_of(3);
/// How many times as many recurrences a search takes whose runs watch parts of their plans.
const SHARED_PATIENCE: u32 = 2;
/// How many times as many successful runs it takes there that could have shown the best predictor. Who has one register sees one of
/// several objects, and in which other orders runs succeed, which tells a pair that was torn from an order that is wrong, takes many.
const SHARED_SUCCESSES: u64 = 3;
/// How many times as many recurrences as it waits for are waited for until there are a few successful runs to compare with: if it
/// is known that the program can succeed, and if not.
const TIMES_FOR_SUCCESSES: u32 = 6;
const TIMES_FOR_THE_FIRST: u32 = 2;

/// Where the search stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapt {
    sigma: u32,
    recurrences: Part,
    /// Those of them that failed where the first failure did.
    #[serde(default)]
    here: u32,
    /// Successful runs with this σ.
    successes: Part,
    /// Successful runs with any.
    #[serde(default)]
    all_successes: Part,
    /// Whether runs without tracking succeeded.
    #[serde(default)]
    can_succeed: bool,
    /// Whether only successful runs tell more: an explanation stands that they may refute, or there is nothing to compare with.
    #[serde(default)]
    waits: bool,
    /// Failures that came meanwhile.
    #[serde(default)]
    spared: Part,
    /// Runs watched parts of their plans.
    #[serde(default)]
    shared: bool,
    /// Recurrences after which it gives up waiting for a stable predictor.
    most: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Next {
    /// Go on with this σ.
    Track(u32),
    /// The sketch is as good as it gets.
    Stop(Stop),
}

/// Why tracking stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// The best predictor stayed the best while σ doubled.
    Stable,
    /// The whole slice was tracked.
    Exhausted,
    /// The failure recurred as often as it was to be waited for.
    Enough,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stable => "the best predictor stayed the best while twice as much was tracked",
            Self::Exhausted => "everything that the failure depends on was tracked",
            Self::Enough => "the failure recurred often enough, and no predictor stayed the best",
        })
    }
}

/// A run that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Whether the failure recurred,
    pub failed: bool,
    /// and where the first one was, not elsewhere.
    pub here: bool,
    /// How much of its plan it watched.
    pub part: Part,
    /// The ranking with this run.
    pub ranked: &'a [Ranked],
    /// Whether something may explain the failure that has not been compared with enough successful runs.
    pub uncompared: bool,
    /// Statements of the slice, as far as it was computed, if that is all.
    pub slice_length: Option<u32>,
    /// Whether failing runs have watched all that is planned now. Where locations take turns at the registers, what tells more
    /// may not have had its turn in a failing one.
    pub watched: bool,
    /// What successful runs may show of a longer pattern that may explain the failure better.
    pub open: Option<Open>,
    /// Whether the failure is that threads wait for locks, and the program does not get on.
    pub locked: bool,
    /// Whether the program has one thread.
    pub alone: bool,
}

impl Adapt {
    /// Starts with `sigma` statements ([`FIRST`] unless told otherwise), and waits for at most this many recurrences.
    #[must_use]
    pub fn new(sigma: u32, most_recurrences: u32) -> Self {
        Self {
            sigma: sigma.max(1),
            recurrences: Part::NONE,
            here: 0,
            successes: Part::NONE,
            all_successes: Part::NONE,
            can_succeed: false,
            waits: false,
            spared: Part::NONE,
            shared: false,
            most: most_recurrences.max(1),
        }
    }

    /// Knows that runs without tracking succeeded.
    #[must_use]
    pub fn that_can_succeed(self, can_succeed: bool) -> Self {
        Self { can_succeed, ..self }
    }

    /// Statements that the next run tracks.
    #[must_use]
    pub fn sigma(&self) -> u32 {
        self.sigma
    }

    /// Failures of tracked runs so far, as far as they watched what they might have.
    #[must_use]
    pub fn recurrences(&self) -> u64 {
        self.recurrences.runs()
    }

    /// Whether only successful runs tell more, of what is the best so far.
    #[must_use]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Whether hosts watch parts of what is planned.
    #[must_use]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Tracks twice as many statements, and waits for as many recurrences again.
    pub fn widen(&mut self) -> Next {
        *self = Self {
            can_succeed: self.can_succeed || self.all_successes > Part::NONE,
            shared: self.shared,
            ..Self::new(self.sigma.saturating_mul(2), self.most)
        };
        Next::Track(self.sigma)
    }

    /// Whether nothing more is to be learnt from failing runs. One more of them is noted, and why it ends if it does.
    pub fn spares(&mut self, part: Part, here: bool) -> Option<Next> {
        // The first one where the bug was first seen tells more than that it recurred.
        if !self.waits || here && self.here == 0 {
            return None;
        }
        self.spared += part;
        match self.is_over() {
            true => Some(Next::Stop(Stop::Enough)),
            false => Some(Next::Track(self.sigma)),
        }
    }

    /// Whether the failure recurred as often as it is waited for, and there are a few successful runs, or there is no hope
    /// that there will be. A bug that fails nearly always has successful runs, too, and without them nothing can be told; one
    /// that always fails has to come to an end.
    fn is_over(&self) -> bool {
        let times = match self.can_succeed || self.all_successes > Part::NONE {
            true => TIMES_FOR_SUCCESSES,
            false => TIMES_FOR_THE_FIRST,
        };
        let most = self.patiently(Part::runs_of(self.most.into()));
        let compared = self.all_successes >= FEW_SUCCESSES;
        // Those that came while successful runs were waited for have told nothing but that these are rare.
        compared && self.recurrences >= most || self.recurrences + self.spared >= most.times(times)
    }

    /// How many recurrences that takes where runs tell less.
    fn patiently(&self, recurrences: Part) -> Part {
        match self.shared {
            true => recurrences.times(SHARED_PATIENCE),
            false => recurrences,
        }
    }

    /// Takes note of a run.
    pub fn ended(&mut self, run: Ended<'_>) -> Next {
        let whole = run.slice_length.is_some_and(|length| self.sigma >= length);
        let before = self.recurrences;
        self.shared |= run.part < Part::WHOLE;
        match run.failed {
            true => self.recurrences += run.part,
            false => {
                self.successes += run.part;
                self.all_successes += run.part;
            }
        }
        self.here += u32::from(run.failed && run.here);
        let patient = self.recurrences < self.patiently(PATIENCE);
        let least = match (run.open, self.shared) {
            (Some(Open::End | Open::Doubt), _) => SUCCESSES_TO_CLOSE,
            (_, true) => LEAST_SUCCESSES * SHARED_SUCCESSES,
            (Some(Open::Reverse), false) => SUCCESSES_TO_REVERSE,
            (Some(Open::Unmet), false) if !patient => SUCCESSES_TO_REVERSE,
            (Some(Open::Unmet) | None, false) => LEAST_SUCCESSES,
        };
        // Where threads could get in each other's way, what two runs met is most often those runs' own.
        let enough_of_it =
            |best: &Ranked| best.explains || run.alone || best.counts.failing_with >= RECURRENCES;
        // One failing run has much that is its own alone.
        let shown = |best: &Ranked| best.counts.failing_with > 1 && enough_of_it(best);
        // What others watch may explain more, and has its turn first.
        let seen = !self.shared || self.recurrences.runs() >= RECURRENCES;
        let known = |best: &&Ranked| {
            // What is as frequent in successful runs is not said.
            if !best.counts.separate() {
                return false;
            }
            let (failing, successful) = (best.counts.failing_with, best.counts.successful);
            // What few of many failing runs had, or many successful ones had, too, may be chance however it explains.
            let convinces = best.counts.convince();
            let enough = successful >= least && (convinces || !best.explains);
            match patient {
                // What was seen elsewhere only may be of elsewhere only.
                true => seen && failing >= RECURRENCES && enough && self.here > 0,
                false => {
                    // Two runs are too few to refute anything, however many failed.
                    let of_few = successful >= FEW_SUCCESSES.runs() && convinces;
                    shown(best) && (enough || run.open.is_none() && !self.shared && of_few)
                }
            }
        };
        let tracked = self.successes >= if patient { SUCCESSES } else { TO_END };
        if let Some(best) = run.ranked.first().filter(known) {
            let half = patient && run.locked && !matches!(best.predictor, Predictor::Deadlock { .. });
            if best.explains && !half {
                return Next::Stop(Stop::Stable);
            }
            let stop = match whole {
                true => Stop::Exhausted,
                false => Stop::Enough,
            };
            // What holds in every run, or only says that it failed, explains none: the runs that would tell may not have
            // been made. And where threads could get in each other's way, what tells of that may not have had its turn.
            let tells = best.counts.successful_with < best.counts.successful && !best.restates();
            if patient && whole && tracked && tells && run.alone && run.watched {
                return Next::Stop(stop);
            }
            // A predictor of what was tracked last has had no successful run to show itself in before that.
            let without = best.counts.successful.saturating_sub(best.counts.successful_with);
            let refutable = !self.shared || best.counts.successful >= TO_END.runs() && !run.uncompared;
            let compared = (tracked || without >= MANY) && refutable;
            // What threads do to each other may not have had its turn in a failing run.
            let turned = run.alone || run.watched;
            // Nor may what one thread does alone, as long as nothing says more than that it failed.
            let says = best.says_something();
            let most = match says || run.alone {
                true => MOST_PATIENCE,
                false => LAST_PATIENCE,
            };
            let late = self.recurrences >= self.patiently(most);
            let over = turned && (says || whole && run.watched) || late;
            if !patient && compared && over {
                return Next::Stop(stop);
            }
        }
        if self.is_over() {
            return Next::Stop(Stop::Enough);
        }
        // What one failing run showed may be that run's own: others have to show it before successful ones can refute it.
        let stands = |best: &Ranked| {
            let with = best.counts.failing_with;
            let open = run.open.is_some_and(|open| open != Open::Unmet);
            let often = with >= RECURRENCES && open && seen || with > 1 && !patient;
            best.explains && best.counts.separate() && often
        };
        // Nor do failing runs tell more where a search would be over, had successful ones tracked as much as they.
        let told = |best: &Ranked| {
            let often = best.counts.failing_with > 1 && best.counts.separate() && shown(best);
            let says = best.says_something() || run.open.is_some();
            often && says && (run.alone || run.watched) && !self.shared
        };
        let compared = self.all_successes >= FEW_SUCCESSES;
        let best = run.ranked.first();
        self.waits = best.is_some_and(stands) || !patient && (!compared || best.is_some_and(told));
        // What was tracked last is compared first, before there is more of it.
        let recurred = self.recurrences.runs() > before.runs();
        if recurred && !whole && (patient || tracked) {
            self.sigma = self.sigma.saturating_mul(2);
            self.successes = Part::NONE;
        }
        Next::Track(self.sigma)
    }
}
