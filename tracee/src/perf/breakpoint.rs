//! Debug registers as perf events: who touches these bytes?

use std::collections::BTreeMap;
use std::io;

use perf_event_open_sys::bindings::{
    HW_BREAKPOINT_RW, HW_BREAKPOINT_W, HW_BREAKPOINT_X, PERF_TYPE_BREAKPOINT, perf_event_attr,
};
use program::RunAddr;

use super::error::PerfError;
use super::event::{Event, Whose, attributes, explain};
use super::own_files::with_own_files;
use super::rings::Rings;
use crate::Tid;
use crate::bpf::HitProgram;

/// How many debug registers a thread has.
pub const DEBUG_REGISTERS: usize = 4;

/// Bytes that one debug register can watch: 1, 2, 4 or 8 of them, aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    addr: RunAddr,
    len: u8,
}

impl Range {
    /// The `len` bytes at `addr`.
    ///
    /// # Errors
    /// When no debug register can watch just those.
    pub fn new(addr: RunAddr, len: u64) -> Result<Self, PerfError> {
        match len {
            1 | 2 | 4 | 8 if addr.0.is_multiple_of(len) => Ok(Self { addr, len: len as u8 }),
            _ => Err(PerfError::BadRange { addr, len }),
        }
    }

    /// The address of the first byte.
    #[must_use]
    pub fn addr(self) -> RunAddr {
        self.addr
    }

    /// How many bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a register watches at least one byte")]
    pub fn len(self) -> u64 {
        self.len.into()
    }
}

/// What a breakpoint waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// A write to any of the bytes. Reported after the write.
    Write(Range),
    /// A read or a write of any of the bytes. Reported after the access.
    ReadWrite(Range),
    /// The execution of the instruction that starts here. Reported before it.
    Execute(RunAddr),
}

impl Trigger {
    fn put_into(self, attr: &mut perf_event_attr) {
        let (kind, addr, len) = match self {
            Self::Write(range) => (HW_BREAKPOINT_W, range.addr.0, range.len()),
            Self::ReadWrite(range) => (HW_BREAKPOINT_RW, range.addr.0, range.len()),
            // The kernel wants the size of a long here; the processor looks for the one address.
            Self::Execute(addr) => (HW_BREAKPOINT_X, addr.0, 8),
        };
        attr.bp_type = kind;
        attr.__bindgen_anon_3.bp_addr = addr;
        attr.__bindgen_anon_4.bp_len = len;
    }
}

/// What happens at a hit.
#[derive(Clone, Copy, Debug)]
pub enum Delivery<'a> {
    /// The thread gets SIGTRAP with `si_code` TRAP_PERF, `si_addr` the watched address and `si_perf_data` the
    /// cookie: a stop under ptrace, **death** where nobody traces and nobody handles the signal.
    Stop {
        /// What `si_perf_data` will be.
        cookie: u64,
        /// Where a sample goes besides, which tells when the access happened: a thread may wait for a processor between
        /// its access and its stop.
        times: Option<&'a Rings>,
    },
    /// The program writes a record; the thread goes on.
    Bpf(&'a HitProgram),
    /// A sample with registers goes to the ring of the processor; the thread goes on.
    Ring(&'a Rings),
    /// Nothing but counting: what a trap costs by itself.
    Silent,
}

impl<'a> Delivery<'a> {
    /// A stop, and no word about when it happened.
    #[must_use]
    pub fn stop(cookie: u64) -> Self {
        Self::Stop { cookie, times: None }
    }

    /// The rings of the processors, where each has an event of its own: an inherited event can only write to the ring of
    /// one processor.
    pub(super) fn rings(&self) -> Option<&'a Rings> {
        match self {
            Self::Ring(rings) => Some(rings),
            Self::Stop { times, .. } => *times,
            Self::Bpf(_) | Self::Silent => None,
        }
    }

    /// The processors, where each has an event of its own.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.rings().into_iter().flat_map(Rings::cpus)
    }

    /// How many files a breakpoint takes.
    #[must_use]
    pub fn files(&self) -> usize {
        self.cpus().count().max(1)
    }

    /// The same without a word about when it happened.
    #[must_use]
    pub fn without_times(self) -> Self {
        match self {
            Self::Stop { cookie, .. } => Self::stop(cookie),
            other => other,
        }
    }
}

/// Who inherits a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Nobody: the one thread only.
    Nobody,
    /// The threads that the thread will create, from their first instruction, and theirs.
    Threads,
    /// Those, and the processes that it will fork.
    ThreadsAndProcesses,
}

