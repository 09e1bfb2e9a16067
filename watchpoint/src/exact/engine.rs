//! The loop over the stops of a traced process.

use std::time::Duration;

use tracee::Tid;
use tracee::ptrace::{End, Resume, Stop, TraceError, Tracer, What};

use super::core::Core;
use super::owner::Owner;
use crate::error::WatchError;
use crate::watcher::Event;

/// Who gets to know what happens.
pub(crate) trait Sink {
    /// Takes events; false when nobody wants them any more.
    fn send(&mut self, events: Vec<Event>) -> bool;
    /// Whether to stop.
    fn is_over(&mut self) -> bool;
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The process did.
    Ended,
    /// Nobody wants to know more.
    Told,
}

/// How long the loop waits before it looks whether it is to stop.
const TICK: Duration = Duration::from_millis(20);
/// The same while threads are held until others have stopped, which takes them as long as they wait for a processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// Events are handed over together when there are so many, or when nothing is left to do.
pub(super) const BATCH: usize = 64;

/// A traced process and what is watched in it.
pub(crate) struct Engine<Kind, O> {
    pub(crate) tracer: Tracer<Kind>,
    pub(crate) core: Core<Kind, O>,
    held: Vec<Tid>,
}

impl<Kind, O: Owner<Kind>> Engine<Kind, O> {
    pub(crate) fn new(tracer: Tracer<Kind>, core: Core<Kind, O>) -> Self {
        let held = Vec::new();
        Self { tracer, core, held }
    }

    /// Serves the process until it ends or nobody wants to know more.
    pub(crate) fn run(&mut self, sink: &mut impl Sink) -> Result<Over, WatchError> {
        let over = self.serve_all(sink);
        self.let_go()?;
        over
    }

    fn serve_all(&mut self, sink: &mut impl Sink) -> Result<Over, WatchError> {
        loop {
            if sink.is_over() {
                return Ok(Over::Told);
            }
            let stop = match self.wait(Duration::ZERO)? {
                Some(stop) => Some(stop),
                None => {
                    self.core.idle(&mut self.tracer)?;
                    // A reader that sleeps must not hold up a process whose hits go elsewhere.
                    if !self.core.events().is_empty() && !sink.send(self.core.take_events()) {
                        return Ok(Over::Told);
                    }
                    let limit = if self.core.holds() { BETWEEN_LOOKS } else { TICK };
                    self.let_go_unless_held()?;
                    self.wait(limit)?
                }
            };
            if let Some(stop) = stop
                && let Some(end) = self.serve(&stop, sink)?
            {
                self.core.tell_counts();
                let mut last = self.core.take_events();
                last.push(Event::Ended(end));
                sink.send(last);
                return Ok(Over::Ended);
            }
            if self.core.events().len() >= BATCH {
                self.core.busy();
                if !sink.send(self.core.take_events()) {
                    return Ok(Over::Told);
                }
            }
        }
    }

    fn wait(&mut self, limit: Duration) -> Result<Option<Stop>, WatchError> {
        let pid = self.tracer.pid();
        match self.tracer.wait(limit) {
            Err(TraceError::NothingLeft) => Ok(Some(Stop {
                pid,
                tid: pid.first_thread(),
                what: What::ProcessExited(End::Unknown),
            })),
            other => Ok(other?),
        }
    }

    fn serve(&mut self, stop: &Stop, sink: &mut impl Sink) -> Result<Option<End>, WatchError> {
        let (tid, pid) = (stop.tid, self.tracer.pid());
        let tracer = &mut self.tracer;
        let how = match &stop.what {
            What::Signal(info) => match self.core.signal(tracer, tid, info)? {
                // All probes are ours here, and the program would stop for good.
                Resume::Deliver if info.is_of_probe() => Resume::Suppress,
                how => how,
            },
            What::NewThread { .. } => {
                self.core.new_thread(tracer, tid)?;
                Resume::Deliver
            }
            What::Exec { .. } if stop.pid == pid => {
                self.core.exec(tracer, tid)?;
                Resume::Deliver
            }
            What::Vforked if stop.pid == pid => {
                self.core.vforked();
                Resume::Deliver
            }
            What::Exiting if tid == pid.first_thread() => {
                self.core.look_at_modules();
                Resume::Deliver
            }
            What::ThreadExited => {
                self.core.thread_exited(tid);
                return Ok(None);
            }
            What::ProcessExited(end) => return Ok((stop.pid == pid).then_some(*end)),
            _ => Resume::Deliver,
        };
        // Where hits go elsewhere, whoever reads them must know what is watched before there are any.
        let armed = |event: &Event| matches!(event, Event::Armed(_));
        if self.core.events().iter().any(armed) {
            sink.send(self.core.take_events());
        }
        if how == Resume::Suppress && self.core.keeps(&self.tracer) {
            self.held.push(tid);
        } else {
            self.resume(tid, how)?;
            self.let_go_unless_held()?;
        }
        Ok(None)
    }

    fn resume(&mut self, tid: Tid, how: Resume) -> Result<(), WatchError> {
        self.core.resuming(tid);
        match self.tracer.resume(tid, how) {
            // Killed meanwhile: its end is told next.
            Err(TraceError::NotStopped(_)) => Ok(()),
            other => Ok(other?),
        }
    }

    fn let_go_unless_held(&mut self) -> Result<(), WatchError> {
        if self.core.holds() { Ok(()) } else { self.let_go() }
    }

    fn let_go(&mut self) -> Result<(), WatchError> {
        std::mem::take(&mut self.held)
            .into_iter()
            .try_for_each(|tid| self.resume(tid, Resume::Suppress))
    }
}
