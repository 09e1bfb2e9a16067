//! One perf event: a file descriptor and what it was opened with.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_ATTR_SIZE_VER7, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_ADDR, PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER,
    PERF_SAMPLE_IP, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};

use super::error::PerfError;
use super::file_limit;
use crate::Tid;
use crate::registers::PERF_MASK;

/// What every sample consists of. One layout for all events, so that they can share a ring.
const SAMPLE_TYPE: u32 = PERF_SAMPLE_IDENTIFIER
    | PERF_SAMPLE_IP
    | PERF_SAMPLE_TID
    | PERF_SAMPLE_TIME
    | PERF_SAMPLE_ADDR
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_REGS_USER;

/// Attributes that every event has: user space only, the monotonic clock, the one sample layout.
pub(super) fn attributes(kind: u32, config: u64) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: kind,
        // The kernel refuses a longer one only if it has something in the part it does not know.
        size: PERF_ATTR_SIZE_VER7,
        config,
        sample_type: SAMPLE_TYPE as u64,
        sample_regs_user: PERF_MASK,
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// Whose execution an event sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// One thread's.
    Thread(Tid),
    /// Everybody's.
    All,
}

/// An open event.
#[derive(Debug)]
pub(super) struct Event {
    fd: OwnedFd,
    attr: perf_event_attr,
}

impl Event {
    /// Opens an event on a processor, or on all of them (only for one thread's). Raises the limit of open
    /// files if that is in the way.
    pub(super) fn open(attr: perf_event_attr, whose: Whose, cpu: Option<u32>) -> io::Result<Self> {
        match Self::try_open(attr, whose, cpu) {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                file_limit::raise()?;
                Self::try_open(attr, whose, cpu)
            }
            other => other,
        }
    }

    fn try_open(mut attr: perf_event_attr, whose: Whose, cpu: Option<u32>) -> io::Result<Self> {
        let pid = match whose {
            Whose::Thread(tid) => tid.raw(),
            Whose::All => -1,
        };
        let cpu = cpu.map_or(-1, |cpu| i32::try_from(cpu).unwrap_or(i32::MAX));
        // SAFETY: `attr` is a complete perf_event_attr of the size it says; pointers inside it (a uprobe's
        // path) are kept alive by the caller until this returns, which is when the kernel is done with them.
        let fd = unsafe { perf_event_open(&raw mut attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor; nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, attr })
    }

    pub(super) fn enable(&mut self) -> io::Result<()> {
        // SAFETY: an ioctl on our own event, with no pointer.
        check(unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })?;
        self.attr.set_disabled(0);
        Ok(())
    }

    pub(super) fn disable(&mut self) -> io::Result<()> {
        // SAFETY: an ioctl on our own event, with no pointer.
        check(unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })?;
        self.attr.set_disabled(1);
        Ok(())
    }

    /// The number that samples of this event, and of those inherited from it, carry.
    pub(super) fn id(&self) -> io::Result<u64> {
        let mut id = 0_u64;
        // SAFETY: the kernel writes one u64 to the pointer, which is to a live u64.
        check(unsafe { ioctls::ID(self.fd.as_raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    /// How often it happened, inherited events included.
    pub(super) fn count(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        File::from(self.fd.try_clone()?).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Sends what the event reports to the ring of another.
    pub(super) fn set_output(&self, ring: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: an ioctl on our own event; its argument is a live descriptor by number.
        check(unsafe { ioctls::SET_OUTPUT(self.fd.as_raw_fd(), ring.as_raw_fd()) })
    }

    /// Runs a BPF program at each occurrence.
    pub(super) fn set_program(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let program = u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?;
        // SAFETY: an ioctl on our own event; its argument is a live descriptor by number. The kernel takes a
        // reference to the program.
        check(unsafe { ioctls::SET_BPF(self.fd.as_raw_fd(), program) })
    }

    /// Changes what a breakpoint event, and all that were inherited from it, look for. The kernel accepts
    /// changes of address, length, access and of being disabled.
    pub(super) fn modify(&mut self, change: impl FnOnce(&mut perf_event_attr)) -> io::Result<()> {
        let mut attr = self.attr;
        change(&mut attr);
        // SAFETY: `attr` is a complete perf_event_attr of the size it says, and the kernel only reads it.
        check(unsafe { ioctls::MODIFY_ATTRIBUTES(self.fd.as_raw_fd(), &raw mut attr) })?;
        self.attr = attr;
        Ok(())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// What an error means for an event on a thread, where it means the same for every kind of event.
pub(super) fn explain(what: String, whose: Whose, error: io::Error) -> PerfError {
    match (error.raw_os_error(), whose) {
        (Some(libc::ESRCH), Whose::Thread(tid)) => PerfError::NoSuchThread { tid },
        (Some(libc::EMFILE | libc::ENFILE), _) => PerfError::TooManyFiles {
            limit: file_limit::current().map_or(0, |limit| limit.hard),
        },
        (Some(libc::ENOSYS), _) => PerfError::NotSupported {
            what,
            remedy: "the kernel needs CONFIG_PERF_EVENTS, and the container's seccomp profile must allow \
                     perf_event_open",
        },
        _ => PerfError::System { what, source: error },
    }
}

/// Opens and closes an event of one of the processor's own units on the calling thread.
pub(crate) fn try_open_pmu(kind: u32) -> Result<(), PerfError> {
    let whose = Whose::Thread(Tid(0));
    let mut attr = attributes(kind, 0);
    attr.sample_type = 0;
    attr.sample_regs_user = 0;
    attr.set_use_clockid(0);
    attr.set_disabled(1);
    match Event::open(attr, whose, None) {
        Ok(_) => Ok(()),
        Err(error) => Err(explain("an event of the processor".to_owned(), whose, error)),
    }
}
