//! A process of our own to try things on: it writes, calls and counts as told.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use program::RunAddr;

use crate::Pid;
use crate::perf::poll;

/// What the subject writes to. At the same address in it as in us, as it is our copy.
static WATCHED: AtomicU64 = AtomicU64::new(0);
/// How many traps by perf the subject got.
static TRAPS: AtomicU8 = AtomicU8::new(0);

/// How the subject is related to us, which is what the Yama security module looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Child,
    /// Nobody's: a process of the same user like any other.
    Stranger,
}

/// A process that does nothing unless told.
#[derive(Debug)]
pub(super) struct Subject {
    pid: Pid,
    relation: Relation,
    /// Names the process for sure, also when it is not ours to wait for.
    handle: OwnedFd,
    orders: OwnedFd,
    answers: OwnedFd,
}

/// What the subject can be told.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Order {
    Write = b'w',
    Call = b'c',
}

impl Subject {
    /// Starts one.
    pub(super) fn start(relation: Relation) -> io::Result<Self> {
        let (orders_out, orders) = pipe()?;
        let (answers, answers_in) = pipe()?;
        // SAFETY: the copy of a process with several threads may only make system calls that are safe in a
        // signal handler until it ends; `live` and what it calls do nothing else.
        let child = unsafe { libc::fork() };
        match child {
            -1 => return Err(io::Error::last_os_error()),
            0 => become_subject(relation, orders_out.as_raw_fd(), answers_in.as_raw_fd()),
            _ => {}
        }
        drop((orders_out, answers_in));
        if relation == Relation::Stranger {
            // The one between us and it has ended at once.
            reap(child);
        }
        let number = receive::<4>(&answers).map(i32::from_ne_bytes)?;
        let pid = Pid(u32::try_from(number).map_err(io::Error::other)?);
        // SAFETY: no pointers. The process lives: it has just spoken, and waits for us.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
        let handle = i32::try_from(handle).map_err(io::Error::other)?;
        if handle < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            pid,
            relation,
            // SAFETY: the kernel just made this descriptor; nobody else has it.
            handle: unsafe { OwnedFd::from_raw_fd(handle) },
            orders,
            answers,
        })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The eight bytes that it writes to.
    pub(super) fn watched() -> RunAddr {
        RunAddr(WATCHED.as_ptr() as u64)
    }

    /// The function that it calls.
    pub(super) fn function() -> RunAddr {
        RunAddr(called as *const () as u64)
    }

    /// Has it write once; the values are 1, 2, 3 and so on. Gives the number of traps that it got so far.
    pub(super) fn write(&self) -> io::Result<u8> {
        self.tell(Order::Write)
    }

    /// Has it call the function.
    pub(super) fn call(&self) -> io::Result<u8> {
        self.tell(Order::Call)
    }

    fn tell(&self, order: Order) -> io::Result<u8> {
        // SAFETY: one byte of a live array.
        let sent = unsafe { libc::write(self.orders.as_raw_fd(), [order as u8].as_ptr().cast(), 1) };
        if sent != 1 {
            return Err(io::Error::last_os_error());
        }
        receive::<1>(&self.answers).map(|[traps]| traps)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // SAFETY: no pointers that are looked at; the handle names our subject and nobody else.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.handle.as_raw_fd(),
                libc::SIGKILL,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
        if self.relation == Relation::Child {
            reap(self.pid.raw());
        }
    }
}

fn reap(child: i32) {
    // SAFETY: waits for our own child; no status is asked for.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers to a live array of two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made both; nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Waits for an answer, but not for ever: a subject may die of what is tried on it.
fn receive<const N: usize>(from: &OwnedFd) -> io::Result<[u8; N]> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut fds = [libc::pollfd {
        fd: from.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }];
    poll(&mut fds, PATIENCE)?;
    if fds[0].revents == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = [0; N];
    // SAFETY: the buffer is live and N bytes long.
    let count = unsafe { libc::read(from.as_raw_fd(), answer.as_mut_ptr().cast(), N) };
    if usize::try_from(count) == Ok(N) {
        Ok(answer)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// The life of the subject. Only system calls, no memory, no locks, no panics: see [`Subject::start`].
fn become_subject(relation: Relation, orders: i32, answers: i32) -> ! {
    // SAFETY: all of these calls are safe in a copy of a process with several threads; the pointers are to
    // live locals, the handler only uses atomics.
    unsafe {
        if relation == Relation::Stranger && libc::fork() != 0 {
            libc::_exit(0);
        }
        if relation == Relation::Child {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        // Nothing of ours stays open with it, such as a locked file, and no end of its own pipe: it reads the end of that when
        // we are killed.
        let (low, high) = (orders.min(answers), orders.max(answers));
        for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, i32::MAX)] {
            if first <= last {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
        let mut traps: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut traps, libc::SIGTRAP);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const traps, std::ptr::null_mut());
        let number = libc::getpid().to_ne_bytes();
        libc::write(answers, number.as_ptr().cast(), number.len());
        let mut order = 0_u8;
        while libc::read(orders, (&raw mut order).cast(), 1) == 1 {
            if order == Order::Write as u8 {
                WATCHED.store(WATCHED.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            } else {
                called();
            }
            let traps = TRAPS.load(Ordering::Relaxed);
            libc::write(answers, (&raw const traps).cast(), 1);
        }
        libc::_exit(0)
    }
}

/// What is probed.
#[inline(never)]
extern "C" fn called() {
    std::hint::black_box(());
}

extern "C" fn on_trap(_signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    const TRAP_PERF: i32 = 6;
    // SAFETY: the kernel hands the handler a live siginfo.
    if unsafe { (*info).si_code } == TRAP_PERF {
        TRAPS.fetch_add(1, Ordering::Relaxed);
    }
}
