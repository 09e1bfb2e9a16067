//! The loop on a thread of ours, for a process that we start. It dies with us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tracee::process::{Memory, ModuleMap};
use tracee::ptrace::{Launch, Launched, Pipes, Tracer};
use tracee::{Pid, Tid};

use super::core::Core;
use super::engine::{Engine, Over, Sink};
use super::owner::{Outlet, Owner, PerfOwner, PtraceOwner};
use super::times::Times;
use crate::arms::{Arms, Wanted};
use crate::error::WatchError;
use crate::hit::Mode;
use crate::location::{Location, LocationError, REGISTERS};
use crate::pointers;
use crate::table::Table;
use crate::watcher::{Address, Event, WatchSpec, Watcher};

/// How many batches wait for their reader. Then the process waits too: no hit is lost.
const BATCHES: usize = 64;
/// How long threads get to stop when the process is left to itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches a process that we started, in exact or compat mode.
pub struct LaunchedWatcher {
    mode: Mode,
    pid: Pid,
    events: Receiver<Result<Vec<Event>, WatchError>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// What lets the program run.
    go: Option<SyncSender<()>>,
}

impl LaunchedWatcher {
    /// Starts a program and watches it from its first instruction on.
    ///
    /// # Errors
    /// When it cannot be started, or the locations cannot be watched.
    pub fn start(launch: Launch, specs: Vec<WatchSpec>, mode: Mode) -> Result<(Self, Pipes), WatchError> {
        let times = match mode {
            Mode::Exact => Times::noted(),
            Mode::Compat | Mode::Observe => Times::default(),
        };
        let (mut watcher, pipes) = Self::prepare(launch, specs, mode, Outlet::Stops(times))?;
        watcher.go();
        Ok((watcher, pipes))
    }

    /// The same, with the hits of perf events going somewhere else, and only as far as before the program's first
    /// instruction.
    pub(crate) fn prepare(
        launch: Launch,
        specs: Vec<WatchSpec>,
        mode: Mode,
        outlet: Outlet,
    ) -> Result<(Self, Pipes), WatchError> {
        let (sender, events) = sync_channel(BATCHES);
        let (ready, started) = sync_channel(1);
        let (go, gate) = sync_channel(1);
        let over = Arc::new(AtomicBool::new(false));
        let sink = ChannelSink {
            sender,
            over: Arc::clone(&over),
        };
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                let serve = match mode {
                    Mode::Compat => serve::<PtraceOwner>,
                    Mode::Exact | Mode::Observe => serve::<PerfOwner>,
                };
                serve(launch, specs, outlet, sink, &Signals { ready, gate });
            });
        let thread = thread.map_err(WatchError::system("start a thread"))?;
        let (pid, pipes) = started.recv().map_err(|_| ended_early())??;
        let watcher = Self {
            mode,
            pid,
            events,
            over,
            thread: Some(thread),
            go: Some(go),
        };
        Ok((watcher, pipes))
    }
}

impl LaunchedWatcher {
    /// Lets the program run.
    pub(crate) fn go(&mut self) {
        if let Some(go) = self.go.take() {
            let _its_thread_tells_why = go.send(());
        }
    }

    /// All events that are there.
    pub(crate) fn drain(&mut self) -> Result<Vec<Event>, WatchError> {
        let mut all = Vec::new();
        loop {
            match self.events.try_recv() {
                Ok(events) => all.extend(events?),
                Err(TryRecvError::Empty) => return Ok(all),
                Err(TryRecvError::Disconnected) if all.is_empty() => return Err(ended_early()),
                Err(TryRecvError::Disconnected) => return Ok(all),
            }
        }
    }
}

fn ended_early() -> WatchError {
    WatchError::Said("the thread that traces ended early".to_owned())
}

/// Owners that a launched process can have.
pub(crate) trait Launchable: Owner<Launched> + Sized {
    fn make(wanted: Vec<Wanted>, outlet: Outlet) -> Self;
}

impl Launchable for PerfOwner {
    fn make(wanted: Vec<Wanted>, outlet: Outlet) -> Self {
        Self {
            arms: Arms::new(wanted),
            outlet,
        }
    }
}

impl Launchable for PtraceOwner {
    fn make(wanted: Vec<Wanted>, _: Outlet) -> Self {
        Self::new(wanted)
    }
}

/// How the two threads come together at the start.
struct Signals {
    ready: SyncSender<Result<(Pid, Pipes), WatchError>>,
    gate: Receiver<()>,
}