/// Whether a breakpoint is armed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Armed when `open` returns.
    Enabled,
    /// It holds its register and waits for [`Breakpoint::enable`].
    Disabled,
}

/// A debug register of a thread and, as told, of the threads that it creates. Gone with this value, or with
/// this process, whatever ends it. An exec removes it as well: the addresses mean something else then.
#[derive(Debug)]
pub struct Breakpoint {
    tid: Tid,
    /// One event; with rings, one for each processor.
    events: Vec<Event>,
}

impl Breakpoint {
    /// Opens a breakpoint on a thread, for accesses of its own code. The thread is not stopped and does not
    /// notice.
    ///
    /// # Errors
    /// When all registers are in use, when it is not permitted, when the thread is gone.
    pub fn open(
        tid: Tid,
        trigger: Trigger,
        delivery: Delivery<'_>,
        follow: Follow,
        start: Start,
    ) -> Result<Self, PerfError> {
        let attr = attributes(PERF_TYPE_BREAKPOINT, 0);
        Self::open_with(attr, tid, trigger, delivery, follow, start, |_| true)
    }

    /// The same, for a thread that has inherited it on some processors: where the breakpoint has an event for each, a
    /// thread that was created while they were opened has those of the first.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_where(
        tid: Tid,
        trigger: Trigger,
        delivery: Delivery<'_>,
        follow: Follow,
        start: Start,
        missing: impl Fn(u32) -> bool,
    ) -> Result<Self, PerfError> {
        let attr = attributes(PERF_TYPE_BREAKPOINT, 0);
        Self::open_with(attr, tid, trigger, delivery, follow, start, missing)
    }

    /// The same as `open`, also for accesses that the kernel makes in the thread's system calls: `read` into a buffer,
    /// `futex` on a lock. The kernel may copy in pieces, as small as bytes, each of them a hit; a stop comes
    /// once, when the system call returns. A program and a ring tell the registers at the system call; a
    /// ring's [`super::Sample::ip`] is the kernel's.
    ///
    /// # Errors
    /// As for `open`; it takes CAP_PERFMON, or `kernel.perf_event_paranoid` at 1 or lower.
    pub fn open_with_kernel(
        tid: Tid,
        trigger: Trigger,
        delivery: Delivery<'_>,
        follow: Follow,
        start: Start,
    ) -> Result<Self, PerfError> {
        let mut attr = attributes(PERF_TYPE_BREAKPOINT, 0);
        attr.set_exclude_kernel(0);
        Self::open_with(attr, tid, trigger, delivery, follow, start, |_| true)
    }

    fn open_with(
        mut attr: perf_event_attr,
        tid: Tid,
        trigger: Trigger,
        delivery: Delivery<'_>,
        follow: Follow,
        start: Start,
        missing: impl Fn(u32) -> bool,
    ) -> Result<Self, PerfError> {
        trigger.put_into(&mut attr);
        attr.set_disabled((start == Start::Disabled).into());
        attr.set_inherit((follow != Follow::Nobody).into());
        attr.set_inherit_thread((follow == Follow::Threads).into());
        attr.set_remove_on_exec(1);
        if !matches!(delivery, Delivery::Silent) {
            attr.__bindgen_anon_1.sample_period = 1;
        }
        if let Delivery::Stop { cookie, .. } = delivery {
            attr.set_sigtrap(1);
            attr.sig_data = cookie;
        }
        // Nothing may hit before its consumer is connected.
        let consumed = matches!(delivery, Delivery::Bpf(_)) || delivery.rings().is_some();
        let late = consumed && start == Start::Enabled;
        if late {
            attr.set_disabled(1);
        }
        let open = |cpu| Event::open(attr, Whose::Thread(tid), cpu).map_err(|error| refused(tid, error));
        let events = match (delivery.rings(), delivery) {
            (Some(rings), _) => {
                let mut events = Vec::new();
                for cpu in rings.cpus().filter(|cpu| missing(*cpu)) {
                    let event = open(Some(cpu))?;
                    rings.take_in(&event, cpu)?;
                    events.push(event);
                }
                events
            }
            (None, Delivery::Bpf(program)) => {
                let event = open(None)?;
                event
                    .set_program(program.fd())
                    .map_err(PerfError::system("connecting a BPF program to a breakpoint"))?;
                vec![event]
            }
            (None, _) => vec![open(None)?],
        };
        let mut breakpoint = Self { tid, events };
        if late {
            breakpoint.enable()?;
        }
        Ok(breakpoint)
    }

    /// The thread that it was opened on.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Arms it, in all threads that have it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&mut self) -> Result<(), PerfError> {
        self.each("enabling a breakpoint", Event::enable)
    }

    /// Disarms it, in all threads that have it. It keeps its register.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable(&mut self) -> Result<(), PerfError> {
        self.each("disabling a breakpoint", Event::disable)
    }

    /// Makes it wait for something else, in all threads that have it. It stays enabled or disabled.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn move_to(&mut self, trigger: Trigger) -> Result<(), PerfError> {
        self.each("moving a breakpoint", |event| {
            event.modify(|attr| trigger.put_into(attr))
        })
    }

    /// How often it was hit, in all threads that have or had it. A consumer that got fewer hits lost some.
    ///
    /// # Errors
    /// When the event cannot be read.
    pub fn count(&self) -> Result<u64, PerfError> {
        let counts = self.events.iter().map(Event::count);
        counts
            .sum::<io::Result<u64>>()
            .map_err(PerfError::system("reading a breakpoint's count"))
    }

    /// What [`super::Sample::event`] is for samples of this breakpoint: one for each processor.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn ids(&self) -> Result<Vec<u64>, PerfError> {
        let ids = self.events.iter().map(Event::id);
        ids.collect::<io::Result<_>>()
            .map_err(PerfError::system("reading a breakpoint's number"))
    }

    fn each(
        &mut self,
        what: &'static str,
        mut act: impl FnMut(&mut Event) -> io::Result<()>,
    ) -> Result<(), PerfError> {
        let tid = self.tid;
        self.events.iter_mut().try_for_each(|event| {
            act(event).map_err(|error| explain(what.to_owned(), Whose::Thread(tid), error))
        })
    }
}

