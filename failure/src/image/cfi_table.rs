//! Where a module keeps its call-frame information, and which entry of it covers an address.

use std::borrow::Cow;
use std::cell::OnceCell;

use gimli::{BaseAddresses, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

use super::bytes::{i32_at, slice, u32_at};
use super::elf::PT_GNU_EH_FRAME;
use super::joined::Loaded;

pub(super) type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// The call-frame information of one module.
pub(super) struct Cfi<'r> {
    eh_frame: Option<Table<'r>>,
    file: Option<&'r [u8]>,
    /// Looked at only for code that `.eh_frame` does not cover.
    debug_frame: OnceCell<Option<Table<'r>>>,
}

/// One section of call-frame information with an index.
pub(super) struct Table<'r> {
    pub(super) bytes: Cow<'r, [u8]>,
    pub(super) bases: BaseAddresses,
    pub(super) kind: TableKind,
    index: Index<'r>,
}

/// In which of the two forms a section is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    EhFrame,
    DebugFrame,
}

enum Index<'r> {
    /// The linker's own sorted table, searched in place.
    Header {
        bytes: &'r [u8],
        addr: u64,
        rows: u64,
        section_addr: u64,
    },
    /// Start, end and offset of each entry, by start: made by reading the whole section, once.
    Walked(Vec<(u64, u64, usize)>),
}

impl<'r> Cfi<'r> {
    pub(super) fn find(module: &Loaded<'r>) -> Self {
        let eh_frame =
            through_header(module).or_else(|| section(module.file?, ".eh_frame", TableKind::EhFrame));
        Self {
            eh_frame,
            file: module.file,
            debug_frame: OnceCell::new(),
        }
    }

    /// The tables, in the order to ask them.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Table<'r>> {
        let debug_frame = || {
            let found = || section(self.file?, ".debug_frame", TableKind::DebugFrame);
            self.debug_frame.get_or_init(found).as_ref()
        };
        self.eh_frame
            .iter()
            .chain(std::iter::once_with(debug_frame).flatten())
    }
}

impl<'r> Table<'r> {
    pub(super) fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section
    }

    pub(super) fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut section = DebugFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section
    }

    /// The offset of the entry that may cover a link-time address: the last one that starts at or before it.
    pub(super) fn entry_for(&self, link: u64) -> Option<usize> {
        match &self.index {
            Index::Header {
                bytes,
                addr,
                rows,
                section_addr,
            } => {
                let value = |row: u64, field: u64| {
                    let relative = i32_at(bytes, TABLE_AT + row * 8 + field * 4)?;
                    Some(addr.wrapping_add_signed(i64::from(relative)))
                };
                let until = rows_until(link, *rows, |row| value(row, 0))?;
                let entry = value(until.checked_sub(1)?, 1)?;
                usize::try_from(entry.checked_sub(*section_addr)?).ok()
            }
            Index::Walked(entries) => {
                let after = entries.partition_point(|&(start, ..)| start <= link);
                let &(_, end, offset) = entries.get(after.checked_sub(1)?)?;
                (link < end).then_some(offset)
            }
        }
    }
}

/// Where the sorted rows start in `.eh_frame_hdr`.
const TABLE_AT: u64 = 12;

/// Finds `.eh_frame` through `.eh_frame_hdr`, which needs program headers only and so works on the memory
/// of a module as well. Every linker writes the header in these encodings; another one is left to
/// [`section`].
fn through_header<'r>(module: &Loaded<'r>) -> Option<Table<'r>> {
    const VERSION: u8 = 1;
    const PC_RELATIVE_I32: u8 = 0x1b;
    const U32: u8 = 0x03;
    const HEADER_RELATIVE_I32: u8 = 0x3b;
    let segment = module
        .segments
        .iter()
        .find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
    let addr = segment.vaddr;
    let header = module.bytes_from(addr)?;
    let header = slice(header, 0, segment.filesz).unwrap_or(header);
    if !header.starts_with(&[VERSION, PC_RELATIVE_I32, U32, HEADER_RELATIVE_I32]) {
        return None;
    }
    let section_addr = addr
        .wrapping_add(4)
        .wrapping_add_signed(i64::from(i32_at(header, 4)?));
    let rows = u64::from(u32_at(header, 8)?).min((header.len() as u64).checked_sub(TABLE_AT)? / 8);
    Some(Table {
        bytes: Cow::Borrowed(module.bytes_from(section_addr)?),
        bases: BaseAddresses::default()
            .set_eh_frame(section_addr)
            .set_eh_frame_hdr(addr),
        kind: TableKind::EhFrame,
        index: Index::Header {
            bytes: header,
            addr,
            rows,
            section_addr,
        },
    })
}

