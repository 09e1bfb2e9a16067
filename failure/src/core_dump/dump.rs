//! The core file itself.

use std::borrow::Cow;

use program::RunAddr;

use super::bytes::{slice, text};
use super::elf::{self, EM_X86_64, ET_CORE, Header, PT_LOAD, PT_NOTE, Segment};
use super::error::CoreError;
use super::memory::Memory;
use super::modules::{self, CoreModule};
use super::process::{CoreThread, Mapping, Process, ProgramInfo, SignalInfo};

const AT_PHDR: u64 = 3;
const AT_ENTRY: u64 = 9;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

/// A core dump, read.
#[derive(Clone, Debug)]
pub struct CoreDump<'a> {
    pub(super) memory: Memory<'a>,
    process: Process,
    modules: Vec<CoreModule>,
    notes: Vec<String>,
}

impl<'a> CoreDump<'a> {
    /// Reads the headers and notes of a core. A core that was cut short is read as far as it goes, and
    /// [`CoreDump::notes`] says so.
    ///
    /// # Errors
    /// When the bytes are no x86-64 core, or one without a single thread in it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CoreError> {
        let header = check_kind(bytes)?;
        let count = header.segment_count(bytes);
        let segments: Vec<Segment> = header.segments(bytes, count).collect();
        let mut notes = Vec::new();
        let mut process = Process::default();
        for segment in segments.iter().filter(|segment| segment.kind == PT_NOTE) {
            let present = slice(bytes, segment.offset, segment.filesz)
                .or_else(|| bytes.get(usize::try_from(segment.offset).ok()?..))
                .unwrap_or_default();
            elf::notes(present, segment.align).for_each(|note| process.add(&note));
        }
        let present = bytes.len() as u64;
        if process.threads.is_empty() {
            let note_ends = segments
                .iter()
                .filter(|segment| segment.kind == PT_NOTE)
                .map(file_end)
                .max();
            let needed = header.segments_end(count).max(note_ends.unwrap_or(0));
            if needed > present {
                return Err(CoreError::HeadersCut { present, needed });
            }
            return Err(CoreError::NoThreads);
        }
        let whole = segments.iter().map(file_end).max().unwrap_or(0);
        if let Some(missing) = whole.checked_sub(present).filter(|&missing| missing > 0) {
            notes.push(format!(
                "the core is cut off: {missing} of {whole} bytes are missing (a full disk, or a limit on the size of cores)"
            ));
        }
        let loads = segments.iter().filter(|segment| segment.kind == PT_LOAD).copied();
        let (memory, overlap) = Memory::new(bytes, loads);
        if overlap {
            notes.push(
                "segments of the core overlap: it is damaged or was not written by the kernel".to_owned(),
            );
        }
        let vdso = process
            .auxv
            .iter()
            .find(|(key, _)| *key == AT_SYSINFO_EHDR)
            .map(|&(_, value)| value);
        let modules = modules::modules(&memory, &process.mappings, vdso);
        Ok(Self {
            memory,
            process,
            modules,
            notes,
        })
    }

    /// The threads. The kernel and gdb both put the one that failed first.
    #[must_use]
    pub fn threads(&self) -> &[CoreThread] {
        &self.process.threads
    }

    /// The signal that ended the process, in detail.
    #[must_use]
    pub fn signal(&self) -> Option<SignalInfo> {
        self.process.signal
    }

    /// The files that were mapped, in address order.
    #[must_use]
    pub fn mappings(&self) -> &[Mapping] {
        &self.process.mappings
    }

    /// The mapped files that hold code, and the vdso.
    #[must_use]
    pub fn modules(&self) -> &[CoreModule] {
        &self.modules
    }

    /// Name and arguments.
    #[must_use]
    pub fn program(&self) -> Option<&ProgramInfo> {
        self.process.program.as_ref()
    }

    /// A value of the auxiliary vector (`AT_…`).
    #[must_use]
    pub fn auxv(&self, key: u64) -> Option<u64> {
        self.process
            .auxv
            .iter()
            .find(|(found, _)| *found == key)
            .map(|&(_, value)| value)
    }

    /// What was strange or missing, a line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The module of the executable: the one with the program headers that the kernel told the program of.
    #[must_use]
    pub fn executable(&self) -> Option<&CoreModule> {
        [AT_PHDR, AT_ENTRY].into_iter().find_map(|key| {
            let inside = RunAddr(self.auxv(key)?);
            self.modules
                .iter()
                .find(|module| module.ranges.iter().any(|(range, _)| range.contains(&inside)))
        })
    }

    /// The path of the executable: as mapped, or else as it was given to `execve`.
    #[must_use]
    pub fn executable_path(&self) -> Option<String> {
        let mapped = self.executable().map(|module| module.path.clone());
        mapped.or_else(|| self.string(RunAddr(self.auxv(AT_EXECFN)?)))
    }

    /// `len` bytes of dumped memory; `None` unless the core has all of them.
    #[must_use]
    pub fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'a, [u8]>> {
        self.memory.read(addr.0, len)
    }

    /// The string at an address, up to a page of it.
    pub(super) fn string(&self, addr: RunAddr) -> Option<String> {
        const LONGEST: usize = 4096;
        let rest = self.memory.dumped_from(addr.0)?;
        let found = text(rest.get(..LONGEST).unwrap_or(rest));
        (!found.is_empty()).then_some(found)
    }
}

fn file_end(segment: &Segment) -> u64 {
    segment.offset.saturating_add(segment.filesz)
}

/// Tells a core from everything else that people hand over.
fn check_kind(bytes: &[u8]) -> Result<Header, CoreError> {
    const COMPRESSED: [(&[u8], &str, &str); 4] = [
        (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
        (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
        (b"\xfd7zXZ\0", "xz", "xz -d"),
        (b"\x1f\x8b", "gzip", "gzip -d"),
    ];
    if let Some(&(_, format, command)) = COMPRESSED.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Err(CoreError::Compressed { format, command });
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err(CoreError::NotElf);
    }
    let Some(header) = Header::read(bytes) else {
        let (class, order) = (bytes.get(4).copied(), bytes.get(5).copied());
        return Err(match (class, order) {
            (Some(1), _) => CoreError::WrongMachine {
                machine: "32-bit".to_owned(),
            },
            (_, Some(2)) => CoreError::WrongMachine {
                machine: "big-endian".to_owned(),
            },
            (Some(2) | None, Some(1) | None) => CoreError::HeadersCut {
                present: bytes.len() as u64,
                needed: 64,
            },
            _ => CoreError::NotElf,
        });
    };
    match header.file_type {
        ET_CORE => {}
        1 => {
            return Err(CoreError::NotCore {
                what: "an object file",
            });
        }
        2 => {
            return Err(CoreError::NotCore {
                what: "an executable",
            });
        }
        3 => {
            return Err(CoreError::NotCore {
                what: "an executable or a shared library",
            });
        }
        _ => {
            return Err(CoreError::NotCore {
                what: "an ELF file of an unknown type",
            });
        }
    }
    match header.machine {
        EM_X86_64 => Ok(header),
        183 => Err(CoreError::WrongMachine {
            machine: "64-bit Arm (aarch64)".to_owned(),
        }),
        243 => Err(CoreError::WrongMachine {
            machine: "RISC-V".to_owned(),
        }),
        21 => Err(CoreError::WrongMachine {
            machine: "PowerPC".to_owned(),
        }),
        22 => Err(CoreError::WrongMachine {
            machine: "s390".to_owned(),
        }),
        other => Err(CoreError::WrongMachine {
            machine: format!("different (ELF machine {other})"),
        }),
    }
}
