//! Where the bytes of the file are meant to be in memory.

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64};

use crate::addr::{FileOffset, LinkAddr, LinkRange};

#[derive(Clone, Copy, Debug)]
struct Load<'a> {
    start: u64,
    /// End of what the file provides; zero-initialised memory follows.
    file_end: u64,
    end: u64,
    offset: u64,
    executable: bool,
    writable: bool,
    bytes: &'a [u8],
}

/// The loadable segments, by address.
#[derive(Debug)]
pub struct Segments<'a> {
    headers: &'a [ProgramHeader64<LE>],
    loads: Vec<Load<'a>>,
}

impl<'a> Segments<'a> {
    pub(crate) fn new(file: &'a [u8], headers: &'a [ProgramHeader64<LE>]) -> Self {
        let mut loads: Vec<Load<'a>> = headers
            .iter()
            .filter(|header| header.p_type.get(LE) == elf::PT_LOAD)
            .filter_map(|header| {
                let start = header.p_vaddr.get(LE);
                let offset = header.p_offset.get(LE);
                let available = file.get(usize::try_from(offset).ok()?..)?;
                let wanted = usize::try_from(header.p_filesz.get(LE))
                    .ok()?
                    .min(available.len());
                let bytes = available.get(..wanted)?;
                let flags = header.p_flags.get(LE);
                Some(Load {
                    start,
                    file_end: start.checked_add(wanted as u64)?,
                    end: start.checked_add(header.p_memsz.get(LE).max(wanted as u64))?,
                    offset,
                    executable: flags.contains(elf::PF_X),
                    writable: flags.contains(elf::PF_W),
                    bytes,
                })
            })
            .collect();
        loads.sort_by_key(|load| load.start);
        Self { headers, loads }
    }

    pub(crate) fn headers(&self) -> &'a [ProgramHeader64<LE>] {
        self.headers
    }

    fn load_of(&self, addr: u64) -> Option<&Load<'a>> {
        let after = self.loads.partition_point(|load| load.start <= addr);
        self.loads
            .get(after.checked_sub(1)?)
            .filter(|load| addr < load.end)
    }

    /// The `len` bytes that the file puts at an address; `None` when any of them is not in the file.
    #[must_use]
    pub fn bytes_at(&self, addr: LinkAddr, len: u64) -> Option<&'a [u8]> {
        let load = self.load_of(addr.0)?;
        let from = usize::try_from(addr.0 - load.start).ok()?;
        load.bytes
            .get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    /// All bytes of the file from an address to the end of its segment.
    #[must_use]
    pub fn bytes_from(&self, addr: LinkAddr) -> Option<&'a [u8]> {
        let load = self.load_of(addr.0)?;
        load.bytes
            .get(usize::try_from(addr.0 - load.start).ok()?..)
            .filter(|bytes| !bytes.is_empty())
    }

    /// The lowest address of the image.
    #[must_use]
    pub fn lowest(&self) -> Option<LinkAddr> {
        self.loads.first().map(|load| LinkAddr(load.start))
    }

    /// From the first byte of the first segment to the last of the last.
    pub(crate) fn extent(&self) -> Option<LinkRange> {
        let end = self.loads.iter().map(|load| load.end).max()?;
        Some(self.lowest()?..LinkAddr(end))
    }

    /// Whether an address belongs to the loaded image, file-backed or zero-initialised.
    #[must_use]
    pub fn contains(&self, addr: LinkAddr) -> bool {
        self.load_of(addr.0).is_some()
    }

    /// Whether an address can be executed.
    #[must_use]
    pub fn is_executable(&self, addr: LinkAddr) -> bool {
        self.load_of(addr.0).is_some_and(|load| load.executable)
    }

    /// Where the code begins that is mapped as so many bytes; `None` when no piece of code is, or several are.
    #[must_use]
    pub fn code_mapped_as(&self, length: u64) -> Option<LinkAddr> {
        const PAGE: u64 = 4096;
        let mut fitting = self.loads.iter().filter_map(|load| {
            let start = load.start / PAGE * PAGE;
            let mapped = load.file_end.checked_next_multiple_of(PAGE)? - start;
            (load.executable && mapped == length).then_some(LinkAddr(start))
        });
        let found = fitting.next()?;
        fitting.next().is_none().then_some(found)
    }

    /// Whether an address can be written while the program runs (relocated read-only data counts).
    #[must_use]
    pub fn is_writable(&self, addr: LinkAddr) -> bool {
        self.load_of(addr.0).is_some_and(|load| load.writable)
    }

    /// Where a byte of the image stands in the file.
    #[must_use]
    pub fn to_file_offset(&self, addr: LinkAddr) -> Option<FileOffset> {
        let load = self.load_of(addr.0).filter(|load| addr.0 < load.file_end)?;
        Some(FileOffset(load.offset + (addr.0 - load.start)))
    }

    /// Where a byte of the file gets mapped. A byte mapped twice (the page between two segments) counts for
    /// the segment that owns it.
    #[must_use]
    pub fn to_link_addr(&self, offset: FileOffset) -> Option<LinkAddr> {
        self.loads.iter().find_map(|load| {
            let into = offset.0.checked_sub(load.offset)?;
            (into < load.bytes.len() as u64).then(|| LinkAddr(load.start + into))
        })
    }

    /// The executable segments' file-backed ranges.
    #[must_use]
    pub fn executable(&self) -> Vec<LinkRange> {
        let executable = self.loads.iter().filter(|load| load.executable);
        executable
            .map(|load| LinkAddr(load.start)..LinkAddr(load.file_end))
            .collect()
    }

    /// The writable or relocatable segments' file-backed ranges: where pointers can stand.
    #[must_use]
    pub fn data(&self) -> Vec<LinkRange> {
        let data = self.loads.iter().filter(|load| !load.executable);
        data.map(|load| LinkAddr(load.start)..LinkAddr(load.file_end))
            .collect()
    }

    /// The part of a range that the file provides.
    pub(crate) fn mapped_part(&self, start: u64, len: u64) -> Option<LinkRange> {
        let load = self.load_of(start)?;
        let end = start.checked_add(len)?.min(load.file_end);
        (start < end).then_some(LinkAddr(start)..LinkAddr(end))
    }
}
