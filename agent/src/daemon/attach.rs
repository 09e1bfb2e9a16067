//! A process that runs, watched in windows of time: one without a failure is a run that succeeded.
//!
//! A process that hangs is there still. It is reported and then left, for whoever wants to look at it, and for whoever ends it.

use std::time::{Duration, Instant};

use diagnosis::record::RunEnd;
use failure::report::{Kind, Report};
use tracee::Pid;
use tracee::process::{ModuleMap, Process};
use tracee::ptrace::End;
use tracee::run::{Progress, Seen, Standstill};
use watchpoint::code::CodeFiles;

use super::assigned::Assigned;
use super::ceiling::{Budget, TrapCost};
use super::guard::{Watch, Word};
use super::identity::Identity;
use super::observing::{Observed, Observing};
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
    let files = CodeFiles::default();
    let config = &agent.config;
    std::thread::scope(|scope| {
        let guard = Watch::start(scope, agent, pid)?;
        tracing::info!(%pid, program = identity.name, "watching");
        let mut watched = Watched {
            agent,
            pid,
            identity: &identity,
            files: &files,
            guard,
            cost: TrapCost::default(),
            until_failure: 0,
            standstill: config
                .fail_on
                .hang()
                .then(|| Standstill::new(pid, config.timeout)),
            asked: false,
        };
        let mut assigned = agent.assignment(&identity, true);
        let mut observing = None;
        while !agent.asked.is_cancelled() {
            observing = watched.observing(assigned.as_ref(), observing);
            let Some(ahead) = watched.window(assigned, observing) else {
                break;
            };
            (assigned, observing) = ahead;
        }
        tracing::info!(%pid, program = identity.name, "left");
        Ok(())
    })
}

/// What is to be tracked in the next window, and who still watches what was to be watched in the last.
type Ahead<'f> = (Option<Assigned>, Option<Observing<'f>>);

struct Watched<'a> {
    agent: &'a Agent,
    pid: Pid,
    identity: &'a Identity,
    files: &'a CodeFiles,
    guard: Watch<'a>,
    cost: TrapCost,
    /// Windows since the last failure.
    until_failure: u64,
    /// Sees whether it gets on, if hangs count.
    standstill: Option<Standstill>,
    /// The guard looks at threads that do not seem to.
    asked: bool,
}

/// What happened in a window.
#[derive(Default)]
struct Events {
    failed: Option<Box<Report>>,
    ended: Option<End>,
    other_program: bool,
}

impl<'a> Watched<'a> {
    /// Who watches what is to be watched now: whoever does already, if that is the same, so that nothing is missed in between.
    fn observing(&self, assigned: Option<&Assigned>, before: Option<Observing<'a>>) -> Option<Observing<'a>> {
        let locations = assigned.map_or(&[][..], |assigned| &assigned.assignment.locations);
        if let Some(same) = before.filter(|before| before.watches(locations)) {
            return Some(same);
        }
        if locations.is_empty() {
            return None;
        }
        match Observing::start(self.pid, locations, self.files) {
            Ok(observing) => Some(observing),
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(pid = %self.pid, error, "cannot watch its memory");
                None
            }
        }
    }

