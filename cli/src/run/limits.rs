//! When to stop: runs, time, or because somebody said so.

use std::time::{Duration, Instant};

use tracee::run::Cancel;

/// How far to go.
pub struct Limits {
    /// Runs in all.
    pub runs: u64,
    deadline: Option<Instant>,
    cancel: Cancel,
    started: Instant,
}

impl Limits {
    /// From now on.
    pub fn new(runs: u64, time: Duration, cancel: Cancel) -> Self {
        let started = Instant::now();
        Self {
            runs,
            deadline: started.checked_add(time),
            cancel,
            started,
        }
    }

    /// How long it has been.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How much time is left.
    pub fn left(&self) -> Duration {
        let now = Instant::now();
        self.deadline
            .map_or(Duration::MAX, |end| end.saturating_duration_since(now))
    }

    /// Why to stop before run `number`, if there is a reason to.
    pub fn reached(&self, number: u64) -> Option<&'static str> {
        if self.is_cancelled() {
            Some("interrupted")
        } else if number >= self.runs {
            Some("the limit of runs is reached (--runs)")
        } else if self.left().is_zero() {
            Some("the time is up (--time-limit)")
        } else {
            None
        }
    }

    /// Whether somebody interrupted us.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}
