//! What is changed when a failure does not recur: how memory is watched, and what else the machine does.
//!
//! Watching delays a thread where it touches what is watched, and that is where races are decided: a failure may need
//! another delay, or a busy machine, to come back.

use std::fmt;

use watchpoint::Mode;

/// The conditions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How memory is watched.
    pub mode: Mode,
    /// The processors are kept busy.
    pub loaded: bool,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mode", self.mode)?;
        if self.loaded {
            f.write_str(" on busy processors")?;
        }
        Ok(())
    }
}

/// Changes conditions when patience is at an end.
pub struct Changing {
    turns: Vec<Conditions>,
    turn: usize,
    patience: u64,
    fruitless: u64,
}

/// Runs without a failure before anything is changed.
const LEAST_PATIENCE: u64 = 25;
/// How much longer than for the first failure one waits for its recurrence.
const PATIENCE: u64 = 3;

impl Changing {
    /// Begins with a mode; `first` is how many runs the first failure took. Only a mode that nobody asked for
    /// is changed.
    pub fn new(mode: Mode, may_change_mode: bool, first: u64) -> Self {
        let of = |mode, loaded| Conditions { mode, loaded };
        let mut turns = vec![of(mode, false)];
        if may_change_mode {
            turns.push(of(Mode::Observe, false));
        }
        turns.push(of(mode, true));
        if may_change_mode {
            turns.push(of(Mode::Observe, true));
        }
        Self {
            turns,
            turn: 0,
            patience: first.saturating_mul(PATIENCE).max(LEAST_PATIENCE),
            fruitless: 0,
        }
    }

    /// The conditions of the next run.
    pub fn now(&self) -> Conditions {
        self.turns[self.turn % self.turns.len()]
    }

    /// Takes in how a run ended; gives new conditions when they change.
    pub fn after(&mut self, failed: bool) -> Option<Conditions> {
        if failed {
            self.fruitless = 0;
            return None;
        }
        self.fruitless += 1;
        if self.fruitless < self.patience {
            return None;
        }
        self.fruitless = 0;
        self.turn += 1;
        Some(self.now())
    }
}
