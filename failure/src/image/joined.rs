//! A process joined with its mapped files: what a core left out, and the call-frame information.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};

use program::{BuildId, LinkAddr, RunAddr};

use super::bytes::slice;
use super::cfi_table::Cfi;
use super::elf::{PF_X, PT_LOAD, Segment};
use super::modules::{self, HEADERS, MappedModule, VDSO};
use super::process::{self, ProcessImage};
use crate::report::{ModuleRef, Source};

/// Hands over the executables and shared libraries that were mapped.
pub trait ModuleFiles {
    /// The bytes of a module, if they can be had. The build-id, where the process tells it, says which build
    /// is meant; a file of another build is found out and not used.
    fn module(&self, path: &str, build_id: Option<&BuildId>) -> Option<&[u8]>;
}

/// A process together with the files that were mapped.
pub struct Image<'r> {
    pub(super) process: &'r (dyn ProcessImage + 'r),
    files: &'r dyn ModuleFiles,
    /// In the order of the process's modules; a file is asked for when an address first hits its module.
    loaded: Vec<OnceCell<Box<Loaded<'r>>>>,
    /// How many were asked for.
    count: Cell<usize>,
    /// Start, end, file offset and module of each mapping, by start.
    mapped: Vec<(u64, u64, u64, usize)>,
    complaints: RefCell<Vec<String>>,
}

/// A module with its file, or with what memory has of it.
pub(super) struct Loaded<'r> {
    pub(super) file: Option<&'r [u8]>,
    pub(super) segments: Vec<Segment>,
    pub(super) bias: Option<u64>,
    cfi: OnceCell<Cfi<'r>>,
    memory: &'r (dyn ProcessImage + 'r),
}

