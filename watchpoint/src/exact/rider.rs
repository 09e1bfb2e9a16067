//! Watching from inside a run: a tracker of [`tracee::run`], whose loop has the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use failure::report::{Report as FailureReport, Signal};
use tracee::process::ModuleMap;
use tracee::ptrace::{End, Launched, Resume, SigInfo, Stop, Tracer};
use tracee::run::{Ended, Handled, TrackError, Tracker};
use tracee::{Pid, Tid};

use super::core::Core;
use super::engine::BATCH;
use super::launched::{Launchable, contents, lay_out};
use super::owner::{Outlet, PerfOwner, PtraceOwner};
use super::times::Times;
use crate::error::WatchError;
use crate::hit::Mode;
use crate::observe::{ObserveWatcher, Source, Values};
use crate::watcher::{Event, WatchSpec, Watcher};

/// How many batches wait for their reader. Then the process waits too: no hit is lost.
const BATCHES: usize = 256;
const TICK: Duration = Duration::from_millis(20);
/// How long the reader of a ring gets to learn what was armed first.
const PATIENCE: Duration = Duration::from_secs(2);

/// Rides along in a run and watches its locations. What it sees is read from the other end, by another thread than
/// the run's.
pub(crate) struct Rider<O> {
    specs: Vec<WatchSpec>,
    own_frames: bool,
    outlet: Outlet,
    core: Option<Core<Launched, O>>,
    /// Threads that wait until nobody is on the way to a stop.
    kept: Vec<Tid>,
    sender: SyncSender<Vec<Event>>,
    /// Hits go to a ring, and only what else happens goes through us.
    observes: bool,
    /// Tells that the reader knows what to read at a hit: in observe mode the program must not run before.
    ready: Option<Receiver<()>>,
    pid: Arc<AtomicU32>,
    /// The program fails, and what its threads were about to tell is known.
    failed: bool,
}

/// The other end of a [`Rider`].
pub(crate) struct Passenger {
    mode: Mode,
    events: Receiver<Vec<Event>>,
    ready: Option<SyncSender<()>>,
    pid: Arc<AtomicU32>,
}

/// Who rides along in the run, and who tells what it sees.
pub type Riding = (Box<dyn Tracker + Send>, Box<dyn Watcher>);

/// A rider for these locations, and who gets to know what it sees, for [`crate::session::Session::over`].
///
/// # Errors
/// When memory cannot be watched in this mode here.
pub fn rider(specs: Vec<WatchSpec>, mode: Mode, own_frames: bool) -> Result<Riding, WatchError> {
    Ok(match mode {
        Mode::Exact => {
            let (rider, passenger) =
                pair::<PerfOwner>(specs, mode, own_frames, Outlet::Stops(Times::noted()));
            (Box::new(rider), Box::new(passenger))
        }
        Mode::Compat => {
            let (rider, passenger) =
                pair::<PtraceOwner>(specs, mode, own_frames, Outlet::Stops(Times::default()));
            (Box::new(rider), Box::new(passenger))
        }
        Mode::Observe => {
            let source = Source::open(&specs, Values::All)?;
            let (rider, passenger) = pair::<PerfOwner>(specs, mode, own_frames, source.outlet());
            (
                Box::new(rider),
                Box::new(ObserveWatcher::riding(source, passenger)),
            )
        }
    })
}

fn pair<O: Launchable>(
    specs: Vec<WatchSpec>,
    mode: Mode,
    own_frames: bool,
    outlet: Outlet,
) -> (Rider<O>, Passenger) {
    let (sender, events) = sync_channel(BATCHES);
    let (known, ready) = sync_channel(1);
    let pid = Arc::new(AtomicU32::new(0));
    let observes = mode == Mode::Observe;
    let rider = Rider {
        specs,
        own_frames,
        outlet,
        core: None,
        kept: Vec::new(),
        sender,
        observes,
        ready: observes.then_some(ready),
        pid: Arc::clone(&pid),
        failed: false,
    };
    let passenger = Passenger {
        mode,
        events,
        ready: observes.then_some(known),
        pid,
    };
    (rider, passenger)
}

