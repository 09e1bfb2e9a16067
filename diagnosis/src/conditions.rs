//! What is changed when a failure does not recur, or when nothing else happens any more: how memory is watched, whether
//! control flow is recorded, and what else the machine does.
//!
//! Watching delays a thread where it touches what is watched, and that is where races are decided: a failure may need
//! another delay, or a busy machine, to come back. Stopping a thread at each access, or at each branch, delays it: one that has to
//! be in time may hardly ever be any more, and then no successful run is left to compare with.

use std::fmt;
use std::time::Duration;

use watchpoint::Mode;

use crate::record::{RunEnd, RunRecord};

/// The conditions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How memory is watched.
    pub mode: Mode,
    /// The processors are kept busy.
    pub loaded: bool,
    /// Control flow is recorded.
    pub flow: bool,
    /// One location at a time is watched, and no more.
    pub sparing: bool,
}

impl Conditions {
    /// How many of a host's registers are used.
    #[must_use]
    pub fn registers(&self, there: usize) -> usize {
        if self.sparing { there.min(1) } else { there }
    }
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
    /// Threads that are to be stopped block the signals that would stop them.
    Unstoppable,
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
        if self.sparing {
            f.write_str(", one location at a time")?;
        }
        Ok(())
    }
}

/// Changes conditions when patience is at an end.
pub struct Changing {
    turns: Vec<Conditions>,
    turn: usize,
    patience: u64,
    /// The same, where runs are long.
    patience_with_long: u64,
    fruitless: u64,
    waited: Duration,
    failures: u64,
    successes: u64,
    may_change_mode: bool,
    may_drop_flow: bool,
    /// The failure is rare by itself: few recurrences in a row are many.
    rare: bool,
    care: Care,
    /// With what a run succeeded.
    worked: Option<Less>,
}

/// How much a run may be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// As tracking does, until hardly anything but failures come.
    Usual,
    /// Less, to see whether tracking was to blame; so many runs have failed since.
    Trying(Less, u64),
    /// Less: so runs succeed.
    Gentle(Less),
    /// Like this for good: nothing makes a difference beyond what makes some, or somebody asked for it.
    Settled(Option<Less>),
}

/// What is left out to disturb a run less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Less {
    /// Control flow.
    Flow,
    /// Control flow, and stopping threads where they touch what is watched. That comes last: in what order accesses were made is
    /// less certain then, and for whom a library made one is not known.
    FlowAndStops,
    /// And all locations but one: the probes that find the others, and the hits there, add up. What happened between two locations is
    /// not seen then, and each needs runs of its own.
    AllButOne,
}

/// Runs without a failure before anything is changed,
const LEAST_PATIENCE: u64 = 25;
/// and how long they took together: of short runs more can be waited for, and a change should not come of bad luck.
const LEAST_WAIT: Duration = Duration::from_secs(4);
/// Of long runs fewer are waited for, if they took so long together: servers and large programs run for seconds.
const LEAST_PATIENCE_WITH_LONG: u64 = 10;
const LONG_WAIT: Duration = Duration::from_secs(30);
/// How much longer than for the first failure one waits for its recurrence.
const PATIENCE: u64 = 3;
/// Failures after which one looks whether they are due to the tracking; one less where the failure is rare by itself,
const TOO_MANY: u64 = 3;
/// if there are more than so many of them for each success.
const FOR_EACH_SUCCESS: u64 = 4;
/// Failures of runs that are hardly disturbed which show that they are not; likewise.
const ENOUGH: u64 = 2;
/// Runs that the first failure of a rare one takes.
const RARE: u64 = 4;

impl Changing {
    /// Begins with a mode; `first` is how many runs the first failure took. Only what nobody asked for is changed.
    #[must_use]
    pub fn new(mode: Mode, may_change_mode: bool, may_drop_flow: bool, first: u64) -> Self {
        let of = |mode, loaded| Conditions {
            mode,
            loaded,
            flow: true,
            sparing: false,
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
            patience_with_long: first.saturating_mul(PATIENCE).max(LEAST_PATIENCE_WITH_LONG),
            fruitless: 0,
            waited: Duration::ZERO,
            failures: 0,
            successes: 0,
            may_change_mode,
            may_drop_flow,
            rare: first >= RARE,
            care: match may_drop_flow || may_change_mode {
                true => Care::Usual,
                false => Care::Settled(None),
            },
            worked: None,
        }
    }

    /// The conditions of the next run.
    #[must_use]
    pub fn now(&self) -> Conditions {
        let conditions = self.turns[self.turn % self.turns.len()];
        let less = match self.care {
            Care::Trying(less, _) | Care::Gentle(less) => Some(less),
            Care::Settled(less) => less,
            Care::Usual => None,
        };
        Conditions {
            flow: less.is_none() || !self.may_drop_flow,
            mode: match less.is_some_and(|less| less >= Less::FlowAndStops) && self.may_change_mode {
                true => Mode::Observe,
                false => conditions.mode,
            },
            sparing: less == Some(Less::AllButOne),
            ..conditions
        }
    }

