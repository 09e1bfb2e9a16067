//! What the server did, for Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// One figure.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts some more.
    pub fn add(&self, some: u64) {
        self.0.fetch_add(some, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All figures of a server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Runs that were stored.
    pub runs_stored: Counter,
    /// Runs that were there before.
    pub runs_repeated: Counter,
    /// Runs that were refused.
    pub runs_refused: Counter,
    /// Runs that agents could not keep.
    pub runs_dropped: Counter,
    /// Bytes of runs that were stored.
    pub run_bytes: Counter,
    /// Failures that were reported.
    pub failures: Counter,
    /// Plans that were given out.
    pub plans: Counter,
    /// Files that were uploaded.
    pub modules: Counter,
    /// Files and runs for which there was no room.
    pub stored_refused: Counter,
    /// Requests that spoke for somebody else's host, or for one too many.
    pub hosts_refused: Counter,
    /// Questions that the store had no answer for.
    pub store_errors: Counter,
}

impl Metrics {
    /// In the text format that Prometheus reads.
    pub fn text(&self) -> String {
        let figures = [
            ("runs_stored", "Runs that were stored", &self.runs_stored),
            ("runs_repeated", "Runs that were sent again", &self.runs_repeated),
            ("runs_refused", "Runs that were refused", &self.runs_refused),
            (
                "runs_dropped",
                "Runs that agents could not keep",
                &self.runs_dropped,
            ),
            ("run_bytes", "Bytes of the runs that were stored", &self.run_bytes),
            ("failures", "Failures that were reported", &self.failures),
            ("plans", "Plans that were given out", &self.plans),
            ("modules", "Files that were uploaded", &self.modules),
            (
                "stored_refused",
                "Files and large runs that were more than is kept of one credential",
                &self.stored_refused,
            ),
            (
                "hosts_refused",
                "Requests that spoke for another one's host, or for one too many",
                &self.hosts_refused,
            ),
            (
                "store_errors",
                "Questions that the store had no answer for",
                &self.store_errors,
            ),
        ];
        let mut text = String::new();
        for (name, help, counter) in figures {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "# HELP failsketch_{name}_total {help}.\n# TYPE failsketch_{name}_total counter\nfailsketch_{name}_total {}",
                counter.get()
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_name_a_type_and_a_value() {
        let metrics = Metrics::default();
        metrics.runs_stored.add(3);
        let text = metrics.text();
        assert!(text.contains("\nfailsketch_runs_stored_total 3\n"), "{text}");
        assert_eq!(text.matches("# TYPE").count(), text.matches("# HELP").count());
    }
}
