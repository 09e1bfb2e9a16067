//! How much of its plan a run watched.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Parts of a run that are told apart: of plans of up to eight locations every share is exact.
const PARTS: u64 = 840;

/// What runs watched of their plans, added up: two halves are a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Part(u64);

impl Part {
    /// No run.
    pub const NONE: Self = Self(0);
    /// A run that watched all that was planned.
    pub const WHOLE: Self = Self(PARTS);

    /// So many whole runs.
    #[must_use]
    pub const fn runs_of(runs: u64) -> Self {
        Self(runs.saturating_mul(PARTS))
    }

    /// Of a run that watched some of the locations of its plan. One that watched none has its end to tell, which is no
    /// less than any of them.
    #[must_use]
    pub fn of(watched: usize, planned: usize) -> Self {
        let planned = u64::try_from(planned).unwrap_or(u64::MAX).clamp(1, PARTS);
        let watched = u64::try_from(watched).unwrap_or(u64::MAX).clamp(1, planned);
        Self(PARTS * watched / planned)
    }

    /// How many whole runs that makes.
    #[must_use]
    pub const fn runs(self) -> u64 {
        self.0 / PARTS
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self(self.0.saturating_mul(times.into()))
    }
}

impl Add for Part {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Part {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_whole_runs() {
        for planned in 1..=8 {
            let sum = (0..planned).fold(Part::NONE, |sum, _| sum + Part::of(1, planned));
            assert_eq!(sum, Part::WHOLE, "{planned}");
        }
        assert_eq!((Part::of(3, 4) + Part::of(2, 4)).runs(), 1);
    }

    #[test]
    fn no_run_counts_for_nothing_or_for_more_than_itself() {
        assert_eq!(Part::of(9, 4), Part::WHOLE);
        assert_eq!(Part::of(0, 0), Part::WHOLE);
        assert_eq!(Part::of(0, 4), Part::of(1, 4));
        assert!(Part::of(1, usize::MAX) > Part::NONE);
    }
}
