//! What the unwind tables know of functions: where they begin and end without symbols, and where exceptions
//! land in them.

use gimli::{BaseAddresses, EhFrame, EhFrameOffset, EndianSlice, LittleEndian, Pointer, Reader as _};
use gimli::{FrameDescriptionEntry, UnwindSection};

use crate::addr::{LinkAddr, LinkRange};
use crate::elf::Elf;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// More call sites than any function has; a table that claims more is damaged.
const MAX_CALL_SITES: usize = 1 << 16;

/// The unwind table, by function start. Entries themselves are read when asked for.
#[derive(Debug, Default)]
pub(super) struct UnwindTable<'a> {
    frames: Option<EhFrame<Reader<'a>>>,
    bases: BaseAddresses,
    rows: Rows<'a>,
}

/// The frame of a function at one of its instructions. Where it returns to stands in the eight bytes below its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What its end is counted from,
    pub base: FrameBase,
    /// and by how much.
    pub offset: i64,
    /// Where the caller's `rbp` was saved, from the end of the frame; without, `rbp` is still the caller's.
    pub saved_rbp: Option<i64>,
}

/// The register that tells where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameBase {
    /// The stack pointer.
    Rsp,
    /// The frame pointer.
    Rbp,
}

/// Function starts, each with where its entry stands in `.eh_frame`.
#[derive(Debug)]
enum Rows<'a> {
    /// The linker's own sorted table, searched in place: nothing of it is read but what the search looks at.
    Header {
        rows: &'a [[u8; 8]],
        header: u64,
        frames: u64,
    },
    /// Found by reading all entries, in files without such a table.
    Walked(Vec<(u64, usize)>),
}

impl Default for Rows<'_> {
    fn default() -> Self {
        Self::Walked(Vec::new())
    }
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Header { rows, .. } => rows.len(),
            Self::Walked(rows) => rows.len(),
        }
    }

    fn start(&self, at: usize) -> Option<u64> {
        match self {
            Self::Header { rows, header, .. } => {
                let [a, b, c, d, ..] = *rows.get(at)?;
                Some(header.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d]))))
            }
            Self::Walked(rows) => rows.get(at).map(|(start, _)| *start),
        }
    }

    fn offset(&self, at: usize) -> Option<usize> {
        match self {
            Self::Header { rows, header, frames } => {
                let [.., a, b, c, d] = *rows.get(at)?;
                let entry = header.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])));
                usize::try_from(entry.checked_sub(*frames)?).ok()
            }
            Self::Walked(rows) => rows.get(at).map(|(_, offset)| *offset),
        }
    }

    /// The first row that starts at or behind an address. Rows are about as dense everywhere, so the search goes
    /// out from where the address would be if they were: of a large table it looks at a page or two.
    fn from(&self, addr: u64) -> usize {
        let is_before = |row: usize| self.start(row).is_some_and(|start| start < addr);
        let len = self.len();
        let Some((first, last)) = self.start(0).zip(self.start(len.wrapping_sub(1))) else {
            return 0;
        };
        let (span, at) = (last.saturating_sub(first), addr.saturating_sub(first));
        let guess = u128::from(at.min(span)) * len as u128 / (u128::from(span) + 1);
        let guess = usize::try_from(guess).unwrap_or(0).min(len - 1);
        let (mut low, mut high) = (guess, guess);
        let mut step = 16;
        while low > 0 && !is_before(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
        while high < len && is_before(high) {
            low = high;
            high = high.saturating_add(step).min(len);
            step *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl<'a> UnwindTable<'a> {
    pub(super) fn new(elf: &Elf<'a>) -> Self {
        let mut bases = BaseAddresses::default();
        if let Some((addr, _)) = elf.section(".text") {
            bases = bases.set_text(addr.0);
        }
        let Some((addr, bytes)) = elf.section(".eh_frame") else {
            return Self::default();
        };
        let frames_at = addr.0;
        bases = bases.set_eh_frame(frames_at);
        let frames = EhFrame::new(bytes, LittleEndian);
        let header = elf.section(".eh_frame_hdr");
        let rows = header.and_then(|(addr, bytes)| search_table(bytes, addr.0, frames_at));
        let rows = rows.unwrap_or_else(|| Rows::Walked(walk(&frames, &bases)));
        Self {
            frames: Some(frames),
            bases,
            rows,
        }
    }

    /// How many rows the linker's table has; zero where there is none, and all entries would have to be read.
    pub(super) fn rows_at_hand(elf: &Elf<'a>) -> usize {
        let header = elf.section(".eh_frame_hdr");
        let rows = header.and_then(|(addr, bytes)| search_table(bytes, addr.0, 0));
        rows.map_or(0, |rows| rows.len())
    }

    /// The functions (start, end) that begin in a range, in order.
    pub(super) fn functions_in(&self, range: LinkRange) -> impl Iterator<Item = (u64, u64)> + '_ {
        let rows = self.rows.from(range.start.0)..self.rows.len();
        let starts = rows.map_while(move |at| Some((at, self.rows.start(at)?)));
        let starts = starts.take_while(move |(_, start)| *start < range.end.0);
        starts.filter_map(move |(at, start)| {
            let entry = self.rows.offset(at).and_then(|offset| self.entry(offset));
            let len = entry.map_or(0, |entry| entry.len());
            // A damaged table need not be sorted.
            (len > 0 && start >= range.start.0).then(|| (start, start.saturating_add(len).min(range.end.0)))
        })
    }

    /// Where exceptions land that are thrown in the part of a function that begins at `start`: the calls,
    /// and the landing pad for them.
    pub(super) fn landings(&self, elf: &Elf<'a>, start: LinkAddr) -> Vec<(LinkRange, LinkAddr)> {
        let at = self.rows.from(start.0);
        let landings = || {
            self.rows.start(at).filter(|found| *found == start.0)?;
            let Pointer::Direct(table) = self.entry(self.rows.offset(at)?)?.lsda()? else {
                return None;
            };
            let bytes = elf.segments().bytes_from(LinkAddr(table))?;
            read_landings(EndianSlice::new(bytes, LittleEndian), start.0)
        };
        landings().unwrap_or_default()
    }

    /// Where a function has its frame when it is at an address.
    pub(super) fn frame(&self, addr: LinkAddr) -> Option<Frame> {
        let frames = self.frames.as_ref()?;
        let at = self.rows.from(addr.0.checked_add(1)?).checked_sub(1)?;
        let entry = self.entry(self.rows.offset(at)?)?;
        let mut context = gimli::UnwindContext::new();
        let row = entry
            .unwind_info_for_address(frames, &self.bases, &mut context, addr.0)
            .ok()?;
        let gimli::CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
            return None;
        };
        let base = match register {
            gimli::X86_64::RSP => FrameBase::Rsp,
            gimli::X86_64::RBP => FrameBase::Rbp,
            _ => return None,
        };
        let saved_rbp = match row.register(gimli::X86_64::RBP) {
            Some(gimli::RegisterRule::Offset(offset)) => Some(offset),
            _ => None,
        };
        Some(Frame {
            base,
            offset,
            saved_rbp,
        })
    }

    fn entry(&self, offset: usize) -> Option<FrameDescriptionEntry<Reader<'a>>> {
        let frames = self.frames.as_ref()?;
        frames
            .fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
            .ok()
    }
}

