//! When to stop: runs, time, or because somebody said so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use tracee::run::Cancel;

/// How long a run may take that nothing is known of.
const UNKNOWN: Duration = Duration::from_secs(10);
/// How long a run may take at least.
const LEAST: Duration = Duration::from_secs(2);
/// How many times as long as the longest successful run a run may take.
const TIMES: u32 = 20;
/// Successful runs after which the longest of them says something.
const SUCCESSES: u64 = 3;

/// How long a run may take before it is said to hang. Whoever waits for a hang to recur does so many times: successful
/// runs tell how long is long.
pub struct Patience {
    asked: Option<Duration>,
    successes: AtomicU64,
    longest_ms: AtomicU64,
}

impl Patience {
    /// As long as was asked for, or as successful runs tell.
    pub fn new(asked: Option<Duration>) -> Self {
        Self {
            asked,
            successes: AtomicU64::new(0),
            longest_ms: AtomicU64::new(0),
        }
    }

    /// A run succeeded.
    pub fn succeeded(&self, elapsed: Duration) {
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.longest_ms.fetch_max(ms, Ordering::Relaxed);
        self.successes.fetch_add(1, Ordering::Relaxed);
    }

    /// How long a run may take now.
    pub fn now(&self) -> Duration {
        let longest = Duration::from_millis(self.longest_ms.load(Ordering::Relaxed));
        let learnt = longest.saturating_mul(TIMES).max(LEAST);
        self.asked.unwrap_or_else(|| {
            if self.successes.load(Ordering::Relaxed) >= SUCCESSES {
                learnt
            } else {
                learnt.max(UNKNOWN)
            }
        })
    }
}

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
        // A run that is ended because the time is up is ended as by an interrupt.
        if self.left().is_zero() {
            Some("the time is up (--time-limit)")
        } else if self.cancel.is_cancelled() {
            Some("interrupted")
        } else if number >= self.runs {
            Some("the limit of runs is reached (--runs)")
        } else {
            None
        }
    }

    /// Ends what still runs when the time is up, as long as what this gives is kept: a run that hangs may be waited for much
    /// longer than that.
    pub fn enforce<'scope>(&self, scope: &'scope Scope<'scope, '_>) -> Sender<()> {
        let (keeper, over) = channel();
        let (left, cancel) = (self.left(), self.cancel.clone());
        scope.spawn(move || {
            if over.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                cancel.cancel();
            }
        });
        keeper
    }
}
