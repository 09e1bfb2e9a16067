//! Adaptive tracking: how many statements of the slice, σ, the next runs track.
//!
//! σ starts at 2 and doubles after each recurrence of the failure. It stops growing when the best predictor is an
//! interleaving that stayed the best over a doubling, when the whole slice is tracked and the best predictor has been
//! seen twice, or when told to. A value or a branch that is the best so far does not end the search: it may well be the
//! trace of something farther back that is not tracked yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::predictor::Predictor;
use crate::rank::Ranked;

/// σ at first.
pub const FIRST: u32 = 2;

/// Where the search stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapt {
    sigma: u32,
    recurrences: u32,
    /// Recurrences after which it gives up waiting for a stable predictor.
    most: u32,
    best: Option<Predictor>,
    /// Recurrences with `best` in front, in a row.
    stable: u32,
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
    /// Whether the failure recurred.
    pub failed: bool,
    /// The ranking with this run.
    pub ranked: &'a [Ranked],
    /// Statements of the slice, as far as it was computed, if that is all.
    pub slice_length: Option<u32>,
}

impl Adapt {
    /// Starts with `sigma` statements ([`FIRST`] unless told otherwise), and waits for at most this many recurrences.
    #[must_use]
    pub fn new(sigma: u32, most_recurrences: u32) -> Self {
        Self {
            sigma: sigma.max(1),
            recurrences: 0,
            most: most_recurrences.max(1),
            best: None,
            stable: 0,
        }
    }

    /// Statements that the next run tracks.
    #[must_use]
    pub fn sigma(&self) -> u32 {
        self.sigma
    }

    /// Failures of tracked runs so far.
    #[must_use]
    pub fn recurrences(&self) -> u32 {
        self.recurrences
    }

    /// Takes note of a run.
    pub fn ended(&mut self, run: Ended<'_>) -> Next {
        if !run.failed {
            return Next::Track(self.sigma);
        }
        self.recurrences += 1;
        let best = run.ranked.first().filter(|best| best.counts.successful > 0);
        let predictor = best.map(|best| &best.predictor);
        if predictor.is_some() && predictor == self.best.as_ref() {
            self.stable += 1;
        } else {
            self.stable = u32::from(predictor.is_some());
            self.best = predictor.cloned();
        }
        let whole = run.slice_length.is_some_and(|length| self.sigma >= length);
        if self.stable >= 2 && best.is_some_and(|best| best.explains) {
            return Next::Stop(Stop::Stable);
        }
        if whole && self.stable >= 2 {
            return Next::Stop(Stop::Exhausted);
        }
        if self.recurrences >= self.most {
            return Next::Stop(Stop::Enough);
        }
        if !whole {
            self.sigma = self.sigma.saturating_mul(2);
        }
        Next::Track(self.sigma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Run, Shape};
    use crate::testkit::Lab;

    fn order() -> (Lab, Vec<Run>) {
        let mut lab = Lab::new(&[('m', "main"), ('a', "worker")], &[("p", Shape::Pointer)]);
        let runs = vec![
            lab.success("m:W1=5 a:R2=5 m:W3=0"),
            lab.failure("m:W1=5 m:W3=0 a:R2=0", 'a', &[2]),
        ];
        (lab, runs)
    }

    fn ended(failed: bool, ranked: &[Ranked]) -> Ended<'_> {
        Ended {
            failed,
            ranked,
            slice_length: Some(20),
        }
    }

    #[test]
    fn sigma_doubles_until_an_explanation_stays() {
        let (mut lab, runs) = order();
        let (_, ranked) = lab.rank(&runs);
        assert!(ranked[0].explains);
        let mut adapt = Adapt::new(FIRST, 10);
        assert_eq!(
            adapt.ended(ended(false, &[])),
            Next::Track(2),
            "a success changes nothing"
        );
        assert_eq!(adapt.ended(ended(true, &[])), Next::Track(4));
        assert_eq!(adapt.ended(ended(true, &ranked)), Next::Track(8));
        assert_eq!(adapt.ended(ended(true, &ranked)), Next::Stop(Stop::Stable));
        assert_eq!(adapt.recurrences(), 3);
    }

    #[test]
    fn a_symptom_does_not_end_the_search_before_the_slice_does() {
        let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
        let runs = [lab.success("m:R2=5"), lab.failure("m:R2=0", 'm', &[2])];
        let (_, ranked) = lab.rank(&runs);
        assert!(!ranked[0].explains);
        let mut adapt = Adapt::new(FIRST, 10);
        let mut sigmas = Vec::new();
        let stop = loop {
            match adapt.ended(ended(true, &ranked)) {
                Next::Track(sigma) => sigmas.push(sigma),
                Next::Stop(stop) => break stop,
            }
        };
        assert_eq!((sigmas, stop), (vec![4, 8, 16, 32], Stop::Exhausted));
    }

    #[test]
    fn it_waits_for_no_more_failures_than_it_was_told() {
        let mut adapt = Adapt::new(FIRST, 3);
        let nothing = Ended {
            failed: true,
            ranked: &[],
            slice_length: None,
        };
        assert_eq!(adapt.ended(nothing), Next::Track(4));
        assert_eq!(adapt.ended(nothing), Next::Track(8));
        assert_eq!(adapt.ended(nothing), Next::Stop(Stop::Enough));
    }

    /// Without a run that did not fail, nothing separates and nothing can be stable.
    #[test]
    fn a_program_that_always_fails_is_tracked_until_told_otherwise() {
        let (mut lab, mut runs) = order();
        runs.retain(|run| run.failed.is_some());
        let (_, ranked) = lab.rank(&runs);
        let mut adapt = Adapt::new(FIRST, 4);
        for _ in 0..3 {
            assert!(matches!(adapt.ended(ended(true, &ranked)), Next::Track(_)));
        }
        assert_eq!(adapt.ended(ended(true, &ranked)), Next::Stop(Stop::Enough));
    }
}
