//! A process that runs already: its threads get their events one by one, those to come inherit them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracee::perf::PerfError;
use tracee::process::{ExitWatch, Memory, ModuleMap, Process};
use tracee::ptrace::{TraceError, check_target};
use tracee::{Pid, monotonic_ns};

use super::probes::Probes;
use super::source::Source;
use crate::arms::Arms;
use crate::error::WatchError;
use crate::exact::arming::executable;
use crate::exact::launched::{contents, lay_out};
use crate::exact::owner::{Outlet, probe_of, watch_cookie};
use crate::location::Location;
use crate::pointers;
use crate::table::{Placement, Table};
use crate::watcher::{Address, Arming, Event, Probe, RawHit, WatchSpec};

/// Of the places that probes told of since the last look, so many are watched: there are no more registers.
const LATEST: usize = 4;
/// How often it is looked for libraries that somebody waits for, and whether the process runs another program.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long registers are asked for that are about to be free.
const FREE_WITHIN: Duration = Duration::from_secs(2);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

pub(super) struct Attached {
    pid: Pid,
    specs: Vec<WatchSpec>,
    arms: Arms,
    table: Table,
    modules: ModuleMap,
    memory: Memory,
    exit: ExitWatch,
    ended: bool,
    /// Locations of files that are not mapped yet, and when that was looked at.
    waiting: Vec<usize>,
    looked: Instant,
    outlet: Outlet,
    /// Tells that the process runs another program, and what file it ran.
    program: Option<Vec<u8>>,
    executable: Option<PathBuf>,
    probes: Probes,
    /// Locations that are not to be watched any more.
    left: BTreeSet<usize>,
}

