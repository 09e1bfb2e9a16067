//! An ELF file for x86-64: what is mapped where, what it is called, and what it links to.
//!
//! - [`segments`] has addresses, file offsets and bytes
//! - [`symbols`] reads the symbol tables, [`packed_symbols`] those that a stripped file carries along
//! - [`relocations`] knows the pointers that the loader writes at start
//! - [`imports`] tells what stands behind PLT stubs and GOT slots
//! - [`compressed`] gives sections as they were before compression
//!
//! Headers are checked when the file is parsed; tables are read when somebody asks.

pub mod compressed;
pub mod imports;
pub mod packed_symbols;
pub mod relocations;
pub mod segments;
pub mod symbols;

pub use imports::{ImportId, Linkage};
pub use relocations::{Pointer, Relocations};
pub use segments::Segments;
pub use symbols::{Binding, Symbol, SymbolKind, SymbolTable};

use std::sync::OnceLock;

use memchr::memchr;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};

use crate::addr::{BuildId, LinkAddr, LinkRange};

/// Why bytes could not be taken as a program.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum ElfError {
    /// Not an ELF file at all.
    #[error("not an ELF file (it does not begin with \\x7fELF): give the program or shared library itself")]
    NotElf,
    /// ELF for another processor.
    #[error(
        "an ELF file, but not for x86-64 (class {class}, machine {machine}): only x86-64 programs can be analysed"
    )]
    OtherMachine {
        /// ELF class byte: 1 is 32-bit, 2 is 64-bit.
        class: u8,
        /// `e_machine`.
        machine: u16,
    },
    /// A core dump where a program was expected.
    #[error("this is a core; give the program that left it as the executable, and the core as the failure")]
    Core,
    /// An object file that was never linked.
    #[error("this is an object file (.o) that was not linked yet: give the linked program or shared library")]
    Relocatable,
    /// A type that is none of the usual ones.
    #[error("an ELF file of unknown type {0}: expected an executable or a shared library")]
    UnknownType(u16),
    /// Headers point outside the file.
    #[error("the ELF file is damaged or cut short ({0}): copy or build it again")]
    Damaged(&'static str),
}

/// What kind of linked file this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElfKind {
    /// An executable with fixed addresses.
    Executable,
    /// A position-independent executable.
    Pie,
    /// A shared library.
    SharedObject,
}

/// The file that `.gnu_debuglink` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugLink<'a> {
    /// File name without folder.
    pub name: &'a str,
    /// CRC-32 of the debug file.
    pub crc: u32,
}

/// The supplementary file that `.gnu_debugaltlink` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugAltLink<'a> {
    /// Path as recorded.
    pub path: &'a str,
    /// Its build-id.
    pub build_id: BuildId,
}

type Header = FileHeader64<LE>;

/// A parsed ELF file, borrowing from its bytes.
#[derive(Debug)]
pub struct Elf<'a> {
    bytes: &'a [u8],
    kind: ElfKind,
    entry: LinkAddr,
    segments: Segments<'a>,
    interp: Option<&'a str>,
    sections: SectionTable<'a, Header>,
    relocations: OnceLock<Relocations<'a>>,
    stubs: OnceLock<Vec<(LinkAddr, Linkage)>>,
    link_tables: OnceLock<Vec<LinkRange>>,
    linked_slots: OnceLock<Vec<(LinkAddr, Linkage)>>,
}

