//! The tracing loop.

use std::io;
use std::time::{Duration, Instant};

use failure::fail_on::Stream;
use failure::report::{FrameOrigin, Kind, Report};
use thiserror::Error;

use super::capture::{self, Capture};
use super::fatal::{self, Effect};
use super::options::{Cancel, RunOptions};
use super::outcome::{Ended, Outcome};
use super::stacks;
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
    let pid = tracer.pid();
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
    let (ended, evidence) = Follow {
        tracer,
        options,
        trackers,
        deadline: options.time_limit.and_then(|limit| start.checked_add(limit)),
        evidence: Evidence::default(),
        caught: None,
        dying: None,
    }
    .finish()?;
    let elapsed = start.elapsed();
    for tracker in trackers.iter_mut() {
        tracker.ended(ended);
    }
    let (out, err) = (out.finish(), err.finish());
    let failure = verdict::failure(evidence, ended, &out, &err, options);
    Ok(Outcome {
        ended,
        failure: failure.map(Box::new),
        pid,
        elapsed,
        stdout: out.captured,
        stderr: err.captured,
    })
}

/// A fault that the program has a handler for: it may end the program, or go on.
struct Caught {
    tid: Tid,
    report: Report,
}

impl Caught {
    /// A handler that raised the signal once more and returned: the thread is where the fault was, but only
    /// the first signal told the address.
    fn complete(self, report: &mut Report) {
        let place = |report: &Report| {
            let frame = report.threads.first()?.frames.first()?;
            Some((report.threads.first()?.id, frame.address, report.signal))
        };
        if place(report) == place(&self.report) {
            report.fault_address = report.fault_address.or(self.report.fault_address);
        }
    }
}

struct Follow<'f, 'o, 't> {
    tracer: Tracer<Launched>,
    options: &'f RunOptions<'o>,
    trackers: &'f mut [&'t mut dyn Tracker],
    deadline: Option<Instant>,
    evidence: Evidence,
    caught: Option<Caught>,
    /// Since when everybody is stopped while a fatal signal is delivered: the kernel kills them where they
    /// are, so that a core shows what we saw.
    dying: Option<Instant>,
}

