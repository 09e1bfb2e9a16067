//! Deadlocks that no run saw whole: each run watched one lock, and together they know who waits for whom.

use super::Evidence;
use crate::predictor::halves::circles;
use crate::predictor::{Actor, Ending, Predictor, Wait};

/// Failing runs that have to have seen that one waits for another.
const LEAST: u64 = 2;

impl Evidence {
    /// The deadlocks that runs know by halves.
    pub(crate) fn pieced(&self) -> impl Iterator<Item = Predictor> + '_ {
        let halves = self.halves.iter().map(|(half, runs)| (half, *runs));
        let deadlocks = circles(halves, LEAST).into_iter().map(|circle| {
            let wait = |wants: &Actor| Wait {
                location: None,
                wants: wants.clone(),
                held_since: None,
            };
            Predictor::Deadlock {
                waits: circle.into_iter().map(wait).collect(),
                ending: Ending::Cycle,
            }
        });
        deadlocks.filter(|deadlock| !self.saw_whole(deadlock))
    }

    /// Whether a run saw all of a deadlock, whoever it began with.
    fn saw_whole(&self, deadlock: &Predictor) -> bool {
        let Predictor::Deadlock { waits, ending } = &*deadlock.in_one_run() else {
            return true;
        };
        (0..waits.len()).any(|first| {
            let mut waits = waits.clone();
            waits.rotate_left(first);
            let ending = *ending;
            self.held.contains_key(&Predictor::Deadlock { waits, ending })
        })
    }

    /// Failing runs that saw a part of a deadlock, and nothing else, and those that saw that it was not this one.
    pub(super) fn halves_of(&self, deadlock: &Predictor) -> (u64, u64) {
        let Predictor::Deadlock {
            waits,
            ending: Ending::Cycle,
        } = deadlock
        else {
            return (0, 0);
        };
        let circle: Vec<&Actor> = waits.iter().map(|wait| &wait.wants).collect();
        let (mut with, mut without) = (0, 0);
        for (half, runs) in &self.halves {
            match half.fits(&circle) {
                Some(true) => with += runs,
                Some(false) => without += runs,
                None => {}
            }
        }
        (with, without)
    }

    /// Whether it is a deadlock that no run saw whole.
    pub(crate) fn is_pieced(&self, predictor: &Predictor) -> bool {
        !self.saw_whole(predictor)
    }
}
