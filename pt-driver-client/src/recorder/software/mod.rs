//! Software PT: probes on the branches of the plan's ranges. The registers that are sampled before a branch say where
//! it goes; the packets are those that a processor would have written.
//!
//! Nothing is stopped and nothing is written into the process: the probes are the kernel's and end with us.
//!
//! - this file: which probes there are
//! - `live`: the probes of a process, and the rest of what is known of it while it runs
//! - `hits`: what the probes tell
//! - `ending`: what is told in the end, and what is missing
//! - `tracker`: when in a run all this happens

mod ending;
mod hits;
mod live;
mod tracker;

use std::collections::BTreeSet;

use program::{LinkAddr, ModuleId, Pc, Program};
use slicer::plan::{PcRange, Plan};
use tracee::Pid;
use tracee::bpf::{BpfError, HitProgram, HitRing};
use tracee::perf::ProbeFile;
use tracee::process::ModuleMap;
use tracee::run::TrackError;

use self::live::Live;
use super::clock::Clock;
use super::layout::Layout;
use super::piece::Pieces;
use super::place::Known;
use super::place::Placement;
use super::recording::Recording;
use super::request::{RecorderError, Source};

/// A hit takes 56 to 280 bytes and, on a fast machine, a microsecond or two: this is room for some 100 ms of a busy
/// processor, in case nobody lets us read.
const RING: usize = 32 << 20;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// About so many of the last bytes of each thread.
    pub bytes_per_thread: usize,
    /// About so many hits; then the probes are taken away, so that code which runs all the time does not slow the
    /// program down for good.
    pub hits: u64,
    /// Room for hits that were not read yet: what finds none is lost, and a gap.
    pub ring_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes_per_thread: 64 << 20,
            hits: u64::MAX,
            ring_bytes: RING,
        }
    }
}

/// Records with probes.
pub struct SoftwarePt {
    options: Options,
    known: Vec<Known>,
    pieces: Vec<(ModuleId, Pieces)>,
    unread: Vec<PcRange>,
    refused: BTreeSet<Pc>,
    layout: Layout,
    live: Option<Live>,
    /// The program failed: what its threads do until it is gone is not recorded any more.
    over: bool,
    /// Hits that were in no known module.
    strays: u64,
    recording: Recording,
}

impl SoftwarePt {
    /// A recorder for the ranges of a plan. Nothing is probed yet.
    #[must_use]
    pub fn new(program: &Program<'_>, plan: &Plan, options: Options) -> Self {
        let ids: BTreeSet<ModuleId> = plan.ranges.iter().map(|range| range.module).collect();
        let mut known = Vec::new();
        let mut pieces = Vec::new();
        let mut unread = Vec::new();
        for id in ids {
            let Some(module) = Known::of(program, id) else {
                continue;
            };
            let (found, missing) = Pieces::of(program, plan, id);
            unread.extend(missing);
            known.push(module);
            pieces.push((id, found));
        }
        let refused = BTreeSet::new();
        Self {
            options,
            layout: Layout::new(&pieces, &refused),
            known,
            pieces,
            unread,
            refused,
            live: None,
            over: false,
            strays: 0,
            recording: Recording::empty(Source::SoftwarePt, Clock::Monotonic),
        }
    }

    /// The instructions that have a probe, or would have one if the kernel took it.
    #[must_use]
    pub fn probed(&self) -> BTreeSet<Pc> {
        let modules = self.layout.modules.iter();
        let probes = modules.flat_map(|layout| {
            layout.probes.keys().map(|&addr| Pc {
                module: layout.module,
                addr: LinkAddr(addr),
            })
        });
        probes.collect()
    }

    /// Sets the probes on a process, whether it was launched or runs already. It is not stopped for it.
    ///
    /// # Errors
    /// When probes are not permitted, or the process is gone.
    pub fn attach(&mut self, pid: Pid) -> Result<(), TrackError> {
        let mut ring = HitRing::new(self.options.ring_bytes, 8)?;
        ring.only(Some(pid));
        // What an earlier program of the process left in a ring of ours is none of this one's.
        ring.read(|_| ());
        self.live = Some(Live {
            pid,
            ring,
            programs: Vec::new(),
            single_programs: Vec::new(),
            many: Vec::new(),
            single: Vec::new(),
            probed: BTreeSet::new(),
            map: ModuleMap::of(pid)?,
            placed: Placement(vec![None; self.known.len()]),
            followers: Vec::new(),
            lost: 0,
            strays: 0,
        });
        self.place();
        self.probe()?;
        Ok(())
    }

    /// Looks where the modules are. Says whether one of them is somewhere else than before.
    fn place(&mut self) -> bool {
        let Some(live) = &mut self.live else { return false };
        let mut moved = false;
        for (known, placed) in self.known.iter().zip(&mut live.placed.0) {
            let bias = known.find(&live.map).and_then(|module| module.mapped.bias);
            if let Some(bias) = bias {
                moved |= placed.is_some_and(|before| before != bias);
                *placed = Some(bias);
            }
        }
        moved
    }

    /// Sets the probes that are missing. Where one is refused, the others are chosen anew.
    fn probe(&mut self) -> Result<(), RecorderError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        loop {
            let mut refused = BTreeSet::new();
            for (known, module) in self.known.iter().zip(&self.layout.modules) {
                let mapped = known.find(&live.map).and_then(|module| live.map.file(module));
                let Some(path) = mapped.or_else(|| known.file().map(Into::into)) else {
                    continue;
                };
                let file = ProbeFile::at(&path);
                for (sample, wanted) in live.wanted(known, module) {
                    live.open(&file, sample, &wanted, &mut refused)?;
                }
            }
            if refused.is_empty() {
                return Ok(());
            }
            self.refused.append(&mut refused);
            self.layout = Layout::new(&self.pieces, &self.refused);
        }
    }
}

/// Whether a program for probes can be loaded here.
pub(in crate::recorder) fn try_program() -> Result<(), BpfError> {
    let ring = HitRing::new(0, 8)?;
    HitProgram::for_probes(&ring, 0, &[]).map(|_| ())
}
