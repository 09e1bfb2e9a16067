//! When everything that happened has been reported, and who stays stopped until that is so.

use tracee::process::{Process, ThreadState};
use tracee::ptrace::Tracer;
use tracee::{Pid, monotonic_ns};

use super::core::Core;
use super::flight::Look;
use super::owner::Owner;
use crate::error::WatchError;
use crate::watcher::Event;

impl<Kind, O: Owner<Kind>> Core<Kind, O> {
    /// No stop is to be served now.
    pub(crate) fn idle(&mut self, tracer: &mut Tracer<Kind>) -> Result<(), WatchError> {
        let now = monotonic_ns();
        if self.owner.stops() {
            if self.holding || self.flight.may_look(now) {
                self.look(tracer);
            }
            let complete = self.flight.idle(now);
            self.out.extend(complete.map(Event::Complete));
        }
        // Written without a hit of ours: by the kernel, or where hits do not stop anybody.
        self.follow_pointers(tracer, true)
    }

    /// Stops come without a pause.
    pub(crate) fn busy(&mut self) {
        let complete = self.flight.busy(monotonic_ns());
        self.out.extend(complete.map(Event::Complete));
    }

    /// Whether a thread that has stopped for us stays where it is, until [`Self::holds`] says otherwise: so many have
    /// stopped that it is time for nobody to be on the way, and whoever went on could be the next.
    pub(crate) fn keeps(&mut self, tracer: &Tracer<Kind>) -> bool {
        if self.flight.has_enough() {
            self.look(tracer);
        }
        self.holding
    }

    /// Whether threads are to stay stopped.
    pub(crate) fn holds(&self) -> bool {
        self.holding
    }

    /// Asks the kernel whether somebody is on the way to a stop.
    pub(crate) fn look(&mut self, tracer: &Tracer<Kind>) {
        if !self.owner.stops() {
            return;
        }
        let asked_ns = monotonic_ns();
        let pid = self.pid;
        let look = self
            .flight
            .look(self.owner.hits(), asked_ns, || nobody_runs(tracer, pid));
        self.holding = look == Look::Open && self.flight.has_enough();
        if let Look::Complete(until_ns) = look {
            self.out.push(Event::Complete(until_ns));
        }
    }
}

/// Whether all threads of a process are stopped for us or asleep.
fn nobody_runs<Kind>(tracer: &Tracer<Kind>, pid: Pid) -> bool {
    let process = Process::new(pid);
    let mut others = tracer
        .threads()
        .filter(|(of, tid)| *of == pid && !tracer.is_stopped(*tid));
    others.all(|(_, tid)| {
        let on_the_way = |state| {
            matches!(
                state,
                ThreadState::Running | ThreadState::Traced | ThreadState::Other
            )
        };
        // One that cannot be looked at is gone.
        let status = process.thread_status(tid);
        status.map_or(true, |status| !on_the_way(status.state))
    })
}
