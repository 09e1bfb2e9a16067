//! Which mode, and why.

use std::ffi::OsString;
use std::path::PathBuf;

use tracee::Pid;
use tracee::perf::PerfError;
use tracee::ptrace::{Launch, Pipes};

use super::Request;
use crate::error::WatchError;
use crate::exact::launched::LaunchedWatcher;
use crate::hit::Mode;
use crate::keeper::client::KeptWatcher;
use crate::observe::{ObserveWatcher, Values};
use crate::watcher::{ModeRequest, Target, WatchSpec, Watcher};

/// How to start the keeper of an attached process: a program that calls [`crate::keeper::serve`] when it is started
/// with these arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

pub(super) struct Selected {
    pub(super) watcher: Box<dyn Watcher>,
    pub(super) pipes: Pipes,
    pub(super) reason: Option<String>,
}

pub(super) fn start(request: Request) -> Result<Selected, WatchError> {
    let Request {
        target,
        locations,
        mode,
        keeper,
    } = request;
    match (target, mode) {
        (Target::Launch(launch), ModeRequest::Only(mode)) => launch_in(launch, locations, mode, None),
        (Target::Launch(launch), ModeRequest::Auto) => launch_best(launch, locations),
        (Target::Process(pid), ModeRequest::Auto | ModeRequest::Only(Mode::Observe)) => {
            observe(pid, locations)
        }
        (Target::Process(pid), ModeRequest::Only(Mode::Exact)) => {
            let keeper = keeper.ok_or(WatchError::NoKeeper(pid))?;
            Ok(Selected {
                watcher: Box::new(KeptWatcher::attach(&keeper, pid, locations)?),
                pipes: Pipes::default(),
                reason: None,
            })
        }
        (Target::Process(pid), ModeRequest::Only(Mode::Compat)) => Err(WatchError::NotForAttached {
            mode: Mode::Compat,
            pid,
        }),
    }
}

fn launch_in(
    launch: Launch,
    locations: Vec<WatchSpec>,
    mode: Mode,
    reason: Option<String>,
) -> Result<Selected, WatchError> {
    if mode == Mode::Observe {
        let (watcher, pipes) = ObserveWatcher::launch(launch, locations, Values::All)?;
        let reason = reason.or(limits(&watcher));
        return Ok(Selected {
            watcher: Box::new(watcher),
            pipes,
            reason,
        });
    }
    let (watcher, pipes) = LaunchedWatcher::start(launch, locations, mode)?;
    Ok(Selected {
        watcher: Box::new(watcher),
        pipes,
        reason,
    })
}

/// Exact, unless the kernel has no such events, or does not give them to us.
fn launch_best(launch: Launch, locations: Vec<WatchSpec>) -> Result<Selected, WatchError> {
    let why = match can_stop_at_hits() {
        Ok(()) => return launch_in(launch, locations, Mode::Exact, None),
        Err(why) => why,
    };
    let reason = format!("compat mode, because {why}");
    launch_in(launch, locations, Mode::Compat, Some(reason))
}

/// Tries a breakpoint of the kind that exact mode needs, on ourselves and never hit.
fn can_stop_at_hits() -> Result<(), PerfError> {
    use tracee::perf::{Breakpoint, Delivery, Follow, Range, Start, Trigger};
    let nowhere = Trigger::Write(Range::new(program::RunAddr(0x1000), 1)?);
    let delivery = Delivery::stop(0);
    let tid = tracee::Tid::this();
    Breakpoint::open(tid, nowhere, delivery, Follow::Threads, Start::Disabled).map(|_| ())
}

fn observe(pid: Pid, locations: Vec<WatchSpec>) -> Result<Selected, WatchError> {
    let watcher = ObserveWatcher::attach(pid, locations, Values::All)?;
    let reason = limits(&watcher);
    Ok(Selected {
        watcher: Box::new(watcher),
        pipes: Pipes::default(),
        reason,
    })
}

fn limits(watcher: &ObserveWatcher) -> Option<String> {
    (!watcher.sees_memory()).then(|| {
        "values come from registers alone: reading memory at a hit takes CAP_BPF and CAP_PERFMON (run as root)"
            .to_owned()
    })
}
