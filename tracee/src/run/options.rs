//! How a program is to be run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use failure::FailOn;
use failure::image::{Limits, ModuleFiles};

use super::subject::Subject;

/// Where an output of the program goes. A program may behave differently when its output is a pipe (no
/// colours, another buffering), so that only [`Output::Inherit`] leaves it as it would be without us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Output {
    /// Where it is launched to: where ours goes, or what [`Launch`](crate::ptrace::Launch) says. Without a
    /// look at it.
    #[default]
    Inherit,
    /// Through us to where ours goes; the last part of it is kept.
    Tee,
    /// To us alone; the last part of it is kept.
    Keep,
    /// Nowhere.
    Discard,
}

/// How a program is to be run.
#[derive(Clone)]
pub struct RunOptions<'o> {
    /// A run that takes longer is a hang.
    pub time_limit: Option<Duration>,
    /// So is one whose threads all wait for one another, as soon as that is certain.
    pub deadlocks: bool,
    /// What counts as a failure.
    pub fail_on: &'o FailOn,
    /// Standard output. Where `fail_on` has a regular expression for it, `Inherit` becomes `Tee` and `Discard`
    /// becomes `Keep`.
    pub stdout: Output,
    /// Standard error, likewise.
    pub stderr: Output,
    /// A crash of a process that the program forked is a failure of the run. It takes a
    /// [`Launch`](crate::ptrace::Launch) that follows forks.
    pub child_crashes: bool,
    /// The process that the run is about, if it is not the launched one: trackers are told of it alone, and only its
    /// failures count. It takes a launch that follows forks, too.
    pub subject: Option<Subject>,
    /// The files of the modules, for their symbols and call-frame information.
    pub modules: &'o (dyn ModuleFiles + Sync),
    /// How much of the stacks to take.
    pub limits: Limits,
    /// Ends the run when it is set.
    pub cancel: Option<Cancel>,
}

/// Ends runs from another thread: every clone is the same switch.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the runs that have it, and those that are started with it from now on. Safe in a signal handler.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// The switch itself, for a signal handler.
    #[must_use]
    pub fn switch(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
