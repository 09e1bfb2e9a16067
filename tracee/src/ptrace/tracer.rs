//! The tracer: which threads there are, what each is stopped for, and how it goes on.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use failure::image::Registers;

use super::alarm::Alarm;
use super::error::TraceError;
use super::events::{Interrupts, Next};
use super::farewell::Farewell;
use super::stop::{Stop, Waited};
use super::{registers, request};
use crate::ids::{Pid, Tid};
use crate::process::SignalSet;

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
    /// The process that was launched or attached to,
    pub(super) first: Pid,
    /// and the one that all is about.
    pub(super) main: Pid,
    pub(super) threads: BTreeMap<Tid, Thread>,
    /// What was seen while something else was waited for.
    pub(super) seen: VecDeque<Stop>,
    /// Signals of the target's own that the kernel still has: should we be killed, it delivers them.
    pub(super) untaken: Vec<(Tid, Waited)>,
    /// Who created a thread that has not stopped yet.
    pub(super) creators: BTreeMap<Tid, Tid>,
    pub(super) alarm: Alarm,
    pub(super) follow_forks: bool,
    /// What dropping this does with a target that is still there.
    pub(super) farewell: Farewell,
    pub(super) kind: PhantomData<(Kind, *const ())>,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) process: Pid,
    pub(super) state: State,
    pub(super) stepping: bool,
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
            first: main,
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

    /// The process that all is about: the one that was launched or attached to, unless told otherwise.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.main
    }

    /// From now on all is about this process, one of those that are traced.
    pub fn look_at(&mut self, pid: Pid) {
        self.main = pid;
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

    /// Lets a thread execute one instruction: its next stop is [`super::What::Step`], unless a signal comes first. From
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
            Cause::GroupStop => match request::listen(tid) {
                // It has been told to continue, or to end, meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => (run(tid, 0), State::Running),
                listening => (listening, State::Listening),
            },
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
}

/// A thread can be killed at any moment; that it was is told by the next wait.
pub(super) fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}
