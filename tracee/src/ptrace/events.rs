//! Taking in what was waited for: what each wait status means for the threads that are known.

use std::collections::BTreeSet;
use std::time::Instant;

use failure::Signal;

use super::alarm::{Outcome, consume, consume_if_there};
use super::error::TraceError;
use super::request;
use super::stop::{End, Event, Stop, Waited, What};
use super::tracer::{Cause, State, Thread, Tracer, unless_gone};
use crate::ids::{Pid, Tid};
use crate::process::Process;

/// What came out of waiting for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This thread had something to tell, or to be passed over.
    Taken(Tid),
    TimeOut,
    Nobody,
}

/// What becomes of a trap that an interrupt made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupts {
    /// The thread goes on.
    Pass,
    /// It stays stopped.
    Keep,
}

impl<Kind> Tracer<Kind> {
    /// Waits for the next thread with something to tell, and takes it in.
    pub(super) fn take_next(
        &mut self,
        deadline: Option<Instant>,
        interrupts: Interrupts,
    ) -> Result<Next, TraceError> {
        // Whoever is still stopped would be found again and again.
        for (tid, waited) in self.untaken.drain(..) {
            consume_if_there(tid, waited);
        }
        let outcome = self.alarm.wait_any(deadline);
        Ok(match outcome.map_err(TraceError::refused("wait for threads"))? {
            Outcome::TimeOut => Next::TimeOut,
            Outcome::Nobody => Next::Nobody,
            Outcome::Ready(tid, waited) => {
                self.take(tid, waited, interrupts)?;
                Next::Taken(tid)
            }
        })
    }

