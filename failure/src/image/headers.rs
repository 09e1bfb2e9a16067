//! The program headers of a mapped module, for those who have a living process instead of a core.

use std::ops::Range;

use program::{BuildId, FileOffset, LinkAddr, LinkRange, RunAddr};

use super::elf::{self, PT_LOAD, Segment};
use super::modules::{load_bias, module_segments, note_segments};

/// Where the parts of an executable or a shared library belong.
#[derive(Clone, Debug)]
pub struct ModuleHeaders {
    segments: Vec<Segment>,
}

impl ModuleHeaders {
    /// Reads the headers from the first bytes of the file (a page holds those of every real one); `None` when
    /// they are not those of an x86-64 executable or library.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        module_segments(bytes).map(|segments| Self { segments })
    }

    /// What run-time addresses lie above link-time ones by, when the file is mapped like this.
    #[must_use]
    pub fn bias(&self, ranges: &[(Range<RunAddr>, FileOffset)]) -> Option<u64> {
        load_bias(&self.segments, ranges)
    }

    /// From the first byte of the first segment to the last of the last, zero-initialised memory included.
    #[must_use]
    pub fn extent(&self) -> Option<LinkRange> {
        let loads = || self.segments.iter().filter(|segment| segment.kind == PT_LOAD);
        let start = loads().map(|segment| segment.vaddr).min()?;
        let end = loads()
            .map(|segment| segment.vaddr.saturating_add(segment.memsz))
            .max()?;
        Some(LinkAddr(start)..LinkAddr(end))
    }

    /// The build-id; `read` gets so many bytes of the module at an address.
    pub fn build_id(&self, read: impl Fn(LinkAddr, usize) -> Option<Vec<u8>>) -> Option<BuildId> {
        note_segments(&self.segments)
            .find_map(|(segment, len)| elf::build_id(&read(LinkAddr(segment.vaddr), len)?, segment.align))
    }
}
