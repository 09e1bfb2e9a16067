//! Intel PT: the processor records, an event and a buffer for each thread.
//!
//! With a buffer to each thread nothing has to be taken apart afterwards. The kernel keeps address filters up to date by
//! itself when files are mapped, at another address or in another program. Context switches tell when a thread ran nothing.
//! Where modules were is told by perf, mapping by mapping; a look at the process when a thread starts adds what was there
//! before. What was traced after the failure is no part of the run.
//!
//! - `filter`: what the processor is told to trace
//! - `gather`: from what it recorded to a recording, with all that is missing

mod filter;
mod gather;

use std::collections::BTreeSet;
use std::time::Duration;

use failure::report::Report;
use program::{ModuleId, Program};
use slicer::plan::ranges::coarsen;
use slicer::plan::{PcRange, Plan};
use tracee::Tid;
use tracee::perf::Stamped;
use tracee::perf::intel_pt::{AuxMode, PtEvent, PtPmu, PtTrace};
use tracee::process::ModuleMap;
use tracee::ptrace::{Launched, Tracer};
use tracee::run::{Ended, TrackError, Tracker};
use tracee::{ClockPoint, Pid};

use super::Recorder;
use super::clock::Clock;
use super::place::Known;
use super::recording::{Missing, Placed, Recording, Space, What};
use super::request::{RecorderError, Source};
use super::sideband::{self, Told};

const TICK: Duration = Duration::from_millis(20);

/// How much is kept, and which end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntelOptions {
    /// Room for each thread.
    pub bytes_per_thread: usize,
    /// The last of it (a flight recorder), or all of it (what does not fit is missing, and listed).
    pub mode: AuxMode,
}

impl Default for IntelOptions {
    fn default() -> Self {
        Self {
            bytes_per_thread: 4 << 20,
            mode: AuxMode::Snapshot,
        }
    }
}

/// Records with Intel PT.
pub struct IntelPt {
    pmu: PtPmu,
    options: IntelOptions,
    known: Vec<Known>,
    ranges: Vec<PcRange>,
    events: Vec<(Tid, PtEvent)>,
    /// What ended threads left.
    ended: Vec<(Tid, PtTrace)>,
    placed: Vec<Option<u64>>,
    begin: ClockPoint,
    /// The program failed.
    over: bool,
    recording: Recording,
}

impl IntelPt {
    /// A recorder for the ranges of a plan, if this host can.
    ///
    /// # Errors
    /// When it cannot.
    pub fn new(program: &Program<'_>, plan: &Plan, options: IntelOptions) -> Result<Self, RecorderError> {
        let pmu = PtPmu::of_this_host()?;
        let ids: BTreeSet<ModuleId> = plan.ranges.iter().map(|range| range.module).collect();
        let known: Vec<Known> = ids.into_iter().filter_map(|id| Known::of(program, id)).collect();
        let mut recording = Recording::empty(Source::IntelPt, Clock::Counter(None));
        recording.unit = gather::unit(&pmu);
        Ok(Self {
            ranges: coarsen(plan.ranges.clone(), pmu.filters),
            pmu,
            options,
            placed: vec![None; known.len()],
            known,
            events: Vec::new(),
            ended: Vec::new(),
            begin: ClockPoint::now(),
            over: false,
            recording,
        })
    }

    /// Starts to trace a thread, launched or not. It is not stopped for it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn trace(&mut self, pid: Pid, tid: Tid) -> Result<(), TrackError> {
        let map = ModuleMap::of(pid)?;
        self.place(&map);
        let filter = filter::text(&self.ranges, &self.known, &map, self.pmu.filters);
        self.recording.counts.unfiltered += u64::from(filter.is_none());
        let IntelOptions {
            bytes_per_thread,
            mode,
        } = self.options;
        let event = PtEvent::open(&self.pmu, tid, mode, bytes_per_thread, filter.as_deref())?;
        self.events.push((tid, event));
        Ok(())
    }

    fn place(&mut self, map: &ModuleMap) {
        for (known, placed) in self.known.iter().zip(&mut self.placed) {
            let bias = known.find(map).and_then(|module| module.mapped.bias);
            *placed = bias.or(*placed);
        }
    }

    /// Takes in what there is.
    ///
    /// # Errors
    /// When tracing cannot go on.
    pub fn drain(&mut self) -> Result<(), TrackError> {
        for (_, event) in &mut self.events {
            event.read()?;
        }
        Ok(())
    }

    fn end_events(&mut self) {
        for (tid, event) in self.events.drain(..) {
            // An event whose thread is gone is over already; what it left can still be read.
            if let Ok(trace) = event.finish() {
                self.ended.push((tid, trace));
            } else {
                let what = What::End;
                self.recording.missing.push(Missing { tid: Some(tid), what });
            }
        }
    }

    /// Ends what there is in this address space.
    fn close_space(&mut self) {
        self.end_events();
        let traces = self.ended.iter_mut();
        let mut records: Vec<Stamped> = traces
            .flat_map(|(_, trace)| std::mem::take(&mut trace.sideband))
            .collect();
        records.sort_by_key(|stamped| stamped.origin.time);
        let mut told = sideband::read(&self.known, &records).into_iter();
        let Told {
            mut modules,
            replaced,
        } = told.next().unwrap_or_default();
        for (known, bias) in self.known.iter().zip(&self.placed) {
            let placed = bias.map(|bias| Placed {
                module: known.module,
                bias,
                build_id: known.build_id.clone(),
            });
            modules.extend(placed.filter(|placed| !modules.contains(placed)));
        }
        // Code that is at the same place as other code was cannot be told from it: it is left out, and so is a gap.
        modules.retain(|placed| !replaced.contains(&placed.module));
        let missing = replaced.into_iter().map(|module| Missing {
            tid: None,
            what: What::Replaced(module),
        });
        self.recording.missing.extend(missing);
        let space = self.recording.spaces.len();
        self.recording.spaces.push(Space { modules });
        for (tid, trace) in self.ended.drain(..) {
            gather::gather(&mut self.recording, tid, space, trace);
        }
        self.placed.fill(None);
    }
}

impl Tracker for IntelPt {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        if !self.events.is_empty() || !self.ended.is_empty() {
            self.close_space();
        }
        self.trace(tracer.pid(), tracer.pid().first_thread())
    }

    fn thread_started(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        if self.over {
            return Ok(());
        }
        self.trace(tracer.pid(), tid)
    }

    fn tick(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        if self.placed.contains(&None)
            && let Ok(map) = ModuleMap::of(tracer.pid())
        {
            self.place(&map);
        }
        self.drain()
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, _: &Report) -> Result<(), TrackError> {
        if let Ok(map) = ModuleMap::of(tracer.pid()) {
            self.place(&map);
        }
        // A flight recorder would go on to be written over, until the program is gone.
        self.end_events();
        self.over = true;
        Ok(())
    }

    fn ended(&mut self, _: Ended) {
        self.end_events();
    }
}

impl Recorder for IntelPt {
    fn source(&self) -> Source {
        Source::IntelPt
    }

    fn finish(mut self: Box<Self>) -> Recording {
        self.close_space();
        self.recording.clock = Clock::Counter(Some((self.begin, ClockPoint::now())));
        if self.recording.counts.unfiltered == 0 {
            self.recording.unit.filter = self.ranges;
        }
        self.recording
    }
}