impl Follow<'_, '_, '_> {
    fn finish(mut self) -> Result<(Ended, Evidence), RunError> {
        let first = self.tracer.pid().first_thread();
        let fail_on = self.options.fail_on;
        let looks_at_exit = fail_on.asks_for_exit()
            || [Stream::Stdout, Stream::Stderr]
                .into_iter()
                .any(|stream| fail_on.patterns(stream).next().is_some());
        if looks_at_exit {
            self.tracer.tell_end(first)?;
        }
        self.each_tracker(|tracker, tracer| tracker.started(tracer))?;
        self.tracer.resume(first, Resume::Deliver)?;
        let period = self.trackers.iter().filter_map(|tracker| tracker.period()).min();
        let mut next_tick = Instant::now();
        loop {
            let now = Instant::now();
            if self.options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                return self.killed(Ended::Cancelled);
            }
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                self.hang()?;
                return self.killed(Ended::TimeLimit);
            }
            if self.dying.is_some_and(|since| now - since >= ATTENTION) {
                self.dying = None;
                self.tracer.resume_interrupted()?;
            }
            if let Some(period) = period
                && now >= next_tick
            {
                next_tick = now + period;
                self.each_tracker(|tracker, tracer| tracker.tick(tracer))?;
            }
            let until_deadline = self
                .deadline
                .map_or(ATTENTION, |deadline| deadline.saturating_duration_since(now));
            let until_tick = period.map_or(ATTENTION, |_| next_tick.saturating_duration_since(now));
            let limit = ATTENTION.min(until_deadline).min(until_tick);
            let stop = match self.tracer.wait(limit) {
                Ok(Some(stop)) => stop,
                Ok(None) => continue,
                Err(TraceError::NothingLeft) => return Ok((Ended::Unknown, self.evidence)),
                Err(error) => return Err(error.into()),
            };
            if let What::ProcessExited(end) = stop.what {
                if stop.pid == self.tracer.pid() {
                    return self.over(end);
                }
                continue;
            }
            self.stopped(&stop)?;
        }
    }

    fn each_tracker(
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
            What::Signal(info) => {
                if self.is_taken(stop, &info)? {
                    how = Resume::Suppress;
                } else {
                    self.signal(stop, &info)?;
                }
            }
            What::NewThread { .. } => {
                self.each_tracker(|tracker, tracer| tracker.thread_started(tracer, stop.tid))?;
            }
            What::Exec { .. } if stop.pid == self.tracer.pid() => {
                self.caught = None;
                self.each_tracker(|tracker, tracer| tracker.started(tracer))?;
            }
            What::Exiting => self.exiting(stop),
            What::ThreadExited | What::ProcessExited(_) => return Ok(()),
            What::Exec { .. } | What::NewProcess { .. } | What::Step | What::GroupStop(_) => {}
        }
        Ok(self.tracer.resume(stop.tid, how)?)
    }

    fn is_taken(&mut self, stop: &Stop, info: &SigInfo) -> Result<bool, RunError> {
        for tracker in &mut *self.trackers {
            let handled = tracker
                .signal(&mut self.tracer, stop, info)
                .map_err(RunError::Tracker)?;
            if handled == Handled::Taken {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A signal that the program is about to get.
    fn signal(&mut self, stop: &Stop, info: &SigInfo) -> Result<(), RunError> {
        let of_interest = stop.pid == self.tracer.pid() || self.options.child_crashes;
        if !of_interest || self.evidence.failure.is_some() {
            return Ok(());
        }
        match fatal::effect(stop.pid, stop.tid, info) {
            Effect::None => Ok(()),
            Effect::Caught => self.caught(stop, info),
            Effect::Fatal => {
                let ours: Vec<Pid> = self.tracer.threads().map(|(pid, _)| pid).collect();
                let from_outside = fatal::is_from_outside(info, |sender| ours.contains(&sender));
                if !self.options.fail_on.signal(info.signal(), from_outside) {
                    return Ok(());
                }
                self.take(stop.pid, Some(stop.tid), Some(info))?;
                self.dying = Some(Instant::now());
                Ok(())
            }
        }
    }

    /// Stops everybody and takes the report of the failure.
    fn take(&mut self, pid: Pid, failing: Option<Tid>, info: Option<&SigInfo>) -> Result<(), RunError> {
        let mut report = stacks::of_all(&mut self.tracer, pid, failing, info, self.options)?;
        if pid != self.tracer.pid() {
            let note = format!("it was a child of the program that failed: process {pid}");
            report.notes.push(note);
        }
        if let Some(caught) = self.caught.take() {
            caught.complete(&mut report);
        }
        self.each_tracker(|tracker, tracer| tracker.failing(tracer, &report))?;
        self.evidence.failure = Some(report);
        Ok(())
    }

    /// A fault with a handler. Interrupting the others would show if the program goes on, so they run; if the
    /// handler raises the signal again, or aborts, that is seen by itself. Only when it exits is this stack
    /// the best there is.
    fn caught(&mut self, stop: &Stop, info: &SigInfo) -> Result<(), RunError> {
        if !self.options.fail_on.signal(info.signal(), false) {
            return Ok(());
        }
        // A thread that was killed meanwhile has none.
        if let Ok(report) = stacks::of_one(&self.tracer, stop.pid, stop.tid, Some(info), self.options) {
            self.caught = Some(Caught {
                tid: stop.tid,
                report,
            });
        }
        Ok(self.tracer.tell_end(stop.tid)?)
    }

    /// A thread is about to end. If it is the one that ends the process, its stack tells why.
    fn exiting(&mut self, stop: &Stop) {
        const EXIT: u64 = libc::SYS_exit as u64;
        const EXIT_GROUP: u64 = libc::SYS_exit_group as u64;
        if stop.pid != self.tracer.pid() || self.evidence.failure.is_some() {
            return;
        }
        let Ok(registers) = self.tracer.registers(stop.tid) else {
            return;
        };
        let threads = self.tracer.threads().filter(|&(pid, _)| pid == stop.pid);
        let ends_the_process =
            registers.orig_rax == EXIT_GROUP || (registers.orig_rax == EXIT && threads.count() == 1);
        if !ends_the_process {
            return;
        }
        let Ok(report) = stacks::of_one(&self.tracer, stop.pid, stop.tid, None, self.options) else {
            return;
        };
        let in_handler = report.threads.first().is_some_and(|thread| {
            let mut frames = thread.frames.iter();
            frames.any(|frame| frame.origin == FrameOrigin::SignalFrame)
        });
        match self.caught.take() {
            Some(mut caught) if in_handler && caught.tid == stop.tid => {
                let note = "a handler of the program took the signal and ended the process".to_owned();
                caught.report.notes.push(note);
                self.evidence.failure = Some(caught.report);
            }
            _ => self.evidence.at_exit = Some(report),
        }
    }

    /// The time is over.
    fn hang(&mut self) -> Result<(), RunError> {
        if !self.options.fail_on.hang() || self.evidence.failure.is_some() {
            return Ok(());
        }
        let pid = self.tracer.pid();
        self.take(pid, None, None)?;
        if let Some(report) = &mut self.evidence.failure {
            report.kind = Kind::Hang;
            let limit = self.options.time_limit.unwrap_or_default();
            let note = format!("it did not end within {} s", limit.as_secs_f64());
            report.notes.push(note);
        }
        Ok(())
    }

    /// Kills what is left. The program may have ended in time after all, while its stacks were taken.
    fn killed(self, ended: Ended) -> Result<(Ended, Evidence), RunError> {
        self.tracer.kill()?;
        Ok((ended, self.evidence))
    }

    /// The program is over. Processes that it left behind go their way.
    fn over(mut self, end: End) -> Result<(Ended, Evidence), RunError> {
        let ended = match end {
            End::Exited(status) => Ended::Exited(status),
            End::Killed { signal, core_dumped } => Ended::Killed { signal, core_dumped },
            End::Unknown => Ended::Unknown,
        };
        if self.tracer.threads().next().is_some() {
            self.tracer.let_go(ATTENTION)?;
        }
        if self.evidence.failure.is_none() {
            self.evidence.failure = verdict::killed_unseen(ended, self.options);
        }
        Ok((ended, self.evidence))
    }
}
