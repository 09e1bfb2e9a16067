//! What may be done with a target that we launched: interrupt it, kill it, set its debug registers.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::error::{AttachError, TraceError};
use super::events::{Interrupts, Next};
use super::farewell::Farewell;
use super::launch::{Launch, Pipes};
use super::siginfo::SigInfo;
use super::stop::{End, What};
use super::tracer::{Cause, Launched, Resume, State, Thread, Tracer, unless_gone};
use super::{request, restart, spawn};
use crate::ids::{Pid, Tid};
use crate::process::Process;

const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEVFORKDONE;
pub(super) const FORKS: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

impl Tracer<Launched> {
    /// Starts a program. Its first thread is stopped before the program's first instruction (not even the
    /// dynamic loader has run) and waits to be resumed. It dies when the calling thread ends.
    ///
    /// # Errors
    /// When the program cannot be started, or not be traced.
    pub fn launch(launch: Launch) -> Result<(Self, Pipes), TraceError> {
        let alarm = Alarm::new().map_err(TraceError::refused("make a timer"))?;
        let follow_forks = launch.follow_forks;
        let options = if follow_forks { OPTIONS | FORKS } else { OPTIONS };
        let (pid, pipes) = spawn::spawn(launch, options, alarm.mask_before())?;
        let mut tracer = Self::new(pid, alarm, follow_forks, Farewell::Kill);
        let mut thread = Thread::running(pid);
        thread.state = State::Stopped(Cause::Event);
        tracer.threads.insert(pid.first_thread(), thread);
        if Process::new(pid).is_32_bit().unwrap_or(false) {
            return Err(AttachError::ThirtyTwoBit(pid).into());
        }
        Ok((tracer, pipes))
    }

    /// Makes a stopped thread, and every thread that it creates, stop once more when it is about to end: for
    /// a look at the stack of whoever ends the process.
    ///
    /// # Errors
    /// When the thread is not stopped for us, or was killed.
    pub fn tell_end(&mut self, tid: Tid) -> Result<(), TraceError> {
        self.check_stopped(tid)?;
        let forks = if self.follow_forks { FORKS } else { 0 };
        request::set_options(tid, OPTIONS | forks | libc::PTRACE_O_TRACEEXIT)
            .map_err(TraceError::refused("set what a thread stops for"))
    }

    /// Stops all threads of all processes, so that they can be looked into; says which did not stop in time
    /// (a thread in a `vfork` or waiting for a device cannot). Whatever else happens meanwhile is told by the
    /// next calls of [`Tracer::wait`].
    ///
    /// # Errors
    /// When waiting fails.
    pub fn interrupt_all(&mut self, limit: Duration) -> Result<Vec<Tid>, TraceError> {
        let deadline = Instant::now().checked_add(limit);
        let mut asked = BTreeSet::new();
        loop {
            let mut moving: Vec<Tid> = self.moving().collect();
            for &tid in &moving {
                if asked.insert(tid) {
                    unless_gone(request::interrupt(tid)).map_err(TraceError::refused("stop a thread"))?;
                }
            }
            // One that was created and has not stopped yet will do so by itself.
            if moving.is_empty() {
                moving = self.unseen();
            }
            if moving.is_empty() {
                moving = self.killed_in_stops();
            }
            if moving.is_empty() {
                return Ok(moving);
            }
            match self.take_next(deadline, Interrupts::Keep)? {
                Next::Taken(tid) => {
                    // Passed over an event of its own, it runs again and can be asked again.
                    if self.moving().any(|moving| moving == tid) {
                        asked.remove(&tid);
                    }
                }
                Next::TimeOut => return Ok(moving),
                Next::Nobody => return Ok(Vec::new()),
            }
        }
    }

    /// The signals that stopped threads were about to get when [`Tracer::interrupt_all`] stopped them: told by
    /// [`Tracer::wait`] when it is asked next, unless the process is killed before.
    #[must_use]
    pub fn undelivered(&self) -> Vec<(Tid, SigInfo)> {
        let seen = self.seen.iter().filter_map(|stop| match stop.what {
            What::Signal(info) => Some((stop.tid, info)),
            _ => None,
        });
        let interrupted = self.threads.iter().filter(|(_, thread)| {
            // Asked to stop, a thread does so before it takes the signals that wait for it.
            thread.state == State::Stopped(Cause::Interrupt)
        });
        let waiting = interrupted.flat_map(|(&tid, _)| {
            let pending = request::pending_signals(tid).unwrap_or_default();
            pending.into_iter().map(move |info| (tid, info))
        });
        seen.chain(waiting).collect()
    }

