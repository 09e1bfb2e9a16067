//! The runs behind a predictor: people want to look at some of them, and there may be a million.

use serde::{Deserialize, Serialize};

use super::Evidence;
use crate::predictor::Predictor;
use crate::sketch::RunsBehind;

/// Runs of each kind that are remembered.
const MOST: usize = 8;

/// The numbers of the latest runs in which something held: those with the largest ones, in whichever order they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Latest {
    failing: Numbers,
    successful: Numbers,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Numbers {
    /// How many are known.
    known: usize,
    /// The largest first.
    numbers: [u64; MOST],
}

impl Latest {
    pub(super) fn add(&mut self, number: u64, failed: bool) {
        let numbers = if failed {
            &mut self.failing
        } else {
            &mut self.successful
        };
        numbers.add(number);
    }
}

impl Numbers {
    fn add(&mut self, number: u64) {
        let place = self.list().partition_point(|other| *other > number);
        if place < MOST {
            self.numbers.copy_within(place..MOST - 1, place + 1);
            self.numbers[place] = number;
            self.known = (self.known + 1).min(MOST);
        }
    }

    fn list(&self) -> &[u64] {
        self.numbers.get(..self.known).unwrap_or(&self.numbers)
    }
}

impl Evidence {
    /// The latest runs in which a predictor held.
    #[must_use]
    pub fn behind(&self, predictor: &Predictor) -> RunsBehind {
        let held = self.held.get(&*predictor.in_one_run());
        let latest = held.map(|held| held.latest).unwrap_or_default();
        RunsBehind {
            failing: latest.failing.list().to_vec(),
            successful: latest.successful.list().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_many_are_known_in_whichever_order_they_came() {
        let mut latest = Latest::default();
        assert!(latest.failing.list().is_empty());
        for number in [2, 3, 1] {
            latest.add(number, true);
        }
        assert_eq!(latest.failing.list(), [3, 2, 1]);
        for number in (4..=20).rev() {
            latest.add(number, true);
        }
        assert_eq!(latest.failing.list(), [20, 19, 18, 17, 16, 15, 14, 13]);
        assert!(latest.successful.list().is_empty());
    }
}
