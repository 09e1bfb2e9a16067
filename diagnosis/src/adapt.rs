//! Adaptive tracking: how many statements of the slice, σ, the next runs track.
//!
//! σ starts at 2 and doubles after each recurrence of the failure, so a predictor that held in two recurrences stayed
//! while σ doubled. Tracking stops when the best predictor is an explanation that held in [`RECURRENCES`] of them and
//! enough successful runs could have shown it. A value or a branch that is the best so far does not end the search before
//! the whole slice is tracked, and not even then where there are threads: it may well be the trace of something farther back. Neither does, of threads that wait for locks, what
//! is no deadlock: that a lock was taken before somebody else wanted it is how every deadlock begins. After [`PATIENCE`] recurrences
//! what there is has to do, once successful runs have tracked as much; after [`MOST_PATIENCE`] if it only restates the failure.
//! An explanation that stands after so many waits for the successful runs that could refute it, and needs no more failing ones;
//! neither does a search that has hardly any successful runs to compare with.
//!
//! All of this counts runs that watched their whole plan. Where hosts share a plan, a run counts as the part of it that it watched
//! ([`Part`]): four hosts of one register each see in four recurrences what one of four registers sees in one. But none of their runs
//! shows how locations go together, so such a search takes twice the patience, and looks for what speaks against its best
//! predictor in runs that watched what that is about.

mod part;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::predictor::Predictor;
use crate::rank::Ranked;
pub use part::Part;

/// σ at first.
pub const FIRST: u32 = 2;

