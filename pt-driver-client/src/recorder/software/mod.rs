//! Software PT: probes on the branches of the plan's ranges. The registers that are sampled before a branch say where
//! it goes; the packets are those that a processor would have written.
//!
//! Nothing is stopped and nothing is written into the process: the probes are the kernel's and end with us.

use std::collections::BTreeSet;
use std::time::Duration;

use failure::report::Report;
use program::{FileOffset, LinkAddr, ModuleId, Pc, Program};
use slicer::plan::{PcRange, Plan};
use tracee::bpf::{BpfError, HitProgram, HitRing, ManyProbes, ProbeRead, RawHit, Then};
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Uprobe};
use tracee::process::ModuleMap;
use tracee::ptrace::{Launched, SigInfo, Stop, Tracer};
use tracee::run::{Ended, Handled, TrackError, Tracker};
use tracee::{Pid, Tid};

use super::Recorder;
use super::follower::{Follower, Placement, ProbeHit};
use super::layout::{At, Layout, ModuleLayout};
use super::outcome::TargetOperand;
use super::piece::{Exit, Pieces};
use super::place::Known;
use super::recording::{Clock, Missing, Placed, Recording, Space, ThreadTrace, What};
use super::request::{RecorderError, Source};

/// A hit takes about 350 bytes and, on a fast machine, a microsecond or two: this is room for some 100 ms of a busy
/// processor, in case nobody lets us read.
const RING: usize = 32 << 20;
const TICK: Duration = Duration::from_millis(10);

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// About so many of the last bytes of each thread.
    pub bytes_per_thread: usize,
    /// About so many hits; then the probes are taken away, so that code which runs all the time does not slow the
    /// program down for good.
    pub hits: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes_per_thread: 64 << 20,
            hits: u64::MAX,
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
    recording: Recording,
}

/// What there is while a process is recorded.
struct Live {
    pid: Pid,
    ring: HitRing,
    /// One program for each thing to read at a hit.
    programs: Vec<(Option<ProbeRead>, HitProgram)>,
    /// The same for probes of perf.
    single_programs: Vec<(Option<ProbeRead>, HitProgram)>,
    many: Vec<ManyProbes>,
    single: Vec<Uprobe>,
    probed: BTreeSet<Pc>,
    map: ModuleMap,
    placed: Placement,
    followers: Vec<(Tid, Follower)>,
    lost: u64,
    strays: u64,
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
        let mut ring = HitRing::new(RING, 8)?;
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

    /// Ends recording: takes the probes away and hands over what there is.
    #[must_use]
    pub fn end(mut self) -> Recording {
        // Nothing that is mapped now can be probed in time.
        let _unprobed = self.drain();
        if let Some(live) = &mut self.live {
            let lost = live.ring.lost();
            if lost > live.lost && !self.over {
                live.lose(lost);
            }
            self.recording.counts.lost = live.lost;
            self.recording.counts.probes = live.probed.len() as u64;
        }
        self.close_space();
        let Self {
            layout,
            unread,
            live,
            mut recording,
            ..
        } = self;
        let mut missing = |what: What| recording.missing.push(Missing { tid: None, what });
        layout.undecided().for_each(|pc| missing(What::Branch(pc)));
        unread.iter().for_each(|range| missing(What::Range(*range)));
        if let Some(live) = live {
            if live.lost > 0 {
                missing(What::Hits(live.lost));
            }
            let strays = live.strays + live.ring.malformed();
            if strays > 0 {
                missing(What::Strays(strays));
            }
        }
        recording
    }
}

/// A probe to set.
#[derive(Clone, Copy)]
struct Wanted {
    pc: Pc,
    offset: FileOffset,
}

impl Drop for Live {
    fn drop(&mut self) {
        Uprobe::close_all(std::mem::take(&mut self.single));
    }
}

impl Live {
    /// The probes of a module that are not set, by what they read.
    fn wanted(&self, known: &Known, module: &ModuleLayout) -> Vec<(Option<ProbeRead>, Vec<Wanted>)> {
        let mut groups: Vec<(Option<ProbeRead>, Vec<Wanted>)> = Vec::new();
        for (&addr, probe) in &module.probes {
            let pc = Pc {
                module: known.module,
                addr: LinkAddr(addr),
            };
            let Some(offset) = known.offset(addr).filter(|_| !self.probed.contains(&pc)) else {
                continue;
            };
            let exit = module.pieces.get(probe.piece).map(|piece| piece.exit);
            let read = match exit {
                Some(Exit::Indirect(Some(TargetOperand::Memory(read)))) => Some(read),
                _ => None,
            };
            let wanted = Wanted { pc, offset };
            match groups.iter_mut().find(|(other, _)| *other == read) {
                Some((_, group)) => group.push(wanted),
                None => groups.push((read, vec![wanted])),
            }
        }
        groups
    }

