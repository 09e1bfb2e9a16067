//! The tracer: which threads there are, what each is stopped for, and how it goes on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use failure::Signal;
use failure::image::Registers;

use super::alarm::{Alarm, Outcome, consume};
use super::error::TraceError;
use super::stop::{End, Event, Stop, Waited, What};
use super::{registers, request};
use crate::ids::{Pid, Tid};
use crate::process::{Process, SignalSet};

/// The target is our child: it may be interrupted, and dies with us.
#[derive(Debug)]
pub enum Launched {}

/// The target was there before us: nothing that we do or fail to do may show.
#[derive(Debug)]
pub enum Attached {}

/// What becomes of the signal that a thread is stopped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The thread gets it, as it would without us.
    Deliver,
    /// It was meant for us.
    Suppress,
}

/// Traces a process, `Kind` being [`Launched`] or [`Attached`].
///
/// Tracing belongs to an operating-system thread: a tracer cannot be sent to another. That thread should have
/// no other children, because waiting takes their exit statuses too.
#[derive(Debug)]
pub struct Tracer<Kind> {
    pub(super) main: Pid,
    pub(super) threads: BTreeMap<Tid, Thread>,
    /// What was seen while something else was waited for.
    pub(super) seen: VecDeque<Stop>,
    /// Signals of the target's own that the kernel still has: should we be killed, it delivers them.
    untaken: Vec<(Tid, Waited)>,
    /// Who created a thread that has not stopped yet.
    creators: BTreeMap<Tid, Tid>,
    pub(super) alarm: Alarm,
    pub(super) follow_forks: bool,
    /// What dropping this does with a target that is still there.
    farewell: Farewell,
    pub(super) kind: PhantomData<(Kind, *const ())>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    Kill,
    /// Nothing may stay stopped: the signal of a stop that was waited for is lost when the tracer ends.
    Resume,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) process: Pid,
    pub(super) state: State,
    stepping: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// In a group-stop, and left there.
    Listening,
    /// Stopped for us.
    Stopped(Cause),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Signal {
        signal: i32,
        /// A perf event sent it.
        perf: bool,
    },
    GroupStop,
    /// Something that takes no signal along.
    Event,
    /// We interrupted it.
    Interrupt,
}

impl Thread {
    pub(super) fn running(process: Pid) -> Self {
        Self {
            process,
            state: State::Running,
            stepping: false,
        }
    }
}

impl<Kind> Tracer<Kind> {
    pub(super) fn new(main: Pid, alarm: Alarm, follow_forks: bool, farewell: Farewell) -> Self {
        Self {
            main,
            threads: BTreeMap::new(),
            seen: VecDeque::new(),
            untaken: Vec::new(),
            creators: BTreeMap::new(),
            alarm,
            follow_forks,
            farewell,
            kind: PhantomData,
        }
    }