fn serve<O: Launchable>(
    launch: Launch,
    specs: Vec<WatchSpec>,
    outlet: Outlet,
    mut sink: ChannelSink,
    signals: &Signals,
) {
    let (mut engine, pipes) = match prepare::<O>(launch, specs, outlet) {
        Ok(prepared) => prepared,
        Err(error) => {
            let _nobody_waits = signals.ready.send(Err(error));
            return;
        }
    };
    let pid = engine.tracer.pid();
    let begun = engine.core.take_events();
    if !sink.send(begun) || signals.ready.send(Ok((pid, pipes))).is_err() || signals.gate.recv().is_err() {
        return;
    }
    let first = engine
        .tracer
        .resume(pid.first_thread(), tracee::ptrace::Resume::Deliver);
    let result = first
        .map_err(WatchError::from)
        .and_then(|()| engine.run(&mut sink));
    match result {
        Ok(Over::Ended) => {}
        Ok(Over::Told) => {
            engine.core.tell_counts();
            let rest = engine.core.take_events();
            sink.send(rest);
            let Engine { tracer, core, .. } = engine;
            drop(core);
            if let Err(error) = tracer.let_go(PATIENCE) {
                sink.fail(error.into());
            }
        }
        Err(error) => sink.fail(error),
    }
}

fn prepare<O: Launchable>(
    launch: Launch,
    specs: Vec<WatchSpec>,
    outlet: Outlet,
) -> Result<(Engine<Launched, O>, Pipes), WatchError> {
    let (mut tracer, pipes) = Tracer::launch(launch)?;
    let pid = tracer.pid();
    if !matches!(outlet, Outlet::Stops(_)) {
        // Nobody stops at a hit: what was mapped then is looked at when the process ends.
        tracer.tell_end(pid.first_thread())?;
    }
    let modules = ModuleMap::of(pid)?;
    let (table, placed) = lay_out(&specs, &modules)?;
    let placed = contents(pid, placed);
    let mut owner = O::make(table.wanted(), outlet);
    owner.arm_first(&mut tracer, Tid(pid.0))?;
    let mut core = Core::new(owner, table, specs, modules);
    core.begin(&mut tracer, &placed)?;
    Ok((Engine::new(tracer, core), pipes))
}

/// Places in a process, with the numbers of their locations.
pub(crate) type Placed = Vec<(usize, Location)>;

/// What is at some places.
pub(crate) fn contents(pid: Pid, placed: Placed) -> Vec<(usize, Location, Option<Vec<u8>>)> {
    let memory = Memory::of(pid);
    let read = |at: &Location| memory.read(at.addr, at.len as usize);
    let placed = placed.into_iter();
    placed.map(|(location, at)| (location, at, read(&at))).collect()
}

/// Shares the registers out: just those that are needed when all addresses are known, all of them otherwise.
pub(crate) fn lay_out(specs: &[WatchSpec], modules: &ModuleMap) -> Result<(Table, Placed), WatchError> {
    let found = specs.iter().enumerate();
    let found: Placed = found
        .filter_map(|(location, spec)| Some((location, spec.resolve(modules)?)))
        .collect();
    let mut needed = pointers::needed(&specs.iter().collect::<Vec<_>>());
    for (_, at) in &found {
        needed += at.slots()?.len();
    }
    if needed > REGISTERS {
        return Err(LocationError::TooMany { needed }.into());
    }
    let all_known = found.len() == specs.len();
    let registers = if all_known { needed.max(1) } else { REGISTERS };
    let mut table = Table::new(registers);
    for (location, spec) in specs.iter().enumerate() {
        if matches!(spec.address, Address::Probed(_)) {
            table.hold(location, spec.len.div_ceil(8) as usize, spec.places as usize);
        }
    }
    for (location, at) in &found {
        table.place(*location, *at)?;
    }
    // Nothing else can bring these into reach.
    let lost = specs.iter().find_map(|spec| match &spec.address {
        Address::Static { module: None, addr } if modules.to_run(*addr).is_none() => Some(*addr),
        _ => None,
    });
    if let Some(addr) = lost {
        return Err(WatchError::NotMapped {
            what: format!("address {addr} of the executable"),
            pid: modules.pid(),
        });
    }
    Ok((table, found))
}

struct ChannelSink {
    sender: SyncSender<Result<Vec<Event>, WatchError>>,
    over: Arc<AtomicBool>,
}

impl ChannelSink {
    fn fail(&mut self, error: WatchError) {
        let _nobody_listens = self.sender.send(Err(error));
    }
}

impl Sink for ChannelSink {
    fn send(&mut self, events: Vec<Event>) -> bool {
        self.sender.send(Ok(events)).is_ok()
    }

    fn is_over(&mut self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Watcher for LaunchedWatcher {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn pid(&self) -> Pid {
        self.pid
    }

    fn next(&mut self, timeout: Duration) -> Result<Vec<Event>, WatchError> {
        match self.events.recv_timeout(timeout) {
            Ok(events) => events,
            Err(RecvTimeoutError::Timeout) => Ok(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => Err(ended_early()),
        }
    }

    fn stop(&mut self) -> Result<Vec<Event>, WatchError> {
        self.over.store(true, Ordering::Relaxed);
        let mut rest = Vec::new();
        while let Ok(events) = self.events.recv() {
            rest.extend(events?);
        }
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| ended_early())?;
        }
        Ok(rest)
    }
}
