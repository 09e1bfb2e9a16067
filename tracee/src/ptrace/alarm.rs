//! Waiting for traced threads with a time limit.
//!
//! `waitpid` has none. A signalfd on SIGCHLD would need the signal blocked in every thread of the host
//! program; so a timer sends this thread alone an otherwise unused real-time signal, whose handler does
//! nothing but make the call return.

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::stop::Waited;
use crate::ids::Tid;

/// What came out of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A thread has something to tell.
    Ready(Tid, Waited),
    /// The time is over.
    TimeOut,
    /// Nobody is left to wait for.
    Nobody,
}

/// A timer of the thread that made it. Not to be sent to another: it is this thread's waits that it ends.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: libc::timer_t,
    /// What the thread blocked before this.
    mask_before: libc::sigset_t,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let signal = (*SIGNAL.get_or_init(install))
            .ok_or_else(|| io::Error::other("every real-time signal has a handler already"))?;
        let mut mask_before = empty_set();
        let mut ours = empty_set();
        // SAFETY: both sets live; the signal is a valid one.
        unsafe {
            libc::sigaddset(&raw mut ours, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const ours, &raw mut mask_before);
        }
        // SAFETY: all zeroes is a value of this plain structure.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = Tid::this().raw();
        let mut timer = ptr::null_mut();
        // SAFETY: the event is read and the timer written during the call only.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { timer, mask_before })
    }

    /// The signal mask that the thread had before: what a launched program gets.
    pub(super) fn mask_before(&self) -> &libc::sigset_t {
        &self.mask_before
    }

    /// Waits for any thread that this thread traces. What it has to tell is to be [`consume`]d.
    pub(super) fn wait_any(&self, deadline: Option<Instant>) -> io::Result<Outcome> {
        let at_once = look(libc::P_ALL, 0, libc::WNOHANG)?;
        if at_once != Outcome::TimeOut {
            return Ok(at_once);
        }
        let Some(deadline) = deadline else {
            return loop_interrupted(|| look(libc::P_ALL, 0, 0));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Outcome::TimeOut);
        }
        self.set(left, AGAIN)?;
        let outcome = loop {
            match look(libc::P_ALL, 0, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if Instant::now() >= deadline {
                        break Ok(Outcome::TimeOut);
                    }
                }
                other => break other,
            }
        };
        self.set(Duration::ZERO, Duration::ZERO)?;
        outcome
    }

    fn set(&self, first: Duration, again: Duration) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_value: timespec(first),
            it_interval: timespec(again),
        };
        // SAFETY: the timer is ours and lives; the setting is only read.
        let done = unsafe { libc::timer_settime(self.timer, 0, &raw const setting, ptr::null_mut()) };
        if done == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and nobody uses it after this. The mask is the one that was there.
        unsafe {
            libc::timer_delete(self.timer);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask_before, ptr::null_mut());
        }
    }
}

/// A signal that arrives between the look at the clock and the call would be lost; the next one is not.
const AGAIN: Duration = Duration::from_millis(2);

/// Waits for one traced thread, without a limit.
pub(super) fn wait_for(tid: Tid) -> io::Result<Option<Waited>> {
    let outcome = loop_interrupted(|| look(libc::P_PID, tid.0, 0))?;
    let Outcome::Ready(tid, waited) = outcome else {
        return Ok(None);
    };
    consume(tid, waited);
    Ok(Some(waited))
}

fn loop_interrupted<T>(call: impl Fn() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            other => return other,
        }
    }
}

/// `__WNOTHREAD`: the children of the host program's other threads are none of our business.
const WHOSE: i32 = libc::__WALL | libc::__WNOTHREAD;

/// Looks who has something to tell, and lets the kernel keep it: see [`consume`].
fn look(whom: libc::idtype_t, id: u32, flags: i32) -> io::Result<Outcome> {
    let all = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
    // SAFETY: all zeroes is a value of this plain structure.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one siginfo_t, and there is room for it.
    let asked = unsafe { libc::waitid(whom, id, &raw mut info, all | WHOSE | flags) };
    if asked != 0 {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Outcome::Nobody),
            error => Err(error),
        };
    }
    // SAFETY: waitid fills in the fields of SIGCHLD; without news they are the zeroes from above.
    let (tid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(match u32::try_from(tid) {
        Ok(0) | Err(_) => Outcome::TimeOut,
        Ok(tid) => Outcome::Ready(Tid(tid), Waited::of(wait_status(info.si_code, status))),
    })
}

/// What `waitpid` would have said.
fn wait_status(code: i32, status: i32) -> i32 {
    match code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_KILLED => status & 0x7f,
        libc::CLD_DUMPED => status & 0x7f | 0x80,
        _ => status << 8 | 0x7f,
    }
}

/// Takes from the kernel what was looked at. A stop that is taken leaves no trace when the tracer dies; one
/// that is not has its signal delivered then. So a trap that is meant for us must be taken at once, and a
/// signal of the target's own is better not taken at all: it would be lost.
pub(super) fn consume(tid: Tid, waited: Waited) {
    let kind = match waited {
        Waited::Ended(_) => libc::WEXITED,
        _ => libc::WSTOPPED,
    };
    // SAFETY: the kernel writes nothing when given no place to. A thread that was killed meanwhile has no stop
    // to take, and its end is not asked for.
    unsafe { libc::waitid(libc::P_PID, tid.0, ptr::null_mut(), kind | WHOSE | libc::WNOHANG) };
}

/// The same for what was looked at a while ago: a thread that was killed since may have come to another stop, which
/// nobody has looked at.
pub(super) fn consume_if_there(tid: Tid, waited: Waited) {
    let there = look(libc::P_PID, tid.0, libc::WNOHANG);
    if there.is_ok_and(|there| there == Outcome::Ready(tid, waited)) {
        consume(tid, waited);
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: all zeroes is the empty set on Linux.
    unsafe { mem::zeroed() }
}

/// The signal that the timers send, with its handler; chosen once for the process.
static SIGNAL: OnceLock<Option<i32>> = OnceLock::new();

fn install() -> Option<i32> {
    extern "C" fn nothing(_: libc::c_int) {}
    // From the top down: programs that use real-time signals start at the bottom.
    (libc::SIGRTMIN()..libc::SIGRTMAX()).rev().find(|&signal| {
        // SAFETY: all zeroes is a value of this plain structure: default action, no flags, empty mask.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: asks for the present action; the structure lives.
        let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
        if asked != 0 || action.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        // No SA_RESTART: the wait is to return.
        action.sa_flags = 0;
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: the handler does nothing, so it is safe whenever it runs.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
    })
}
