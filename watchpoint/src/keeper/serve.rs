//! The keeper.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use tracee::process::{ModuleMap, Process, leave_session};
use tracee::ptrace::{Attached, Tracer};
use tracee::{Pid, Tid};

use super::bytes::{Out, receive};
use super::message::{Order, Said};
use crate::arms::Arms;
use crate::error::WatchError;
use crate::exact::core::Core;
use crate::exact::engine::{Engine, Over, Sink};
use crate::exact::launched::{contents, lay_out};
use crate::exact::owner::{Outlet, PerfOwner, perf_trap};
use crate::exact::times::Times;
use crate::watcher::Event;

/// How long threads may have stops to come after the events are gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a thread that blocks SIGTRAP is looked at before that is believed.
const LOOKS: usize = 20;
/// The same, when it blocks what only the C library can: that is for a moment, but on a busy machine the thread may
/// have to wait for a processor just then.
const LOOKS_AT_LIBRARY: usize = 400;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// SIGTRAP, on every Linux.
const SIGTRAP: i32 = 5;
/// The C libraries' own signal, which they let no program block.
const SIGCANCEL: i32 = 32;

/// Serves a front: the order comes from standard input, which must be a socket; what happens goes to standard
/// output. Returns when the process has ended or the front is gone, and then the calling process must end at
/// once: with that, and not before, the watched process is free.
#[must_use]
pub fn serve() -> ExitCode {
    match try_serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_serve() -> io::Result<()> {
    // Leading a group already is as good: no terminal's signals come here.
    let _in_a_group_of_its_own = leave_session();
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let frame = receive(&mut control)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let order = Order::from_bytes(&frame).ok_or(io::ErrorKind::InvalidData)?;
    control.set_nonblocking(true)?;
    let mut pipe = PipeSink { out, control };
    let mut engine = match prepare(order) {
        Ok(engine) => engine,
        Err(error) => {
            pipe.say(Said::Failed(error.to_string()).to_bytes())?;
            return Ok(());
        }
    };
    let begun = pipe.say(Said::Ready.to_bytes());
    let result = match begun {
        Ok(()) => engine.run(&mut pipe),
        Err(_) => Ok(Over::Told),
    };
    engine.core.tell_counts();
    let rest = engine.core.take_events();
    let Engine { tracer, core, .. } = engine;
    // Events first: nothing may send a signal when nobody is there to take it.
    drop(core);
    let left = tracer.detach(PATIENCE, |info| perf_trap(info).is_some());
    if !matches!(result, Ok(Over::Ended)) {
        pipe.send(rest);
    }
    for error in result.err().into_iter().chain(left.err().map(WatchError::from)) {
        let _nobody_listens = pipe.say(Said::Failed(error.to_string()).to_bytes());
    }
    Ok(())
}

fn prepare(order: Order) -> Result<Engine<Attached, PerfOwner>, WatchError> {
    let Order { pid, specs } = order;
    // A process that is not ours to look into has nothing else to be said of.
    ModuleMap::of(pid)?;
    if blocks_traps(pid) {
        return Err(WatchError::BlocksTrap(pid));
    }
    let mut tracer = Tracer::<Attached>::attach(pid, false)?;
    let modules = ModuleMap::of(pid)?;
    let (table, placed) = lay_out(&specs, &modules)?;
    let placed = contents(pid, placed);
    let threads: Vec<Tid> = tracer.threads().map(|(_, tid)| tid).collect();
    let mut arms = Arms::new(table.wanted());
    if let Some(first) = threads.first() {
        arms.look_at(*first)?;
    }
    let outlet = Outlet::Stops(Times::noted());
    if let Err(error) = arms.arm_all(pid, &outlet) {
        leave(tracer, arms);
        return Err(error);
    }
    let owner = PerfOwner { arms, outlet };
    let mut core = Core::new(owner, table, specs, modules);
    match core.begin(&mut tracer, &placed) {
        Ok(()) => Ok(Engine::new(tracer, core)),
        Err(error) => {
            leave(tracer, core.owner.arms);
            Err(error)
        }
    }
}

/// Whether a thread blocks SIGTRAP for good. The C library blocks everything for a moment when it creates a thread.
/// To be asked before attaching: once traced, a thread that creates another waits there for its tracer.
fn blocks_traps(pid: Pid) -> bool {
    let process = Process::new(pid);
    let blocked = |tid: Tid| {
        let status = process.thread_status(tid).ok()?;
        status.blocked.contains(SIGTRAP).then_some(status.blocked)
    };
    let mut blocking = process.threads().unwrap_or_default();
    for look in 0..LOOKS_AT_LIBRARY {
        let mut own = false;
        blocking.retain(|&tid| {
            let signals = blocked(tid);
            own |= signals.is_some_and(|signals| !signals.contains(SIGCANCEL));
            signals.is_some()
        });
        if blocking.is_empty() || (own && look >= LOOKS) {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    !blocking.is_empty()
}

/// Leaves a process that could not be armed: some of its threads may have stops to come.
fn leave(tracer: Tracer<Attached>, arms: Arms) {
    drop(arms);
    // What went wrong first is what is told.
    let _less_important = tracer.detach(PATIENCE, |info| perf_trap(info).is_some());
}

struct PipeSink {
    out: File,
    control: UnixStream,
}

impl PipeSink {
    fn say(&mut self, what: Out) -> io::Result<()> {
        what.send(&mut self.out)
    }
}

impl Sink for PipeSink {
    /// Waits until the front has room: the process waits too, and no hit is lost.
    fn send(&mut self, events: Vec<Event>) -> bool {
        let mut frames = Vec::new();
        for event in events {
            if Said::Event(event).to_bytes().send(&mut frames).is_err() {
                return false;
            }
        }
        self.out.write_all(&frames).is_ok()
    }

    /// The front says nothing more after its order: the end of its stream is its end.
    fn is_over(&mut self) -> bool {
        match self.control.read(&mut [0; 16]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }
}