impl<O: Launchable> Rider<O> {
    fn start(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), WatchError> {
        let pid = tracer.pid();
        self.pid.store(pid.0, Ordering::Release);
        if self.ready.is_some() {
            // Nobody stops at a hit: what was mapped then is looked at when the process ends.
            tracer.tell_end(pid.first_thread())?;
        }
        let modules = ModuleMap::of(pid)?;
        let (table, placed) = lay_out(&self.specs, &modules)?;
        let placed = contents(pid, placed);
        let mut owner = O::make(table.wanted(), self.outlet.clone());
        owner.arm_first(tracer, pid.first_thread())?;
        let core = Core::new(owner, table, self.specs.clone(), modules);
        let mut core = core.with_ceiling().with_own_frames(self.own_frames);
        core.link_probes();
        core.begin(tracer, &placed)?;
        self.core = Some(core);
        self.send();
        if let Some(ready) = self.ready.take() {
            // A reader that is gone reads nothing.
            let _gone = ready.recv_timeout(PATIENCE);
        }
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

impl<O: Launchable> Tracker for Rider<O> {
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
        if self.failed && info.perf().is_some() {
            return Ok(Handled::Taken);
        }
        let how = core.signal(tracer, stop.tid, info)?;
        let keeps = how == Resume::Suppress && core.keeps(tracer);
        core.resuming(stop.tid);
        if core.events().len() >= BATCH {
            core.busy();
            self.send();
        } else if self.observes {
            // Hits do not come this way: what was armed has to be known before the thread goes on and makes one.
            self.send();
        }
        if keeps {
            self.kept.push(stop.tid);
        }
        Ok(match how {
            Resume::Suppress if keeps => Handled::Kept,
            Resume::Suppress => Handled::Taken,
            Resume::Deliver => Handled::Passed,
        })
    }

    fn let_go(&mut self, tracer: &Tracer<Launched>) -> Result<Vec<Tid>, TrackError> {
        if let Some(core) = &mut self.core {
            core.look(tracer);
            if core.holds() {
                return Ok(Vec::new());
            }
            self.kept.iter().for_each(|tid| core.resuming(*tid));
        }
        Ok(std::mem::take(&mut self.kept))
    }

    fn tick(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        if let Some(core) = &mut self.core {
            core.forget_all_but(tracer);
            core.look(tracer);
            core.busy();
        }
        self.send();
        Ok(())
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    /// Accesses whose stop was not told yet: the threads are killed before it could be. Without them every run that
    /// fails while others touch what is watched would be incomplete.
    fn failing(&mut self, tracer: &mut Tracer<Launched>, report: &FailureReport) -> Result<(), TrackError> {
        self.failed = true;
        let Some(core) = &mut self.core else {
            return Ok(());
        };
        let told = tracer.undelivered();
        for (tid, info) in told.iter().filter(|(_, info)| info.perf().is_some()) {
            core.signal(tracer, *tid, info)?;
        }
        if let Some(tid) = dies_of_a_number(report) {
            core.died(tracer, tid);
        }
        core.wake();
        Ok(())
    }

    fn ended(&mut self, ended: Ended) {
        if let Some(core) = &mut self.core {
            core.tell_unwatched();
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

/// The thread that failed, if it did by what it read and not by where: the access that a division makes is not reported where it traps, while
/// one that leads nowhere is none.
fn dies_of_a_number(report: &FailureReport) -> Option<Tid> {
    const SIGFPE: Signal = Signal(8);
    let thread = report.threads.get(report.failing);
    let thread = thread.filter(|_| report.signal == Some(SIGFPE));
    Some(Tid(u32::try_from(thread?.id?).ok()?))
}

impl Passenger {
    /// All events that are there; the end, when the run is over.
    pub(crate) fn drain(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        loop {
            match self.events.try_recv() {
                Ok(events) => all.extend(events),
                Err(TryRecvError::Empty) => return all,
                Err(TryRecvError::Disconnected) => {
                    if !all.iter().any(|event| matches!(event, Event::Ended(_))) {
                        all.push(Event::Ended(End::Unknown));
                    }
                    return all;
                }
            }
        }
    }

    /// Lets the program run: whoever reads its hits knows what was armed first.
    pub(crate) fn go(&mut self) {
        if let Some(ready) = self.ready.take() {
            let _its_run_tells_why = ready.send(());
        }
    }
}

impl Watcher for Passenger {
    fn mode(&self) -> Mode {
        self.mode
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
