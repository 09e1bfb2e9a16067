//! How far it is: a line that changes on a terminal, plain lines elsewhere; on standard error.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a plain line is written at most, unless something happened.
const PAUSE: Duration = Duration::from_secs(5);

/// What is going on.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What is being done.
    pub phase: &'static str,
    /// Runs so far.
    pub runs: u64,
    /// How many there may be.
    pub most_runs: u64,
    /// How often the failure was seen.
    pub failures: u64,
    /// Statements that are tracked; 0 before the first failure.
    pub sigma: u32,
    /// The best predictor so far.
    pub best: Option<String>,
    /// How much time is left.
    pub left: Duration,
}

impl State {
    fn line(&self) -> String {
        let mut line = format!("{}: {} of at most {} runs", self.phase, self.runs, self.most_runs);
        if self.failures > 0 {
            line += &format!(", {} failed", self.failures);
        }
        if self.sigma > 0 {
            line += &format!(", tracking {} statements", self.sigma);
        }
        if let Some(best) = &self.best {
            line += &format!(", best so far: {best}");
        }
        line + &format!(" ({} s left)", self.left.as_secs())
    }
}

/// Shows how far it is.
pub struct Progress {
    bar: Option<ProgressBar>,
    last: Option<Instant>,
}

impl Progress {
    /// On standard error, if that is wanted.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, last: None }
    }

    /// Shows where it stands.
    pub fn show(&mut self, state: &State) {
        let line = sketch_render::text::plain(&state.line());
        if let Some(bar) = &self.bar {
            bar.set_message(line);
        } else if self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            eprintln!("{line}");
            self.last = Some(Instant::now());
        }
    }

    /// Says something that stays.
    pub fn say(&mut self, line: &str) {
        let line = sketch_render::text::plain(line);
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
