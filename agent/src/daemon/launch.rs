//! A command that is run again and again: each run is an observation.
//!
//! What fails may be a program that the command runs: of a script, or of a tool such as `timeout`, all processes are followed until one fails, and
//! from then on the runs are about that one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diagnosis::record::RunEnd;
use failure::image::Limits;
use tracee::files::script;
use tracee::process::ExitWatch;
use tracee::ptrace::{Launch, Launched, Stream, Tracer};
use tracee::run::{Cancel, Ended, Output, RunOptions, Subject, TrackError as GivenUp, Tracker};
use watchpoint::code::CodeFiles;

use super::identity::Identity;
use super::{Agent, DaemonError, report};
use crate::config::LaunchJob;
use crate::tracked::{TrackError, Tracked, Tracking, track_with};

/// How long a program that was asked to end may take, before it is ended.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait when the program cannot be started any more.
const PAUSE: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Runs the command until it has run as often as it may, or somebody asks to end.
pub(super) fn serve(agent: &Agent, job: &LaunchJob) -> Result<(), DaemonError> {
    let path = launch(job).path().map_err(tracee::ptrace::TraceError::from);
    let path = path.map_err(|error| TrackError::Run(error.into()))?;
    let path = script::executable(&path)?;
    // Others get to know it by this path, wherever they are.
    let path = std::path::absolute(&path).unwrap_or(path);
    let mut identity = Identity::of(&path, &path)?;
    let running = Running::default();
    std::thread::scope(|scope| {
        let over = Over(&running.over);
        scope.spawn(|| running.end_when_asked(&agent.asked));
        let mut series = Series {
            agent,
            job,
            running: &running,
            files: CodeFiles::default(),
            until_failure: 0,
            follows: identity.has_others_do_its_work(),
            subject: None,
        };
        let mut number = 0;
        while !agent.asked.is_cancelled() && job.runs.is_none_or(|most| number < most) {
            identity = identity.refreshed()?;
            agent.registration.announce(&identity);
            match series.run(&identity) {
                Ok(None) => (),
                Ok(Some(other)) => {
                    let (command, program) = (&identity.name, &other.name);
                    tracing::info!(command, program, "what fails is a program that the command runs");
                    identity = other;
                }
                // What cannot be run at all is told at once; what could a moment ago may be in the middle of an upgrade.
                Err(error) if number == 0 => return Err(error.into()),
                Err(error) => {
                    let error = crate::causes(&error);
                    tracing::error!(error, "a run came to nothing");
                    std::thread::sleep(PAUSE);
                }
            }
            number += 1;
        }
        drop(over);
        Ok(())
    })
}

fn launch(job: &LaunchJob) -> Launch {
    let (program, arguments) = job
        .command
        .split_first()
        .map_or(("", &[][..]), |(program, rest)| (program, rest));
    Launch::new(program)
        .args(arguments)
        .stdin(Stream::Null)
        .own_group()
}

/// The runs of a command.
struct Series<'s> {
    agent: &'s Agent,
    job: &'s LaunchJob,
    running: &'s Running,
    files: CodeFiles,
    /// Runs since the last failure.
    until_failure: u64,
    /// What the command starts is followed, too.
    follows: bool,
    /// The process that failed, if it is not the launched one.
    subject: Option<Subject>,
}

