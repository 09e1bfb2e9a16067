//! Counts of runs, and what they say.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// What is more likely than this may well be chance: three failing runs and two successful ones part by chance once in
/// ten times, which is just not, however it is rounded.
const LIKELY: f64 = 0.1 + 1e-9;

/// In how many runs a predictor held, of how many that could have shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Failing runs in which it held.
    pub failing_with: u64,
    /// Failing runs that could have shown it.
    pub failing: u64,
    /// Successful runs in which it held.
    pub successful_with: u64,
    /// Successful runs that could have shown it.
    pub successful: u64,
}

impl Counts {
    /// Failing runs with it / runs with it. Zero where no run has it.
    #[must_use]
    pub fn precision(&self) -> f64 {
        ratio(self.failing_with, self.failing_with + self.successful_with)
    }

    /// Whether it holds more often in failing runs than in successful ones. Where no successful run could have shown it,
    /// nobody knows better.
    #[must_use]
    pub fn separate(&self) -> bool {
        let (failing, successful) = (u128::from(self.failing), u128::from(self.successful));
        self.successful == 0
            || u128::from(self.failing_with) * successful > u128::from(self.successful_with) * failing
    }

    /// How likely failing runs are to have it at least so often if it has nothing to do with the failure (Fisher's exact
    /// test, one-sided). 1 where there is nothing to compare with.
    #[must_use]
    pub fn chance(&self) -> f64 {
        self.chance_up_to(1.0)
    }

    /// Whether it is more than chance may make of so few runs.
    #[must_use]
    pub fn convince(&self) -> bool {
        self.chance_up_to(LIKELY) <= LIKELY
    }

    /// Whether it held less often in successful runs than something else, by more than chance.
    #[must_use]
    pub fn is_rarer_than(&self, other: &Self) -> bool {
        let successes = Self {
            failing_with: other.successful_with,
            failing: other.successful,
            successful_with: self.successful_with,
            successful: self.successful,
        };
        successes.convince()
    }

    /// The chance, or some number above `enough` if it is more than that. Every predictor is asked for it with every run, so its price must
    /// not grow with them: only the terms near the middle of the distribution are added up, as many as its width, which is
    /// the root of the number of runs.
    fn chance_up_to(&self, enough: f64) -> f64 {
        let (failing, successful) = (self.failing, self.successful);
        let (least, with) = (self.failing_with, self.failing_with + self.successful_with);
        if least > failing || self.successful_with > successful {
            return 1.0;
        }
        let all = ln_choices(failing + successful, with);
        let chance_of = |of: u64| (ln_choices(failing, of) + ln_choices(successful, with - of) - all).exp();
        // How much more likely one more is than this many: less and less.
        let next = |of: u64| {
            let more = ratio(failing - of, of + 1);
            more * ratio(with - of, (successful + of + 1).saturating_sub(with))
        };
        if self.is_frequent() {
            return sum_of(chance_of(least), least..failing.min(with), next, enough);
        }
        // It is at least as likely as not, and the others are fewer.
        let fewest = with.saturating_sub(successful);
        if enough < 0.5 || least == fewest {
            return 1.0;
        }
        let fewer = sum_of(
            chance_of(least - 1),
            (fewest..least - 1).rev(),
            |of| 1.0 / next(of),
            1.0,
        );
        1.0 - fewer
    }

    /// Whether failing runs have it more often than all runs do.
    fn is_frequent(&self) -> bool {
        let with = u128::from(self.failing_with + self.successful_with);
        let all = u128::from(self.failing + self.successful);
        u128::from(self.failing_with) * all > with * u128::from(self.failing)
    }

    /// Failing runs with it / failing runs.
    #[must_use]
    pub fn recall(&self) -> f64 {
        ratio(self.failing_with, self.failing)
    }

    /// The F-measure with β = 0.5: precision counts twice as much as recall.
    #[must_use]
    pub fn f(&self) -> f64 {
        let (above, below) = self.fraction();
        ratio(above, below)
    }