/// A section found by name in a file.
fn section<'r>(file: &'r [u8], name: &str, kind: TableKind) -> Option<Table<'r>> {
    /// More than any real section gains by compression; keeps a small file from growing into a huge one.
    const LARGEST_GAIN: u64 = 64;
    let file = ElfFile64::<Endianness>::parse(file).ok()?;
    let section = file.section_by_name(name)?;
    let compressed = section.compressed_data().ok()?;
    if compressed.uncompressed_size > (compressed.data.len() as u64).saturating_mul(LARGEST_GAIN) {
        return None;
    }
    let bytes = compressed.decompress().ok().filter(|bytes| !bytes.is_empty())?;
    let text = file.section_by_name(".text").map_or(0, |text| text.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(text);
    let mut table = Table {
        bytes,
        bases,
        kind,
        index: Index::Walked(Vec::new()),
    };
    let entries = match kind {
        TableKind::EhFrame => walk(&table.eh_frame(), &table.bases),
        TableKind::DebugFrame => walk(&table.debug_frame(), &table.bases),
    };
    table.index = Index::Walked(entries);
    Some(table)
}

fn walk<'d, S: UnwindSection<Slice<'d>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u64, usize)> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(entry) = partial.parse(S::cie_from_offset) else {
            continue;
        };
        found.push((entry.initial_address(), entry.end_address(), entry.offset()));
    }
    found.sort_unstable();
    found
}

/// How many of the rows, which are sorted, start at or before an address. Rows are about as dense everywhere, so the search
/// goes out from where the address would be if they were: to halve a large table again and again is a page from the disk
/// each time.
fn rows_until(addr: u64, rows: u64, start: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let Some(last) = rows.checked_sub(1) else {
        return Some(0);
    };
    let first = start(0)?;
    let span = start(last)?.saturating_sub(first);
    let at = u128::from(addr.saturating_sub(first).min(span));
    let guess = u64::try_from(at * u128::from(last) / (u128::from(span) + 1)).unwrap_or(0);
    // All rows below `low` are at or before the address, and none from `high` on.
    let (mut low, mut high) = (0, rows);
    let mut step = 64;
    if start(guess)? <= addr {
        low = guess + 1;
        while low + step < high && start(low + step)? <= addr {
            low += step + 1;
            step *= 2;
        }
        high = high.min(low + step);
    } else {
        high = guess;
        while high > step && start(high - step)? > addr {
            high -= step;
            step *= 2;
        }
        low = low.max((high + 1).saturating_sub(step));
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if start(middle)? <= addr {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_search_counts_the_rows_at_or_before_an_address(
            mut starts in proptest::collection::vec(0u64..5000, 0..600), far in 0u64..3, addr in 0u64..6000,
        ) {
            starts.sort_unstable();
            // One end far away makes the guess a bad one.
            match far {
                0 => starts.insert(0, 0),
                1 => starts.push(u64::MAX / 2),
                _ => {}
            }
            let expected = starts.iter().filter(|start| **start <= addr).count() as u64;
            let rows = starts.len() as u64;
            let found = rows_until(addr, rows, |row| starts.get(usize::try_from(row).ok()?).copied());
            proptest::prop_assert_eq!(found, Some(expected));
        }
    }
}
