//! Which of a command's processes is looked at.
//!
//! A command may be a script that starts a server and its clients: what fails is one of the programs that it runs. Process
//! numbers differ from run to run; that a process is the second one to run a certain file does not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::follow::{Follow, RunError};
use super::panics::Panics;
use crate::ids::Pid;
use crate::process::Process;

/// How long a command goes on after one of its processes failed: to clean up, but not to wait for who is gone.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A process of a command, as it is found in every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The file that it runs.
    pub executable: PathBuf,
    /// How many processes before it ran that file.
    pub number: usize,
}

/// The processes of a run by the files that they ran, in order.
#[derive(Debug, Default)]
pub(super) struct Processes {
    by_file: BTreeMap<PathBuf, Vec<Pid>>,
    /// The file that was launched.
    launched: Option<PathBuf>,
}

/// How far the process that is looked at has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is still to be started.
    Awaited,
    /// Trackers are with it.
    Followed,
    /// It is gone, while the command goes on.
    Over,
}

impl Processes {
    /// Takes in that a process runs its file from now on.
    fn runs(&mut self, pid: Pid) -> Option<Subject> {
        // One that was killed meanwhile runs nothing.
        let executable = Process::new(pid).executable().ok()?;
        self.launched.get_or_insert_with(|| executable.clone());
        let before = self.by_file.entry(executable.clone()).or_default();
        let number = before.len();
        before.push(pid);
        Some(Subject { executable, number })
    }

    /// What a process is, if it is not the launched one or runs another file by now, as scripts end with.
    pub(super) fn find_other(&self, pid: Pid, launched: Pid) -> Option<Subject> {
        let is_other = |found: &Subject| pid != launched || Some(&found.executable) != self.launched.as_ref();
        self.find(pid).filter(is_other)
    }

    /// What a process is, by the file that it ran last.
    pub(super) fn find(&self, pid: Pid) -> Option<Subject> {
        let executable = Process::new(pid).executable().ok();
        let ran = |(path, pids): (&PathBuf, &Vec<Pid>)| {
            let number = pids.iter().rposition(|other| *other == pid)?;
            let is_last = executable.as_ref().is_none_or(|last| last == path);
            is_last.then(|| Subject {
                executable: path.clone(),
                number,
            })
        };
        self.by_file.iter().find_map(ran)
    }
}

impl Follow<'_, '_, '_> {
    /// Whether crashes of other processes than the launched one are of interest.
    pub(super) fn follows_others(&self) -> bool {
        self.options.child_crashes || self.options.subject.is_some()
    }

    /// Whether trackers are with a process.
    pub(super) fn is_followed(&self, pid: Pid) -> bool {
        self.progress == Progress::Followed && pid == self.tracer.pid()
    }

    /// A process, whose first thread is stopped, begins to run a file, or goes on running its parent's.
    pub(super) fn runs(&mut self, pid: Pid) -> Result<(), RunError> {
        let is_it = match &self.options.subject {
            None => pid == self.launched,
            Some(subject) => {
                let found = self.processes.runs(pid);
                self.progress == Progress::Awaited && found.as_ref() == Some(subject)
            }
        };
        if self.options.subject.is_none() && self.options.child_crashes {
            self.processes.runs(pid);
        }
        if is_it || self.is_followed(pid) {
            self.begin(pid)?;
        }
        Ok(())
    }

    /// Trackers are with this process from now on.
    fn begin(&mut self, pid: Pid) -> Result<(), RunError> {
        self.tracer.look_at(pid);
        self.progress = Progress::Followed;
        self.caught = None;
        if self.looks_at_exit {
            self.tracer.tell_end(pid.first_thread())?;
            self.panics = Panics::of(pid, self.options.modules);
        }
        let start = Instant::now();
        self.each_tracker(|tracker, tracer| tracker.started(tracer))?;
        // What trackers need to begin is not the program's time.
        self.deadline = self
            .deadline
            .and_then(|deadline| deadline.checked_add(start.elapsed()));
        Ok(())
    }

    /// A process other than the launched one is gone.
    pub(super) fn other_ended(&mut self, pid: Pid) {
        if self.is_followed(pid) {
            self.progress = Progress::Over;
        }
        // Whoever waits for it to answer waits in vain.
        if self.follows_others() && pid == self.tracer.pid() && self.evidence.failure.is_some() {
            let end = Instant::now().checked_add(AFTER_FAILURE);
            self.deadline = self.deadline.min(end).or(end);
        }
    }

    /// The process that a command hangs in: the one that is looked at, or that with most threads, for a command that has
    /// others do its work waits for them.
    pub(super) fn hanging(&self) -> Option<Pid> {
        let pid = self.tracer.pid();
        if self.options.subject.is_some() {
            return self.is_followed(pid).then_some(pid);
        }
        if !self.options.child_crashes {
            return Some(pid);
        }
        let mut threads: BTreeMap<Pid, usize> = BTreeMap::new();
        for (pid, _) in self.tracer.threads() {
            *threads.entry(pid).or_default() += 1;
        }
        let launched = self.processes.find(self.launched);
        let is_other = |pid: Pid| {
            let own = launched.as_ref().map(|own| &own.executable);
            self.processes.find(pid).map(|found| found.executable).as_ref() != own
        };
        threads
            .into_iter()
            .max_by_key(|&(pid, count)| (is_other(pid), count, std::cmp::Reverse(pid)))
            .map(|(pid, _)| pid)
    }
}
