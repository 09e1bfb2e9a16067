//! A stopped process as the unwinder sees it.

use std::borrow::Cow;
use std::fs;

use elsa::{FrozenMap, FrozenVec};
use failure::image::{
    MappedModule, Memory as ImageMemory, ProcessImage, ProcessState, ProgramInfo, Region, SignalInfo,
    StoppedThread, modules,
};
use failure::report::Source;
use program::RunAddr;

use super::error::ProcessError;
use super::facts::Process;
use super::maps;
use super::memory::Memory;
use crate::ids::Pid;

const PAGE: usize = 4096;

/// A process none of whose threads runs: what it is at this moment. Memory is read when it is asked for, so it
/// must stay stopped as long as this is used.
pub struct StoppedProcess {
    memory: Reader,
    state: ProcessState,
    modules: Vec<MappedModule>,
    notes: Vec<String>,
}

impl StoppedProcess {
    /// Looks at a process; the threads, the one that failed first, and the signal are its tracer's to know.
    ///
    /// # Errors
    /// When the process is gone or not ours to look at.
    pub fn new(
        pid: Pid,
        threads: Vec<StoppedThread>,
        signal: Option<SignalInfo>,
        notes: Vec<String>,
    ) -> Result<Self, ProcessError> {
        // The first thread may have ended, and its memory with it, while others go on.
        let living = threads.first().map_or(pid, |thread| Pid(thread.tid));
        let read = |name: &str, what| {
            fs::read(format!("/proc/{living}/{name}")).map_err(|error| ProcessError::of(pid, what, error))
        };
        let text = read("maps", "the mappings")?;
        let lines: Vec<_> = maps::parse_all(&String::from_utf8_lossy(&text)).collect();
        let regions = lines.iter().map(|line| Region {
            range: line.mapping.range.start.0..line.mapping.range.end.0,
            executable: line.executable,
            writable: line.writable,
        });
        let memory = Reader::new(living, regions.collect());
        let process = Process::new(pid);
        let state = ProcessState {
            threads,
            signal,
            program: Some(ProgramInfo {
                pid: pid.0,
                name: process.status().map(|status| status.name).unwrap_or_default(),
                arguments: Process::new(living).command(),
            }),
            auxv: auxv(&read("auxv", "the auxiliary vector")?),
            mappings: lines
                .into_iter()
                .filter(|line| line.inode != 0)
                .map(|line| line.mapping)
                .collect(),
        };
        let modules = modules(&memory, &state);
        Ok(Self {
            memory,
            state,
            modules,
            notes,
        })
    }
}

fn auxv(bytes: &[u8]) -> Vec<(u64, u64)> {
    let pairs = bytes.chunks_exact(16).filter_map(|pair| {
        let (key, value) = pair.split_first_chunk::<8>()?;
        let value = value.first_chunk::<8>()?;
        Some((u64::from_le_bytes(*key), u64::from_le_bytes(*value)))
    });
    pairs.take_while(|&(key, _)| key != 0).collect()
}

impl ImageMemory for StoppedProcess {
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

impl ProcessImage for StoppedProcess {
    fn state(&self) -> &ProcessState {
        &self.state
    }

    fn modules(&self) -> &[MappedModule] {
        &self.modules
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn source(&self) -> Source {
        Source::Live
    }
}

/// Memory, a page at a time: stacks are looked at word by word.
struct Reader {
    memory: Memory,
    /// Disjoint, in address order.
    regions: Vec<Region>,
    pages: FrozenMap<u64, Vec<u8>>,
    kept: FrozenVec<Vec<u8>>,
}

impl Reader {
    fn new(pid: Pid, regions: Vec<Region>) -> Self {
        Self {
            memory: Memory::of(pid),
            regions,
            pages: FrozenMap::new(),
            kept: FrozenVec::new(),
        }
    }

    /// The page at an address; empty when it is not to be had.
    fn page(&self, start: u64) -> &[u8] {
        if let Some(page) = self.pages.get(&start) {
            return page;
        }
        let read = self.memory.read(RunAddr(start), PAGE).unwrap_or_default();
        self.pages.insert(start, read)
    }
}

impl ImageMemory for Reader {
    fn region_at(&self, addr: u64) -> Option<Region> {
        let after = self.regions.partition_point(|region| region.range.start <= addr);
        let region = self.regions.get(after.checked_sub(1)?)?;
        region.range.contains(&addr).then(|| region.clone())
    }

    fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'_, [u8]>> {
        /// More than anybody who unwinds asks for at once.
        const MOST: usize = 1 << 20;
        let into = |addr: u64| usize::try_from(addr % PAGE as u64).ok();
        let start = into(addr.0)?;
        let page = self.page(addr.0 - start as u64);
        if let Some(whole) = page.get(start..start.checked_add(len)?) {
            return Some(Cow::Borrowed(whole));
        }
        if len > MOST {
            return None;
        }
        let mut joined = Vec::with_capacity(len);
        while joined.len() < len {
            let at = addr.0.checked_add(joined.len() as u64)?;
            let skip = into(at)?;
            let rest = self.page(at - skip as u64).get(skip..)?;
            let rest = rest.get(..len - joined.len()).unwrap_or(rest);
            if rest.is_empty() {
                return None;
            }
            joined.extend_from_slice(rest);
        }
        Some(Cow::Owned(joined))
    }

    fn bytes_from(&self, addr: RunAddr, most: usize) -> Option<&[u8]> {
        /// Larger than the unwind information of any module.
        const MOST: u64 = 1 << 28;
        let left = self.region_at(addr.0)?.range.end - addr.0;
        let len = usize::try_from(left.min(MOST)).ok()?.min(most);
        let mut bytes = vec![0; len];
        let count = self.memory.read_some(addr, &mut bytes).ok()?;
        bytes.truncate(count);
        (!bytes.is_empty()).then(|| self.kept.push_get(bytes))
    }
}