    /// The process that was launched or attached to.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.main
    }

    /// The threads that are traced, of all processes.
    pub fn threads(&self) -> impl Iterator<Item = (Pid, Tid)> {
        self.threads.iter().map(|(&tid, thread)| (thread.process, tid))
    }

    /// Whether a thread is stopped for us, so that it can be looked into.
    #[must_use]
    pub fn is_stopped(&self, tid: Tid) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_some_and(|thread| matches!(thread.state, State::Stopped(_)))
    }

    /// Waits until a thread stops or ends, at most as long as said.
    ///
    /// # Errors
    /// [`TraceError::NothingLeft`] when all processes have ended.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<Stop>, TraceError> {
        if let Some(stop) = self.seen.pop_front() {
            return Ok(Some(stop));
        }
        let deadline = Instant::now().checked_add(limit);
        loop {
            match self.take_next(deadline, Interrupts::Pass)? {
                Next::Taken(_) => (),
                Next::TimeOut => return Ok(None),
                Next::Nobody => self.take_all_gone()?,
            }
            if let Some(stop) = self.seen.pop_front() {
                return Ok(Some(stop));
            }
        }
    }

    /// Lets a thread go on. One that was killed meanwhile will say so itself.
    ///
    /// # Errors
    /// When the thread is not stopped for us.
    pub fn resume(&mut self, tid: Tid, how: Resume) -> Result<(), TraceError> {
        self.go_on(tid, how, request::cont)
    }

    /// Lets a thread execute one instruction: its next stop is [`What::Step`], unless a signal comes first. From
    /// a stop inside a system call (an exec, a new thread) the first step is the end of that call.
    ///
    /// # Errors
    /// When the thread is not stopped for us.
    pub fn step(&mut self, tid: Tid, how: Resume) -> Result<(), TraceError> {
        self.go_on(tid, how, request::step)?;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.stepping = true;
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        tid: Tid,
        how: Resume,
        run: impl Fn(Tid, i32) -> io::Result<()>,
    ) -> Result<(), TraceError> {
        let thread = self.threads.get_mut(&tid).ok_or(TraceError::NotStopped(tid))?;
        let State::Stopped(cause) = thread.state else {
            return Err(TraceError::NotStopped(tid));
        };
        thread.stepping = false;
        self.untaken.retain(|&(other, _)| other != tid);
        let (done, state) = match cause {
            Cause::GroupStop => (request::listen(tid), State::Listening),
            Cause::Signal { signal, .. } if how == Resume::Deliver => (run(tid, signal), State::Running),
            Cause::Signal { .. } | Cause::Event | Cause::Interrupt => (run(tid, 0), State::Running),
        };
        thread.state = state;
        unless_gone(done).map_err(TraceError::refused("resume a thread"))
    }

    /// The registers of a stopped thread.
    ///
    /// # Errors
    /// When the thread is not stopped for us, or was killed.
    pub fn registers(&self, tid: Tid) -> Result<Registers, TraceError> {
        self.check_stopped(tid)?;
        let found = request::registers(tid).map_err(TraceError::refused("read a thread's registers"))?;
        Ok(registers::from_user(&found))
    }

    /// Changes the registers of a stopped thread.
    ///
    /// # Errors
    /// When the thread is not stopped for us, or was killed, or the values are none that it may have.
    pub fn set_registers(&mut self, tid: Tid, to: &Registers) -> Result<(), TraceError> {
        self.check_stopped(tid)?;
        let failed = TraceError::refused("change a thread's registers");
        let mut all = request::registers(tid).map_err(&failed)?;
        registers::over_user(to, &mut all);
        request::set_registers(tid, &all).map_err(failed)
    }

    /// The signals that a stopped thread blocks.
    ///
    /// # Errors
    /// When the thread is not stopped for us, or was killed.
    pub fn signal_mask(&self, tid: Tid) -> Result<SignalSet, TraceError> {
        self.check_stopped(tid)?;
        request::signal_mask(tid).map_err(TraceError::refused("read a thread's signal mask"))
    }

    /// Changes the signals that a stopped thread blocks.
    ///
    /// # Errors
    /// When the thread is not stopped for us, or was killed.
    pub fn set_signal_mask(&mut self, tid: Tid, mask: SignalSet) -> Result<(), TraceError> {
        self.check_stopped(tid)?;
        request::set_signal_mask(tid, mask).map_err(TraceError::refused("change a thread's signal mask"))
    }

    pub(super) fn check_stopped(&self, tid: Tid) -> Result<(), TraceError> {
        if self.is_stopped(tid) {
            Ok(())
        } else {
            Err(TraceError::NotStopped(tid))
        }
    }

    /// Waits for the next thread with something to tell, and takes it in.
    pub(super) fn take_next(
        &mut self,
        deadline: Option<Instant>,
        interrupts: Interrupts,
    ) -> Result<Next, TraceError> {
        // Whoever is still stopped would be found again and again.
        for (tid, waited) in self.untaken.drain(..) {
            consume(tid, waited);
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
    fn take_all_gone(&mut self) -> Result<(), TraceError> {
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

impl<Kind> Tracer<Kind> {
    /// Resumes the threads whose stop was told to the caller and who were not resumed. The trap of a perf
    /// event was for whoever opened that, which is not the target.
    pub(super) fn resume_held(&mut self) -> Result<(), TraceError> {
        let untold = |tid: Tid| self.seen.iter().any(|stop| stop.tid == tid && stop.is_stopped());
        let threads = self.threads.iter().filter(|&(&tid, _)| !untold(tid));
        let held = threads.filter_map(|(&tid, thread)| match thread.state {
            State::Stopped(Cause::Signal { perf: true, .. }) => Some((tid, Resume::Suppress)),
            State::Stopped(_) => Some((tid, Resume::Deliver)),
            State::Running | State::Listening => None,
        });
        let held: Vec<(Tid, Resume)> = held.collect();
        held.into_iter().try_for_each(|(tid, how)| self.resume(tid, how))
    }

    pub(super) fn kill_all(&mut self) -> Result<End, TraceError> {
        /// A killed process ends at once, unless the kernel waits for a device on its behalf.
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut end = End::Unknown;
        while !self.threads.is_empty() || !self.seen.is_empty() {
            let pids: BTreeSet<Pid> = self.threads.values().map(|thread| thread.process).collect();
            for pid in pids {
                // SAFETY: takes numbers only. The process is our tracee, so its number is still its own.
                unsafe { libc::kill(pid.raw(), libc::SIGKILL) };
            }
            match self.wait(PATIENCE) {
                Ok(Some(stop)) => match stop.what {
                    What::ProcessExited(how) if stop.pid == self.main => end = how,
                    _ => (),
                },
                Err(TraceError::NothingLeft) | Ok(None) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(end)
    }
}

impl<Kind> Drop for Tracer<Kind> {
    fn drop(&mut self) {
        let _nobody_to_tell = match self.farewell {
            Farewell::Kill => self.kill_all().map(|_| ()),
            Farewell::Resume => {
                self.seen.clear();
                self.resume_held()
            }
        };
    }
}

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

/// A thread can be killed at any moment; that it was is told by the next wait.
pub(super) fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}