    /// The F-measure as a fraction of integers, so that equal counts are equal and no rounding breaks a tie:
    /// (1 + β²)·tp / ((1 + β²)·tp + β²·fn + fp), times four.
    fn fraction(&self) -> (u64, u64) {
        let missed = self.failing.saturating_sub(self.failing_with);
        let above = self.failing_with.saturating_mul(5);
        (above, above + missed + self.successful_with.saturating_mul(4))
    }

    /// Compares F-measures, exactly.
    #[must_use]
    pub fn compare_f(&self, other: &Self) -> Ordering {
        let ((a, b), (c, d)) = (self.fraction(), other.fraction());
        match (b == 0, d == 0) {
            (true, true) => Ordering::Equal,
            (true, false) => 0.cmp(&c),
            (false, true) => a.cmp(&0),
            (false, false) => (u128::from(a) * u128::from(d)).cmp(&(u128::from(c) * u128::from(b))),
        }
    }

    /// Whether the F-measure is at least so many hundredths, exactly.
    #[must_use]
    pub fn f_at_least(&self, hundredths: u32) -> bool {
        let (above, below) = self.fraction();
        u128::from(above) * 100 >= u128::from(below) * u128::from(hundredths) && below > 0
    }

    /// The 95 % interval of the precision.
    #[must_use]
    pub fn precision_interval(&self) -> [f64; 2] {
        wilson(self.failing_with, self.failing_with + self.successful_with)
    }

    /// The 95 % interval of the recall.
    #[must_use]
    pub fn recall_interval(&self) -> [f64; 2] {
        wilson(self.failing_with, self.failing)
    }
}

/// Adds up terms that get smaller, each by its factor, until the rest does not count or there is enough.
fn sum_of(first: f64, rest: impl Iterator<Item = u64>, factor: impl Fn(u64) -> f64, enough: f64) -> f64 {
    let (mut term, mut sum) = (first, first);
    for of in rest {
        term *= factor(of);
        if term <= sum * f64::EPSILON || sum > enough {
            break;
        }
        sum += term;
    }
    sum.min(1.0)
}

/// The logarithm of how many ways there are to take `some` of `all`.
fn ln_choices(all: u64, some: u64) -> f64 {
    ln_factorial(all) - ln_factorial(some) - ln_factorial(all.saturating_sub(some))
}

/// The logarithm of a factorial: of large numbers by Stirling's series, whose next term is below the precision of the result.
fn ln_factorial(number: u64) -> f64 {
    const FEW: u64 = 32;
    if number < FEW {
        return (2..=number).map(|factor| ratio(factor, 1).ln()).sum();
    }
    let n = ratio(number, 1);
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5));
    n * n.ln() - n + (std::f64::consts::TAU * n).ln() / 2.0 + series
}