impl<'r> Image<'r> {
    /// Joins a process with the files.
    #[must_use]
    pub fn new(process: &'r (dyn ProcessImage + 'r), files: &'r dyn ModuleFiles) -> Self {
        let ranges = process.modules().iter().enumerate().flat_map(|(index, module)| {
            let of_module = module.ranges.iter();
            of_module.map(move |(range, offset)| (range.start.0, range.end.0, offset.0, index))
        });
        let mut mapped: Vec<_> = ranges.collect();
        mapped.sort_unstable();
        let loaded = process.modules().iter().map(|_| OnceCell::new()).collect();
        Self {
            process,
            files,
            loaded,
            mapped,
            complaints: RefCell::default(),
            count: Cell::new(0),
        }
    }

    /// `len` bytes of memory, or, where a core left them out, of the file that was mapped there.
    /// Memory that the program could write is never taken from a file: it may have changed.
    #[must_use]
    pub fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'r, [u8]>> {
        self.process
            .read(addr, len)
            .or_else(|| self.read_file(addr.0, len).map(Cow::Borrowed))
    }

    /// `len` bytes of code as it was linked, or, where there is no file, as memory has it: probes of the kernel's and debuggers
    /// put breakpoints over the first bytes of instructions, the very ones that a failure may have gone through.
    pub(super) fn code(&self, addr: RunAddr, len: usize) -> Option<Cow<'r, [u8]>> {
        let linked = self.read_file(addr.0, len).map(Cow::Borrowed);
        linked.or_else(|| self.process.read(addr, len))
    }

    /// The string at an address, up to a page of it.
    pub(super) fn string(&self, addr: RunAddr) -> Option<String> {
        process::string(addr, |addr, len| self.read(addr, len))
    }

    fn read_file(&self, addr: u64, len: usize) -> Option<&'r [u8]> {
        let &(start, end, offset, index) = self.mapping_at(addr)?;
        if self.process.region_at(addr).is_some_and(|region| region.writable) {
            return None;
        }
        let len = u64::try_from(len).ok().filter(|&len| len <= end - addr)?;
        let file = self.loaded(index)?.file?;
        slice(file, offset.checked_add(addr - start)?, len)
    }

    /// Whether instructions can be executed at an address.
    pub(super) fn is_code(&self, addr: u64) -> bool {
        if let Some(region) = self.process.region_at(addr) {
            return region.executable;
        }
        let segment = || {
            let module = self.loaded(self.mapping_at(addr)?.3)?;
            module
                .segment_of(addr.wrapping_sub(module.bias?))
                .map(|segment| segment.flags & PF_X != 0)
        };
        segment().unwrap_or(false)
    }

    fn mapping_at(&self, addr: u64) -> Option<&(u64, u64, u64, usize)> {
        let after = self.mapped.partition_point(|&(start, ..)| start <= addr);
        self.mapped
            .get(after.checked_sub(1)?)
            .filter(|&&(_, end, ..)| addr < end)
    }

    /// The module that an address lies in, as a report names it.
    #[must_use]
    pub fn module_ref(&self, addr: RunAddr) -> Option<ModuleRef> {
        let index = self.mapping_at(addr.0)?.3;
        let module = self.process.modules().get(index)?;
        let bias = module.bias.or_else(|| self.loaded(index)?.bias);
        Some(ModuleRef {
            path: module.path.clone(),
            addr: bias.map(|bias| LinkAddr(addr.0.wrapping_sub(bias))),
            in_code: None,
            file_offset: None,
            build_id: module.build_id.clone(),
        })
    }

    pub(super) fn loaded_at(&self, addr: u64) -> Option<&Loaded<'r>> {
        self.loaded(self.mapping_at(addr)?.3)
    }

    /// The module at an index of the process's list, its file asked for the first time.
    pub(super) fn loaded(&self, index: usize) -> Option<&Loaded<'r>> {
        /// More than any process has; a damaged core can claim one for every few bytes.
        const MOST: usize = 4096;
        let place = self.loaded.get(index)?;
        if let Some(loaded) = place.get() {
            return Some(loaded);
        }
        if self.count.get() >= MOST {
            return None;
        }
        self.count.set(self.count.get() + 1);
        let module = self.process.modules().get(index)?;
        Some(place.get_or_init(|| Box::new(self.load(module))))
    }

    fn load(&self, module: &MappedModule) -> Loaded<'r> {
        let (file, segments) = self.matching_file(module).unzip();
        let segments = segments.or_else(|| {
            let (first, _) = module.ranges.first()?;
            modules::module_segments(self.process.bytes_from(first.start, HEADERS)?)
        });
        let segments = segments.unwrap_or_default();
        let bias = module
            .bias
            .or_else(|| modules::load_bias(&segments, &module.ranges));
        Loaded {
            file,
            segments,
            bias,
            cfi: OnceCell::new(),
            memory: self.process,
        }
    }

    /// The file of a module, unless it is no file with code or one of another build.
    fn matching_file(&self, module: &MappedModule) -> Option<(&'r [u8], Vec<Segment>)> {
        let path = &module.path;
        let Some(file) = self.files.module(path, module.build_id.as_ref()) else {
            // A living process has its modules in memory, whatever became of their files.
            if path != VDSO && self.process.source() == Source::Core {
                let build = module
                    .build_id
                    .as_ref()
                    .map(|id| format!(" (build-id {id})"))
                    .unwrap_or_default();
                self.complain(format!(
                    "{path}{build} is not there: what called from it can only be guessed"
                ));
            }
            return None;
        };
        let Some(segments) = modules::module_segments(file) else {
            self.complain(format!(
                "{path} is no x86-64 ELF file now: it was replaced since it was mapped"
            ));
            return None;
        };
        let found = modules::file_build_id(file, &segments);
        if let Some(expected) = &module.build_id
            && found.as_ref() != Some(expected)
        {
            let found = found.map_or_else(|| "none".to_owned(), |id| id.to_string());
            self.complain(format!(
                "{path} is another build than the one that ran (build-id {found}, memory has {expected}): not used"
            ));
            return None;
        }
        Some((file, segments))
    }

    fn complain(&self, line: String) {
        self.complaints.borrow_mut().push(line);
    }

    /// What was wrong with the files, a line each.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.borrow().clone()
    }
}

impl<'r> Loaded<'r> {
    /// The load segment that a link-time address lies in.
    fn segment_of(&self, link: u64) -> Option<&Segment> {
        let inside = |segment: &&Segment| {
            segment.kind == PT_LOAD
                && link
                    .checked_sub(segment.vaddr)
                    .is_some_and(|into| into < segment.memsz)
        };
        self.segments.iter().find(inside)
    }

    /// The bytes from a link-time address to the end of its segment.
    pub(super) fn bytes_from(&self, link: u64) -> Option<&'r [u8]> {
        let segment = self.segment_of(link)?;
        let into = link.checked_sub(segment.vaddr)?;
        let left = segment.filesz.checked_sub(into)?;
        if let Some(file) = self.file {
            return slice(file, segment.offset.checked_add(into)?, left);
        }
        let at = RunAddr(self.bias?.wrapping_add(link));
        self.memory
            .bytes_from(at, usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// The module's call-frame information, found at the first call.
    pub(super) fn cfi(&self) -> &Cfi<'r> {
        self.cfi.get_or_init(|| Cfi::find(self))
    }
}