    /// Sets probes in a file: all at once; where that is refused, in halves; the last one as a probe of perf, which tells
    /// whether it is the instruction that takes none or the kernel that cannot set many.
    fn open(
        &mut self,
        file: &ProbeFile,
        read: Option<ProbeRead>,
        wanted: &[Wanted],
        refused: &mut BTreeSet<Pc>,
    ) -> Result<(), RecorderError> {
        let ring = &self.ring;
        let load = || HitProgram::for_many_probes(ring, read, Then::GoOn);
        let offsets: Vec<FileOffset> = wanted.iter().map(|wanted| wanted.offset).collect();
        let many = program(&mut self.programs, read, load)
            .and_then(|program| ManyProbes::open(program, file, &offsets, self.pid));
        match (many, wanted) {
            (Ok(many), _) => {
                self.many.push(many);
                self.probed.extend(wanted.iter().map(|wanted| wanted.pc));
                Ok(())
            }
            (Err(error @ BpfError::NotPermitted { .. }), _) => Err(error.into()),
            (Err(_), [wanted]) => self.open_single(file, read, *wanted, refused),
            (Err(_), _) => {
                let (left, right) = wanted.split_at(wanted.len() / 2);
                self.open(file, read, left, refused)?;
                self.open(file, read, right, refused)
            }
        }
    }

    fn open_single(
        &mut self,
        file: &ProbeFile,
        read: Option<ProbeRead>,
        wanted: Wanted,
        refused: &mut BTreeSet<Pc>,
    ) -> Result<(), RecorderError> {
        let ring = &self.ring;
        let load = || HitProgram::for_probes(ring, 0, read.as_slice());
        let program = program(&mut self.single_programs, read, load)?;
        let target = ProbeTarget::Thread(self.pid.first_thread());
        let delivery = Delivery::Bpf(program);
        match Uprobe::open(file, wanted.offset, ProbeEnd::Entry, target, delivery) {
            Ok(probe) => {
                self.single.push(probe);
                self.probed.insert(wanted.pc);
            }
            Err(PerfError::ProbeRefused { .. }) => {
                refused.insert(wanted.pc);
            }
            // It may come to be there when it is mapped.
            Err(PerfError::NoFile { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Hits were lost; nobody knows whose they were.
    fn lose(&mut self, now: u64) {
        self.lost = now;
        for (_, follower) in &mut self.followers {
            follower.lost(&self.placed);
        }
    }
}

/// The follower of a thread.
fn follower(followers: &mut Vec<(Tid, Follower)>, tid: Tid, limit: usize) -> &mut Follower {
    let index = followers.iter().position(|(other, _)| *other == tid);
    let index = index.unwrap_or_else(|| {
        followers.push((tid, Follower::new(Some(limit))));
        followers.len() - 1
    });
    &mut followers[index].1
}

/// The program for what a probe reads.
fn program(
    programs: &mut Vec<(Option<ProbeRead>, HitProgram)>,
    read: Option<ProbeRead>,
    load: impl FnOnce() -> Result<HitProgram, BpfError>,
) -> Result<&HitProgram, BpfError> {
    let index = match programs.iter().position(|(other, _)| *other == read) {
        Some(index) => index,
        None => {
            programs.push((read, load()?));
            programs.len() - 1
        }
    };
    Ok(&programs[index].1)
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
pub(super) fn try_program() -> Result<(), BpfError> {
    let ring = HitRing::new(0, 8)?;
    HitProgram::for_probes(&ring, 0, &[]).map(|_| ())
}

impl Tracker for SoftwarePt {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        if self.live.is_some() {
            let _unprobed = self.drain();
            self.close_space();
        }
        tracer.tell_end(tracer.pid().first_thread())?;
        self.attach(tracer.pid())
    }

    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        const SIGTRAP: i32 = 5;
        if info.signal().0 == SIGTRAP {
            // Somebody's trap, whom it does not interrupt.
            return Ok(Handled::Passed);
        }
        if self.over {
            return Ok(Handled::Passed);
        }
        let registers = tracer.registers(stop.tid);
        let limit = self.options.bytes_per_thread;
        if let (Some(live), Ok(registers)) = (&mut self.live, registers)
            && let Some(at) = live.placed.find(&self.layout, registers.rip)
        {
            self.drain()?;
            if let Some(live) = &mut self.live {
                follower(&mut live.followers, stop.tid, limit).signalled(at);
            }
        }
        Ok(Handled::Passed)
    }

    fn exiting(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        if self.over {
            return Ok(());
        }
        if let Ok(registers) = tracer.registers(tid) {
            self.drain()?;
            self.end_thread(tid, registers.rip);
        }
        Ok(())
    }

    fn tick(&mut self, _: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.drain()
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, _: &Report) -> Result<(), TrackError> {
        if self.over {
            return Ok(());
        }
        self.drain()?;
        let pid = tracer.pid();
        let threads: Vec<Tid> = tracer
            .threads()
            .filter(|(of, _)| *of == pid)
            .map(|(_, tid)| tid)
            .collect();
        for tid in threads {
            if let Ok(registers) = tracer.registers(tid) {
                self.end_thread(tid, registers.rip);
            }
        }
        self.over = true;
        Ok(())
    }

    fn ended(&mut self, _: Ended) {
        let _unprobed = self.drain();
    }
}

impl Recorder for SoftwarePt {
    fn source(&self) -> Source {
        Source::SoftwarePt
    }

    fn finish(self: Box<Self>) -> Recording {
        self.end()
    }
}
