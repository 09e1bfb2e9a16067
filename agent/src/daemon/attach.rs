//! A process that runs, watched in windows of time: one without a failure is a run that succeeded.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use diagnosis::record::RunEnd;
use failure::report::Report;
use tracee::Pid;
use tracee::process::{ModuleMap, Process};
use tracee::ptrace::End;
use tracee::run::Seen;
use watchpoint::code::CodeFiles;
use watchpoint::session::{Request, Session};
use watchpoint::{Hit, Mode, ModeRequest, Target, WatchSpec};

use super::assigned::Assigned;
use super::ceiling::{Budget, Remedy, TrapCost};
use super::guard::Watch;
use super::identity::Identity;
use super::window::Window;
use super::{Agent, DaemonError, report};

/// How often it is looked at what came and what it cost.
const TICK: Duration = Duration::from_millis(20);
/// How long the accesses of a process that died may be on their way.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Watches a process until it ends, or somebody asks to end.
pub(super) fn serve(agent: &Agent, pid: Pid) -> Result<(), DaemonError> {
    let process = Process::new(pid);
    let path = process.executable().map_err(tracee::ptrace::TraceError::from)?;
    let identity = Identity::of(&process.executable_link(), &path)?;
    agent.registration.announce(&identity);
    std::thread::scope(|scope| {
        let guard = Watch::start(scope, agent, pid)?;
        tracing::info!(%pid, program = identity.name, "watching");
        let mut watched = Watched {
            agent,
            pid,
            identity: &identity,
            guard,
            cost: TrapCost::default(),
            until_failure: 0,
        };
        while !agent.asked.is_cancelled() && watched.window() == Next::Window {}
        tracing::info!(%pid, program = identity.name, "left");
        Ok(())
    })
}

/// What comes after a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Window,
    /// The process is gone, or is another program.
    Nothing,
}

struct Watched<'a> {
    agent: &'a Agent,
    pid: Pid,
    identity: &'a Identity,
    guard: Watch<'a>,
    cost: TrapCost,
    /// Windows since the last failure.
    until_failure: u64,
}

/// What happened in a window.
#[derive(Default)]
struct Events {
    failed: Option<Box<Report>>,
    ended: Option<End>,
    other_program: bool,
}

