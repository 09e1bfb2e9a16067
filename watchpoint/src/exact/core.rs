//! What is watched in a traced process, and what its stops tell about that.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;

use failure::image::Registers;
use program::RunAddr;
use tracee::bpf::STACK_BYTES;
use tracee::process::{Memory, ModuleMap};
use tracee::ptrace::{Resume, SigInfo, Tracer};
use tracee::{Pid, Tid, monotonic_ns};

use super::arming::executable;
use super::ceiling::{Ceiling, Touch, Verdict};
use super::flight::Flight;
use super::linked::Linked;
use super::owner::{Owner, ProbeId, Trap};
use super::probes::Probes;
use super::resting::Resting;
use crate::error::WatchError;
use crate::location::Location;
use crate::table::Table;
use crate::watcher::{Event, REPORT_NS, RawHit, Report, Snapshot, WatchSpec};

/// No address was reported.
const NOWHERE: RunAddr = RunAddr(0);

/// What is watched in a process that is traced as `Kind`. Whoever has the loop hands over the stops.
pub(crate) struct Core<Kind, O> {
    pub(crate) owner: O,
    pub(super) table: Table,
    pub(super) specs: Vec<WatchSpec>,
    pub(super) pid: Pid,
    pub(super) memory: Memory,
    pub(super) modules: ModuleMap,
    pub(super) executable: Option<PathBuf>,
    pub(super) probes: Probes,
    /// How often anybody came by where only one time counts.
    pub(super) passed: BTreeMap<ProbeId, u32>,
    /// Locations whose file is not mapped yet.
    pub(super) waiting: Vec<usize>,
    pub(super) resumed_ns: BTreeMap<Tid, u64>,
    pub(super) flight: Flight,
    /// Whoever stops for us stays stopped until nobody is on the way.
    pub(super) holding: bool,
    pub(super) ceiling: Ceiling,
    pub(super) resting: Vec<Resting>,
    /// What the thread comes by in its own frames is watched, too.
    pub(super) own_frames: bool,
    pub(super) out: Vec<Event>,
    kind: PhantomData<fn() -> Kind>,
}

impl<Kind, O: Owner<Kind>> Core<Kind, O> {
    pub(crate) fn new(owner: O, table: Table, specs: Vec<WatchSpec>, modules: ModuleMap) -> Self {
        let pid = modules.pid();
        Self {
            owner,
            table,
            specs,
            pid,
            memory: Memory::of(pid),
            executable: executable(&modules),
            modules,
            probes: Probes::default(),
            passed: BTreeMap::new(),
            waiting: Vec::new(),
            resumed_ns: BTreeMap::new(),
            flight: Flight::default(),
            holding: false,
            ceiling: Ceiling::none(),
            resting: Vec::new(),
            own_frames: false,
            out: Vec::new(),
            kind: PhantomData,
        }
    }

    /// Watches what stops the process too often no longer than that.
    pub(crate) fn with_ceiling(mut self) -> Self {
        self.ceiling = Ceiling::of(self.specs.len());
        self
    }

    /// Watches what functions of the only thread share in its frames.
    pub(crate) fn with_own_frames(mut self, own_frames: bool) -> Self {
        self.own_frames = own_frames;
        self
    }

