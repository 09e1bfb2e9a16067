//! Where locations are: what is armed when the process begins, when a library is mapped, when a thread comes by a
//! probe, when a pointer changes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use failure::image::Registers;
use program::LinkAddr;
use tracee::perf::{PerfError, ProbeFile};
use tracee::process::{Memory, ModuleMap};
use tracee::ptrace::Tracer;
use tracee::{Tid, monotonic_ns};

use super::core::Core;
use super::owner::{Owner, ProbeId};
use super::probes::Point;
use crate::error::WatchError;
use crate::location::Location;
use crate::pointers;
use crate::table::Placement;
use crate::watcher::{Address, Arming, Event, module_at};

/// How long a register is asked for that is about to be free: at once in all runs that were looked at, but whoever
/// lets go of it may have to wait for a processor.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

impl<Kind, O: Owner<Kind>> Core<Kind, O> {
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

    /// The process runs another program: what was watched is gone, and its own file may be mapped again.
    pub(crate) fn exec(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError> {
        let until_ns = monotonic_ns();
        self.owner.clear();
        self.probes.clear();
        self.passed.clear();
        self.resumed_ns.clear();
        self.flight.restart();
        self.holding = false;
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

    /// Watches what pointers lead to now.
    pub(super) fn follow_pointers(
        &mut self,
        tracer: &mut Tracer<Kind>,
        late: bool,
    ) -> Result<(), WatchError> {
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

    /// A thread came by a place where a location's address is known. Says where it is, if nothing was watched there: what was
    /// watched, for this location or another, has told of the access itself.
    pub(super) fn probed(
        &mut self,
        tracer: &mut Tracer<Kind>,
        tid: Tid,
        what: ProbeId,
        registers: &Registers,
    ) -> Result<Option<Location>, WatchError> {
        let location = usize::from(what.location);
        let Some(spec) = self.specs.get(location) else {
            return Ok(None);
        };
        let Address::Probed(probes) = &spec.address else {
            return Ok(None);
        };
        let Some(probe) = probes.get(usize::from(what.number)) else {
            return Ok(None);
        };
        let (late, nth) = (probe.late, probe.nth);
        if let Some(nth) = nth {
            let passed = self.passed.entry(what).or_default();
            *passed += 1;
            if *passed != nth {
                return Ok(None);
            }
        } else if self.table.stays(location, spec.places) {
            return Ok(None);
        }
        let Some(at) = probe.locate(spec, registers, self.own_frames) else {
            return Ok(None);
        };
        let places = self.table.places();
        let known = places.contains(&(location, at));
        let watched = places.iter().any(|(_, place)| place.covers(&at));
        self.place(tracer, location, at, late)?;
        if nth.is_some() {
            self.table.pin(location, at);
            self.probes.remove(what);
        }
        let alone = tracer.threads().nth(1).is_none();
        let verdict = self.ceiling.probed(location, tid, at.addr, known, alone);
        self.obey(tracer, location, verdict)?;
        Ok((!watched).then_some(at))
    }

    /// The loader has mapped libraries, and nothing of theirs has run.
    pub(super) fn libraries(&mut self, tracer: &mut Tracer<Kind>) -> Result<(), WatchError> {
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
}

/// The file that a process runs.
pub(crate) fn executable(modules: &ModuleMap) -> Option<PathBuf> {
    modules
        .executable()
        .map(|module| PathBuf::from(&module.mapped.path))
}