#[expect(clippy::cast_precision_loss, reason = "runs are counted, not measured")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Wilson's score interval at 95 %: unlike the normal approximation, it stays inside 0 and 1 and says something about
/// three runs of three. Everything is possible where there are no runs.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "runs are counted, not measured")]
pub fn wilson(part: u64, whole: u64) -> [f64; 2] {
    const Z: f64 = 1.959_963_984_540_054;
    if whole == 0 {
        return [0.0, 1.0];
    }
    let n = whole as f64;
    let p = part as f64 / n;
    let middle = p + Z * Z / (2.0 * n);
    let reach = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    [
        if part == 0 {
            0.0
        } else {
            ((middle - reach) / scale).max(0.0)
        },
        if part == whole {
            1.0
        } else {
            ((middle + reach) / scale).min(1.0)
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(failing_with: u64, failing: u64, successful_with: u64) -> Counts {
        Counts {
            failing_with,
            failing,
            successful_with,
            successful: 20,
        }
    }

    #[test]
    fn what_is_as_frequent_in_successful_runs_separates_nothing() {
        assert!(counts(5, 5, 19).separate());
        assert!(!counts(5, 5, 20).separate());
        assert!(!counts(2, 5, 8).separate());
        assert!(counts(3, 5, 11).separate());
        let unknown = Counts {
            successful: 0,
            ..counts(1, 5, 0)
        };
        assert!(unknown.separate());
    }

    #[test]
    fn f_is_the_textbook_formula() {
        for (with, failing, successful_with) in [(3, 5, 2), (1, 1, 0), (4, 9, 11)] {
            let counts = counts(with, failing, successful_with);
            let (p, r) = (counts.precision(), counts.recall());
            let expected = 1.25 * p * r / (0.25 * p + r);
            assert!((counts.f() - expected).abs() < 1e-12, "{counts:?}");
        }
        assert_eq!(counts(0, 3, 0).f(), 0.0);
        assert_eq!(counts(0, 0, 0).f(), 0.0);
    }

    #[test]
    fn precision_counts_more_than_recall() {
        // Half of the failures and nothing else, against all failures and as many successes.
        assert_eq!(counts(4, 8, 0).compare_f(&counts(8, 8, 8)), Ordering::Greater);
        assert_eq!(counts(2, 2, 0).compare_f(&counts(5, 5, 0)), Ordering::Equal);
    }

    #[test]
    fn intervals_hold_the_ratio_and_shrink() {
        let few = wilson(3, 3);
        let many = wilson(300, 300);
        assert!(
            few[0] < 0.45 && many[0] > 0.98 && few[1] == 1.0,
            "{few:?} {many:?}"
        );
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
        let half = wilson(5, 10);
        assert!(
            (half[0] - 0.2366).abs() < 1e-3 && (half[1] - 0.7634).abs() < 1e-3,
            "{half:?}"
        );
    }

    /// The sum of all terms, each by itself.
    fn chance_by_definition(counts: &Counts) -> f64 {
        let choices = |all: u64, some: u64| -> f64 {
            (1..=some).map(|taken| ratio(all - some + taken, taken)).product()
        };
        let with = counts.failing_with + counts.successful_with;
        let all = choices(counts.failing + counts.successful, with);
        (counts.failing_with..=with.min(counts.failing))
            .filter(|of| with - of <= counts.successful)
            .map(|of| choices(counts.failing, of) * choices(counts.successful, with - of) / all)
            .sum()
    }

    #[test]
    fn the_short_sum_is_the_long_one() {
        for (failing, successful) in [(1, 1), (7, 3), (12, 40), (60, 35), (40, 200)] {
            for failing_with in 0..=failing {
                for successful_with in (0..=successful).step_by(1 + successful as usize / 12) {
                    let counts = Counts {
                        failing_with,
                        failing,
                        successful_with,
                        successful,
                    };
                    let (short, long) = (counts.chance(), chance_by_definition(&counts));
                    assert!((short - long).abs() < 1e-9, "{counts:?}: {short} {long}");
                    assert_eq!(counts.convince(), long <= LIKELY, "{counts:?}: {long}");
                }
            }
        }
    }

    #[test]
    fn few_runs_convince_nobody() {
        let of = |failing_with, failing, successful_with, successful| Counts {
            failing_with,
            failing,
            successful_with,
            successful,
        };
        let close = |counts: Counts, chance: f64| (counts.chance() - chance).abs() < 1e-9;
        assert!(close(of(3, 3, 0, 2), 0.1));
        assert!(close(of(3, 3, 0, 14), 1.0 / 680.0));
        assert!(close(of(2, 2, 3, 4), 2.0 / 3.0));
        assert!(close(of(4, 4, 0, 0), 1.0) && close(of(0, 5, 0, 5), 1.0));
        for convincing in [of(3, 3, 0, 2), of(3, 3, 0, 14), of(9, 12, 3, 40)] {
            assert!(convincing.convince(), "{convincing:?}");
        }
        for weak in [
            of(2, 2, 0, 2),
            of(2, 2, 3, 4),
            of(7, 7, 0, 0),
            of(5, 9, 20, 40),
            of(1, 3, 0, 20),
        ] {
            assert!(!weak.convince(), "{weak:?}");
        }
        // Millions of runs are no trouble.
        assert!(of(1_000_000, 3_000_000, 10_000_000, 31_000_000).convince());
        assert!(!of(1_000_000, 3_000_000, 10_000_000, 30_000_000).convince());
        assert!(of(900, 1000, 10, 5000).convince());
        assert!(close(of(5, 2, 9, 3), 1.0), "counts that cannot be");
    }
}
