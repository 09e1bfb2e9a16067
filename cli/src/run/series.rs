//! Runs of a program, one after the other or several at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Scope;

use agent::{TrackError, Tracked, Tracking};
use diagnosis::record::RunEnd;
use failure::FailOn;
use failure::image::Limits;
use tracee::HostModules;
use tracee::run::{Cancel, Output, RunOptions, Subject};
use watchpoint::code::CodeFiles;

use super::command::CommandLine;
use super::limits::Patience;

/// What all runs have in common.
pub struct Common {
    pub command: CommandLine,
    pub fail_on: FailOn,
    pub patience: Patience,
    pub output: Output,
    pub cancel: Cancel,
    pub modules: HostModules,
    /// The process that failed, if it is not the launched one; as soon as that is known.
    pub subject: OnceLock<Subject>,
}

/// What came of a run.
pub type Finished = Result<Box<Tracked>, TrackError>;

/// Workers that run the program, each one run at a time.
pub struct Series {
    jobs: Sender<Tracking>,
    finished: Receiver<Finished>,
}

impl Series {
    /// Starts workers, which end when the series is dropped.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        common: &'env Common,
        waiting: &'env Mutex<Option<Receiver<Tracking>>>,
        workers: usize,
    ) -> Self {
        let (jobs, queue) = channel();
        *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
        let (done, finished) = channel();
        for _ in 0..workers {
            let done = done.clone();
            scope.spawn(move || work(common, waiting, &done));
        }
        Self { jobs, finished }
    }

    /// Starts a run as soon as a worker is free.
    pub fn submit(&self, tracking: Tracking) {
        // Workers go when the series does, not before.
        let _gone = self.jobs.send(tracking);
    }

    /// The next run that finishes.
    pub fn next(&self) -> Option<Finished> {
        self.finished.recv().ok()
    }
}

fn work(common: &Common, waiting: &Mutex<Option<Receiver<Tracking>>>, done: &Sender<Finished>) {
    let files = CodeFiles::default();
    loop {
        let next = {
            let queue = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            queue.as_ref().and_then(|queue| queue.recv().ok())
        };
        let Some(tracking) = next else { return };
        let options = RunOptions {
            time_limit: Some(common.patience.now()),
            deadlocks: true,
            fail_on: &common.fail_on,
            stdout: common.output,
            stderr: common.output,
            child_crashes: common.command.follows() && common.subject.get().is_none(),
            subject: common.subject.get().cloned(),
            modules: &common.modules,
            limits: Limits::default(),
            cancel: Some(common.cancel.clone()),
        };
        let finished = common
            .command
            .launch()
            .and_then(|launch| agent::tracked::track(launch, &options, tracking, &files));
        if let Ok(tracked) = &finished
            && tracked.record.end == RunEnd::Succeeded
        {
            common.patience.succeeded(tracked.outcome.elapsed);
        }
        if done.send(finished.map(Box::new)).is_err() {
            return;
        }
    }
}
