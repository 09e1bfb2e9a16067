//! The tracing loop.

use std::io;
use std::time::{Duration, Instant};

use failure::fail_on::Stream;
use thiserror::Error;

use super::capture::{self, Capture};
use super::caught::Caught;
use super::options::{Cancel, RunOptions};
use super::outcome::{Ended, Outcome};
use super::panics::Panics;
use super::stuck::Stuck;
use super::subject::{Processes, Progress, Subject};
use super::tracker::{Handled, TrackError, Tracker};
use super::verdict::{self, Evidence};
use crate::ids::{Pid, Tid};
use crate::ptrace::{End, Launch, Launched, Pipes, Resume, SigInfo, Stop, TraceError, Tracer, What};

/// Why a run came to nothing.
#[derive(Debug, Error)]
pub enum RunError {
    /// The program cannot be launched or traced.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its output cannot be read.
    #[error("cannot read the output of the program")]
    Output(#[source] io::Error),
    /// A tracker gave up.
    #[error("{0}")]
    Tracker(TrackError),
}

/// How long a run may be deaf to its cancelling.
const ATTENTION: Duration = Duration::from_millis(50);

/// How long threads that are kept wait between two questions whether they may go on.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(1);

/// Runs a program to its end, or until it is over the time limit, and tells what came of it.
///
/// # Errors
/// When the program cannot be started or followed, or a tracker gives up; nothing is left of it then.
pub fn run(
    launch: Launch,
    options: &RunOptions<'_>,
    trackers: &mut [&mut dyn Tracker],
) -> Result<Outcome, RunError> {
    let [stdout, stderr] = [(options.stdout, Stream::Stdout), (options.stderr, Stream::Stderr)]
        .map(|(output, stream)| capture::effective(output, stream, options.fail_on));
    let launch = match capture::stream(stdout) {
        Some(stream) => launch.stdout(stream),
        None => launch,
    };
    let launch = match capture::stream(stderr) {
        Some(stream) => launch.stderr(stream),
        None => launch,
    };
    let start = Instant::now();
    let (tracer, pipes) = Tracer::launch(launch)?;
    let launched = tracer.pid();
    let Pipes {
        stdin: _stdin,
        stdout: out,
        stderr: err,
    } = pipes;
    let capture = |pipe, output, stream| {
        Capture::start(pipe, output, stream, options.fail_on).map_err(RunError::Output)
    };
    let out = capture(out, stdout, Stream::Stdout)?;
    let err = capture(err, stderr, Stream::Stderr)?;
    let fail_on = options.fail_on;
    let has_pattern = |stream| fail_on.patterns(stream).next().is_some();
    let Followed {
        ended,
        evidence,
        pid,
        subject,
    } = Follow {
        tracer,
        options,
        trackers,
        deadline: None,
        evidence: Evidence::default(),
        caught: None,
        panics: Panics::default(),
        dying: None,
        kept: 0,
        stuck: Stuck::new(),
        launched,
        looks_at_exit: fail_on.asks_for_exit() || has_pattern(Stream::Stdout) || has_pattern(Stream::Stderr),
        processes: Processes::default(),
        progress: Progress::Awaited,
        subject: None,
    }
    .finish()?;
    let elapsed = start.elapsed();
    for tracker in trackers.iter_mut() {
        tracker.ended(ended);
    }
    let (out, err) = (out.finish(), err.finish());
    let unstoppable = evidence.unstoppable;
    let failed = verdict::failure(evidence, ended, &out, &err, options);
    let failed_at_ns = failed.as_ref().and_then(|failed| failed.at_ns);
    let subject = subject.filter(|_| failed.is_some());
    Ok(Outcome {
        ended,
        failure: failed.map(|failed| Box::new(failed.report)),
        failed_at_ns,
        unstoppable,
        pid,
        subject,
        elapsed,
        stdout: out.captured,
        stderr: err.captured,
    })
}

/// A run that is being followed.
pub(super) struct Follow<'f, 'o, 't> {
    pub(super) tracer: Tracer<Launched>,
    pub(super) options: &'f RunOptions<'o>,
    trackers: &'f mut [&'t mut dyn Tracker],
    pub(super) deadline: Option<Instant>,
    pub(super) evidence: Evidence,
    pub(super) caught: Option<Caught>,
    pub(super) panics: Panics,
    /// Since when everybody is stopped while a fatal signal is delivered: the kernel kills them where they
    /// are, so that a core shows what we saw.
    pub(super) dying: Option<Instant>,
    /// How many threads trackers keep stopped.
    kept: usize,
    stuck: Stuck,
    pub(super) launched: Pid,
    pub(super) looks_at_exit: bool,
    pub(super) processes: Processes,
    pub(super) progress: Progress,
    /// The process that failed, if it is not the launched one, or not the launched file.
    pub(super) subject: Option<Subject>,
}

