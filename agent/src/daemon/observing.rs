//! Memory of a process that is watched, for as long as the same is to be watched: from one window to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use diagnosis::record::WatchedRecord;
use tracee::process::{ModuleMap, Process};
use tracee::{Pid, Tid};
use watchpoint::code::CodeFiles;
use watchpoint::session::{Request, Session};
use watchpoint::{Hit, Mode, ModeRequest, Summary, Target, WatchError, WatchSpec};

use super::ceiling::{Budget, Remedy, Spent, TrapCost};
use crate::config::Ceiling;

/// A process whose memory is watched.
pub(super) struct Observing<'f> {
    pid: Pid,
    session: Session<'f>,
    locations: Vec<(WatchedRecord, WatchSpec)>,
    /// Those that are watched no more, because that would cost too much.
    off: Vec<usize>,
    /// Nothing is watched any more, because even that would cost too much.
    stopped: bool,
    /// What it cost in the last window, in millionths of the time.
    share: u64,
    hits: Vec<Hit>,
    before: Before,
    over: bool,
}

/// What had been counted when a window began.
#[derive(Default)]
struct Before {
    traps: BTreeMap<usize, u64>,
    lost: u64,
    own: Duration,
}

/// What was seen of memory in a window.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) hits: Vec<Hit>,
    pub(super) summary: Option<Summary>,
    pub(super) modules: Option<ModuleMap>,
    pub(super) cut_short: Option<String>,
}

impl<'f> Observing<'f> {
    pub(super) fn start(
        pid: Pid,
        locations: &[(WatchedRecord, WatchSpec)],
        files: &'f CodeFiles,
    ) -> Result<Self, WatchError> {
        let request = Request {
            target: Target::Process(pid),
            locations: locations.iter().map(|(_, spec)| spec.clone()).collect(),
            mode: ModeRequest::Only(Mode::Observe),
            keeper: None,
        };
        let (session, _) = Session::start(request, files)?;
        Ok(Self {
            pid,
            session,
            locations: locations.to_vec(),
            off: Vec::new(),
            stopped: false,
            share: 0,
            hits: Vec::new(),
            before: Before::default(),
            over: false,
        })
    }

    /// Whether this is what is watched, and nothing else.
    pub(super) fn watches(&self, locations: &[(WatchedRecord, WatchSpec)]) -> bool {
        !self.over && self.locations == locations
    }

    /// Whether nothing more will be seen.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// A window begins.
    pub(super) fn begin(&mut self) {
        self.before.traps = self.session.traps();
        self.before.own = own_time();
    }

    /// Takes in what came, waiting for it at most so long.
    pub(super) fn read(&mut self, limit: Duration, budget: &mut Budget) {
        match self.session.next(limit) {
            Ok(progress) => {
                budget.learn(&progress.hits);
                self.hits.extend(progress.hits);
                self.over = progress.ended.is_some();
            }
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(pid = %self.pid, error, "its memory is not watched any more");
                self.over = true;
            }
        }
    }

    /// Turns off what would cost too much.
    pub(super) fn keep_below(&mut self, budget: &mut Budget, passed: Duration, stops: u64) {
        let spent = self.spent(stops);
        match budget.look(passed, &spent, self.locations.len(), &self.off) {
            Remedy::None => (),
            Remedy::TurnOff(locations) => {
                tracing::info!(pid = %self.pid, ?locations, "touched too often: turned off");
                for location in locations {
                    self.session.leave(location);
                    self.off.push(location);
                }
            }
            Remedy::Stop => {
                tracing::info!(pid = %self.pid, "what finds the locations is passed too often: nothing is watched");
                self.stopped = true;
                self.over = true;
            }
        }
    }

    /// What the window has cost so far.
    fn spent(&self, stops: u64) -> Spent {
        let mut traps = self.session.traps();
        for (location, before) in &self.before.traps {
            let since = traps.entry(*location).or_default();
            *since = since.saturating_sub(*before);
        }
        Spent {
            traps,
            stops,
            own: own_time().saturating_sub(self.before.own),
        }
    }

    /// The window is over: notes what it cost. Gives what was learnt about that.
    pub(super) fn settle(&mut self, budget: Budget, passed: Duration, stops: u64) -> TrapCost {
        let spent = self.spent(stops);
        let (cost, share) = budget.finish(passed, &spent);
        self.share = share;
        tracing::debug!(pid = %self.pid, hits = self.hits.len(), share, "observed");
        cost
    }

    /// What was seen since the last window; it is watched on.
    pub(super) fn so_far(&mut self, ceiling: Ceiling) -> Observed {
        let summary = self.session.summary();
        let lost = std::mem::replace(&mut self.before.lost, summary.lost);
        Observed {
            hits: std::mem::take(&mut self.hits),
            modules: self.session.code().modules(),
            summary: Some(Summary {
                lost: summary.lost.saturating_sub(lost),
                ..summary
            }),
            cut_short: self.cut_short(ceiling),
        }
    }

    /// The same with what was still on its way; it is watched no more.
    pub(super) fn finish(&mut self, ceiling: Ceiling) -> Observed {
        match self.session.stop() {
            Ok(rest) => self.hits.extend(rest),
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(pid = %self.pid, error, "some accesses are lost");
            }
        }
        self.over = true;
        self.so_far(ceiling)
    }

    fn cut_short(&self, ceiling: Ceiling) -> Option<String> {
        let (off, all) = (self.off.len(), self.locations.len());
        let (may, has) = (f64::from(ceiling.0) / 10_000.0, self.share as f64 / 10_000.0);
        let what = match (self.stopped, off) {
            (true, _) => "all tracking was turned off".to_owned(),
            (false, 0) => return None,
            (false, off) => format!("{off} of {all} locations were turned off"),
        };
        Some(format!(
            "{what}: tracking may cost {may} % and had cost {has:.2} %"
        ))
    }
}

/// How long this thread has worked: what understanding the accesses takes is taken from somebody.
fn own_time() -> Duration {
    Process::new(Pid::this())
        .run_time(Tid::this())
        .unwrap_or_default()
}
