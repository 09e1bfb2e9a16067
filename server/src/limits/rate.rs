//! Requests in time: a bucket that fills by itself, and has room for two seconds.

use std::time::{Duration, Instant};

/// How many seconds' worth may come at once.
const BURST: f64 = 2.0;

/// So many a second.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Rate {
    /// A full bucket. A rate of 0 is no limit.
    #[must_use]
    pub fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second);
        Self {
            per_second,
            left: per_second * BURST,
            at: now,
        }
    }

    /// One more; otherwise, when there will be room for it.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        self.fill(now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) / self.per_second))
    }

    /// Whether it is as if it was new.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.left >= self.per_second * BURST
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.per_second * BURST);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seconds_at_once_and_then_one_after_the_other() {
        let start = Instant::now();
        let mut rate = Rate::new(10, start);
        let taken = (0..100).take_while(|_| rate.take(start).is_ok()).count();
        assert_eq!(taken, 20);
        let wait = rate.take(start).unwrap_err();
        assert!(wait > Duration::from_millis(99) && wait < Duration::from_millis(101));
        assert!(rate.take(start + wait).is_ok());
        assert!(rate.take(start + wait).is_err());
        assert!(!rate.is_full(start + Duration::from_secs(1)));
        assert!(rate.is_full(start + Duration::from_secs(3)));
    }

    #[test]
    fn nothing_is_no_limit() {
        let start = Instant::now();
        let mut rate = Rate::new(0, start);
        assert!((0..10_000).all(|_| rate.take(start).is_ok()));
    }
}