impl Watched<'_> {
    fn window(&mut self) -> Next {
        let assigned = self.agent.assignment(self.identity, true);
        let started = Instant::now();
        let (mut events, mut seen) = (Events::default(), Observed::default());
        let files = CodeFiles::default();
        let session = assigned
            .as_ref()
            .and_then(|assigned| self.session(assigned, &files));
        match session {
            Some((session, locations)) => seen = self.observe(session, locations, started, &mut events),
            None => {
                while !self.is_over(started, &events) {
                    self.listen(TICK, &mut events);
                }
            }
        }
        let ended = match (events.failed, events.ended) {
            (Some(report), _) => RunEnd::Failed(report),
            (None, _) if self.agent.asked.is_cancelled() || events.other_program => RunEnd::Inconclusive,
            (None, None | Some(End::Exited(_))) => RunEnd::Succeeded,
            (None, Some(_)) => RunEnd::Inconclusive,
        };
        let next = match (&ended, events.ended.is_some() || events.other_program) {
            (RunEnd::Failed(_), _) | (_, true) => Next::Nothing,
            _ => Next::Window,
        };
        self.tell(assigned.as_ref(), ended, started.elapsed(), seen);
        next
    }

    fn session<'f>(&self, assigned: &Assigned, files: &'f CodeFiles) -> Option<(Session<'f>, usize)> {
        let locations = assigned.assignment.locations.iter();
        let locations: Vec<WatchSpec> = locations.map(|(_, spec)| spec.clone()).collect();
        if locations.is_empty() {
            return None;
        }
        let number = locations.len();
        let request = Request {
            target: Target::Process(self.pid),
            locations,
            mode: ModeRequest::Only(Mode::Observe),
            keeper: None,
        };
        match Session::start(request, files) {
            Ok((session, _)) => Some((session, number)),
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(pid = %self.pid, error, "cannot watch its memory");
                None
            }
        }
    }

    /// Watches until the window is over, within what it may cost.
    fn observe(
        &mut self,
        mut session: Session<'_>,
        locations: usize,
        started: Instant,
        events: &mut Events,
    ) -> Observed {
        let config = &self.agent.config;
        let threads = Process::new(self.pid)
            .threads()
            .map_or(1, |threads| threads.len());
        let cost = std::mem::take(&mut self.cost);
        let mut budget = Budget::new(config.ceiling, config.window, threads, cost);
        let stops_before = self.guard.stops();
        let mut off = Vec::new();
        let mut hits = Vec::new();
        let mut failed_at = None;
        let mut over = false;
        while !over {
            match session.next(TICK) {
                Ok(progress) => {
                    budget.learn(&progress.hits);
                    hits.extend(progress.hits);
                    over = progress.ended.is_some();
                }
                Err(error) => {
                    let error = crate::causes(&error);
                    tracing::warn!(pid = %self.pid, error, "its memory is not watched any more");
                    over = true;
                }
            }
            self.listen(Duration::ZERO, events);
            if events.failed.is_some() {
                // What was accessed last is what matters most: it is waited for until the process is gone.
                let since = *failed_at.get_or_insert_with(Instant::now);
                over |= since.elapsed() >= LAST_WORDS;
            } else {
                over |= self.is_over(started, events);
            }
            let stops = self.guard.stops().saturating_sub(stops_before);
            match budget.look(started.elapsed(), &session.traps(), stops, locations, &off) {
                Remedy::None => (),
                Remedy::TurnOff(location) => {
                    session.leave(location);
                    off.push(location);
                    tracing::info!(pid = %self.pid, location, "touched too often: turned off");
                }
                Remedy::Stop => over = true,
            }
        }
        match session.stop() {
            Ok(rest) => hits.extend(rest),
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(pid = %self.pid, error, "some accesses are lost");
            }
        }
        // If memory cannot be watched to its end, the window still has one.
        while events.failed.is_none() && !self.is_over(started, events) {
            self.listen(TICK, events);
        }
        let summary = session.summary();
        let traps: BTreeMap<usize, u64> = session.traps();
        let stops = self.guard.stops().saturating_sub(stops_before);
        let (cost, share) = budget.finish(started.elapsed(), traps.values().sum(), stops);
        self.cost = cost;
        let cut_short = (!off.is_empty()).then(|| {
            let ceiling = f64::from(config.ceiling.0) / 10_000.0;
            let (off, share) = (off.len(), share as f64 / 10_000.0);
            format!("{off} of {locations} locations were turned off: tracking may cost {ceiling} % and had cost {share:.2} %")
        });
        tracing::debug!(pid = %self.pid, hits = hits.len(), share, "observed");
        Observed {
            hits,
            modules: session.code().modules(),
            summary: Some(summary),
            cut_short,
        }
    }

    fn is_over(&self, started: Instant, events: &Events) -> bool {
        events.failed.is_some()
            || events.ended.is_some()
            || events.other_program
            || self.agent.asked.is_cancelled()
            || started.elapsed() >= self.agent.config.window
    }

    /// Takes in what the guard has seen.
    fn listen(&self, limit: Duration, events: &mut Events) {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.guard.seen.recv_timeout(limit) {
            Ok(Seen::Failed(report)) => events.failed = Some(report),
            Ok(Seen::OtherProgram) => events.other_program = true,
            Ok(Seen::Ended(end)) => events.ended = Some(end),
            // Nobody would tell of a failure any more.
            Err(Disconnected) if events.ended.is_none() => events.ended = Some(End::Unknown),
            Err(Timeout | Disconnected) => (),
        }
    }

    fn tell(&mut self, assigned: Option<&Assigned>, end: RunEnd, elapsed: Duration, seen: Observed) {
        if end == RunEnd::Inconclusive {
            return;
        }
        let (agent, identity) = (self.agent, self.identity);
        let privacy = agent.config.privacy;
        self.until_failure += 1;
        let failed = match &end {
            RunEnd::Failed(report) => Some((**report).clone()),
            RunEnd::Succeeded | RunEnd::Inconclusive => None,
        };
        let record = Window {
            pid: self.pid,
            assigned,
            end,
            elapsed,
            hits: seen.hits,
            summary: seen.summary,
            modules: seen.modules.or_else(|| ModuleMap::of(self.pid).ok()),
            cut_short: seen.cut_short,
        }
        .record();
        match (assigned, failed) {
            (Some(assigned), _) => agent.send(report::run(&assigned.bug, identity, record, privacy)),
            (None, Some(failed)) => {
                let (host, runs) = (&agent.host, self.until_failure);
                agent.send(report::failure(
                    host,
                    identity,
                    failed,
                    &record.modules,
                    runs,
                    privacy,
                ));
            }
            (None, None) => (),
        }
    }
}

/// What was seen of memory.
#[derive(Default)]
struct Observed {
    hits: Vec<Hit>,
    summary: Option<watchpoint::Summary>,
    modules: Option<ModuleMap>,
    cut_short: Option<String>,
}