/// Recurrences in which a predictor must have held: two would be enough for a doubling, but among many interleavings
/// one that has nothing to do with the failure is in two runs of two too often.
const RECURRENCES: u64 = 3;
/// Successful runs that could have shown it.
const LEAST_SUCCESSES: u64 = 5;
const SUCCESSES: Part = Part::runs_of(LEAST_SUCCESSES);
/// Recurrences after which less is enough, and a symptom is: what is hardly chance, however few runs say so.
const PATIENCE: Part = Part::runs_of(5);
/// The same as long as nothing says more than that the failure happened, and there is more to track.
const MOST_PATIENCE: Part = Part::runs_of(8);
/// Successful runs that have tracked as much as the last ones, before it ends without an explanation,
const TO_END: Part = Part::runs_of(2);
/// or that the best predictor was not in.
const MANY: u64 = 10;
/// Successful runs that there have to be before it gives up.
const FEW_SUCCESSES: Part = Part::runs_of(3);
/// How many times as many recurrences a search takes whose runs watch parts of their plans.
const SHARED_PATIENCE: u32 = 2;
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
    /// Statements of the slice, as far as it was computed, if that is all.
    pub slice_length: Option<u32>,
    /// Whether failing runs have watched all that is planned now. Where locations take turns at the registers, what tells more
    /// may not have had its turn in a failing one.
    pub watched: bool,
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
    pub fn spares(&mut self, part: Part) -> Option<Next> {
        if !self.waits {
            return None;
        }
        self.spared += part;
        match self.is_over() {
            true => Some(Next::Stop(Stop::Enough)),
            false => Some(Next::Track(self.sigma)),
        }
    }

    /// Whether the failure recurred as often as it is waited for, and there are a few successful runs, or there is no hope that there will be. A bug that fails nearly always has successful
    /// runs, too, and without them nothing can be told; one that always fails has to come to an end.
    fn is_over(&self) -> bool {
        let failures = self.recurrences + self.spared;
        let times = match self.can_succeed || self.all_successes > Part::NONE {
            true => TIMES_FOR_SUCCESSES,
            false => TIMES_FOR_THE_FIRST,
        };
        let most = self.patiently(Part::runs_of(self.most.into()));
        let compared = self.all_successes >= FEW_SUCCESSES;
        failures >= most && (compared || failures >= most.times(times))
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
        let known = |best: &&Ranked| {
            // What is as frequent in successful runs is not said.
            if !best.counts.separate() {
                return false;
            }
            let (failing, successful) = (best.counts.failing_with, best.counts.successful);
            match patient {
                // What was seen elsewhere only may be of elsewhere only.
                true => {
                    // What others watch may explain more, and has its turn first.
                    let seen = !self.shared || self.recurrences.runs() >= RECURRENCES;
                    seen && failing >= RECURRENCES && successful >= LEAST_SUCCESSES && self.here > 0
                }
                false => successful >= LEAST_SUCCESSES || best.counts.convince(),
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
            let refutable = !self.shared || best.counts.successful >= TO_END.runs();
            let compared = (tracked || without >= MANY) && refutable;
            let most = self.patiently(MOST_PATIENCE);
            let over = best.says_something() || whole || self.recurrences >= most;
            if !patient && compared && over {
                return Next::Stop(stop);
            }
        }
        if self.is_over() {
            return Next::Stop(Stop::Enough);
        }
        let stands = |best: &Ranked| best.explains && best.counts.separate();
        let compared = self.all_successes >= FEW_SUCCESSES;
        self.waits = !patient && (run.ranked.first().is_some_and(stands) || !compared);
        // What was tracked last is compared first, before there is more of it.
        let recurred = self.recurrences.runs() > before.runs();
        if recurred && !whole && (patient || tracked) {
            self.sigma = self.sigma.saturating_mul(2);
            self.successes = Part::NONE;
        }
        Next::Track(self.sigma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Run, Shape};
    use crate::testkit::Lab;

    fn ended(failed: bool, ranked: &[Ranked], slice_length: Option<u32>) -> Ended<'_> {
        Ended {
            failed,
            here: true,
            part: Part::WHOLE,
            ranked,
            slice_length,
            watched: true,
            locked: false,
            alone: false,
        }
    }

    /// Rankings with more and more failing runs, after `successes` successful ones.
    fn rankings(lab: &mut Lab, good: &Run, bad: &Run, successes: usize) -> Vec<Vec<Ranked>> {
        let mut runs = vec![good.clone(); successes];
        (0..8)
            .map(|_| {
                runs.push(bad.clone());
                lab.rank(&runs).1
            })
            .collect()
    }

    fn order() -> (Lab, Run, Run) {
        let mut lab = Lab::new(&[('m', "main"), ('a', "worker")], &[("p", Shape::Pointer)]);
        let good = lab.success("m:W1=5 a:R2=5 m:W3=0");
        let bad = lab.failure("m:W1=5 m:W3=0 a:R2=0", 'a', &[2]);
        (lab, good, bad)
    }

    #[test]
    fn whoever_asks_for_more_gets_twice_as_much_and_another_search() {
        let (mut lab, good, bad) = order();
        let ranked = rankings(&mut lab, &good, &bad, 5);
        let mut adapt = Adapt::new(FIRST, 12);
        let stop = ranked.iter().map(|ranked| adapt.ended(ended(true, ranked, None)));
        assert!(stop.last().is_some_and(|next| matches!(next, Next::Stop(_))));
        let sigma = adapt.sigma();
        assert_eq!(adapt.widen(), Next::Track(2 * sigma));
        assert_eq!(adapt.recurrences(), 0);
        assert!(matches!(
            adapt.ended(ended(true, &ranked[0], None)),
            Next::Track(_)
        ));
    }

    #[test]
    fn an_explanation_waits_for_successes_without_more_failures() {
        let (mut lab, good, bad) = order();
        let none = rankings(&mut lab, &good, &bad, 1);
        let some = rankings(&mut lab, &good, &bad, 3);
        let mut adapt = Adapt::new(FIRST, 12);
        adapt.ended(ended(false, &[], None));
        for ranked in none.iter().take(5) {
            assert_eq!(adapt.spares(Part::WHOLE), None);
            assert!(matches!(adapt.ended(ended(true, ranked, None)), Next::Track(_)));
        }
        for _ in 0..20 {
            assert!(matches!(adapt.spares(Part::WHOLE), Some(Next::Track(_))));
        }
        assert_eq!(adapt.recurrences(), 5);
        let stop = adapt.ended(ended(false, &some[4], None));
        assert_eq!(stop, Next::Stop(Stop::Stable));
    }

    #[test]
    fn successes_that_never_come_are_not_waited_for_for_ever() {
        let (mut lab, good, bad) = order();
        let ranked = rankings(&mut lab, &good, &bad, 1);
        let mut adapt = Adapt::new(FIRST, 12);
        for ranked in ranked.iter().take(5) {
            adapt.ended(ended(true, ranked, None));
        }
        let spared = std::iter::from_fn(|| adapt.spares(Part::WHOLE));
        let spared = spared.take_while(|next| matches!(next, Next::Track(_))).count();
        assert!(spared < 100, "{spared} failures");
    }

    #[test]
    fn sigma_doubles_until_an_explanation_stays() {
        let (mut lab, good, bad) = order();
        let ranked = rankings(&mut lab, &good, &bad, 5);
        assert!(ranked[0][0].explains);
        let mut adapt = Adapt::new(FIRST, 10);
        assert_eq!(
            adapt.ended(ended(false, &[], None)),
            Next::Track(2),
            "a success changes nothing"
        );
        assert_eq!(adapt.ended(ended(true, &[], None)), Next::Track(4));
        assert_eq!(adapt.ended(ended(true, &ranked[0], None)), Next::Track(8));
        assert_eq!(adapt.ended(ended(true, &ranked[1], None)), Next::Track(16));
        assert_eq!(
            adapt.ended(ended(true, &ranked[2], None)),
            Next::Stop(Stop::Stable)
        );
        assert_eq!(adapt.recurrences(), 4);
    }

    #[test]
    fn runs_that_watched_a_part_count_for_a_part() {
        let (mut lab, good, bad) = order();
        let ranked = rankings(&mut lab, &good, &bad, 5);
        let recurrences = |part| {
            let mut adapt = Adapt::new(FIRST, 10);
            let ended = |_| {
                adapt.ended(Ended {
                    part,
                    ..ended(true, &ranked[7], None)
                })
            };
            let next: Vec<Next> = (0..32).map(ended).collect();
            next.iter()
                .position(|next| matches!(next, Next::Stop(Stop::Stable)))
                .map(|at| at + 1)
        };
        assert_eq!(
            recurrences(Part::of(1, 4)),
            Some(12),
            "others have had their turn by then"
        );
        let mut adapt = Adapt::new(FIRST, 10);
        let quarter = Ended {
            part: Part::of(1, 4),
            ..ended(true, &[], None)
        };
        let sigmas: Vec<Next> = (0..8).map(|_| adapt.ended(quarter)).collect();
        assert_eq!(sigmas, [2, 2, 2, 4, 4, 4, 4, 8].map(Next::Track));
    }

    #[test]
    fn it_waits_for_successful_runs_to_compare_with() {
        let (mut lab, good, bad) = order();
        let few = rankings(&mut lab, &good, &bad, 1);
        let mut adapt = Adapt::new(FIRST, 10);
        for ranked in &few[..3] {
            assert!(matches!(adapt.ended(ended(true, ranked, None)), Next::Track(_)));
        }
        let enough = rankings(&mut lab, &good, &bad, 5);
        assert_eq!(
            adapt.ended(ended(false, &enough[2], None)),
            Next::Stop(Stop::Stable)
        );
    }

    #[test]
    fn a_symptom_does_not_end_the_search_before_the_slice_does() {
        let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
        let (good, bad) = (lab.success("m:R2=5"), lab.failure("m:R2=0", 'm', &[2]));
        let ranked = rankings(&mut lab, &good, &bad, 5);
        assert!(!ranked[0][0].explains);
        for (length, sigmas, stop) in [
            // The failing statement met a null: that it failed, and no more.
            (Some(7), vec![4, 8, 8, 8], Stop::Exhausted),
            (None, vec![4, 8, 16, 32, 64, 128, 256], Stop::Enough),
        ] {
            let mut adapt = Adapt::new(FIRST, 10);
            let mut seen = Vec::new();
            let ended = ranked.iter().find_map(|ranked| {
                for _ in 0..LEAST_SUCCESSES {
                    assert!(matches!(adapt.ended(ended(false, &[], length)), Next::Track(_)));
                }
                match adapt.ended(ended(true, ranked, length)) {
                    Next::Track(sigma) => {
                        seen.push(sigma);
                        None
                    }
                    Next::Stop(stop) => Some(stop),
                }
            });
            assert_eq!((seen, ended), (sigmas, Some(stop)));
        }
    }

    #[test]
    fn where_there_are_threads_a_symptom_is_not_enough_though_the_slice_is_tracked_whole() {
        let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
        let (good, bad) = (
            lab.success("m:R1=5 m:R2=5"),
            lab.failure("m:R1=0 m:R2=5", 'm', &[2]),
        );
        let ranked = rankings(&mut lab, &good, &bad, 5);
        assert!(!ranked[0][0].explains && ranked[0][0].says_something());
        for (alone, recurrences) in [(true, 3), (false, PATIENCE.runs())] {
            let mut adapt = Adapt::new(FIRST, 10);
            let mut ends = |failed, ranked| {
                adapt.ended(Ended {
                    alone,
                    ..ended(failed, ranked, Some(2))
                })
            };
            for _ in 0..LEAST_SUCCESSES {
                assert_eq!(ends(false, &[]), Next::Track(2));
            }
            let stop = ranked
                .iter()
                .position(|ranked| matches!(ends(true, ranked), Next::Stop(Stop::Exhausted)));
            assert_eq!(stop, Some(recurrences as usize - 1));
        }
    }

    #[test]
    fn the_slice_is_not_tracked_whole_before_all_of_it_was_watched_in_a_failing_run() {
        let mut lab = Lab::new(&[('m', "main")], &[("n", Shape::Unsigned)]);
        let (good, bad) = (
            lab.success("m:R2=5 m:R3=5"),
            lab.failure("m:R2=7 m:R3=7", 'm', &[3]),
        );
        let ranked = rankings(&mut lab, &good, &bad, 5);
        let mut adapt = Adapt::new(FIRST, 10);
        let mut ends = |failed, watched| {
            let ranked = if failed { &ranked[3] } else { &[][..] };
            let ended = Ended {
                watched,
                alone: true,
                ..ended(failed, ranked, Some(2))
            };
            adapt.ended(ended)
        };
        for _ in 0..LEAST_SUCCESSES {
            assert_eq!(ends(false, false), Next::Track(2));
        }
        assert_eq!(ends(true, false), Next::Track(2));
        assert_eq!(ends(true, true), Next::Stop(Stop::Exhausted));
    }

    #[test]
    fn half_of_a_deadlock_does_not_end_the_search_before_patience_does() {
        let (mut lab, good, bad) = order();
        let ranked = rankings(&mut lab, &good, &bad, 5);
        let mut adapt = Adapt::new(FIRST, 10);
        let mut ends = |failed, ranked| {
            adapt.ended(Ended {
                locked: true,
                ..ended(failed, ranked, Some(2))
            })
        };
        for _ in 0..LEAST_SUCCESSES {
            assert_eq!(ends(false, &[]), Next::Track(2));
        }
        for ranked in &ranked[..4] {
            assert_eq!(ends(true, ranked), Next::Track(2), "the whole slice is tracked");
        }
        assert_eq!(ends(true, &ranked[4]), Next::Stop(Stop::Stable));
    }

    #[test]
    fn what_was_tracked_last_is_compared_before_the_search_ends() {
        let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
        let (good, bad) = (lab.success("m:R2=5"), lab.failure("m:R2=0", 'm', &[2]));
        let ranked = rankings(&mut lab, &good, &bad, 5);
        let mut adapt = Adapt::new(FIRST, 10);
        let sigmas = ranked.iter().map(|ranked| adapt.ended(ended(true, ranked, None)));
        let sigmas: Vec<Next> = sigmas.collect();
        assert_eq!(sigmas, [4, 8, 16, 32, 32, 32, 32, 32].map(Next::Track));
        let mut succeeds = || adapt.ended(ended(false, &ranked[7], None));
        assert_eq!(succeeds(), Next::Track(32));
        assert_eq!(succeeds(), Next::Stop(Stop::Enough));
    }

    #[test]
    fn what_was_only_seen_elsewhere_does_not_end_the_search() {
        let (mut lab, good, bad) = order();
        let ranked = rankings(&mut lab, &good, &bad, 5);
        let mut adapt = Adapt::new(FIRST, 10);
        let mut fails = |ranked, here| {
            adapt.ended(Ended {
                here,
                ..ended(true, ranked, None)
            })
        };
        for (ranked, sigma) in ranked[..3].iter().zip([4, 8, 16]) {
            assert_eq!(fails(ranked, false), Next::Track(sigma));
        }
        assert_eq!(fails(&ranked[3], true), Next::Stop(Stop::Stable));
    }

    #[test]
    fn what_holds_in_successful_runs_as_well_is_no_explanation_to_end_with() {
        let (mut lab, _, bad) = order();
        let same = lab.success("m:W1=5 m:W3=0 a:R2=0");
        let ranked = rankings(&mut lab, &same, &bad, 5);
        let mut adapt = Adapt::new(FIRST, 10);
        let ends = ranked.iter().map(|ranked| adapt.ended(ended(true, ranked, None)));
        assert!(ends.into_iter().all(|next| matches!(next, Next::Track(_))));
    }

    #[test]
    fn it_waits_for_no_more_failures_than_it_was_told() {
        let mut adapt = Adapt::new(FIRST, 3);
        let (failed, succeeded) = (ended(true, &[], Some(4)), ended(false, &[], Some(4)));
        for _ in 0..FEW_SUCCESSES.runs() {
            assert_eq!(adapt.ended(succeeded), Next::Track(2));
        }
        assert_eq!(adapt.ended(failed), Next::Track(4));
        assert_eq!(adapt.ended(failed), Next::Track(4));
        assert_eq!(adapt.ended(failed), Next::Stop(Stop::Enough));
    }

    #[test]
    fn it_goes_on_for_a_few_successes_if_there_are_any() {
        let (failed, succeeded) = (ended(true, &[], Some(2)), ended(false, &[], Some(2)));
        let recurrences = |mut adapt: Adapt, first: &[Ended<'_>]| {
            first.iter().for_each(|run| _ = adapt.ended(*run));
            let goes_on = |next: &Next| matches!(next, Next::Track(_));
            (0..100).map(|_| adapt.ended(failed)).take_while(goes_on).count() + 1
        };
        let adapt = || Adapt::new(FIRST, 3);
        assert_eq!(recurrences(adapt(), &[]), 6, "it may always fail");
        assert_eq!(recurrences(adapt().that_can_succeed(true), &[]), 18);
        assert_eq!(recurrences(adapt(), &[succeeded]), 18);
        assert_eq!(recurrences(adapt(), &[succeeded; 3]), 3);
        let mut late = adapt();
        for run in [failed, failed, failed, failed, succeeded, succeeded] {
            assert_eq!(late.ended(run), Next::Track(2));
        }
        assert_eq!(late.ended(succeeded), Next::Stop(Stop::Enough));
    }
}