    /// One window; `None` for the last: the process is gone, or is another program.
    fn window(
        &mut self,
        assigned: Option<Assigned>,
        mut observing: Option<Observing<'a>>,
    ) -> Option<Ahead<'a>> {
        let started = Instant::now();
        let mut events = Events::default();
        match &mut observing {
            Some(observing) => self.observe(observing, started, &mut events),
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
        if let RunEnd::Failed(report) = &ended
            && report.kind == Kind::Hang
        {
            tracing::info!(pid = %self.pid, "it hangs: that is reported, and it is left to others");
        }
        let is_last = matches!(ended, RunEnd::Failed(_)) || events.ended.is_some() || events.other_program;
        // What is to be watched next is asked for while this is still watched.
        let next = match is_last || self.agent.asked.is_cancelled() {
            true => None,
            false => self.agent.assignment(self.identity, true),
        };
        let goes_on = |observing: &&mut Observing<'a>| {
            let next = next.as_ref().map(|next| &next.assignment.locations[..]);
            next.is_some_and(|next| observing.watches(next))
        };
        let elapsed = started.elapsed();
        let ceiling = self.agent.config.ceiling;
        let seen = match &mut observing {
            Some(it) if goes_on(&it) => it.so_far(ceiling),
            Some(it) => it.finish(ceiling),
            None => Observed::default(),
        };
        self.tell(assigned.as_ref(), ended, elapsed, seen);
        (!is_last).then(|| (next, observing.filter(|it| !it.is_over())))
    }

    /// Watches until the window is over, within what it may cost.
    fn observe(&mut self, observing: &mut Observing<'_>, started: Instant, events: &mut Events) {
        let config = &self.agent.config;
        let cost = std::mem::take(&mut self.cost);
        let mut budget = Budget::new(config.ceiling, config.window, cost);
        let process = Process::new(self.pid);
        let worked = || process.time_on_processors().unwrap_or_default();
        let worked_before = worked();
        // A program that works on several processors at once has more time to be slowed down in than goes by.
        let passed = || started.elapsed().max(worked().saturating_sub(worked_before));
        let stops_before = self.guard.stops();
        let mut failed_at = None;
        let mut over = false;
        observing.begin();
        while !over && !observing.is_over() {
            observing.read(TICK, &mut budget);
            self.listen(Duration::ZERO, events);
            if let Some(report) = &events.failed {
                // What was accessed last is what matters most: it is waited for until the process is gone. One that hangs
                // has long accessed all that it will.
                let since = *failed_at.get_or_insert_with(Instant::now);
                over = since.elapsed() >= LAST_WORDS || report.kind == Kind::Hang;
            } else {
                over = self.is_over(started, events);
            }
            let stops = self.guard.stops().saturating_sub(stops_before);
            observing.keep_below(&mut budget, passed(), stops);
        }
        // If memory cannot be watched to its end, the window still has one.
        while events.failed.is_none() && !self.is_over(started, events) {
            self.listen(TICK, events);
        }
        let stops = self.guard.stops().saturating_sub(stops_before);
        self.cost = observing.settle(budget, passed(), stops);
    }

    fn is_over(&mut self, started: Instant, events: &Events) -> bool {
        events.failed.is_some()
            || events.ended.is_some()
            || events.other_program
            || self.agent.asked.is_cancelled()
            || started.elapsed() >= self.agent.config.window && self.gets_on()
    }

    /// Whether the window may end well: a hang that has just begun belongs to the accesses that led to it.
    fn gets_on(&mut self) -> bool {
        if self.asked {
            return false;
        }
        let progress = self.standstill.as_mut().map(Standstill::look_soon);
        progress.is_none_or(|progress| self.take_in(progress))
    }

    /// Has threads looked at that do not go on; says whether there is nothing of the kind.
    fn take_in(&mut self, progress: Progress) -> bool {
        match progress {
            Progress::GoesOn => true,
            Progress::Doubtful => false,
            Progress::Stuck(blocked) => {
                self.guard.ask(blocked);
                self.asked = true;
                false
            }
        }
    }

    /// Takes in what the guard has seen.
    fn listen(&mut self, limit: Duration, events: &mut Events) {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        if !self.asked
            && let Some(progress) = self.standstill.as_mut().and_then(Standstill::look)
        {
            self.take_in(progress);
        }
        match self.guard.words.recv_timeout(limit) {
            Ok(Word::Seen(Seen::Failed(report))) => events.failed = Some(report),
            Ok(Word::Seen(Seen::OtherProgram)) => events.other_program = true,
            Ok(Word::Seen(Seen::Ended(end))) => events.ended = Some(end),
            Ok(Word::GoOn(blocked)) => {
                self.asked = false;
                if let Some(standstill) = &mut self.standstill {
                    standstill.dismiss(blocked);
                }
            }
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
