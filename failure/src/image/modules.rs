//! The executable and the shared libraries of a process: what was mapped where, and which build it is.

use std::collections::HashMap;
use std::ops::Range;

use program::{BuildId, FileOffset, RunAddr};

use super::elf::{self, EM_X86_64, Header, PT_LOAD, PT_NOTE, Segment};
use super::process::{Mapping, Memory, ProcessState};

const PAGE: u64 = 4096;
/// Header and program headers are in the first page of every real module.
pub(super) const HEADERS: usize = 1 << 14;
/// Notes are a few hundred bytes; a core can claim any size for any number of modules.
const LONGEST_NOTES: usize = 1 << 14;
/// The name that the kernel gives its own module in /proc.
pub(super) const VDSO: &str = "[vdso]";
/// How the kernel marks a mapped file that was removed or replaced since.
const DELETED: &str = " (deleted)";

/// A file with code that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedModule {
    /// Its path when it was mapped; `[vdso]` for the kernel's own.
    pub path: String,
    /// What run-time addresses lie above link-time ones by; unknown when the first page is not to be had.
    pub bias: Option<u64>,
    /// Where it was mapped, in address order, with the part of the file that is there.
    pub ranges: Vec<(Range<RunAddr>, FileOffset)>,
    /// Its build-id, when the page with it is to be had.
    pub build_id: Option<BuildId>,
}

/// The program headers of an executable or a shared library, from its file or from the page in the core:
/// as many as a real one may have, because a core can claim any number of modules.
pub(super) fn module_segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    const MOST: usize = 128;
    let header = Header::read(bytes)?;
    let fits = header.machine == EM_X86_64 && matches!(header.file_type, ET_EXEC | ET_DYN);
    fits.then(|| {
        header
            .segments(bytes, header.segment_count(bytes))
            .take(MOST)
            .collect()
    })
}

/// The bias that puts a file's segments where they were mapped.
///
/// A tiny file may have its first page mapped twice, as code and as data; the lower mapping is the first
/// segment's, so the first match in both orders is the right one.
pub(super) fn load_bias(segments: &[Segment], ranges: &[(Range<RunAddr>, FileOffset)]) -> Option<u64> {
    ranges.iter().find_map(|(range, offset)| {
        let starts_here = |segment: &&Segment| {
            segment.kind == PT_LOAD && segment.filesz != 0 && segment.offset & !(PAGE - 1) == offset.0
        };
        let segment = segments.iter().find(starts_here)?;
        Some(range.start.0.wrapping_sub(segment.vaddr & !(PAGE - 1)))
    })
}

/// The modules among the mapped files, in address order of their first mapping.
#[must_use]
pub fn modules(memory: &dyn Memory, process: &ProcessState) -> Vec<MappedModule> {
    let mut found: Vec<Group> = Vec::new();
    let mut latest: HashMap<&str, usize> = HashMap::new();
    for mapping in &process.mappings {
        let placed = (mapping.range.clone(), mapping.offset);
        let known = latest
            .get(mapping.path.as_str())
            .and_then(|&index| found.get_mut(index));
        match known {
            Some(group) if !group.is_over(mapping) => group.module.ranges.push(placed),
            _ => {
                latest.insert(&mapping.path, found.len());
                found.push(Group::new(memory, mapping));
            }
        }
    }
    let named = found.into_iter().filter_map(|group| group.finish(memory));
    let vdso = process.vdso().and_then(|at| vdso_module(memory, at));
    named.chain(vdso).collect()
}

/// The mappings of one loaded copy of a file.
struct Group {
    module: MappedModule,
    /// One past the last address that its segments take up, when its headers are to be had.
    end: Option<u64>,
}

impl Group {
    fn new(memory: &dyn Memory, mapping: &Mapping) -> Self {
        let ranges = vec![(mapping.range.clone(), mapping.offset)];
        let headers = memory
            .bytes_from(mapping.range.start, HEADERS)
            .filter(|_| mapping.offset.0 == 0);
        let segments = headers.and_then(module_segments).unwrap_or_default();
        let bias = load_bias(&segments, &ranges);
        let loads = segments.iter().filter(|segment| segment.kind == PT_LOAD);
        let ends = loads.map(|segment| segment.vaddr.saturating_add(segment.memsz));
        let end = bias.zip(ends.max()).map(|(bias, end)| bias.wrapping_add(end));
        let build_id = bias.and_then(|bias| dumped_build_id(memory, &segments, bias));
        let path = mapping
            .path
            .strip_suffix(DELETED)
            .unwrap_or(&mapping.path)
            .to_owned();
        Self {
            module: MappedModule {
                path,
                bias,
                ranges,
                build_id,
            },
            end,
        }
    }

    /// Whether this mapping of the same file starts another copy of it (`dlmopen`, a data mapping).
    fn is_over(&self, mapping: &Mapping) -> bool {
        mapping.offset.0 == 0 && self.end.is_some_and(|end| mapping.range.start.0 >= end)
    }

    /// The module, if it is one and not a mapped file of data.
    fn finish(self, memory: &dyn Memory) -> Option<MappedModule> {
        let executable = |addr: RunAddr| memory.region_at(addr.0).is_some_and(|region| region.executable);
        let has_code = || {
            self.module
                .ranges
                .iter()
                .any(|(range, _)| executable(range.start))
        };
        (self.end.is_some() || has_code()).then_some(self.module)
    }
}

fn vdso_module(memory: &dyn Memory, at: RunAddr) -> Option<MappedModule> {
    let region = memory.region_at(at.0)?;
    let segments = module_segments(memory.bytes_from(at, HEADERS)?)?;
    let ranges = vec![(at..RunAddr(region.range.end), FileOffset(0))];
    let bias = load_bias(&segments, &ranges);
    let build_id = bias.and_then(|bias| dumped_build_id(memory, &segments, bias));
    Some(MappedModule {
        path: VDSO.to_owned(),
        bias,
        ranges,
        build_id,
    })
}

fn dumped_build_id(memory: &dyn Memory, segments: &[Segment], bias: u64) -> Option<BuildId> {
    first_build_id(segments, |segment| {
        memory.bytes_from(RunAddr(bias.wrapping_add(segment.vaddr)), LONGEST_NOTES)
    })
}

/// The build-id in a file.
pub(super) fn file_build_id(file: &[u8], segments: &[Segment]) -> Option<BuildId> {
    first_build_id(segments, |segment| {
        file.get(usize::try_from(segment.offset).ok()?..)
    })
}

/// The first build-id in the note segments; `bytes` has each segment's from its start on.
fn first_build_id<'b>(segments: &[Segment], bytes: impl Fn(&Segment) -> Option<&'b [u8]>) -> Option<BuildId> {
    note_segments(segments).find_map(|(segment, len)| {
        let rest = bytes(segment)?;
        elf::build_id(rest.get(..len.min(rest.len()))?, segment.align)
    })
}

/// The note segments that are worth a look, and how much of each.
pub(super) fn note_segments(segments: &[Segment]) -> impl Iterator<Item = (&Segment, usize)> {
    const MOST: usize = 8;
    let notes = segments.iter().filter(|segment| segment.kind == PT_NOTE);
    notes.take(MOST).filter_map(|segment| {
        Some((
            segment,
            usize::try_from(segment.filesz.min(LONGEST_NOTES as u64)).ok()?,
        ))
    })
}
