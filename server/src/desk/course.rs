//! How the search for a cause went: what was tracked when, what was believed, and which hosts took part.
//!
//! It is made of the log alone, as the sketch is: every server, and this one after a restart, tells the same.

use std::collections::{BTreeMap, BTreeSet};

use diagnosis::inquiry::{Inquiry, Taken};
use diagnosis::predictor::Predictor;
use diagnosis::record::{RunRecord, WatchedRecord};
use serde::{Deserialize, Serialize};
use sketch_render::sketch::words;

use crate::store::model::StoredRun;

/// Changes that are told; of more, those after the first few are left out.
const MOST_TURNS: usize = 64;
const FIRST_TURNS: usize = 16;
/// Hosts that are told apart.
const MOST_HOSTS: usize = 500;
/// Locations that are told apart.
const MOST_PLACES: usize = 512;

/// The course of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// Each time that more was tracked, or something else was believed.
    pub turns: Vec<Turn>,
    /// Turns that are not told.
    pub left_out: u64,
    /// Hosts that sent runs.
    pub hosts: BTreeMap<String, Share>,
    /// Runs of hosts beyond those.
    pub other_runs: u64,
    /// What was watched somewhere.
    places: Vec<WatchedRecord>,
}

/// Something changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// With which entry of the log.
    pub seq: u64,
    /// When it came, in seconds since 1970.
    pub at: u64,
    /// Statements that are tracked from then on.
    pub sigma: u32,
    /// Tracked runs that had failed.
    pub failing: u64,
    /// Tracked runs that had not.
    pub successful: u64,
    /// The best predictor in words.
    pub best: Option<String>,
    /// Its F-measure.
    pub f: Option<f64>,
}

/// What one host did for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Runs.
    pub runs: u64,
    /// Those that failed.
    pub failing: u64,
    /// Those that were cut short, or lost something.
    pub incomplete: u64,
    /// When the last one came.
    pub last: u64,
    /// Which locations it watched, by their numbers.
    places: BTreeSet<usize>,
}

impl Share {
    /// How many locations it watched.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.len()
    }
}

/// What a turn is a change of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Belief {
    sigma: u32,
    best: Option<Predictor>,
}

impl Course {
    /// How many locations were watched somewhere.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Takes note of a run that an inquiry has taken in.
    pub(super) fn note(
        &mut self,
        belief: &mut Belief,
        taken: &Taken,
        record: &RunRecord,
        run: &StoredRun,
        inquiry: &Inquiry<'_, '_>,
    ) {
        self.share(taken, record, run);
        let best = inquiry.ranked().first();
        let now = Belief {
            sigma: inquiry.sigma(),
            best: best.map(|best| best.predictor.clone()),
        };
        if *belief == now {
            return;
        }
        let f = best.map(|best| best.counts.f());
        *belief = now;
        let sketch = inquiry.sketch();
        let best = sketch.predictors.first();
        self.turn(Turn {
            seq: run.seq,
            at: run.at,
            sigma: inquiry.sigma(),
            failing: sketch.runs.failing,
            successful: sketch.runs.successful,
            best: best.map(|best| words::predictor(&sketch, best).plain()),
            f,
        });
    }

    fn turn(&mut self, turn: Turn) {
        if self.turns.len() >= MOST_TURNS {
            self.turns.remove(FIRST_TURNS);
            self.left_out += 1;
        }
        self.turns.push(turn);
    }

    fn share(&mut self, taken: &Taken, record: &RunRecord, run: &StoredRun) {
        if !self.hosts.contains_key(&run.host) && self.hosts.len() >= MOST_HOSTS {
            self.other_runs += 1;
            return;
        }
        let places: Vec<usize> = record.watched.iter().filter_map(|of| self.place(of)).collect();
        let share = self.hosts.entry(run.host.clone()).or_default();
        share.runs += 1;
        share.failing += u64::from(taken.is_failure());
        share.incomplete += u64::from(record.cut_short.is_some() || record.lost > 0);
        share.last = share.last.max(run.at);
        share.places.extend(places);
    }

    fn place(&mut self, watched: &WatchedRecord) -> Option<usize> {
        let same = |known: &WatchedRecord| {
            (&known.module, known.access, known.passed, known.within)
                == (&watched.module, watched.access, watched.passed, watched.within)
        };
        if let Some(place) = self.places.iter().position(same) {
            return Some(place);
        }
        if self.places.len() >= MOST_PLACES {
            return None;
        }
        self.places.push(watched.clone());
        Some(self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_turns_the_first_and_the_last_are_told() {
        let mut course = Course::default();
        for seq in 0..100 {
            course.turn(Turn {
                seq,
                ..Turn::default()
            });
        }
        assert_eq!(course.turns.len(), MOST_TURNS);
        assert_eq!(course.left_out, 100 - MOST_TURNS as u64);
        assert_eq!(course.turns[FIRST_TURNS - 1].seq, FIRST_TURNS as u64 - 1);
        assert_eq!(course.turns.last().map(|turn| turn.seq), Some(99));
    }
}
