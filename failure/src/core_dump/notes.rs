//! What the notes of a core say about the process: its threads, signal, command line and mapped files.

use program::{FileOffset, RunAddr};

use crate::image::bytes::{slice, text, u16_at, u32_at, u64_at};
use crate::image::elf::Note;
use crate::image::{Mapping, ProcessState, ProgramInfo, Registers, SignalInfo, StoppedThread};
use crate::report::Signal;

const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;

const AT_NULL: u64 = 0;

/// Takes in one note; those of other kinds are passed over.
pub(super) fn add(process: &mut ProcessState, note: &Note<'_>) {
    if note.owner != b"CORE" {
        return;
    }
    match note.kind {
        NT_PRSTATUS => process.threads.extend(thread(note.content)),
        NT_PRPSINFO => process.program = process.program.take().or_else(|| program_info(note.content)),
        // gdb writes one for each thread; the first is that of the thread that got the signal.
        NT_SIGINFO => {
            process.signal = process.signal.or_else(|| SignalInfo::from_siginfo(note.content));
        }
        NT_AUXV if process.auxv.is_empty() => process.auxv = auxv(note.content),
        NT_FILE if process.mappings.is_empty() => process.mappings = mappings(note.content),
        _ => {}
    }
}

/// `struct elf_prstatus`.
fn thread(note: &[u8]) -> Option<StoppedThread> {
    let signal = i32::from(u16_at(note, 12)?);
    Some(StoppedThread {
        tid: u32_at(note, 32)?,
        name: None,
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