/// A run that was followed to its end.
struct Followed {
    ended: Ended,
    evidence: Evidence,
    /// Which process it was about.
    pid: Pid,
    subject: Option<Subject>,
}

impl Follow<'_, '_, '_> {
    fn finish(mut self) -> Result<Followed, RunError> {
        let limit = self.options.time_limit;
        self.deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.runs(self.launched)?;
        self.go_on(self.launched.first_thread(), Resume::Deliver)?;
        let period = self.trackers.iter().filter_map(|tracker| tracker.period()).min();
        let mut next_tick = Instant::now();
        loop {
            let now = Instant::now();
            if self.options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                return self.killed(Ended::Cancelled);
            }
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                let limit = self.options.time_limit.unwrap_or_default();
                self.hang(format!("it did not end within {} s", limit.as_secs_f64()))?;
                return self.killed(Ended::TimeLimit);
            }
            if self.dying.is_some_and(|since| now - since >= ATTENTION) {
                self.dying = None;
                self.tracer.resume_interrupted()?;
            }
            if let Some(period) = period
                && self.progress == Progress::Followed
                && now >= next_tick
            {
                next_tick = now + period;
                self.each_tracker(|tracker, tracer| tracker.tick(tracer))?;
            }
            self.let_go()?;
            let until_deadline = self
                .deadline
                .map_or(ATTENTION, |deadline| deadline.saturating_duration_since(now));
            let until_tick = period.map_or(ATTENTION, |_| next_tick.saturating_duration_since(now));
            let until_question = if self.kept > 0 {
                BETWEEN_QUESTIONS
            } else {
                ATTENTION
            };
            let limit = until_question.min(until_deadline).min(until_tick);
            let stop = match self.tracer.wait(limit) {
                Ok(Some(stop)) => stop,
                Ok(None) => {
                    if self.is_stuck() {
                        self.hang(
                            "no thread can go on: each waits for what only another could do".to_owned(),
                        )?;
                        return self.killed(Ended::TimeLimit);
                    }
                    continue;
                }
                Err(TraceError::NothingLeft) => return Ok(self.ended(Ended::Unknown).1),
                Err(error) => return Err(error.into()),
            };
            self.stuck.moved();
            if let What::ProcessExited(end) = stop.what {
                if stop.pid == self.launched {
                    return self.over(end);
                }
                self.other_ended(stop.pid);
                continue;
            }
            self.stopped(&stop)?;
        }
    }

    /// Whether nobody can go on.
    fn is_stuck(&mut self) -> bool {
        if !self.options.deadlocks || self.kept > 0 || self.dying.is_some() {
            return false;
        }
        let threads: Vec<(Pid, Tid)> = self.tracer.threads().collect();
        self.stuck.is_stuck(&threads, self.follows_others())
    }

    pub(super) fn each_tracker(
        &mut self,
        mut call: impl FnMut(&mut dyn Tracker, &mut Tracer<Launched>) -> Result<(), TrackError>,
    ) -> Result<(), RunError> {
        self.trackers
            .iter_mut()
            .try_for_each(|tracker| call(&mut **tracker, &mut self.tracer))
            .map_err(RunError::Tracker)
    }

    fn stopped(&mut self, stop: &Stop) -> Result<(), RunError> {
        let mut how = Resume::Deliver;
        match stop.what {
            What::Signal(info) if self.panicking(stop, &info)? => how = Resume::Suppress,
            What::Signal(info) if !self.is_followed(stop.pid) && info.is_of_probe() => how = Resume::Suppress,
            What::Signal(info) if !self.is_followed(stop.pid) => self.signal(stop, &info)?,
            What::Signal(info) => match self.handled(stop, &info)? {
                // Whose probe it was, nobody knows any more; the program would stop for good.
                Handled::Passed if info.is_of_probe() => how = Resume::Suppress,
                Handled::Passed => self.signal(stop, &info)?,
                Handled::Taken => how = Resume::Suppress,
                Handled::Kept => {
                    self.kept += 1;
                    return Ok(());
                }
            },
            What::NewThread { .. } if self.is_followed(stop.pid) => {
                self.each_tracker(|tracker, tracer| tracker.thread_started(tracer, stop.tid))?;
            }
            What::Exec { .. } | What::NewProcess { .. } => self.runs(stop.pid)?,
            What::Exiting => {
                if self.is_followed(stop.pid) {
                    self.each_tracker(|tracker, tracer| tracker.exiting(tracer, stop.tid))?;
                }
                self.exiting(stop);
            }
            What::Step => self.each_tracker(|tracker, tracer| tracker.stepped(tracer, stop.tid))?,
            What::ThreadExited | What::ProcessExited(_) => return Ok(()),
            What::NewThread { .. } | What::Vforked | What::GroupStop(_) => {}
        }
        self.go_on(stop.tid, how)
    }

    fn go_on(&mut self, tid: Tid, how: Resume) -> Result<(), RunError> {
        let gone_on = if self.trackers.iter().any(|tracker| tracker.steps(tid)) {
            self.tracer.step(tid, how)
        } else {
            self.tracer.resume(tid, how)
        };
        match gone_on {
            // Killed meanwhile: its end is told next.
            Err(TraceError::NotStopped(_)) => Ok(()),
            other => Ok(other?),
        }
    }

    fn handled(&mut self, stop: &Stop, info: &SigInfo) -> Result<Handled, RunError> {
        for tracker in &mut *self.trackers {
            let handled = tracker
                .signal(&mut self.tracer, stop, info)
                .map_err(RunError::Tracker)?;
            if handled != Handled::Passed {
                return Ok(handled);
            }
        }
        Ok(Handled::Passed)
    }

    /// Resumes the threads that were kept and are no longer.
    fn let_go(&mut self) -> Result<(), RunError> {
        if self.kept == 0 {
            return Ok(());
        }
        let mut free = Vec::new();
        for tracker in &mut *self.trackers {
            free.extend(tracker.let_go(&self.tracer).map_err(RunError::Tracker)?);
        }
        self.kept = self.kept.saturating_sub(free.len());
        for tid in free {
            self.go_on(tid, Resume::Suppress)?;
        }
        Ok(())
    }

    /// Kills what is left. The program may have ended in time after all, while its stacks were taken.
    fn killed(self, ended: Ended) -> Result<Followed, RunError> {
        let (tracer, followed) = self.ended(ended);
        tracer.kill()?;
        Ok(followed)
    }

    fn ended(self, ended: Ended) -> (Tracer<Launched>, Followed) {
        let followed = Followed {
            ended,
            pid: self.tracer.pid(),
            evidence: self.evidence,
            subject: self.subject,
        };
        (self.tracer, followed)
    }

    /// The program is over. Processes that it left behind go their way, unless one of them may be what the run is about:
    /// the next run should find everything as this one did.
    fn over(mut self, end: End) -> Result<Followed, RunError> {
        let ended = match end {
            End::Exited(status) => Ended::Exited(status),
            End::Killed { signal, core_dumped } => Ended::Killed { signal, core_dumped },
            End::Unknown => Ended::Unknown,
        };
        if self.evidence.failure.is_none() {
            self.evidence.failure = verdict::killed_unseen(ended, self.options);
        }
        // Without the process that it is about, a run says nothing.
        let ended = match self.progress {
            Progress::Awaited => Ended::Unknown,
            // It was about to fail.
            _ if self.evidence.missed && self.evidence.failure.is_none() => Ended::Unknown,
            Progress::Followed | Progress::Over => ended,
        };
        if self.follows_others() {
            return self.killed(ended);
        }
        let (tracer, followed) = self.ended(ended);
        if tracer.threads().next().is_some() {
            tracer.let_go(ATTENTION)?;
        }
        Ok(followed)
    }
}
