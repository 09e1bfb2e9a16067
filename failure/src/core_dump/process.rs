//! What the notes of a core say about the process: its threads, signal, command line and mapped files.

use std::ops::Range;

use program::{FileOffset, RunAddr};

use super::bytes::{i32_at, slice, text, u16_at, u32_at, u64_at};
use super::elf::Note;
use super::registers::Registers;
use crate::report::Signal;

const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;

const AT_NULL: u64 = 0;

/// A thread as it was when the core was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreThread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its registers.
    pub registers: Registers,
    /// The signal it had been sent. The kernel writes the fatal one into every thread.
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

/// What was running.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProgramInfo {
    /// The process's id.
    pub pid: u32,
    /// The name, cut to 15 characters by the kernel.
    pub name: String,
    /// The command line, cut to 79 characters by the kernel, its arguments joined by spaces.
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

/// Everything the notes tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) threads: Vec<CoreThread>,
    pub(super) signal: Option<SignalInfo>,
    pub(super) program: Option<ProgramInfo>,
    pub(super) auxv: Vec<(u64, u64)>,
    pub(super) mappings: Vec<Mapping>,
}

impl Process {
    /// Takes in one note; those of other kinds are passed over.
    pub(super) fn add(&mut self, note: &Note<'_>) {
        if note.owner != b"CORE" {
            return;
        }
        match note.kind {
            NT_PRSTATUS => self.threads.extend(thread(note.content)),
            NT_PRPSINFO => self.program = self.program.take().or_else(|| program_info(note.content)),
            // gdb writes one for each thread; the first is that of the thread that got the signal.
            NT_SIGINFO => self.signal = self.signal.or_else(|| signal_info(note.content)),
            NT_AUXV if self.auxv.is_empty() => self.auxv = auxv(note.content),
            NT_FILE if self.mappings.is_empty() => self.mappings = mappings(note.content),
            _ => {}
        }
    }
}

/// `struct elf_prstatus`.
fn thread(note: &[u8]) -> Option<CoreThread> {
    let signal = i32::from(u16_at(note, 12)?);
    Some(CoreThread {
        tid: u32_at(note, 32)?,
        registers: Registers::from_user_regs(note.get(112..)?)?,
        signal: (signal != 0).then_some(Signal(signal)),
    })
}

/// `struct elf_prpsinfo`.
fn program_info(note: &[u8]) -> Option<ProgramInfo> {
    Some(ProgramInfo {
        pid: u32_at(note, 24)?,
        name: text(slice(note, 40, 16)?),
        arguments: text(slice(note, 56, 80)?).trim_end().to_owned(),
    })
}

/// `siginfo_t`. The union behind the three numbers holds an address or a sender, and which of them depends
/// on signal and code.
fn signal_info(note: &[u8]) -> Option<SignalInfo> {
    const SI_KERNEL: i32 = 0x80;
    const SI_USER: i32 = 0;
    const SI_QUEUE: i32 = -1;
    const SI_TKILL: i32 = -6;
    const WITH_ADDRESS: [i32; 5] = [4, 5, 7, 8, 11];
    let signal = i32_at(note, 0)?;
    let code = i32_at(note, 8)?;
    if signal == 0 {
        return None;
    }
    let raised_for_address = WITH_ADDRESS.contains(&signal) && code > 0 && code != SI_KERNEL;
    let sent = matches!(code, SI_USER | SI_QUEUE | SI_TKILL);
    Some(SignalInfo {
        signal: Signal(signal),
        code,
        address: raised_for_address
            .then(|| u64_at(note, 16).map(RunAddr))
            .flatten(),
        sender: sent.then(|| u32_at(note, 16)).flatten(),
    })
}

fn auxv(note: &[u8]) -> Vec<(u64, u64)> {
    note.chunks_exact(16)
        .filter_map(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?)))
        .take_while(|&(key, _)| key != AT_NULL)
        .collect()
}

/// The mapped files: a count, the unit of the offsets (a page for the kernel, one byte for gdb), the ranges,
/// then as many names.
fn mappings(note: &[u8]) -> Vec<Mapping> {
    const PATH_MAX: usize = 4096;
    let header = u64_at(note, 0).zip(u64_at(note, 8));
    let Some((count, unit)) = header else {
        return Vec::new();
    };
    let Some(names_at) = count.checked_mul(24).and_then(|len| len.checked_add(16)) else {
        return Vec::new();
    };
    let Some(names) = usize::try_from(names_at).ok().and_then(|at| note.get(at..)) else {
        return Vec::new();
    };
    let ranges = note.get(16..).unwrap_or_default().chunks_exact(24);
    let mut found: Vec<Mapping> = ranges
        .zip(names.split(|&byte| byte == 0))
        .take(usize::try_from(count).unwrap_or(usize::MAX))
        .filter_map(|(range, name)| {
            let (start, end) = (u64_at(range, 0)?, u64_at(range, 8)?);
            let offset = u64_at(range, 16)?.checked_mul(unit)?;
            (start < end).then(|| Mapping {
                range: RunAddr(start)..RunAddr(end),
                offset: FileOffset(offset),
                path: text(name.get(..PATH_MAX).unwrap_or(name)),
            })
        })
        .collect();
    found.sort_by_key(|mapping| mapping.range.start);
    // One address has one file; a note that says otherwise is damaged, and would be a way to make a lot of
    // work from little.
    let mut taken = RunAddr(0);
    found.retain(|mapping| {
        let free = mapping.range.start >= taken;
        taken = if free { mapping.range.end } else { taken };
        free
    });
    found
}
