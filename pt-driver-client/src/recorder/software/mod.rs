//! Software PT: probes on the branches of the plan's ranges. The registers that are sampled before a branch say where
//! it goes; the packets are those that a processor would have written.
//!
//! Nothing is stopped and nothing is written into the process: the probes are the kernel's and end with us.

mod live;
mod tracker;

use std::collections::BTreeSet;

use program::{LinkAddr, ModuleId, Pc, Program};
use slicer::plan::{PcRange, Plan};
use tracee::bpf::{BpfError, HitProgram, HitRing, RawHit};
use tracee::perf::{ProbeFile, Uprobe};
use tracee::process::ModuleMap;
use tracee::run::TrackError;
use tracee::{Pid, Tid};

use self::live::{Live, follower};
use super::clock::Clock;
use super::follower::{Placement, ProbeHit};
use super::layout::{At, Layout};
use super::piece::Pieces;
use super::place::Known;
use super::recording::{Missing, Placed, Recording, Space, ThreadTrace, What};
use super::request::{RecorderError, Source};

/// A hit takes about 350 bytes and, on a fast machine, a microsecond or two: this is room for some 100 ms of a busy
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
                for (read, wanted) in live.wanted(known, module) {
                    live.open(&file, read, &wanted, &mut refused)?;
                }
            }
            if refused.is_empty() {
                return Ok(());
            }
            self.refused.append(&mut refused);
            self.layout = Layout::new(&self.pieces, &self.refused);
        }
    }

    /// Takes in the hits that are there. To be called now and then: a full ring loses hits.
    ///
    /// # Errors
    /// When modules that were mapped meanwhile cannot be probed.
    pub fn drain(&mut self) -> Result<(), TrackError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        if self.over {
            live.ring.read(|_| ());
            return Ok(());
        }
        let mut hits = Vec::new();
        live.ring.read(|hit| hits.push(hit));
        let mut looked = false;
        for hit in hits {
            if !self.is_placed(&hit) && !looked {
                looked = true;
                self.look_again();
            }
            self.take(&hit);
        }
        if self.recording.counts.hits > self.options.hits {
            self.cut_short();
        } else if self.has_unprobed() {
            self.look_again();
            self.probe()?;
        }
        Ok(())
    }

    /// It was enough: takes the probes away. What happens from now on is not known.
    fn cut_short(&mut self) {
        let Some(live) = &mut self.live else { return };
        if live.probed.is_empty() {
            return;
        }
        live.probed.clear();
        live.many.clear();
        Uprobe::close_all(std::mem::take(&mut live.single));
        live.lose(live.lost);
        self.recording.missing.push(Missing {
            tid: None,
            what: What::CutShort(self.recording.counts.hits),
        });
    }

    fn has_unprobed(&self) -> bool {
        let Some(live) = &self.live else { return false };
        let modules = self.layout.modules.iter();
        modules
            .filter(|module| !module.probes.is_empty())
            .any(|module| !live.probed.iter().any(|pc| pc.module == module.module))
    }

    fn is_placed(&self, hit: &RawHit) -> bool {
        let found = |live: &Live| live.placed.find(&self.layout, hit.addr.0);
        self.live.as_ref().and_then(found).is_some()
    }

    /// Modules were mapped, or moved.
    fn look_again(&mut self) {
        let Some(live) = &mut self.live else { return };
        // A process that is gone has no modules any more; the old ones stay.
        if live.map.refresh().is_ok() && self.place() {
            self.close_space();
        }
    }

    fn take(&mut self, raw: &RawHit) {
        let Some(live) = &mut self.live else { return };
        self.recording.counts.hits += 1;
        if raw.lost_before > live.lost {
            live.lose(raw.lost_before);
        }
        let found = live.placed.find(&self.layout, raw.addr.0);
        let Some(at) = found.or_else(|| guess(&self.layout, &mut live.placed, raw.addr.0)) else {
            live.strays += 1;
            return;
        };
        let hit = ProbeHit {
            at,
            time: raw.time_ns,
            registers: raw.registers,
            stack_top: raw.stack_top,
            word: raw.values.first().and_then(tracee::bpf::Value::number),
        };
        let limit = self.options.bytes_per_thread;
        follower(&mut live.followers, raw.tid, limit).hit(&self.layout, &live.placed, &hit);
    }

    /// Ends what was recorded of a thread. `pc` is where it is, if that is known.
    fn end_thread(&mut self, tid: Tid, pc: u64) {
        let limit = self.options.bytes_per_thread;
        let Some(live) = &mut self.live else { return };
        let at = live.placed.find(&self.layout, pc);
        let is_followed = live.followers.iter().any(|(other, _)| *other == tid);
        if is_followed || at.is_some() {
            follower(&mut live.followers, tid, limit).end(&self.layout, &live.placed, Some(at));
        }
    }

    /// Ends all threads and what is known of where the modules are: what comes now is in another address space.
    fn close_space(&mut self) {
        let Some(live) = &mut self.live else { return };
        let known = self.known.iter().zip(&live.placed.0);
        let modules = known.filter_map(|(known, bias)| {
            Some(Placed {
                module: known.module,
                bias: (*bias)?,
                build_id: known.build_id.clone(),
            })
        });
        let space = self.recording.spaces.len();
        self.recording.spaces.push(Space {
            modules: modules.collect(),
        });
        let missing = &mut self.recording.missing;
        for (tid, mut follower) in live.followers.drain(..) {
            follower.end(&self.layout, &live.placed, None);
            let counts = follower.counts;
            let written = follower.finish();
            let mut miss = |count: u64, what: What| {
                if count > 0 {
                    missing.push(Missing { tid: Some(tid), what });
                }
            };
            miss(counts.interrupted, What::Interrupted(counts.interrupted));
            miss(counts.unread_targets, What::Targets(counts.unread_targets));
            miss(counts.cut, What::End);
            miss(written.dropped, What::Beginning(written.dropped));
            self.recording.threads.push(ThreadTrace {
                tid,
                space,
                bytes: written.bytes,
            });
        }
    }

    /// A program of the process ends: takes in what there is of it, and counts what there is not.
    fn end_program(&mut self) {
        // Nothing that is mapped now can be probed in time.
        let _unprobed = self.drain();
        if let Some(live) = &mut self.live {
            let lost = live.ring.lost();
            if lost > live.lost && !self.over {
                live.lose(lost);
            }
            let counts = &mut self.recording.counts;
            counts.lost += live.lost;
            counts.probes = counts.probes.max(live.probed.len() as u64);
            self.strays += live.strays + live.ring.malformed();
        }
        self.close_space();
        self.live = None;
    }

    /// Ends recording: takes the probes away and hands over what there is.
    #[must_use]
    pub fn end(mut self) -> Recording {
        self.end_program();
        let Self {
            layout,
            unread,
            strays,
            mut recording,
            ..
        } = self;
        let lost = recording.counts.lost;
        let mut missing = |what: What| recording.missing.push(Missing { tid: None, what });
        layout.undecided().for_each(|pc| missing(What::Branch(pc)));
        unread.iter().for_each(|range| missing(What::Range(*range)));
        if lost > 0 {
            missing(What::Hits(lost));
        }
        if strays > 0 {
            missing(What::Strays(strays));
        }
        recording
    }
}

/// The probe of a hit in a module that nobody has seen mapped: it was gone before we looked. Addresses keep their
/// place in the page, which is enough where only one probe is there.
fn guess(layout: &Layout, placed: &mut Placement, addr: u64) -> Option<At> {
    const PAGE: u64 = 4096;
    let unplaced = layout.modules.iter().enumerate();
    let unplaced = unplaced.filter(|(index, _)| placed.0.get(*index).copied().flatten().is_none());
    let mut probes = unplaced
        .flat_map(|(module, layout)| layout.probes.keys().map(move |&addr| At { module, addr }))
        .filter(|at| at.addr % PAGE == addr % PAGE);
    let at = probes.next().filter(|_| probes.next().is_none())?;
    *placed.0.get_mut(at.module)? = Some(addr.wrapping_sub(at.addr));
    Some(at)
}

/// Whether a program for probes can be loaded here.
pub(in crate::recorder) fn try_program() -> Result<(), BpfError> {
    let ring = HitRing::new(0, 8)?;
    HitProgram::for_probes(&ring, 0, &[]).map(|_| ())
}