    /// Takes in how a run ended, how long it took, and whether it can have failed for a thread's being late; gives new conditions
    /// when they change.
    pub fn after(&mut self, failed: bool, took: Duration, late: bool) -> Option<(Change, Conditions)> {
        if failed {
            self.fruitless = 0;
            self.waited = Duration::ZERO;
            self.failures += 1;
            let fewer = u64::from(self.rare);
            let too_many =
                self.failures >= TOO_MANY - fewer && self.failures > FOR_EACH_SUCCESS * self.successes;
            self.care = match self.care {
                Care::Usual if too_many && late => Care::Trying(self.first_to_go(), 0),
                // That one run succeeded was luck.
                Care::Gentle(less) if too_many && late && less != Less::AllButOne => {
                    Care::Trying(self.next_to_go(less), 0)
                }
                Care::Trying(less, failures) if failures + 1 < ENOUGH - fewer => {
                    self.care = Care::Trying(less, failures + 1);
                    return None;
                }
                Care::Trying(Less::AllButOne, _) => Care::Settled(self.worked),
                Care::Trying(less, _) => Care::Trying(self.next_to_go(less), 0),
                Care::Usual | Care::Gentle(_) | Care::Settled(_) => return None,
            };
            let change = match self.care {
                Care::Settled(_) => Change::AsBefore,
                _ => Change::OnlyFailures,
            };
            return Some((change, self.now()));
        }
        if let Care::Trying(less, _) = self.care {
            self.care = Care::Gentle(less);
            self.worked = Some(less);
            // What the tracking did before says nothing about how it is now.
            (self.failures, self.successes) = (0, 0);
        }
        self.successes += 1;
        self.fruitless += 1;
        self.waited += took;
        let enough = self.fruitless >= self.patience && self.waited >= LEAST_WAIT;
        let enough_of_long = self.fruitless >= self.patience_with_long && self.waited >= LONG_WAIT;
        if !enough && !enough_of_long {
            return None;
        }
        self.fruitless = 0;
        self.waited = Duration::ZERO;
        self.turn += 1;
        Some((Change::Fruitless, self.now()))
    }

    /// Takes in that threads cannot be stopped where they touch what is watched, since they block all signals so that one of them takes them
    /// all: their accesses are told much later or never, while a ring takes them from everybody. Gives new conditions when they change.
    pub fn unstoppable(&mut self) -> Option<(Change, Conditions)> {
        let stops = self.turns.iter().any(|turn| turn.mode != Mode::Observe);
        if !self.may_change_mode || !stops {
            return None;
        }
        for turn in &mut self.turns {
            turn.mode = Mode::Observe;
        }
        self.turns.dedup();
        self.turn = 0;
        Some((Change::Unstoppable, self.now()))
    }

    fn first_to_go(&self) -> Less {
        match self.may_drop_flow {
            true => Less::Flow,
            false => Less::FlowAndStops,
        }
    }

    fn next_to_go(&self, gone: Less) -> Less {
        match gone {
            Less::Flow if self.may_change_mode => Less::FlowAndStops,
            _ => Less::AllButOne,
        }
    }
}