    /// A new thread, before its first instruction.
    pub(crate) fn new_thread(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError> {
        self.owner.arm_new(tracer, tid)?;
        Ok(self.probes.arm(tid)?)
    }

    pub(crate) fn thread_exited(&mut self, tid: Tid) {
        self.probes.forget(tid);
        self.owner.forget(tid);
        self.ceiling.forget(tid);
        self.resumed_ns.remove(&tid);
    }

    /// Forgets the threads that have ended.
    pub(crate) fn forget_all_but(&mut self, tracer: &Tracer<Kind>) {
        let alive: Vec<Tid> = tracer.threads().map(|(_, tid)| tid).collect();
        let known: Vec<Tid> = self.resumed_ns.keys().copied().collect();
        for gone in known.into_iter().filter(|tid| !alive.contains(tid)) {
            self.thread_exited(gone);
        }
    }

    /// A thread is about to be resumed.
    pub(crate) fn resuming(&mut self, tid: Tid) {
        self.resumed_ns.insert(tid, monotonic_ns());
    }

    /// What happened and was not taken yet.
    pub(crate) fn events(&self) -> &[Event] {
        &self.out
    }

    /// Hands over what is left when the loop was left.
    pub(crate) fn tell_counts(&mut self) {
        let counts = self.owner.counts().into_iter();
        self.out
            .extend(counts.map(|(slot, count)| Event::Counted(slot, count)));
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn signal(
        &mut self,
        tracer: &mut Tracer<Kind>,
        tid: Tid,
        info: &SigInfo,
    ) -> Result<Resume, WatchError> {
        let Some(trap) = self.owner.trap(tracer, tid, info) else {
            return self.caught(tracer, tid, info);
        };
        if matches!(trap, Trap::Watched { .. }) {
            self.flight.taken();
        }
        let time_ns = monotonic_ns();
        // A thread that is being killed cannot be looked into.
        let Ok(registers) = tracer.registers(tid) else {
            return Ok(Resume::Suppress);
        };
        match trap {
            Trap::Watched { at, report } => {
                self.hit(tid, at, report, time_ns, registers);
                self.follow_pointers(tracer, false)?;
                for (location, place) in self.watching(at) {
                    let touch = Touch {
                        tid,
                        pc: registers.rip,
                        content: self.word(&place),
                    };
                    let verdict = self.ceiling.hit(location, touch);
                    self.obey(tracer, location, verdict)?;
                }
            }
            Trap::Probe(probe) => {
                let found = self.came_by(tracer, tid, &[probe], &registers)?;
                // A thread has one SIGTRAP: that of a watch is lost behind the probe's, and what the instruction did to
                // another location is told here, even if nothing is known of this one, as where a pointer is null.
                let lost = (self.owner.stops() && probe != ProbeId::LIBRARIES).then_some(NOWHERE);
                if let Some(at) = found.map(|at| at.addr).or(lost) {
                    self.hit(tid, at, Report::Probe, time_ns, registers);
                }
            }
        }
        Ok(Resume::Suppress)
    }

    /// A thread dies of the instruction that it is at: a division traps before the access that it made of its operand is reported.
    pub(crate) fn died(&mut self, tracer: &Tracer<Kind>, tid: Tid) {
        // A thread that is being killed cannot be looked into.
        if let Ok(registers) = tracer.registers(tid) {
            self.hit(tid, NOWHERE, Report::Died, monotonic_ns(), registers);
        }
    }

    /// The locations that an address belongs to, and where they are.
    fn watching(&self, at: RunAddr) -> Vec<(usize, Location)> {
        let inside = |place: &Location| place.addr <= at && at.0 - place.addr.0 < u64::from(place.len);
        let places = self.table.places().into_iter();
        let mut found: Vec<(usize, Location)> = places.filter(|(_, place)| inside(place)).collect();
        found.dedup_by_key(|(location, _)| *location);
        found
    }

    /// Stops less for a location, if that is the verdict.
    pub(super) fn obey(
        &mut self,
        tracer: &mut Tracer<Kind>,
        location: usize,
        verdict: Verdict,
    ) -> Result<(), WatchError> {
        if verdict == Verdict::GoOn {
            return Ok(());
        }
        self.probes.remove_of(location);
        if verdict == Verdict::EnoughProbes {
            return Ok(());
        }
        let until_ns = monotonic_ns();
        let places = self.table.places();
        let placement = self.table.leave(location);
        if verdict == Verdict::Polled {
            for (of, place) in places.into_iter().filter(|(of, _)| *of == location) {
                let content = self.word(&place);
                self.resting.push(Resting::new(of, place, content, until_ns));
            }
        } else {
            for (location, at) in placement.given_up {
                self.out.push(Event::Disarmed {
                    location,
                    at,
                    until_ns,
                });
            }
        }
        for (register, wanted) in placement.set {
            self.owner.set(tracer, register, wanted)?;
        }
        Ok(())
    }

    /// A signal that is none of a watched location: of a linked probe, or the program's own.
    fn caught(&mut self, tracer: &mut Tracer<Kind>, tid: Tid, info: &SigInfo) -> Result<Resume, WatchError> {
        let places = match info.is_of_probe() {
            true => self.probes.caught(tid, &self.modules),
            false => None,
        };
        let Some(places) = places else {
            return Ok(Resume::Deliver);
        };
        let time_ns = monotonic_ns();
        let Ok(registers) = tracer.registers(tid) else {
            return Ok(Resume::Suppress);
        };
        unblock(tracer, tid);
        let found = self.came_by(tracer, tid, &places, &registers)?;
        // What was watched before has told of its access itself.
        if let Some(at) = found {
            self.hit(tid, at.addr, Report::Probe, time_ns, registers);
        }
        Ok(Resume::Suppress)
    }

    /// A thread stopped at an instruction with probes of these places on it, and has executed it. Says where a
    /// location is that was not watched there.
    fn came_by(
        &mut self,
        tracer: &mut Tracer<Kind>,
        tid: Tid,
        places: &[ProbeId],
        registers: &Registers,
    ) -> Result<Option<Location>, WatchError> {
        let mut found = None;
        for &place in places {
            if place == ProbeId::LIBRARIES {
                self.libraries(tracer)?;
            } else {
                found = self.probed(tracer, tid, place, registers)?.or(found);
            }
        }
        Ok(found)
    }

    /// Sets probes as links from now on: for a process that dies with us. Where the kernel has none, events do.
    pub(crate) fn link_probes(&mut self) {
        if let Ok(linked) = Linked::new(self.pid) {
            self.probes.link(linked);
        }
    }

    pub(super) fn hit(
        &mut self,
        tid: Tid,
        watched: RunAddr,
        report: Report,
        time_ns: u64,
        registers: Registers,
    ) {
        let resumed = self.resumed_ns.get(&tid).copied().unwrap_or(0);
        let looking_ns = time_ns;
        // A stop that was merged with a probe's or that comes late may be about another access than the last one.
        let noted_ns = self.owner.happened_ns(tid).filter(|_| report == Report::Watch);
        let noted_ns = noted_ns.filter(|noted_ns| (resumed..=time_ns).contains(noted_ns));
        let happened_ns = noted_ns.unwrap_or(time_ns);
        let earliest_ns = resumed.max(self.flight.earliest_ns()).min(happened_ns);
        let mut memory = Vec::new();
        for (_, place) in self.table.places() {
            if let Some(bytes) = self.memory.read(place.addr, place.len as usize) {
                memory.extend(Snapshot::of(place.addr, &bytes));
            }
        }
        let looked_ns = monotonic_ns();
        if self.modules.find(RunAddr(registers.rip)).is_none() {
            self.look_at_modules();
        }
        self.out.push(Event::Hit(Box::new(RawHit {
            time_ns: happened_ns,
            earliest_ns,
            likely_ns: noted_ns
                .map_or(0, |noted_ns| noted_ns.saturating_sub(REPORT_NS))
                .max(earliest_ns),
            tid,
            watched,
            registers,
            has_segment_bases: true,
            report,
            stack: self.stack(RunAddr(registers.rsp)),
            probed: None,
            memory,
            looking_ns,
            looked_ns,
        })));
    }

    /// The stack from an address on, as much as the frames of a library's functions take.
    fn stack(&self, from: RunAddr) -> Vec<u8> {
        let mut bytes = vec![0; STACK_BYTES];
        let read = self.memory.read_some(from, &mut bytes).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    /// A child of vfork was in the process's memory, and nobody watched it.
    pub(crate) fn vforked(&mut self) {
        self.out.push(Event::Vforked);
    }

    pub(crate) fn look_at_modules(&mut self) {
        let changed = self.modules.refresh();
        if changed.is_ok_and(|changed| !changed.mapped.is_empty()) {
            self.out.push(Event::Modules(Box::new(self.modules.clone())));
        }
    }
}

/// Lets a thread that blocks all signals be stopped where it touches what is watched.
fn unblock<Kind>(tracer: &mut Tracer<Kind>, tid: Tid) {
    const SIGTRAP: i32 = 5;
    let blocked = tracer.signal_mask(tid).ok().filter(|mask| mask.contains(SIGTRAP));
    if let Some(mask) = blocked {
        // A thread that is being killed has nothing to block.
        let _gone = tracer.set_signal_mask(tid, mask.without(SIGTRAP));
    }
}