/// How many debug registers of a thread nobody holds, on the processor where that is least. Tells whether a new thread
/// inherited breakpoints: the kernel counts registers by thread and processor.
///
/// # Errors
/// When the thread is gone or may not be looked at.
pub fn free_registers(tid: Tid) -> Result<usize, PerfError> {
    apart(|| free(tid, None))
}

/// The same on each of some processors.
///
/// # Errors
/// When the thread is gone or may not be looked at.
pub fn free_registers_on(cpus: &[u32], tid: Tid) -> Result<BTreeMap<u32, usize>, PerfError> {
    apart(|| {
        cpus.iter()
            .map(|cpu| Ok((*cpu, free(tid, Some(*cpu))?)))
            .collect()
    })
}

/// Registers are asked for to see how many there are, and must be free again at once.
fn apart<T: Send>(ask: impl FnOnce() -> Result<T, PerfError> + Send) -> Result<T, PerfError> {
    let asked = with_own_files(ask);
    asked.map_err(PerfError::system("starting a thread with files of its own"))?
}

fn free(tid: Tid, cpu: Option<u32>) -> Result<usize, PerfError> {
    /// Never touched, as the breakpoints stay disabled.
    const ANYWHERE: Trigger = Trigger::Write(Range {
        addr: RunAddr(0x1000),
        len: 1,
    });
    let mut attr = attributes(PERF_TYPE_BREAKPOINT, 0);
    ANYWHERE.put_into(&mut attr);
    attr.set_disabled(1);
    let mut held = Vec::new();
    while held.len() < DEBUG_REGISTERS {
        match Event::open(attr, Whose::Thread(tid), cpu).map_err(|error| refused(tid, error)) {
            Ok(event) => held.push(event),
            Err(PerfError::NoRegister { .. }) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(held.len())
}

fn refused(tid: Tid, error: io::Error) -> PerfError {
    let what = || format!("a breakpoint on thread {tid}");
    match error.raw_os_error() {
        Some(libc::ENOSPC) => PerfError::NoRegister { tid },
        Some(libc::EACCES | libc::EPERM) => PerfError::NotPermitted {
            what: what(),
            remedy: "run as the target's user with kernel.perf_event_paranoid at 2 or lower \
                     (sudo sysctl kernel.perf_event_paranoid=2), or with CAP_PERFMON and CAP_SYS_PTRACE",
        },
        Some(libc::EINVAL | libc::E2BIG) => PerfError::NotSupported {
            what: what(),
            remedy: "it takes Linux 5.13 or newer and an address of user space",
        },
        Some(libc::ENODEV | libc::ENOENT | libc::EOPNOTSUPP) => PerfError::NotSupported {
            what: what(),
            remedy: "the kernel needs CONFIG_HAVE_HW_BREAKPOINT and a processor with debug registers",
        },
        _ => explain(what(), Whose::Thread(tid), error),
    }
}
