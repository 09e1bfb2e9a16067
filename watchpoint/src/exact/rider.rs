//! Watching from inside a run: exact mode as a tracker of [`tracee::run`], whose loop has the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use tracee::process::ModuleMap;
use tracee::ptrace::{End, Launched, Resume, SigInfo, Stop, Tracer};
use tracee::run::{Ended, Handled, TrackError, Tracker};
use tracee::{Pid, Tid};

use super::core::Core;
use super::engine::BATCH;
use super::launched::{contents, lay_out};
use super::owner::{Outlet, Owner as _, PerfOwner};
use crate::arms::Arms;
use crate::error::WatchError;
use crate::hit::Mode;
use crate::watcher::{Event, WatchSpec, Watcher};

/// How many batches wait for their reader. Then the process waits too: no hit is lost.
const BATCHES: usize = 256;
const TICK: Duration = Duration::from_millis(20);

/// Rides along in a run and watches its locations. What it sees is read from the [`Passenger`], by another thread
/// than the run's.
pub struct Rider {
    specs: Vec<WatchSpec>,
    core: Option<Core<Launched, PerfOwner>>,
    sender: SyncSender<Vec<Event>>,
    pid: Arc<AtomicU32>,
}

/// The other end of a [`Rider`], for [`crate::session::Session::over`].
pub struct Passenger {
    events: Receiver<Vec<Event>>,
    pid: Arc<AtomicU32>,
}

/// A rider for these locations, and who gets to know what it sees.
#[must_use]
pub fn rider(specs: Vec<WatchSpec>) -> (Rider, Passenger) {
    let (sender, events) = sync_channel(BATCHES);
    let pid = Arc::new(AtomicU32::new(0));
    let rider = Rider {
        specs,
        core: None,
        sender,
        pid: Arc::clone(&pid),
    };
    (rider, Passenger { events, pid })
}

impl Rider {
    fn start(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), WatchError> {
        let pid = tracer.pid();
        self.pid.store(pid.0, Ordering::Release);
        let modules = ModuleMap::of(pid)?;
        let (table, placed) = lay_out(&self.specs, &modules)?;
        let placed = contents(pid, placed);
        let mut owner = PerfOwner {
            arms: Arms::new(table.wanted()),
            outlet: Outlet::Stops,
        };
        owner.arm_first(tracer, pid.first_thread())?;
        let mut core = Core::new(owner, table, self.specs.clone(), modules);
        core.begin(tracer, &placed)?;
        self.core = Some(core);
        Ok(())
    }

    fn send(&mut self) {
        let events = self.core.as_mut().map(Core::take_events).unwrap_or_default();
        if !events.is_empty() {
            // Nobody reads any more: the run goes on.
            let _unread = self.sender.send(events);
        }
    }
}

impl Tracker for Rider {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        let first = tracer.pid().first_thread();
        match &mut self.core {
            Some(core) => core.exec(tracer, first)?,
            None => self.start(tracer)?,
        }
        self.send();
        Ok(())
    }

    fn thread_started(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        if let Some(core) = &mut self.core {
            core.new_thread(tracer, tid)?;
            core.resuming(tid);
        }
        Ok(())
    }

    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        let Some(core) = &mut self.core else {
            return Ok(Handled::Passed);
        };
        let how = core.signal(tracer, stop.tid, info)?;
        core.resuming(stop.tid);
        if core.events().len() >= BATCH {
            core.busy();
            self.send();
        }
        Ok(match how {
            Resume::Suppress => Handled::Taken,
            Resume::Deliver => Handled::Passed,
        })
    }

    fn tick(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        if let Some(core) = &mut self.core {
            core.forget_all_but(tracer);
            core.busy();
        }
        self.send();
        Ok(())
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn ended(&mut self, ended: Ended) {
        if let Some(core) = &mut self.core {
            core.tell_counts();
        }
        self.send();
        let end = match ended {
            Ended::Exited(status) => End::Exited(status),
            Ended::Killed { signal, core_dumped } => End::Killed { signal, core_dumped },
            _ => End::Unknown,
        };
        let _unread = self.sender.send(vec![Event::Ended(end)]);
    }
}

impl Watcher for Passenger {
    fn mode(&self) -> Mode {
        Mode::Exact
    }

    fn pid(&self) -> Pid {
        Pid(self.pid.load(Ordering::Acquire))
    }

    fn next(&mut self, timeout: Duration) -> Result<Vec<Event>, WatchError> {
        match self.events.recv_timeout(timeout) {
            Ok(events) => Ok(events),
            Err(RecvTimeoutError::Timeout) => Ok(Vec::new()),
            // A run that came to nothing says so itself.
            Err(RecvTimeoutError::Disconnected) => Ok(vec![Event::Ended(End::Unknown)]),
        }
    }

    /// The run has the process, and leaves it when it likes.
    fn stop(&mut self) -> Result<Vec<Event>, WatchError> {
        let mut rest = Vec::new();
        loop {
            match self.events.try_recv() {
                Ok(events) => rest.extend(events),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(rest),
            }
        }
    }
}
