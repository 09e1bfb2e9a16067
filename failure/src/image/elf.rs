//! The parts of an ELF file that a core and the modules of a process share: header, program headers, notes.
//!
//! Read by hand rather than through `object` because both come incomplete: a core may be cut anywhere, and
//! of a module it holds the first page only.

use program::BuildId;

use super::bytes::{slice, u16_at, u32_at, u64_at};

pub(crate) const ET_CORE: u16 = 4;
pub(crate) const EM_X86_64: u16 = 62;

pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_NOTE: u32 = 4;
pub(crate) const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

pub(crate) const PF_X: u32 = 1;
pub(crate) const PF_W: u32 = 2;

const NT_GNU_BUILD_ID: u32 = 3;
const PROGRAM_HEADER_SIZE: u64 = 56;
const PN_XNUM: u16 = 0xffff;

/// What stands in front of a 64-bit little-endian ELF file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) file_type: u16,
    pub(crate) machine: u16,
    program_headers: u64,
    section_headers: u64,
    entry_size: u64,
    count: u16,
}

/// One program header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) filesz: u64,
    pub(crate) memsz: u64,
    pub(crate) align: u64,
}

impl Header {
    /// Reads the header; `None` when these are not the bytes of a 64-bit little-endian ELF file.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        const ELF64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
        if !bytes.starts_with(ELF64_LITTLE_ENDIAN) {
            return None;
        }
        Some(Self {
            file_type: u16_at(bytes, 16)?,
            machine: u16_at(bytes, 18)?,
            program_headers: u64_at(bytes, 32)?,
            section_headers: u64_at(bytes, 40)?,
            entry_size: u64::from(u16_at(bytes, 54)?),
            count: u16_at(bytes, 56)?,
        })
    }

    /// How many program headers the file says it has.
    ///
    /// More than 65,534 do not fit the header's field; then the count is in the first section header, which
    /// the kernel writes at the very end. A core cut short has lost it, but still tells: its notes come
    /// first and start right behind the program headers.
    pub(crate) fn segment_count(&self, bytes: &[u8]) -> u64 {
        if self.count != PN_XNUM {
            return u64::from(self.count);
        }
        let in_section_header = self
            .section_headers
            .checked_add(44)
            .filter(|_| self.section_headers != 0)
            .and_then(|at| u32_at(bytes, at));
        if let Some(count) = in_section_header {
            return u64::from(count);
        }
        let first = Segment::read(bytes, self.program_headers);
        let room = first
            .filter(|first| first.kind == PT_NOTE)
            .and_then(|first| first.offset.checked_sub(self.program_headers));
        room.map_or(0, |room| room / PROGRAM_HEADER_SIZE)
    }

    /// Where the program headers end, as far as that can be said in 64 bits.
    pub(crate) fn segments_end(&self, count: u64) -> u64 {
        self.program_headers
            .saturating_add(count.saturating_mul(self.entry_size))
    }

    /// The program headers that are there; ends at the first that is not.
    pub(crate) fn segments<'b>(&self, bytes: &'b [u8], count: u64) -> impl Iterator<Item = Segment> + 'b {
        let (start, stride) = (self.program_headers, self.entry_size);
        let usable = if stride < PROGRAM_HEADER_SIZE { 0 } else { count };
        (0..usable).map_while(move |index| {
            let at = start.checked_add(index.checked_mul(stride)?)?;
            Segment::read(bytes, at)
        })
    }
}

impl Segment {
    fn read(bytes: &[u8], at: u64) -> Option<Self> {
        let header = slice(bytes, at, PROGRAM_HEADER_SIZE)?;
        Some(Self {
            kind: u32_at(header, 0)?,
            flags: u32_at(header, 4)?,
            offset: u64_at(header, 8)?,
            vaddr: u64_at(header, 16)?,
            filesz: u64_at(header, 32)?,
            memsz: u64_at(header, 40)?,
            align: u64_at(header, 48)?,
        })
    }
}

/// One note.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note<'a> {
    pub(crate) kind: u32,
    pub(crate) owner: &'a [u8],
    pub(crate) content: &'a [u8],
}

/// The notes of a note segment, up to the first that is not whole.
pub(crate) fn notes(bytes: &[u8], align: u64) -> impl Iterator<Item = Note<'_>> {
    let align: u64 = if align == 8 { 8 } else { 4 };
    let mut at = 0_u64;
    std::iter::from_fn(move || {
        let owner_len = u64::from(u32_at(bytes, at)?);
        let content_len = u64::from(u32_at(bytes, at + 4)?);
        let kind = u32_at(bytes, at + 8)?;
        let owner = slice(bytes, at + 12, owner_len)?;
        let content_at = (at + 12 + owner_len).next_multiple_of(align);
        let content = slice(bytes, content_at, content_len)?;
        at = (content_at + content_len).next_multiple_of(align);
        let owner = owner.strip_suffix(b"\0").unwrap_or(owner);
        Some(Note { kind, owner, content })
    })
}

/// The build-id among the notes of a segment.
pub(crate) fn build_id(bytes: &[u8], align: u64) -> Option<BuildId> {
    notes(bytes, align)
        .find(|note| note.kind == NT_GNU_BUILD_ID && note.owner == b"GNU")
        .filter(|note| (1..=64).contains(&note.content.len()))
        .map(|note| BuildId(note.content.to_vec()))
}
