//! What is known of a process at the moment of its failure.

use std::borrow::Cow;
use std::ops::Range;

use program::{FileOffset, RunAddr};

use super::bytes::{i32_at, text, u32_at, u64_at};
use super::modules::MappedModule;
use super::registers::Registers;
use crate::report::{Signal, Source};

const AT_PHDR: u64 = 3;
const AT_ENTRY: u64 = 9;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

/// A thread, not running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedThread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its name, where it has one of its own.
    pub name: Option<String>,
    /// Its registers.
    pub registers: Registers,
    /// The signal it had been sent. In a core, the kernel writes the fatal one into every thread.
    pub signal: Option<Signal>,
}

/// The signal that ended the process, as `siginfo_t` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInfo {
    /// Which signal.
    pub signal: Signal,
    /// Why it was sent: positive for the kernel's reasons, zero or negative for a sender's.
    pub code: i32,
    /// The address it is about: the datum for SIGSEGV and SIGBUS, the instruction for SIGILL and SIGFPE.
    /// Only where the kernel raised it for one.
    pub address: Option<RunAddr>,
    /// The process that sent it, where one did.
    pub sender: Option<u32>,
}

impl SignalInfo {
    /// Reads a `siginfo_t`. The union behind the three numbers holds an address or a sender, and which of
    /// them depends on signal and code.
    #[must_use]
    pub fn from_siginfo(bytes: &[u8]) -> Option<Self> {
        const SI_KERNEL: i32 = 0x80;
        const SI_USER: i32 = 0;
        const SI_QUEUE: i32 = -1;
        const SI_TKILL: i32 = -6;
        const WITH_ADDRESS: [i32; 5] = [4, 5, 7, 8, 11];
        let signal = i32_at(bytes, 0)?;
        let code = i32_at(bytes, 8)?;
        if signal == 0 {
            return None;
        }
        let raised_for_address = WITH_ADDRESS.contains(&signal) && code > 0 && code != SI_KERNEL;
        let sent = matches!(code, SI_USER | SI_QUEUE | SI_TKILL);
        Some(Self {
            signal: Signal(signal),
            code,
            address: raised_for_address
                .then(|| u64_at(bytes, 16).map(RunAddr))
                .flatten(),
            sender: sent.then(|| u32_at(bytes, 16)).flatten(),
        })
    }
}

/// What was running.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProgramInfo {
    /// The process's id.
    pub pid: u32,
    /// The name, cut to 15 characters by the kernel.
    pub name: String,
    /// The command line, its arguments joined by spaces; cut to 79 characters in a core.
    pub arguments: String,
}

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where.
    pub range: Range<RunAddr>,
    /// What of the file the range starts with.
    pub offset: FileOffset,
    /// Which file, as the kernel named it.
    pub path: String,
}

/// Everything about a process but its memory.
#[derive(Clone, Debug, Default)]
pub struct ProcessState {
    /// The threads, the one that failed first.
    pub threads: Vec<StoppedThread>,
    /// The signal that ended the process, in detail.
    pub signal: Option<SignalInfo>,
    /// Name and arguments.
    pub program: Option<ProgramInfo>,
    /// The auxiliary vector: pairs of `AT_…` and value.
    pub auxv: Vec<(u64, u64)>,
    /// The files that were mapped, in address order.
    pub mappings: Vec<Mapping>,
}

impl ProcessState {
    /// A value of the auxiliary vector (`AT_…`).
    #[must_use]
    pub fn auxv(&self, key: u64) -> Option<u64> {
        self.auxv
            .iter()
            .find(|(found, _)| *found == key)
            .map(|&(_, value)| value)
    }

    /// Where the kernel put its own module.
    #[must_use]
    pub fn vdso(&self) -> Option<RunAddr> {
        self.auxv(AT_SYSINFO_EHDR).map(RunAddr)
    }
}

/// A run of mapped addresses with the same rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where.
    pub range: Range<u64>,
    /// Its bytes can be executed.
    pub executable: bool,
    /// Its bytes can be written: they may not be what the mapped file has.
    pub writable: bool,
}

/// The memory of a process.
pub trait Memory {
    /// What was mapped at an address.
    fn region_at(&self, addr: u64) -> Option<Region>;

    /// `len` bytes; `None` unless all of them can be had.
    fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'_, [u8]>>;

    /// The bytes from an address on, as far as one region goes and `most` allows. They are kept as long as
    /// the image, so this is for the parts of modules, not for data.
    fn bytes_from(&self, addr: RunAddr, most: usize) -> Option<&[u8]>;
}

/// A process at one moment.
pub trait ProcessImage: Memory {
    /// Everything but the memory.
    fn state(&self) -> &ProcessState;

    /// The mapped files that hold code, and the vdso: what [`super::modules()`] makes of the mappings.
    fn modules(&self) -> &[MappedModule];

    /// What was strange or missing, a line each.
    fn notes(&self) -> &[String];

    /// Where reports say that they come from.
    fn source(&self) -> Source;
}

impl dyn ProcessImage + '_ {
    /// The word at an address.
    pub(crate) fn word(&self, addr: u64) -> Option<u64> {
        u64_at(&self.read(RunAddr(addr), 8)?, 0)
    }

    /// The string at an address, up to a page of it.
    pub(crate) fn string(&self, addr: RunAddr) -> Option<String> {
        string(addr, |addr, len| self.read(addr, len))
    }

    /// The module of the executable: the one with the program headers that the kernel told the program of.
    #[must_use]
    pub fn executable(&self) -> Option<&MappedModule> {
        [AT_PHDR, AT_ENTRY].into_iter().find_map(|key| {
            let inside = RunAddr(self.state().auxv(key)?);
            self.modules()
                .iter()
                .find(|module| module.ranges.iter().any(|(range, _)| range.contains(&inside)))
        })
    }

    /// The path of the executable: as mapped, or else as it was given to `execve`.
    #[must_use]
    pub fn executable_path(&self) -> Option<String> {
        let mapped = self.executable().map(|module| module.path.clone());
        mapped.or_else(|| self.string(RunAddr(self.state().auxv(AT_EXECFN)?)))
    }
}

/// A string, read in small steps up to a page.
pub(super) fn string<'m>(
    addr: RunAddr,
    read: impl Fn(RunAddr, usize) -> Option<Cow<'m, [u8]>>,
) -> Option<String> {
    const LONGEST: usize = 4096;
    const STEP: usize = 64;
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST && !bytes.contains(&0) {
        let at = RunAddr(addr.0.checked_add(bytes.len() as u64)?);
        // Up to the next multiple, so that no read crosses into a page that is not there.
        let len = STEP - (at.0 % STEP as u64) as usize;
        let Some(part) = read(at, len).or_else(|| read(at, 1)) else {
            break;
        };
        bytes.extend_from_slice(&part);
    }
    let found = text(&bytes);
    (!found.is_empty()).then_some(found)
}