/// Whether a run may have failed because a thread was delayed: not if there was just one. A deadlock is told by the locks, which
/// libraries take: who called them is known where threads are stopped, and need not be compared with anything.
#[must_use]
pub fn may_be_late(record: &RunRecord, is_deadlock: bool) -> bool {
    let threads = match &record.end {
        RunEnd::Failed(_) if is_deadlock => return false,
        RunEnd::Failed(report) => report.threads.len(),
        RunEnd::Succeeded | RunEnd::Inconclusive => 0,
    };
    let mut touching = record.hits.iter().map(|hit| hit.tid);
    let first = touching.next();
    threads > 1 || touching.any(|tid| Some(tid) != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn short_runs_are_waited_for_longer() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let short = LEAST_WAIT / 100;
        let first = (1..).find(|_| changing.after(false, short, true).is_some());
        assert_eq!(first, Some(100));
    }

    #[test]
    fn of_long_runs_fewer_are_waited_for() {
        let first = |took, since| {
            let mut changing = Changing::new(Mode::Exact, true, true, since);
            (1..).find(|_| changing.after(false, took, true).is_some())
        };
        assert_eq!(first(4 * LONG, 1), Some(LEAST_PATIENCE_WITH_LONG));
        assert_eq!(
            first(4 * LONG, 6),
            Some(6 * PATIENCE),
            "a rare one stays away by itself"
        );
        assert_eq!(first(LONG, 1), Some(LEAST_PATIENCE));
    }

    #[test]
    fn a_failure_that_stays_away_changes_the_mode_and_the_load() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let changes: Vec<_> = (0..4 * LEAST_PATIENCE)
            .filter_map(|_| changing.after(false, LONG, true))
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
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        assert_eq!(changing.after(true, LONG, true), None);
        assert_eq!(changing.after(false, LONG, true), None);
        assert!((0..3).all(|_| changing.after(true, LONG, true).is_none()));
        let (why, now) = changing.after(true, LONG, true).unwrap();
        assert_eq!(
            (why, now.flow, now.mode),
            (Change::OnlyFailures, false, Mode::Exact)
        );
        assert_eq!(changing.after(true, LONG, true), None);
        let (why, now) = changing.after(true, LONG, true).unwrap();
        assert_eq!(
            (why, now.flow, now.mode),
            (Change::OnlyFailures, false, Mode::Observe)
        );
        assert_eq!(changing.after(false, LONG, true), None);
        assert!((0..FOR_EACH_SUCCESS).all(|_| changing.after(true, LONG, true).is_none()));
        let changes: Vec<_> = (0..9).filter_map(|_| changing.after(true, LONG, true)).collect();
        let seen: Vec<_> = changes
            .iter()
            .map(|(why, now)| (*why, now.sparing, now.mode))
            .collect();
        let expected = [
            (Change::OnlyFailures, true, Mode::Observe),
            (Change::AsBefore, false, Mode::Observe),
        ];
        assert_eq!(seen, expected, "and stays with what a run succeeded with");
    }

    #[test]
    fn a_rare_failure_that_comes_twice_in_a_row_is_suspected_at_once() {
        let mut changing = Changing::new(Mode::Exact, true, true, RARE);
        let mut conditions = Vec::new();
        for _ in 0..5 {
            changing.after(true, LONG, true);
            conditions.push((changing.now().flow, changing.now().mode));
        }
        let expected = [
            (true, Mode::Exact),
            (false, Mode::Exact),
            (false, Mode::Observe),
            (false, Mode::Observe),
            (true, Mode::Exact),
        ];
        assert_eq!(conditions, expected);
    }

    #[test]
    fn one_success_without_control_flow_is_not_enough() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        (0..TOO_MANY).for_each(|_| _ = changing.after(true, LONG, true));
        assert!(!changing.now().flow);
        changing.after(false, LONG, true);
        let changed = (1..).find(|_| changing.after(true, LONG, true).is_some());
        assert_eq!(changed, Some(FOR_EACH_SUCCESS + 1));
        assert_eq!(changing.now().mode, Mode::Observe);
    }

    #[test]
    fn what_nothing_can_be_late_for_is_tracked_on() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        assert!((0..20).all(|_| changing.after(true, LONG, false).is_none()));
    }

    #[test]
    fn one_that_fails_whatever_is_done_is_tracked_as_before() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let changes: Vec<_> = (0..20).filter_map(|_| changing.after(true, LONG, true)).collect();
        let seen: Vec<_> = changes.iter().map(|(why, now)| (*why, now.flow)).collect();
        assert_eq!(
            seen,
            [
                (Change::OnlyFailures, false),
                (Change::OnlyFailures, false),
                (Change::OnlyFailures, false),
                (Change::AsBefore, true)
            ]
        );
    }

    #[test]
    fn what_fails_however_it_is_watched_is_watched_in_one_place_at_a_time() {
        let mut changing = Changing::new(Mode::Exact, true, true, RARE);
        (0..4).for_each(|_| _ = changing.after(true, LONG, true));
        assert_eq!(
            changing.now().to_string(),
            "observe mode without control flow, one location at a time"
        );
        assert_eq!(changing.now().registers(4), 1);
        changing.after(false, LONG, true);
        assert!((0..20).all(|_| changing.after(true, LONG, true).is_none()));
        assert!(changing.now().sparing, "a run succeeded so");
        let mut changing = Changing::new(Mode::Exact, false, true, RARE);
        (0..3).for_each(|_| _ = changing.after(true, LONG, true));
        assert_eq!(
            changing.now().to_string(),
            "exact mode without control flow, one location at a time"
        );
    }

    #[test]
    fn threads_that_cannot_be_stopped_are_not() {
        let mut changing = Changing::new(Mode::Exact, true, true, 1);
        let changed = changing.unstoppable().map(|(why, now)| (why, now.mode));
        assert_eq!(changed, Some((Change::Unstoppable, Mode::Observe)));
        assert_eq!(changing.unstoppable(), None, "once is enough");
        let changes: Vec<_> = (0..3 * LEAST_PATIENCE)
            .filter_map(|_| changing.after(false, LONG, true))
            .map(|(_, now)| (now.mode, now.loaded))
            .collect();
        let expected = [true, false, true].map(|loaded| (Mode::Observe, loaded));
        assert_eq!(changes, expected);
        assert_eq!(Changing::new(Mode::Exact, false, true, 1).unstoppable(), None);
    }

    #[test]
    fn what_was_asked_for_is_kept() {
        let mut changing = Changing::new(Mode::Exact, false, false, 5);
        assert!((0..9).all(|_| changing.after(true, LONG, true).is_none()));
    }
}