impl<'a> Elf<'a> {
    /// Checks the headers and finds segments and sections. No table is read.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        let (class, data) = match bytes.get(4..6) {
            Some(ident) => (ident[0], ident[1]),
            None => return Err(ElfError::Damaged("no file header")),
        };
        // `e_machine` lies at the same place in both classes.
        let machine = bytes.get(18..20).map_or(0, |m| u16::from_le_bytes([m[0], m[1]]));
        if class != 2 || data != 1 || machine != elf::EM_X86_64.0 {
            return Err(ElfError::OtherMachine { class, machine });
        }
        let header = Header::parse(bytes).map_err(|_| ElfError::Damaged("no file header"))?;
        let headers = header
            .program_headers(LE, bytes)
            .map_err(|_| ElfError::Damaged("program headers lie outside the file"))?;
        let kind = match header.e_type(LE) {
            elf::ET_EXEC => ElfKind::Executable,
            elf::ET_DYN => ElfKind::SharedObject,
            elf::ET_CORE => return Err(ElfError::Core),
            elf::ET_REL => return Err(ElfError::Relocatable),
            other => return Err(ElfError::UnknownType(other.0)),
        };
        let sections = header
            .sections(LE, bytes)
            .map_err(|_| ElfError::Damaged("section headers lie outside the file"))?;
        let segments = Segments::new(bytes, headers);
        let interp = headers
            .iter()
            .find_map(|segment| segment.interpreter(LE, bytes).ok().flatten())
            .and_then(|path| std::str::from_utf8(path).ok());
        let mut elf = Self {
            bytes,
            kind,
            entry: LinkAddr(header.e_entry.get(LE)),
            segments,
            interp,
            sections,
            relocations: OnceLock::new(),
            stubs: OnceLock::new(),
            link_tables: OnceLock::new(),
            linked_slots: OnceLock::new(),
        };
        if kind == ElfKind::SharedObject && (interp.is_some() || elf.has_pie_flag()) {
            elf.kind = ElfKind::Pie;
        }
        Ok(elf)
    }

    /// The whole file.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Executable, position-independent executable or shared library.
    #[must_use]
    pub fn kind(&self) -> ElfKind {
        self.kind
    }

    /// Whether the file has fixed addresses, so that pointers stand in it as plain bytes.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.kind == ElfKind::Executable
    }

    /// Where the process starts (zero when there is no such place).
    #[must_use]
    pub fn entry(&self) -> LinkAddr {
        self.entry
    }

    /// The dynamic loader's path.
    #[must_use]
    pub fn interp(&self) -> Option<&'a str> {
        self.interp
    }

    /// What is mapped where.
    #[must_use]
    pub fn segments(&self) -> &Segments<'a> {
        &self.segments
    }

    /// The `len` bytes that the file puts at an address; `None` when any of them is not in the file.
    #[must_use]
    pub fn bytes_at(&self, addr: LinkAddr, len: u64) -> Option<&'a [u8]> {
        self.segments.bytes_at(addr, len)
    }

    /// The GNU build-id.
    #[must_use]
    pub fn build_id(&self) -> Option<BuildId> {
        let from_sections = self.sections.iter().find_map(|section| {
            let mut notes = section.notes(LE, self.bytes).ok().flatten()?;
            build_id_note(&mut notes)
        });
        from_sections.or_else(|| {
            self.segments.headers().iter().find_map(|segment| {
                let mut notes = segment.notes(LE, self.bytes).ok().flatten()?;
                build_id_note(&mut notes)
            })
        })
    }

    /// Whether the full symbol table was removed.
    #[must_use]
    pub fn is_stripped(&self) -> bool {
        !self
            .sections
            .iter()
            .any(|section| section.sh_type(LE) == elf::SHT_SYMTAB)
    }

    /// The file that holds this file's debug information.
    #[must_use]
    pub fn debug_link(&self) -> Option<DebugLink<'a>> {
        let (_, bytes) = self.section(".gnu_debuglink")?;
        let name = bytes.get(..memchr(0, bytes)?)?;
        // The name is padded to a multiple of four; the CRC follows.
        let at = (name.len() + 1).next_multiple_of(4);
        let crc = u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?);
        Some(DebugLink {
            name: std::str::from_utf8(name).ok()?,
            crc,
        })
    }

    /// The file that holds debug information shared between several files.
    #[must_use]
    pub fn debug_alt_link(&self) -> Option<DebugAltLink<'a>> {
        let (_, bytes) = self.section(".gnu_debugaltlink")?;
        let (path, id) = bytes.split_at_checked(memchr(0, bytes)?)?;
        let id = id.get(1..)?;
        Some(DebugAltLink {
            path: std::str::from_utf8(path).ok()?,
            build_id: BuildId(id.to_vec()),
        })
    }

    /// A section's address and its bytes as they stand in the file (possibly compressed).
    #[must_use]
    pub fn section(&self, name: &str) -> Option<(LinkAddr, &'a [u8])> {
        let section = self.header_named(name)?;
        Some((
            LinkAddr(section.sh_addr.get(LE)),
            section.data(LE, self.bytes).ok()?,
        ))
    }

    /// The ranges that hold machine code, in order: executable sections, or executable segments when the
    /// file has no section headers.
    #[must_use]
    pub fn code_ranges(&self) -> Vec<LinkRange> {
        let mut ranges: Vec<LinkRange> = self
            .sections
            .iter()
            .filter(|section| {
                section.sh_flags(LE).contains(elf::SHF_EXECINSTR) && section.sh_type(LE) == elf::SHT_PROGBITS
            })
            .filter_map(|section| {
                self.segments
                    .mapped_part(section.sh_addr.get(LE), section.sh_size.get(LE))
            })
            .collect();
        if ranges.is_empty() {
            ranges = self.segments.executable();
        }
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        ranges
    }

    pub(crate) fn header_named(&self, name: &str) -> Option<&'a SectionHeader64<LE>> {
        self.sections
            .section_by_name(LE, name.as_bytes())
            .map(|(_, section)| section)
    }

    pub(crate) fn sections(&self) -> &SectionTable<'a, Header> {
        &self.sections
    }

    /// The values of one tag of the dynamic section.
    pub(crate) fn dynamic(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.segments
            .headers()
            .iter()
            .find_map(|segment| segment.dynamic(LE, self.bytes).ok().flatten())?
            .iter()
            .find(|entry| entry.d_tag.get(LE) == tag)
            .map(|entry| entry.d_val.get(LE))
    }

    fn has_pie_flag(&self) -> bool {
        self.dynamic(elf::DT_FLAGS_1)
            .is_some_and(|flags| flags & DF_1_PIE != 0)
    }
}

const DF_1_PIE: u64 = 0x0800_0000;

fn build_id_note(notes: &mut object::read::elf::NoteIterator<'_, Header>) -> Option<BuildId> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU
            && note.n_type(LE) == elf::NT_GNU_BUILD_ID
            && !note.desc().is_empty()
        {
            return Some(BuildId(note.desc().to_vec()));
        }
    }
    None
}
