//! What is watched in a traced process, and what its stops tell about that.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use failure::image::Registers;
use failure::report::Signal;
use program::{LinkAddr, RunAddr};
use tracee::perf::{PerfError, ProbeFile};
use tracee::process::{Memory, ModuleMap};
use tracee::ptrace::{Resume, SigInfo, Tracer};
use tracee::{Pid, Tid, monotonic_ns};

use super::ceiling::{Ceiling, Verdict};
use super::linked::Linked;
use super::owner::{Owner, ProbeId, Trap};
use super::probes::{Point, Probes};
use crate::error::WatchError;
use crate::location::Location;
use crate::pointers;
use crate::table::{Placement, Table};
use crate::watcher::{Address, Arming, Event, RawHit, Report, Snapshot, WatchSpec, module_at};

/// How long a thread may be on its way from an access to its stop: the time that it may wait for a processor.
const SLACK_NS: u64 = 50_000_000;
/// The same while stops come without a pause, so that processors are busy.
const BUSY_SLACK_NS: u64 = 200_000_000;

/// How long a register is asked for that is about to be free: at once in all runs that were looked at, but whoever
/// lets go of it may have to wait for a processor.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// What is watched in a process that is traced as `Kind`. Whoever has the loop hands over the stops.
pub(crate) struct Core<Kind, O> {
    pub(crate) owner: O,
    table: Table,
    specs: Vec<WatchSpec>,
    pid: Pid,
    memory: Memory,
    modules: ModuleMap,
    executable: Option<PathBuf>,
    probes: Probes,
    /// Locations whose file is not mapped yet.
    waiting: Vec<usize>,
    resumed_ns: BTreeMap<Tid, u64>,
    idle_ns: u64,
    ceiling: Ceiling,
    out: Vec<Event>,
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
            waiting: Vec::new(),
            resumed_ns: BTreeMap::new(),
            idle_ns: 0,
            ceiling: Ceiling::none(),
            out: Vec::new(),
            kind: PhantomData,
        }
    }

    /// Watches what stops the process too often no longer than that.
    pub(crate) fn with_ceiling(mut self) -> Self {
        self.ceiling = Ceiling::of(self.specs.len());
        self
    }

    /// A new thread, before its first instruction.
    pub(crate) fn new_thread(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError> {
        self.owner.arm_new(tracer, tid)?;
        Ok(self.probes.arm(tid)?)
    }

    pub(crate) fn thread_exited(&mut self, tid: Tid) {
        self.probes.forget(tid);
        self.resumed_ns.remove(&tid);
    }

    /// Arms the first thread of a new program. The registers of the old one are free when the kernel has let go
    /// of the last event, which may take it a moment.
    fn arm_again(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError> {
        let started = Instant::now();
        while started.elapsed() < FREE_WITHIN {
            match self.owner.arm_first(tracer, tid) {
                Err(WatchError::Perf(PerfError::NoRegister { .. })) => std::thread::sleep(BETWEEN_ATTEMPTS),
                other => return other,
            }
        }
        self.owner.arm_first(tracer, tid)
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

    /// No stop is to be served now.
    pub(crate) fn idle(&mut self, tracer: &mut Tracer<Kind>) -> Result<(), WatchError> {
        let now = monotonic_ns();
        self.idle_ns = now;
        if self.owner.stops() {
            self.out.push(Event::Complete(now.saturating_sub(SLACK_NS)));
        }
        // Written without a hit of ours: by the kernel, or where hits do not stop anybody.
        self.follow_pointers(tracer, true)
    }

    /// Stops come without a pause.
    pub(crate) fn busy(&mut self) {
        let complete = monotonic_ns().saturating_sub(BUSY_SLACK_NS);
        self.out.push(Event::Complete(complete));
    }

    /// What happened and was not taken yet.
    pub(crate) fn events(&self) -> &[Event] {
        &self.out
    }

    /// Tells what is watched already, and sets probes for what is still to be found. `placed` are the locations
    /// that the owner has armed, with what was there before.
    pub(crate) fn begin(
        &mut self,
        tracer: &mut Tracer<Kind>,
        placed: &[(usize, Location, Option<Vec<u8>>)],
    ) -> Result<(), WatchError> {
        self.out.push(Event::Modules(Box::new(self.modules.clone())));
        let threads: Vec<Tid> = tracer.threads().map(|(_, tid)| tid).collect();
        for (location, at, before) in placed {
            let arming = Arming::now(*location, *at, false, before.clone(), &self.memory);
            self.out.push(Event::Armed(arming));
        }
        self.waiting.clear();
        for location in 0..self.specs.len() {
            if !self.add_probes(location, &threads)? {
                self.waiting.push(location);
            }
        }
        for (location, spec) in self.specs.iter().enumerate() {
            match &spec.address {
                Address::Static { .. } if !placed.iter().any(|(of, ..)| *of == location) => {
                    self.waiting.push(location);
                }
                Address::Pointed(pointed) if pointed.base(&self.modules).is_none() => {
                    self.waiting.push(location);
                }
                _ => {}
            }
        }
        if !self.waiting.is_empty()
            && let Some(point) = self.loader_probe()
        {
            self.probes.add_all(vec![point], &threads)?;
        }
        self.follow_pointers(tracer, false)
    }

    /// Watches what pointers lead to now.
    fn follow_pointers(&mut self, tracer: &mut Tracer<Kind>, late: bool) -> Result<(), WatchError> {
        if !pointers::any(&self.specs) {
            return Ok(());
        }
        let found = pointers::places(&self.specs, &self.modules, |at| self.memory.read_word(at));
        for (location, at) in found {
            // A place that needs more registers than are left is not watched; the summary says what was.
            if let Ok(placement) = self.table.move_to(location, at) {
                self.apply(tracer, placement, location, at, late)?;
            }
        }
        Ok(())
    }

    /// Sets the probes of a location; false when a file of theirs is not mapped yet.
    fn add_probes(&mut self, location: usize, threads: &[Tid]) -> Result<bool, WatchError> {
        let mut points = Vec::new();
        if let Some(Address::Probed(probes)) = self.specs.get(location).map(|spec| &spec.address) {
            for (number, probe) in probes.iter().enumerate() {
                let Some(file) = self.probe_file(probe.module.as_ref()) else {
                    return Ok(false);
                };
                points.extend(ProbeId::of(location, number).map(|what| Point {
                    file,
                    offset: probe.offset,
                    what,
                }));
            }
        }
        self.probes.add_all(points, threads)?;
        Ok(true)
    }

    fn probe_file(&self, module: Option<&PathBuf>) -> Option<ProbeFile> {
        let found = match module {
            None => self.modules.executable()?,
            Some(path) => module_at(&self.modules, path)?,
        };
        Some(ProbeFile::at(&self.modules.file(found)?))
    }

    /// Where the dynamic loader says that libraries were mapped, before any of their code runs.
    fn loader_probe(&self) -> Option<Point> {
        self.modules.modules().iter().find_map(|module| {
            let path = self.modules.file(module)?;
            let name = path.file_name()?.to_str()?;
            if !name.starts_with("ld-") && !name.starts_with("ld.") {
                return None;
            }
            let bytes = tracee::MappedFile::open(&path).ok()?;
            let elf = program::elf::Elf::parse(&bytes).ok()?;
            let symbol = elf
                .dynsym()
                .defined()
                .find(|symbol| symbol.name == "_dl_debug_state")?;
            Some(Point {
                file: ProbeFile::at(&path),
                offset: elf.segments().to_file_offset(LinkAddr(symbol.addr.0))?,
                what: ProbeId::LIBRARIES,
            })
        })
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
        let time_ns = monotonic_ns();
        // A thread that is being killed cannot be looked into.
        let Ok(registers) = tracer.registers(tid) else {
            return Ok(Resume::Suppress);
        };
        match trap {
            Trap::Watched { at, report } => {
                self.hit(tid, at, report, time_ns, registers);
                self.follow_pointers(tracer, false)?;
                for location in self.watching(at) {
                    let verdict = self.ceiling.hit(location);
                    self.obey(tracer, location, verdict)?;
                }
            }
            Trap::Probe(ProbeId::LIBRARIES) => self.libraries(tracer)?,
            Trap::Probe(probe) => {
                let found = self.probed(tracer, probe, &registers)?;
                if let Some(at) = found {
                    self.hit(tid, at.addr, Report::Probe, time_ns, registers);
                }
            }
        }
        Ok(Resume::Suppress)
    }

    /// The locations that an address belongs to.
    fn watching(&self, at: RunAddr) -> Vec<usize> {
        let inside = |place: &Location| place.addr <= at && at.0 - place.addr.0 < u64::from(place.len);
        let places = self.table.places().into_iter();
        let mut found: Vec<usize> = places
            .filter(|(_, place)| inside(place))
            .map(|(location, _)| location)
            .collect();
        found.dedup();
        found
    }

    /// Stops less for a location, if that is the verdict.
    fn obey(
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
        let placement = self.table.leave(location);
        for (location, at) in placement.given_up {
            self.out.push(Event::Disarmed {
                location,
                at,
                until_ns,
            });
        }
        for (register, wanted) in placement.set {
            self.owner.set(tracer, register, wanted)?;
        }
        Ok(())
    }

    /// A signal that is none of a watched location: of a linked probe, or the program's own.
    fn caught(&mut self, tracer: &mut Tracer<Kind>, tid: Tid, info: &SigInfo) -> Result<Resume, WatchError> {
        const SIGTRAP: Signal = Signal(5);
        let places = match info.signal() {
            SIGTRAP => self.probes.caught(tid, &self.modules),
            _ => None,
        };
        let Some(places) = places else {
            return Ok(Resume::Deliver);
        };
        let time_ns = monotonic_ns();
        let Ok(registers) = tracer.registers(tid) else {
            return Ok(Resume::Suppress);
        };
        for place in places {
            if place == ProbeId::LIBRARIES {
                self.libraries(tracer)?;
            } else if let Some(at) = self.probed(tracer, place, &registers)? {
                self.hit(tid, at.addr, Report::Probe, time_ns, registers);
            }
        }
        Ok(Resume::Suppress)
    }

    /// Sets probes as links from now on: for a process that dies with us. Where the kernel has none, events do.
    pub(crate) fn link_probes(&mut self) {
        if let Ok(linked) = Linked::new(self.pid) {
            self.probes.link(linked);
        }
    }

    fn hit(&mut self, tid: Tid, watched: RunAddr, report: Report, time_ns: u64, registers: Registers) {
        let resumed = self.resumed_ns.get(&tid).copied().unwrap_or(0);
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
            time_ns,
            earliest_ns: resumed.max(self.idle_ns.saturating_sub(SLACK_NS)),
            tid,
            watched,
            registers,
            has_segment_bases: true,
            report,
            stack_top: self.memory.read_word(RunAddr(registers.rsp)),
            memory,
            looked_ns,
        })));
    }

    pub(crate) fn look_at_modules(&mut self) {
        let changed = self.modules.refresh();
        if changed.is_ok_and(|changed| !changed.mapped.is_empty()) {
            self.out.push(Event::Modules(Box::new(self.modules.clone())));
        }
    }

    /// A thread came by a place where a location's address is known. Says where it is, if nobody else would
    /// report an access by the very instruction that the probe stands on.
    fn probed(
        &mut self,
        tracer: &mut Tracer<Kind>,
        probe: ProbeId,
        registers: &Registers,
    ) -> Result<Option<Location>, WatchError> {
        let location = usize::from(probe.location);
        let Some(spec) = self.specs.get(location) else {
            return Ok(None);
        };
        let Address::Probed(probes) = &spec.address else {
            return Ok(None);
        };
        let Some(probe) = probes.get(usize::from(probe.number)) else {
            return Ok(None);
        };
        let late = probe.late;
        let Some(at) = probe.locate(spec, registers) else {
            return Ok(None);
        };
        let known = self.table.places().contains(&(location, at));
        self.place(tracer, location, at, late)?;
        let verdict = self.ceiling.probed(location, at.addr, known);
        self.obey(tracer, location, verdict)?;
        // A thread has one SIGTRAP: that of a watch is lost behind the probe's.
        Ok((!known || self.owner.stops()).then_some(at))
    }

    /// The loader has mapped libraries, and nothing of theirs has run.
    fn libraries(&mut self, tracer: &mut Tracer<Kind>) -> Result<(), WatchError> {
        self.look_at_modules();
        let threads: Vec<Tid> = tracer.threads().map(|(_, tid)| tid).collect();
        for location in std::mem::take(&mut self.waiting) {
            let Some(spec) = self.specs.get(location) else {
                continue;
            };
            if matches!(spec.address, Address::Probed(_)) {
                if !self.add_probes(location, &threads)? {
                    self.waiting.push(location);
                }
            } else if let Address::Pointed(pointed) = &spec.address
                && pointed.base(&self.modules).is_some()
            {
                self.follow_pointers(tracer, false)?;
            } else if let Some(at) = spec.resolve(&self.modules) {
                self.place(tracer, location, at, false)?;
            } else {
                self.waiting.push(location);
            }
        }
        if self.waiting.is_empty() {
            self.probes.remove(ProbeId::LIBRARIES);
        }
        Ok(())
    }

    fn place(
        &mut self,
        tracer: &mut Tracer<Kind>,
        location: usize,
        at: Location,
        late: bool,
    ) -> Result<(), WatchError> {
        // A place that needs more registers than are left is not watched; the summary says what was.
        match self.table.place(location, at) {
            Ok(placement) => self.apply(tracer, placement, location, at, late),
            Err(_) => Ok(()),
        }
    }

    fn apply(
        &mut self,
        tracer: &mut Tracer<Kind>,
        placement: Placement,
        location: usize,
        at: Location,
        late: bool,
    ) -> Result<(), WatchError> {
        let before = self.content(&at);
        let until_ns = monotonic_ns();
        for (location, at) in placement.given_up {
            self.out.push(Event::Disarmed {
                location,
                at,
                until_ns,
            });
        }
        for (register, wanted) in placement.set {
            self.owner.set(tracer, register, wanted)?;
        }
        if placement.armed {
            let arming = Arming::now(location, at, late, before, &self.memory);
            self.out.push(Event::Armed(arming));
        }
        Ok(())
    }

    fn content(&self, at: &Location) -> Option<Vec<u8>> {
        self.memory.read(at.addr, at.len as usize)
    }

    /// The process runs another program: what was watched is gone, and its own file may be mapped again.
    pub(crate) fn exec(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError> {
        let until_ns = monotonic_ns();
        self.owner.clear();
        self.probes.clear();
        self.resumed_ns.clear();
        for (location, at) in self.table.clear() {
            self.out.push(Event::Disarmed {
                location,
                at,
                until_ns,
            });
        }
        self.memory = Memory::of(self.pid);
        self.modules = ModuleMap::of(self.pid)?;
        let same = executable(&self.modules) == self.executable;
        let mut placed = Vec::new();
        for (location, spec) in self.specs.iter().enumerate() {
            let of_executable = matches!(spec.address, Address::Static { module: None, .. });
            let anywhere = matches!(spec.address, Address::Run(_));
            let found = spec
                .resolve(&self.modules)
                .filter(|_| !anywhere && (same || !of_executable));
            if let Some(at) = found
                && self.table.place(location, at).is_ok()
            {
                placed.push((location, at, self.content(&at)));
            }
        }
        for (register, wanted) in self.table.wanted().into_iter().enumerate() {
            self.owner.set(tracer, register, wanted)?;
        }
        self.arm_again(tracer, tid)?;
        self.begin(tracer, &placed)
    }
}

fn executable(modules: &ModuleMap) -> Option<PathBuf> {
    modules
        .executable()
        .map(|module| PathBuf::from(&module.mapped.path))
}