impl Series<'_> {
    /// One run. Gives the program that failed, if it is another than the runs were about.
    fn run(&mut self, identity: &Identity) -> Result<Option<Identity>, TrackError> {
        let agent = self.agent;
        let assigned = agent.assignment(identity, false);
        if agent.asked.is_cancelled() {
            return Ok(None);
        }
        let bug = assigned.as_ref().map(|assigned| assigned.bug.clone());
        let tracking = assigned.map_or_else(Tracking::default, |assigned| {
            assigned.tracking(self.job.mode, identity, &agent.config)
        });
        let Tracked { outcome, record } = self.track(tracking)?;
        // What was ended says nothing about how it would have ended.
        if agent.asked.is_cancelled() || record.end == RunEnd::Inconclusive {
            tracing::info!(?outcome.ended, "a run that says nothing");
            return Ok(None);
        }
        let other = match outcome.subject.clone() {
            Some(subject) if self.subject.is_none() => match self.found(subject) {
                Some(other) => Some(other),
                None => return Ok(None),
            },
            _ => None,
        };
        let (identity, bug) = match &other {
            // What was tracked is of another program.
            Some(other) => (other, None),
            None => (identity, bug),
        };
        self.until_failure += 1;
        let privacy = agent.config.privacy;
        let failed = matches!(record.end, RunEnd::Failed(_));
        tracing::debug!(failed, bug, elapsed = ?outcome.elapsed, hits = record.hits.len(), "a run");
        match (bug, &record.end) {
            (Some(bug), _) => agent.send(report::run(&bug, identity, record, privacy)),
            (None, RunEnd::Failed(failed)) => {
                let (failed, runs) = ((**failed).clone(), self.until_failure);
                let item = report::failure(&agent.host, identity, failed, &record.modules, runs, privacy);
                agent.send(item);
            }
            (None, _) => (),
        }
        if failed {
            self.until_failure = 0;
        }
        Ok(other)
    }

    /// A process of the command failed: from now on all is about it.
    fn found(&mut self, subject: Subject) -> Option<Identity> {
        match Identity::of(&subject.executable, &subject.executable) {
            Ok(identity) => {
                self.subject = Some(subject);
                Some(identity)
            }
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(error, "a program that the command runs failed");
                None
            }
        }
    }

    fn launch(&self) -> Launch {
        let launch = launch(self.job);
        match self.follows {
            true => launch.follow_forks(),
            false => launch,
        }
    }

    fn track(&self, tracking: Tracking) -> Result<Tracked, TrackError> {
        let config = &self.agent.config;
        let options = RunOptions {
            time_limit: config.timeout,
            deadlocks: config.timeout.is_none(),
            fail_on: &config.fail_on,
            stdout: Output::Inherit,
            stderr: Output::Inherit,
            child_crashes: self.follows && self.subject.is_none(),
            subject: self.subject.clone(),
            modules: &self.agent.modules,
            limits: Limits::default(),
            cancel: Some(self.running.kill.clone()),
        };
        let mut whereabouts = Whereabouts(Arc::clone(&self.running.process));
        track_with(self.launch(), &options, tracking, &self.files, &mut whereabouts)
    }
}

/// The program that runs now, for whoever has to end it.
#[derive(Default)]
struct Running {
    process: Arc<Mutex<Option<ExitWatch>>>,
    /// Ends it the hard way.
    kill: Cancel,
    /// Nothing is going to run any more.
    over: AtomicBool,
}

impl Running {
    /// Waits until somebody asks the agent to end, and asks the program in turn: it is ours, and may have to tidy up.
    fn end_when_asked(&self, asked: &Cancel) {
        let mut since: Option<Instant> = None;
        while !self.over.load(Ordering::Acquire) {
            std::thread::sleep(BETWEEN_LOOKS);
            if !asked.is_cancelled() {
                continue;
            }
            match since {
                None => {
                    since = Some(Instant::now());
                    let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
                    let told = process.as_ref().map(ExitWatch::ask_to_end);
                    if let Some(Err(error)) = told {
                        let error = crate::causes(&error);
                        tracing::warn!(error, "the program cannot be asked to end");
                    }
                }
                Some(since) if since.elapsed() >= GRACE => {
                    tracing::warn!("the program does not end: it is ended");
                    return self.kill.cancel();
                }
                Some(_) => (),
            }
        }
    }
}

/// Tells whoever waits for the end of the last run, however that came.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Rides along to know which process it is.
struct Whereabouts(Arc<Mutex<Option<ExitWatch>>>);

impl Whereabouts {
    fn set(&self, process: Option<ExitWatch>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = process;
    }
}

impl Tracker for Whereabouts {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), GivenUp> {
        // One that cannot be had has ended.
        self.set(ExitWatch::of(tracer.pid()).ok());
        Ok(())
    }

    fn ended(&mut self, _: Ended) {
        self.set(None);
    }
}
