//! Probes of a launched process as links, which go together: an event of perf for each thread and place takes the
//! kernel some 150 ms to close, one after the other, and makes the next run wait.
//!
//! A thread that comes by is stopped by the program that notes it. Where nobody traces any more that would be for
//! good: for processes only that die with us.

use std::collections::BTreeMap;

use program::{FileOffset, RunAddr};
use tracee::bpf::{BpfError, HitProgram, HitRing, ManyProbes, Then};
use tracee::perf::ProbeFile;
use tracee::process::ModuleMap;
use tracee::{Pid, Tid};

use super::owner::ProbeId;
use super::probes::Point;

/// Room for the hits between two stops.
const RING: usize = 1 << 20;

/// The linked probes of a process.
#[derive(Debug)]
pub(crate) struct Linked {
    pid: Pid,
    ring: HitRing,
    program: HitProgram,
    links: Vec<(Vec<ProbeId>, ManyProbes)>,
    /// Where each thread was caught last.
    caught: BTreeMap<Tid, RunAddr>,
}

impl Linked {
    pub(crate) fn new(pid: Pid) -> Result<Self, BpfError> {
        let ring = HitRing::new(RING, 8)?;
        ring.only(Some(pid));
        let program = HitProgram::for_many_probes(&ring, 0, &[], Then::Stop)?;
        Ok(Self {
            pid,
            ring,
            program,
            links: Vec::new(),
            caught: BTreeMap::new(),
        })
    }

    /// Sets probes. One that the kernel refuses is left out: a location has others.
    pub(crate) fn add(&mut self, points: &[Point]) {
        let mut files: Vec<&ProbeFile> = points.iter().map(|point| &point.file).collect();
        files.dedup();
        for file in files {
            let of_file: Vec<&Point> = points.iter().filter(|point| point.file == *file).collect();
            if !self.open(file, &of_file) {
                for point in of_file {
                    self.open(file, &[point]);
                }
            }
        }
    }

    fn open(&mut self, file: &ProbeFile, points: &[&Point]) -> bool {
        let mut offsets: Vec<FileOffset> = points.iter().map(|point| point.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let link = ManyProbes::open(&self.program, file, &offsets, self.pid);
        let set = link.is_ok();
        let what = points.iter().map(|point| point.what).collect();
        self.links.extend(link.map(|link| (what, link)));
        set
    }

    /// Takes probes away, as far as no other goes with them.
    pub(crate) fn remove(&mut self, is_gone: impl Fn(ProbeId) -> bool) {
        self.links.retain(|(of, _)| !of.iter().all(|what| is_gone(*what)));
    }

    pub(crate) fn clear(&mut self) {
        self.links.clear();
        self.caught.clear();
    }

    /// Where a thread was caught: its signal is ours then, even if nothing is to be found out there any more.
    pub(crate) fn caught(&mut self, tid: Tid) -> Option<RunAddr> {
        let caught = &mut self.caught;
        self.ring.read(|hit| {
            caught.insert(hit.tid, hit.addr);
        });
        self.caught.remove(&tid)
    }
}

/// A place of a process as a file and a position in it.
pub(super) fn place(addr: RunAddr, modules: &ModuleMap) -> Option<(ProbeFile, FileOffset)> {
    let (module, _) = modules.find(addr)?;
    let mut ranges = module.mapped.ranges.iter();
    let (range, offset) = ranges.find(|(range, _)| range.contains(&addr))?;
    let offset = FileOffset(offset.0.wrapping_add(addr.0.wrapping_sub(range.start.0)));
    Some((ProbeFile::at(&modules.file(module)?), offset))
}