/// The rows of `.eh_frame_hdr`. Every linker writes it in these encodings; another one is left to [`walk`].
fn search_table(bytes: &[u8], header: u64, frames: u64) -> Option<Rows<'_>> {
    const VERSION: u8 = 1;
    const PC_RELATIVE_I32: u8 = 0x1b;
    const U32: u8 = 0x03;
    const HEADER_RELATIVE_I32: u8 = 0x3b;
    let (fixed, rest) = bytes.split_first_chunk::<12>()?;
    let [VERSION, PC_RELATIVE_I32, U32, HEADER_RELATIVE_I32, .., a, b, c, d] = *fixed else {
        return None;
    };
    let count = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
    let rows = rest.as_chunks::<8>().0;
    let rows = rows.get(..count.min(rows.len()))?;
    (!rows.is_empty()).then_some(Rows::Header { rows, header, frames })
}

fn walk(frames: &EhFrame<Reader<'_>>, bases: &BaseAddresses) -> Vec<(u64, usize)> {
    let mut starts = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        if let Ok(fde) = partial.parse(EhFrame::cie_from_offset) {
            starts.push((fde.initial_address(), fde.offset()));
        }
    }
    starts.sort_unstable();
    starts.dedup_by_key(|(start, _)| *start);
    starts
}

/// The call-site table of an LSDA: the calls that have a landing pad, with it.
fn read_landings(mut reader: Reader<'_>, function: u64) -> Option<Vec<(LinkRange, LinkAddr)>> {
    const OMIT: u8 = 0xff;
    // A base of its own for landing pads is allowed, but neither gcc nor LLVM writes one.
    if reader.read_u8().ok()? != OMIT {
        return None;
    }
    if reader.read_u8().ok()? != OMIT {
        reader.read_uleb128().ok()?;
    }
    let encoding = reader.read_u8().ok()?;
    let len = usize::try_from(reader.read_uleb128().ok()?).ok()?;
    let mut table = reader.split(len).ok()?;
    let mut landings = Vec::new();
    for _ in 0..MAX_CALL_SITES {
        if table.is_empty() {
            break;
        }
        let start = function.wrapping_add(call_site_value(&mut table, encoding)?);
        let end = start.wrapping_add(call_site_value(&mut table, encoding)?);
        let pad = call_site_value(&mut table, encoding)?;
        table.read_uleb128().ok()?;
        if pad != 0 {
            let pad = LinkAddr(function.wrapping_add(pad));
            landings.push((LinkAddr(start)..LinkAddr(end), pad));
        }
    }
    Some(landings)
}

fn call_site_value(table: &mut Reader<'_>, encoding: u8) -> Option<u64> {
    match encoding & 0x0f {
        0x01 => table.read_uleb128().ok(),
        0x02 => table.read_u16().ok().map(u64::from),
        0x03 | 0x0b => table.read_u32().ok().map(u64::from),
        0x00 | 0x04 => table.read_u64().ok(),
        _ => None,
    }
}
