//! What is changed when a failure does not recur, or when nothing else happens any more: how memory is watched, whether
//! control flow is recorded, and what else the machine does.
//!
//! Watching delays a thread where it touches what is watched, and that is where races are decided: a failure may need
//! another delay, or a busy machine, to come back. Recording control flow delays a thread at each branch: one that has to
//! be in time may never be any more, and then no successful run is left to compare with.

use std::fmt;
use std::time::Duration;

use watchpoint::Mode;

/// The conditions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How memory is watched.
    pub mode: Mode,
    /// The processors are kept busy.
    pub loaded: bool,
    /// Control flow is recorded.
    pub flow: bool,
}

/// Why conditions change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The failure does not recur.
    Fruitless,
    /// Nothing else happens any more.
    OnlyFailures,
    /// The last change made no difference.
    AsBefore,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mode", self.mode)?;
        if self.loaded {
            f.write_str(" on busy processors")?;
        }
        if !self.flow {
            f.write_str(" without control flow")?;
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
    waited: Duration,
    in_a_row: u64,
    flow: Flow,
}

/// Whether control flow is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Until nothing but failures come.
    Recorded,
    /// It is left out to see whether it was to blame; so many runs have failed since.
    LeftOut(u64),
    /// For good: without it, runs succeed.
    Given,
    /// For good: it makes no difference, or somebody asked for it.
    Kept,
}

/// Runs without a failure before anything is changed,
const LEAST_PATIENCE: u64 = 25;
/// and how long they took together: of short runs more can be waited for, and a change should not come of bad luck.
const LEAST_WAIT: Duration = Duration::from_secs(4);
/// How much longer than for the first failure one waits for its recurrence.
const PATIENCE: u64 = 3;
/// Failures in a row after which one looks whether that is due to the tracking.
const TOO_MANY: u64 = 3;
/// Failures without control flow that show that it was not.
const ENOUGH: u64 = 2;

impl Changing {
    /// Begins with a mode; `first` is how many runs the first failure took. Only what nobody asked for is changed.
    pub fn new(mode: Mode, may_change_mode: bool, may_drop_flow: bool, first: u64) -> Self {
        let of = |mode, loaded| Conditions {
            mode,
            loaded,
            flow: true,
        };
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
            waited: Duration::ZERO,
            in_a_row: 0,
            flow: match may_drop_flow {
                true => Flow::Recorded,
                false => Flow::Kept,
            },
        }
    }

    /// The conditions of the next run.
    pub fn now(&self) -> Conditions {
        Conditions {
            flow: matches!(self.flow, Flow::Recorded | Flow::Kept),
            ..self.turns[self.turn % self.turns.len()]
        }
    }

    /// Takes in how a run ended and how long it took; gives new conditions when they change.
    pub fn after(&mut self, failed: bool, took: Duration) -> Option<(Change, Conditions)> {
        if failed {
            self.fruitless = 0;
            self.waited = Duration::ZERO;
            self.in_a_row += 1;
            self.flow = match self.flow {
                Flow::Recorded if self.in_a_row >= TOO_MANY => Flow::LeftOut(0),
                Flow::LeftOut(failures) if failures + 1 >= ENOUGH => Flow::Kept,
                Flow::LeftOut(failures) => Flow::LeftOut(failures + 1),
                Flow::Recorded | Flow::Given | Flow::Kept => return None,
            };
            let change = match self.flow {
                Flow::Kept => Change::AsBefore,
                _ => Change::OnlyFailures,
            };
            let says = self.flow != Flow::LeftOut(1);
            return says.then(|| (change, self.now()));
        }
        if let Flow::LeftOut(_) = self.flow {
            self.flow = Flow::Given;
        }
        self.in_a_row = 0;
        self.fruitless += 1;
        self.waited += took;
        if self.fruitless < self.patience || self.waited < LEAST_WAIT {
            return None;
        }
        self.fruitless = 0;
        self.waited = Duration::ZERO;
        self.turn += 1;
        Some((Change::Fruitless, self.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn short_runs_are_waited_for_longer() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let short = LEAST_WAIT / 100;
        let first = (1..).find(|_| changing.after(false, short).is_some());
        assert_eq!(first, Some(100));
    }

    #[test]
    fn a_failure_that_stays_away_changes_the_mode_and_the_load() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let changes: Vec<_> = (0..4 * LEAST_PATIENCE)
            .filter_map(|_| changing.after(false, LONG))
            .collect();
        let seen: Vec<_> = changes
            .iter()
            .map(|(why, now)| (*why, now.mode, now.loaded))
            .collect();
        assert_eq!(
            seen,
            [
                (Change::Fruitless, Mode::Observe, false),
                (Change::Fruitless, Mode::Exact, true),
                (Change::Fruitless, Mode::Observe, true),
                (Change::Fruitless, Mode::Exact, false),
            ]
        );
    }

    #[test]
    fn a_program_that_only_fails_while_tracked_is_tracked_less() {
        let mut changing = Changing::new(Mode::Exact, true, true, 5);
        assert_eq!(changing.after(true, LONG), None);
        assert_eq!(changing.after(false, LONG), None);
        assert_eq!(
            (changing.after(true, LONG), changing.after(true, LONG)),
            (None, None)
        );
        let (why, now) = changing.after(true, LONG).unwrap();
        assert_eq!((why, now.flow), (Change::OnlyFailures, false));
        assert_eq!(changing.after(false, LONG), None);
        assert!((0..9).all(|_| changing.after(true, LONG).is_none()));
        assert!(!changing.now().flow);
    }

    #[test]
    fn one_that_fails_whatever_is_done_is_tracked_as_before() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let changes: Vec<_> = (0..20).filter_map(|_| changing.after(true, LONG)).collect();
        let seen: Vec<_> = changes.iter().map(|(why, now)| (*why, now.flow)).collect();
        assert_eq!(seen, [(Change::OnlyFailures, false), (Change::AsBefore, true)]);
    }

    #[test]
    fn what_was_asked_for_is_kept() {
        let mut changing = Changing::new(Mode::Exact, true, false, 5);
        assert!((0..9).all(|_| changing.after(true, LONG).is_none()));
    }
}
