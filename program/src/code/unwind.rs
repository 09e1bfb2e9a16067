//! What the unwind tables know of functions: where they begin and end without symbols, and where exceptions
//! land in them.

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, LittleEndian, Pointer, Reader as _,
};
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
    /// Function start, and where its entry stands.
    starts: Vec<(u64, usize)>,
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
        let mut starts = Vec::new();
        if let Some((addr, bytes)) = elf.section(".eh_frame_hdr") {
            bases = bases.set_eh_frame_hdr(addr.0);
            search_table(bytes, &bases, frames_at, &mut starts);
        }
        if starts.is_empty() {
            walk(&frames, &bases, &mut starts);
        }
        starts.sort_unstable();
        starts.dedup_by_key(|(start, _)| *start);
        Self {
            frames: Some(frames),
            bases,
            starts,
        }
    }

    /// Adds the functions (start, end) that begin in a range.
    pub(super) fn functions_in(&self, range: &LinkRange, found: &mut Vec<(u64, u64)>) {
        let from = self.starts.partition_point(|(start, _)| *start < range.start.0);
        let inside = self
            .starts
            .get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|(s, _)| *s < range.end.0);
        found.extend(inside.filter_map(|(start, offset)| {
            let len = self.entry(*offset)?.len();
            (len > 0).then(|| (*start, start.saturating_add(len).min(range.end.0)))
        }));
    }

    /// Where exceptions land that are thrown in the part of a function that begins at `start`: the calls,
    /// and the landing pad for them.
    pub(super) fn landings(&self, elf: &Elf<'a>, start: LinkAddr) -> Vec<(LinkRange, LinkAddr)> {
        let Ok(at) = self.starts.binary_search_by_key(&start.0, |(start, _)| *start) else {
            return Vec::new();
        };
        let landings = self.starts.get(at).and_then(|(_, offset)| {
            let Pointer::Direct(table) = self.entry(*offset)?.lsda()? else {
                return None;
            };
            let bytes = elf.segments().bytes_from(LinkAddr(table))?;
            read_landings(EndianSlice::new(bytes, LittleEndian), start.0)
        });
        landings.unwrap_or_default()
    }

    fn entry(&self, offset: usize) -> Option<FrameDescriptionEntry<Reader<'a>>> {
        let frames = self.frames.as_ref()?;
        frames
            .fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
            .ok()
    }
}

fn search_table(bytes: &[u8], bases: &BaseAddresses, frames_at: u64, starts: &mut Vec<(u64, usize)>) {
    let Ok(header) = EhFrameHdr::new(bytes, LittleEndian).parse(bases, 8) else {
        return;
    };
    let Some(table) = header.table() else { return };
    let mut entries = table.iter(bases);
    while let Ok(Some((start, pointer))) = entries.next() {
        // The library's own way from pointer to offset does not expect a pointer before the section.
        if let (Pointer::Direct(start), Pointer::Direct(pointer)) = (start, pointer) {
            let offset = pointer
                .checked_sub(frames_at)
                .and_then(|offset| usize::try_from(offset).ok());
            starts.extend(offset.map(|offset| (start, offset)));
        }
    }
}

fn walk(frames: &EhFrame<Reader<'_>>, bases: &BaseAddresses, starts: &mut Vec<(u64, usize)>) {
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        if let Ok(fde) = partial.parse(EhFrame::cie_from_offset) {
            starts.push((fde.initial_address(), fde.offset()));
        }
    }
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
