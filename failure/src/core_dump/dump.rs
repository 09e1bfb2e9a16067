//! The core file itself.

use std::borrow::Cow;

use program::RunAddr;

use super::error::CoreError;
use super::memory::Dumped;
use super::notes;
use crate::image::bytes::slice;
use crate::image::elf::{self, EM_X86_64, ET_CORE, Header, PT_LOAD, PT_NOTE, Segment};
use crate::image::{
    MappedModule, Mapping, Memory, ProcessImage, ProcessState, ProgramInfo, Region, SignalInfo,
    StoppedThread, modules,
};
use crate::report::Source;

/// A core dump, read.
#[derive(Clone, Debug)]
pub struct CoreDump<'a> {
    memory: Dumped<'a>,
    process: ProcessState,
    modules: Vec<MappedModule>,
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
        let mut remarks = Vec::new();
        let mut process = ProcessState::default();
        for segment in segments.iter().filter(|segment| segment.kind == PT_NOTE) {
            let present = slice(bytes, segment.offset, segment.filesz)
                .or_else(|| bytes.get(usize::try_from(segment.offset).ok()?..))
                .unwrap_or_default();
            elf::notes(present, segment.align).for_each(|note| notes::add(&mut process, &note));
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
            remarks.push(format!(
                "the core is cut off: {missing} of {whole} bytes are missing (a full disk, or a limit on the size of cores)"
            ));
        }
        let loads = segments.iter().filter(|segment| segment.kind == PT_LOAD).copied();
        let (memory, overlap) = Dumped::new(bytes, loads);
        if overlap {
            remarks.push(
                "segments of the core overlap: it is damaged or was not written by the kernel".to_owned(),
            );
        }
        let modules = modules(&memory, &process);
        Ok(Self {
            memory,
            process,
            modules,
            notes: remarks,
        })
    }

    /// The threads. The kernel and gdb both put the one that failed first.
    #[must_use]
    pub fn threads(&self) -> &[StoppedThread] {
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

    /// Name and arguments.
    #[must_use]
    pub fn program(&self) -> Option<&ProgramInfo> {
        self.process.program.as_ref()
    }

    /// The path of the executable: as mapped, or else as it was given to `execve`.
    #[must_use]
    pub fn executable_path(&self) -> Option<String> {
        (self as &dyn ProcessImage).executable_path()
    }
}

impl Memory for CoreDump<'_> {
    fn region_at(&self, addr: u64) -> Option<Region> {
        self.memory.region_at(addr)
    }

    fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'_, [u8]>> {
        self.memory.read(addr, len)
    }

    fn bytes_from(&self, addr: RunAddr, most: usize) -> Option<&[u8]> {
        self.memory.bytes_from(addr, most)
    }
}

impl ProcessImage for CoreDump<'_> {
    fn state(&self) -> &ProcessState {
        &self.process
    }

    fn modules(&self) -> &[MappedModule] {
        &self.modules
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn source(&self) -> Source {
        Source::Core
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