    /// Takes in what was waited for; what is to be told goes to `seen`.
    fn take(&mut self, tid: Tid, waited: Waited, interrupts: Interrupts) -> Result<(), TraceError> {
        if let Waited::Signal(signal) = waited
            && self.threads.contains_key(&tid)
        {
            self.take_signal(tid, signal);
            return Ok(());
        }
        consume(tid, waited);
        if let Waited::Ended(end) = waited {
            self.take_end(tid, end);
            return Ok(());
        }
        if !self.threads.contains_key(&tid) {
            return self.take_new(tid, waited);
        }
        match waited {
            Waited::Ended(_) | Waited::Signal(_) => (),
            Waited::GroupStop(signal) => {
                self.stopped(tid, Cause::GroupStop, What::GroupStop(Signal(signal)));
            }
            Waited::Event(Event::Exec) => self.take_exec(tid),
            Waited::Event(Event::Vforked) => self.stopped(tid, Cause::Event, What::Vforked),
            Waited::Event(Event::Exit) => self.stopped(tid, Cause::Event, What::Exiting),
            Waited::Event(Event::Created) => {
                if let Ok(created) = request::event_message(tid) {
                    let created = Tid(u32::try_from(created).unwrap_or(u32::MAX));
                    if !self.threads.contains_key(&created) {
                        self.creators.insert(created, tid);
                    }
                }
                self.pass(tid)?;
            }
            Waited::Trap if interrupts == Interrupts::Keep => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.state = State::Stopped(Cause::Interrupt);
                }
            }
            // The end of a group-stop, or an interrupt that came after another stop.
            Waited::Trap | Waited::Event(Event::Other) => self.pass(tid)?,
        }
        Ok(())
    }

    /// Lets a thread go on from a stop that is nobody's business.
    fn pass(&mut self, tid: Tid) -> Result<(), TraceError> {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = State::Running;
        }
        unless_gone(request::cont(tid, 0)).map_err(TraceError::refused("resume a thread"))
    }

    fn stopped(&mut self, tid: Tid, cause: Cause, what: What) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = State::Stopped(cause);
            let pid = thread.process;
            self.seen.push_back(Stop { pid, tid, what });
        }
    }

    fn take_signal(&mut self, tid: Tid, signal: i32) {
        // A thread that is killed right now has no signal to show, and its end to tell next.
        let waited = Waited::Signal(signal);
        let Ok(info) = request::signal_info(tid) else {
            consume(tid, waited);
            return;
        };
        let stepped = self.threads.get(&tid).is_some_and(|thread| thread.stepping) && info.is_step();
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.stepping = false;
        }
        let perf = info.perf().is_some();
        if stepped || perf || info.is_debug_register() {
            consume(tid, waited);
        } else {
            self.untaken.push((tid, waited));
        }
        if stepped {
            self.stopped(tid, Cause::Event, What::Step);
        } else {
            self.stopped(tid, Cause::Signal { signal, perf }, What::Signal(info));
        }
    }

    fn take_exec(&mut self, tid: Tid) {
        let former = request::event_message(tid)
            .ok()
            .and_then(|tid| u32::try_from(tid).ok());
        let former = former.map_or(tid, Tid);
        let Some(process) = self.threads.get(&tid).map(|thread| thread.process) else {
            return;
        };
        self.threads
            .retain(|&other, thread| other == tid || thread.process != process);
        self.seen.retain(|stop| stop.pid != process || !stop.is_stopped());
        self.stopped(tid, Cause::Event, What::Exec { former });
    }

    /// A thread that we did not know: a new one, or one that took its process's number at an `exec`.
    fn take_new(&mut self, tid: Tid, waited: Waited) -> Result<(), TraceError> {
        let creator = self.creators.remove(&tid);
        let status = Process::new(Pid(tid.0)).status().ok();
        let of_creator = || Some(self.threads.get(&creator?)?.process);
        let Some(process) = status.map(|status| status.process).or_else(of_creator) else {
            return Ok(());
        };
        let is_thread = self.threads.values().any(|thread| thread.process == process);
        if waited == Waited::Event(Event::Exec) {
            self.threads.insert(tid, Thread::running(process));
            self.take_exec(tid);
            return Ok(());
        }
        if !is_thread && !self.follow_forks {
            // It was made by a clone that is neither a fork nor a thread. It has not run yet: leaving it now
            // interrupts nothing.
            return unless_gone(request::detach(tid, 0)).map_err(TraceError::refused("leave a new process"));
        }
        self.threads.insert(tid, Thread::running(process));
        let cause = match waited {
            Waited::GroupStop(_) => Cause::GroupStop,
            Waited::Signal(signal) => Cause::Signal { signal, perf: false },
            _ => Cause::Event,
        };
        let what = if is_thread {
            What::NewThread { creator }
        } else {
            What::NewProcess { creator }
        };
        self.stopped(tid, cause, what);
        Ok(())
    }

    fn take_end(&mut self, tid: Tid, end: End) {
        self.creators.remove(&tid);
        let Some(thread) = self.threads.remove(&tid) else {
            return;
        };
        let pid = thread.process;
        let tell = |what| Stop { pid, tid, what };
        self.seen.retain(|stop| stop.tid != tid || !stop.is_stopped());
        if pid.first_thread() == tid {
            self.threads.retain(|_, thread| thread.process != pid);
            self.seen.push_back(tell(What::ProcessExited(end)));
            return;
        }
        self.seen.push_back(tell(What::ThreadExited));
        // The end of a first thread that was over when we came is told to its parent only.
        if !self.threads.values().any(|thread| thread.process == pid) {
            self.seen.push_back(tell(What::ProcessExited(End::Unknown)));
        }
    }

    /// Nobody is left: whoever we still knew ended without a word.
    pub(super) fn take_all_gone(&mut self) -> Result<(), TraceError> {
        let Some((&tid, _)) = self.threads.iter().next() else {
            return Err(TraceError::NothingLeft);
        };
        let pids: BTreeSet<Pid> = self.threads.values().map(|thread| thread.process).collect();
        self.threads.clear();
        let what = What::ProcessExited(End::Unknown);
        self.seen
            .extend(pids.into_iter().map(|pid| Stop { pid, tid, what }));
        Ok(())
    }
}