impl Attached {
    /// Arms every thread. Nothing in the process stops for it.
    pub(super) fn start(
        pid: Pid,
        specs: Vec<WatchSpec>,
        source: &Source,
    ) -> Result<(Self, Vec<Event>), WatchError> {
        check_target(pid).map_err(TraceError::Attach)?;
        let exit = ExitWatch::of(pid)?;
        let program = Process::new(pid).program_mark();
        let modules = ModuleMap::of(pid)?;
        let (table, placed) = lay_out(&specs, &modules)?;
        let placed = contents(pid, placed);
        let mut arms = Arms::new(table.wanted());
        arms.look_at(pid.first_thread())?;
        let outlet = source.outlet();
        arms.arm_all(pid, &outlet)?;
        let probes = Probes::of(&specs, &modules);
        let waiting = unmapped(&specs, &modules);
        let mut attached = Self {
            pid,
            specs,
            arms,
            table,
            modules: modules.clone(),
            memory: Memory::of(pid),
            exit,
            ended: false,
            waiting,
            looked: Instant::now(),
            outlet,
            program,
            executable: executable(&modules),
            probes,
            left: BTreeSet::new(),
        };
        attached.probes.set(pid, source)?;
        let mut begun = vec![Event::Modules(Box::new(modules.clone()))];
        let armed = placed
            .into_iter()
            .map(|(location, at, before)| Arming::now(location, at, false, before, &attached.memory));
        begun.extend(armed.map(Event::Armed));
        attached.follow_pointers(false, &mut begun);
        Ok((attached, begun))
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Tells hits of watched locations from those of probes; the latter tell where locations are.
    pub(super) fn sort_out(&mut self, events: Vec<(u64, Event)>) -> (Vec<Event>, Vec<Event>) {
        let (mut hits, mut changes) = (Vec::new(), Vec::new());
        let mut probes: BTreeMap<usize, VecDeque<Box<RawHit>>> = BTreeMap::new();
        for (cookie, event) in events {
            if cookie == watch_cookie() {
                hits.push(event);
                continue;
            }
            let Event::Hit(probe) = event else { continue };
            let Some(id) = probe_of(cookie) else { continue };
            let of_location = probes.entry(id.location.into()).or_default();
            of_location.push_back(probe);
            // Where it was before these has been left long ago.
            if of_location.len() > LATEST {
                of_location.pop_front();
            }
        }
        let probes = probes.into_iter();
        let latest =
            probes.flat_map(|(location, probes)| probes.into_iter().map(move |probe| (location, probe)));
        let mut latest: Vec<(usize, Box<RawHit>)> = latest.collect();
        latest.sort_by_key(|(_, probe)| probe.time_ns);
        for (location, probe) in latest {
            let spec = self.specs.get(location);
            let Some(spec) = spec.filter(|_| !self.left.contains(&location)) else {
                continue;
            };
            let Address::Probed(places) = &spec.address else {
                continue;
            };
            let here = |place: &&Probe| {
                place.nth.is_none() && place.in_process(&self.modules) == Some(probe.watched)
            };
            let found = places
                .iter()
                .filter(here)
                .find_map(|place| place.locate(spec, &probe.registers, false));
            if let Some(at) = found
                && let Ok(placement) = self.table.place(location, at)
            {
                // The thread that came by has gone on: what it did since was not seen.
                self.apply(placement, location, at, true, &mut changes);
            }
        }
        self.follow_pointers(true, &mut changes);
        (hits, changes)
    }

    /// Watches what pointers lead to now.
    fn follow_pointers(&mut self, late: bool, changes: &mut Vec<Event>) {
        if self.ended || !pointers::any(&self.specs) {
            return;
        }
        let found = pointers::places(&self.specs, &self.modules, |at| self.memory.read_word(at));
        for (location, at) in found {
            if !self.left.contains(&location)
                && let Ok(placement) = self.table.move_to(location, at)
            {
                self.apply(placement, location, at, late, changes);
            }
        }
    }

    fn apply(
        &mut self,
        placement: Placement,
        location: usize,
        at: Location,
        late: bool,
        changes: &mut Vec<Event>,
    ) {
        let before = self.memory.read(at.addr, at.len as usize);
        let until_ns = monotonic_ns();
        let given_up = placement.given_up.into_iter();
        changes.extend(given_up.map(|(location, at)| Event::Disarmed {
            location,
            at,
            until_ns,
        }));
        let set = placement
            .set
            .into_iter()
            .all(|(register, wanted)| self.arms.set(register, wanted).is_ok());
        if placement.armed && set {
            let arming = Arming::now(location, at, late, before, &self.memory);
            changes.push(Event::Armed(arming));
        }
    }

    /// Whether the process has ended.
    pub(super) fn news(&mut self, source: &Source) -> Result<Vec<Event>, WatchError> {
        if self.ended {
            return Ok(Vec::new());
        }
        self.probes.set(self.pid, source)?;
        if !self.exit.wait(Duration::ZERO)? {
            if self.looked.elapsed() < LOOK_AGAIN {
                return Ok(Vec::new());
            }
            self.looked = Instant::now();
            return if self.runs_another_program() {
                self.watch_again()
            } else {
                Ok(self.newly_mapped())
            };
        }
        self.ended = true;
        let mut events = self.counted();
        events.push(Event::Ended(self.exit.how()));
        Ok(events)
    }

    fn runs_another_program(&mut self) -> bool {
        let now = Process::new(self.pid).program_mark();
        let other = now.is_some() && now != self.program;
        if other {
            self.program = now;
        }
        other
    }

    /// An exec has removed every watch. Where the locations are known in the new program they are watched from now on;
    /// what it did meanwhile was not seen.
    fn watch_again(&mut self) -> Result<Vec<Event>, WatchError> {
        let until_ns = monotonic_ns();
        self.arms.clear();
        let left = self.table.clear().into_iter();
        let mut changes: Vec<Event> = left
            .map(|(location, at)| Event::Disarmed {
                location,
                at,
                until_ns,
            })
            .collect();
        self.memory = Memory::of(self.pid);
        self.modules = match ModuleMap::of(self.pid) {
            Ok(modules) => modules,
            // It ends: that is told next.
            Err(_) => return Ok(changes),
        };
        changes.push(Event::Modules(Box::new(self.modules.clone())));
        let same = executable(&self.modules) == self.executable;
        self.waiting = unmapped(&self.specs, &self.modules);
        let mut placed = Vec::new();
        for (location, spec) in self.specs.iter().enumerate() {
            let means_the_same = match &spec.address {
                Address::Static { module, .. } => same || module.is_some(),
                Address::Run(_) | Address::Pointed(_) | Address::Probed(_) => false,
            };
            if let Some(at) = spec.resolve(&self.modules).filter(|_| means_the_same)
                && !self.left.contains(&location)
                && self.table.place(location, at).is_ok()
            {
                placed.push((location, at));
            }
        }
        let placed = contents(self.pid, placed);
        for (register, wanted) in self.table.wanted().into_iter().enumerate() {
            self.arms.set(register, wanted)?;
        }
        self.arm_again()?;
        let armed = placed
            .into_iter()
            .map(|(location, at, before)| Arming::now(location, at, true, before, &self.memory));
        changes.extend(armed.map(Event::Armed));
        if same {
            self.follow_pointers(true, &mut changes);
        }
        Ok(changes)
    }

    /// Arms the threads of a new program. The first has nothing of ours, though the registers of the old program are free
    /// only when the kernel has let go of the last event, which may take it a moment.
    fn arm_again(&mut self) -> Result<(), WatchError> {
        let started = Instant::now();
        let first = self.pid.first_thread();
        loop {
            let arms = &mut self.arms;
            match self.outlet.with(|outflow| arms.arm_first(first, outflow)) {
                Err(PerfError::NoRegister { .. }) if started.elapsed() < FREE_WITHIN => {
                    std::thread::sleep(BETWEEN_ATTEMPTS);
                }
                Err(error) if !error.is_gone() => return Err(error.into()),
                _ => return self.arms.arm_all(self.pid, &self.outlet),
            }
        }
    }

    /// Watches locations of libraries that were mapped since. Some of their code may have run.
    fn newly_mapped(&mut self) -> Vec<Event> {
        let mut changes = Vec::new();
        if self.waiting.is_empty() {
            return changes;
        }
        let looked = self.modules.refresh();
        if !looked.is_ok_and(|looked| !looked.mapped.is_empty()) {
            return changes;
        }
        changes.push(Event::Modules(Box::new(self.modules.clone())));
        for location in std::mem::take(&mut self.waiting) {
            let spec = self.specs.get(location);
            let Some(at) = spec.and_then(|spec| spec.resolve(&self.modules)) else {
                self.waiting.push(location);
                continue;
            };
            if let Ok(placement) = self.table.place(location, at) {
                self.apply(placement, location, at, true, &mut changes);
            }
        }
        changes
    }

    /// Watches a location no more.
    pub(super) fn leave(&mut self, location: usize) -> Vec<Event> {
        self.left.insert(location);
        self.waiting.retain(|waiting| *waiting != location);
        self.probes.leave(location);
        let until_ns = monotonic_ns();
        let placement = self.table.leave(location);
        for (register, wanted) in placement.set {
            // A thread that cannot be disarmed has ended, or ends with the watch.
            let _ended = self.arms.set(register, wanted);
        }
        let left = placement.given_up.into_iter();
        left.map(|(location, at)| Event::Disarmed {
            location,
            at,
            until_ns,
        })
        .collect()
    }

    pub(super) fn stop(&mut self) -> Vec<Event> {
        let counted = self.counted();
        self.arms.clear();
        counted
    }

    fn counted(&self) -> Vec<Event> {
        let counts = self.arms.counts().into_iter();
        counts.map(|(slot, count)| Event::Counted(slot, count)).collect()
    }
}

/// Locations of files that are not mapped yet.
fn unmapped(specs: &[WatchSpec], modules: &ModuleMap) -> Vec<usize> {
    let waits =
        |spec: &WatchSpec| matches!(spec.address, Address::Static { .. }) && spec.resolve(modules).is_none();
    let waiting = specs.iter().enumerate().filter(|(_, spec)| waits(spec));
    waiting.map(|(location, _)| location).collect()
}