    /// The threads that are neither stopped nor over. A first thread that ended before its process is over
    /// without a word.
    fn moving(&self) -> impl Iterator<Item = Tid> {
        let moves = |(&tid, thread): (&Tid, &Thread)| {
            let stopped = matches!(thread.state, State::Stopped(_));
            let is_over = || {
                let status = Process::new(thread.process).thread_status(tid);
                tid == thread.process.first_thread() && status.is_ok_and(|status| status.is_over())
            };
            (!stopped && !is_over()).then_some(tid)
        };
        self.threads.iter().filter_map(moves)
    }

    /// Threads that were stopped when another thread ended the process: they are on their way to their end, and stop before it if
    /// they were to tell it.
    fn killed_in_stops(&mut self) -> Vec<Tid> {
        let stopped = self.threads.iter_mut();
        let stopped = stopped.filter(|(_, thread)| matches!(thread.state, State::Stopped(_)));
        let mut killed = Vec::new();
        for (&tid, thread) in stopped {
            let is_gone = |error: io::Error| error.raw_os_error() == Some(libc::ESRCH);
            if request::registers(tid).is_err_and(is_gone) {
                thread.state = State::Running;
                killed.push(tid);
            }
        }
        killed
    }

    /// Threads whose creator is traced and who have not come to their first stop: there when a list of the
    /// process's threads is read, not yet known here.
    fn unseen(&self) -> Vec<Tid> {
        let pids: BTreeSet<Pid> = self.threads.values().map(|thread| thread.process).collect();
        let listed = pids.into_iter().flat_map(|pid| {
            let process = Process::new(pid);
            let threads = process.threads().unwrap_or_default();
            threads.into_iter().map(move |tid| (process, tid))
        });
        let unseen = listed.filter(|(process, tid)| {
            let is_traced = || {
                let status = process.thread_status(*tid);
                status.is_ok_and(|status| status.tracer.is_some() && !status.is_over())
            };
            !self.threads.contains_key(tid) && is_traced()
        });
        unseen.map(|(_, tid)| tid).collect()
    }

    /// Lets the threads go on that [`Tracer::interrupt_all`] stopped; those that stopped for a reason of their
    /// own wait for their own resuming. Nobody notices: a call that the kernel ended for it is made again.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn resume_interrupted(&mut self) -> Result<(), TraceError> {
        let interrupted = |thread: &Thread| thread.state == State::Stopped(Cause::Interrupt);
        let threads = self.threads.iter().filter(|(_, thread)| interrupted(thread));
        let threads: Vec<(Pid, Tid)> = threads.map(|(&tid, thread)| (thread.process, tid)).collect();
        for (pid, tid) in threads {
            let status = || Process::new(pid).thread_status(tid).ok();
            // One that was killed meanwhile makes no calls any more.
            if let Ok(registers) = self.registers(tid)
                && let Some(again) = restart::call_again(&registers, status)
            {
                let _killed = self.set_registers(tid, &again);
            }
            self.resume(tid, Resume::Deliver)?;
        }
        Ok(())
    }

    /// Kills all processes that are traced, and tells how the launched one ended: it may have been faster.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn kill(mut self) -> Result<End, TraceError> {
        self.kill_all()
    }

    /// Stops tracing; the program runs on, even when we end. It is interrupted for that.
    ///
    /// # Errors
    /// When a thread cannot be stopped in time: it then goes on being traced and dies with us.
    pub fn let_go(mut self, limit: Duration) -> Result<(), TraceError> {
        let stuck = self.interrupt_all(limit)?;
        self.seen.clear();
        let threads = std::mem::take(&mut self.threads);
        for (&tid, thread) in &threads {
            let signal = match thread.state {
                State::Stopped(Cause::Signal { signal, .. }) => signal,
                _ => 0,
            };
            if !stuck.contains(&tid) {
                unless_gone(request::detach(tid, signal)).map_err(TraceError::refused("leave a thread"))?;
            }
        }
        stuck
            .first()
            .map_or(Ok(()), |_| Err(TraceError::NotQuiet(self.main)))
    }
}
