//! One run of a program that we start, tracked by a plan.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use diagnosis::record::{
    FlowRecord, HitRecord, ModuleRecord, RunEnd, RunRecord, ThreadRecord, WatchedRecord,
};
use diagnosis::run::AccessKind;
use diagnosis::tracking::{Allocator, LibraryCode, ResultProbe};
use program::{Pc, RunAddr};
use pt_driver_client::recorder::Recorder;
use slicer::plan::PcRange;
use thiserror::Error;
use tracee::process::ModuleMap;
use tracee::ptrace::Launch;
use tracee::run::{Outcome, RunError, RunOptions, Tracker, Verdict, run};
use watchpoint::code::CodeFiles;
use watchpoint::exact::rider::rider;
use watchpoint::session::Session;
use watchpoint::{Hit, Mode, Summary, WatchError, WatchSpec, WatchedSpan};

use crate::allocations::Allocations;
use crate::results::Results;
use crate::stacks::{Stacks, Unwound};

/// How long the reader of hits sleeps at most before it looks whether the run is over.
const LOOK: Duration = Duration::from_millis(100);

/// Why a run came to nothing.
#[derive(Debug, Error)]
pub enum TrackError {
    /// The program cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its accesses cannot be read.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// What a run is to be tracked for.
pub struct Tracking {
    /// The number of the run in its series.
    pub number: u64,
    /// How many statements of the slice the plan is for.
    pub sigma: u32,
    /// How to watch memory.
    pub mode: Mode,
    /// What to watch.
    pub locations: Vec<(WatchedRecord, WatchSpec)>,
    /// The program has one thread: what its functions share may be in its frames.
    pub own_frames: bool,
    /// How many locations there are to watch in all, if these are a share of them; 0 otherwise.
    pub planned: u32,
    /// Code of the program's files that is a library's.
    pub library: Vec<LibraryCode>,
    /// The functions whose results are noted, to know where memory comes from.
    pub allocators: Vec<Allocator>,
    /// The calls whose results are noted.
    pub results: Vec<ResultProbe>,
    /// Who records control flow, in which code.
    pub flow: Option<FlowTracking>,
}

/// Control flow to be recorded.
pub struct FlowTracking {
    /// Who records it.
    pub recorder: Box<dyn Recorder>,
    /// The code.
    pub ranges: Vec<PcRange>,
    /// The branches in it.
    pub branches: Vec<Pc>,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            number: 0,
            sigma: 0,
            mode: Mode::Exact,
            locations: Vec::new(),
            own_frames: false,
            planned: 0,
            library: Vec::new(),
            allocators: Vec::new(),
            results: Vec::new(),
            flow: None,
        }
    }
}

impl FlowTracking {
    fn finish(self, outcome: &Outcome) -> FlowRecord {
        FlowRecord {
            recording: self.recorder.finish(),
            ranges: self.ranges,
            branches: self.branches,
            until_ns: outcome.failed_at_ns,
        }
    }
}

/// A run and what came of it.
#[derive(Debug)]
pub struct Tracked {
    /// How it ended, with its output.
    pub outcome: Outcome,
    /// What is reported of it.
    pub record: RunRecord,
}

/// Runs a program to its end and records what the tracking asks for. `files` keeps code readable from one run to
/// the next.
///
/// # Errors
/// When the program cannot be started, followed or watched.
pub fn track(
    launch: Launch,
    options: &RunOptions<'_>,
    tracking: Tracking,
    files: &CodeFiles,
) -> Result<Tracked, TrackError> {
    struct Nobody;
    impl Tracker for Nobody {}
    track_with(launch, options, tracking, files, &mut Nobody)
}

/// The same with somebody who rides along.
///
/// # Errors
/// As [`track`], and when the companion gives up.
pub fn track_with(
    launch: Launch,
    options: &RunOptions<'_>,
    mut tracking: Tracking,
    files: &CodeFiles,
    companion: &mut (dyn Tracker + Send),
) -> Result<Tracked, TrackError> {
    let mut flow = tracking.flow.take();
    let mut stacks = Stacks::new(options.modules, std::mem::take(&mut tracking.library));
    let asked = std::mem::take(&mut tracking.results);
    let mut results = (!asked.is_empty()).then(|| Results::new(asked));
    if tracking.locations.is_empty() {
        let mut trackers: Vec<&mut dyn Tracker> = vec![companion, &mut stacks];
        trackers.extend(results.as_mut().map(|it| it as &mut dyn Tracker));
        trackers.extend(flow.as_mut().map(|flow| &mut *flow.recorder as &mut dyn Tracker));
        let outcome = run(launch, options, &mut trackers)?;
        let stacks = stacks.finish();
        let mut record = record(&outcome, &stacks, &tracking, Vec::new(), None);
        record.flow = flow.map(|flow| flow.finish(&outcome));
        if let Some(results) = results {
            results.finish(&mut record, outcome.failed_at_ns);
        }
        return Ok(Tracked { outcome, record });
    }
    let specs: Vec<WatchSpec> = tracking.locations.iter().map(|(_, spec)| spec.clone()).collect();
    let (mut rider, passenger) = rider(specs.clone(), tracking.mode, tracking.own_frames)?;
    let asked = std::mem::take(&mut tracking.allocators);
    let mut allocations = (!asked.is_empty()).then(|| Allocations::new(asked));
    // The run blocks when nobody reads its hits: they are read here while it goes on there.
    let (outcome, hits, summary, modules) = thread::scope(|scope| {
        let (stacks, flow) = (&mut stacks, &mut flow);
        let (allocations, results) = (&mut allocations, &mut results);
        let running = scope.spawn(move || {
            let mut trackers: Vec<&mut dyn Tracker> = vec![companion, stacks, &mut *rider];
            trackers.extend(allocations.as_mut().map(|it| it as &mut dyn Tracker));
            trackers.extend(results.as_mut().map(|it| it as &mut dyn Tracker));
            trackers.extend(flow.as_mut().map(|flow| &mut *flow.recorder as &mut dyn Tracker));
            run(launch, options, &mut trackers)
            // The rider is dropped here, so that the reader learns of a run that never started.
        });
        let mut session = Session::over(passenger, &specs, files);
        let read = read_to_end(&mut session);
        let outcome = running
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let modules = session.code().modules();
        read.map_err(TrackError::from)
            .and_then(|hits| Ok((outcome?, hits, session.summary(), modules)))
    })?;
    let stacks = stacks.finish();
    let mut record = record(&outcome, &stacks, &tracking, hits, Some(&summary));
    record.flow = flow.map(|flow| flow.finish(&outcome));
    let mapped_then = stacks.modules.as_ref().or(modules.as_ref());
    record.allocations = allocations
        .zip(mapped_then)
        .map(|(allocations, map)| allocations.finish(&record.hits, map, options.modules));
    if record.modules.is_empty() {
        record.modules = modules.as_ref().map(mapped).unwrap_or_default();
    }
    if let Some(results) = results {
        results.finish(&mut record, outcome.failed_at_ns);
    }
    Ok(Tracked { outcome, record })
}

fn read_to_end(session: &mut Session<'_>) -> Result<Vec<Hit>, WatchError> {
    let mut hits = Vec::new();
    loop {
        let progress = session.next(LOOK)?;
        hits.extend(progress.hits);
        if progress.ended.is_some() {
            return Ok(hits);
        }
    }
}

fn record(
    outcome: &Outcome,
    stacks: &Unwound,
    tracking: &Tracking,
    hits: Vec<Hit>,
    summary: Option<&Summary>,
) -> RunRecord {
    let end = match (outcome.verdict(), &outcome.failure) {
        (Verdict::Failed, Some(report)) => RunEnd::Failed(report.clone()),
        (Verdict::Succeeded, _) => RunEnd::Succeeded,
        _ => RunEnd::Inconclusive,
    };
    let spans = summary.map_or(&[][..], |summary| &summary.spans);
    let mut of_libraries: BTreeMap<u32, _> = stacks
        .of_libraries
        .iter()
        .map(|(tid, seen)| (*tid, seen.iter().peekable()))
        .collect();
    // What a program does after the panic that it ends for is no part of how that came about.
    let until = outcome.failed_at_ns.unwrap_or(u64::MAX);
    let hits = hits.into_iter().filter(|hit| hit.time_ns <= until).map(|hit| {
        let callers = of_libraries.get_mut(&hit.tid).and_then(|seen| {
            let (_, stack) = seen.next_if(|(at, _)| *at == hit.reported_pc)?;
            Some(stack.get(1..)?.to_vec())
        });
        let len = tracking
            .locations
            .get(hit.location)
            .map_or(1, |(_, spec)| spec.len);
        HitRecord {
            in_frame: hit
                .in_frame
                .filter(|_| tracking.own_frames)
                .map(|behind| u32::try_from(behind).unwrap_or(u32::MAX)),
            ..hit_record(&hit, callers, spans, len)
        }
    });
    RunRecord {
        number: tracking.number,
        pid: outcome.pid.0,
        sigma: tracking.sigma,
        end,
        elapsed_ns: u64::try_from(outcome.elapsed.as_nanos()).unwrap_or(u64::MAX),
        hits: hits.collect(),
        modules: stacks.modules.as_ref().map(mapped).unwrap_or_default(),
        threads: stacks
            .first
            .iter()
            .flat_map(|(&tid, stacks)| {
                stacks.iter().map(move |stack| ThreadRecord {
                    tid,
                    stack: stack.clone(),
                })
            })
            .collect(),
        watched: watched(&tracking.locations, spans),
        planned: tracking.planned,
        lost: summary.map_or(0, |summary| summary.lost),
        data_flow: summary.map(|summary| mode(summary.mode).to_owned()),
        cut_short: None,
        flow: None,
        allocations: None,
    }
}

/// The locations of a plan, with what came of watching them.
pub(crate) fn watched(locations: &[(WatchedRecord, WatchSpec)], spans: &[WatchedSpan]) -> Vec<WatchedRecord> {
    let late = |number: usize| spans.iter().any(|span| span.location == number && span.late);
    let given_up = |number: usize| {
        let mut own = spans.iter().filter(|span| span.location == number).peekable();
        own.peek().is_some() && own.all(|span| span.until_ns.is_some())
    };
    let found = |number: usize| {
        let own = spans.iter().filter(|span| span.location == number);
        u32::try_from(own.count()).unwrap_or(u32::MAX)
    };
    let watched = locations.iter().enumerate();
    watched
        .map(|(number, (watched, _))| WatchedRecord {
            late: late(number),
            given_up: given_up(number),
            found: found(number),
            ..watched.clone()
        })
        .collect()
}

/// What a mode is called in records.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Observe => "observe",
        Mode::Exact => "exact",
        Mode::Compat => "compat",
    }
}

pub(crate) fn hit_record(
    hit: &Hit,
    callers: Option<Vec<RunAddr>>,
    spans: &[WatchedSpan],
    len: u32,
) -> HitRecord {
    // Accesses that touch parts of a location are accesses of the location, which may be at several places at once.
    let here = |span: &&WatchedSpan| {
        let end = |addr: RunAddr, len: u32| addr.0.saturating_add(u64::from(len.max(1)));
        // One access to several locations begins before all of them but one.
        let meets = hit.addr.0 < end(span.addr, len) && span.addr.0 < end(hit.addr, hit.len);
        span.location == hit.location && meets
    };
    let then = |span: &&WatchedSpan| {
        let ended = span.until_ns.is_some_and(|until| until < hit.time_ns);
        span.from_ns <= hit.time_ns && !ended
    };
    let mut places = spans.iter().rev().filter(here);
    // A watch is there a moment before it is said to be, and an access may fall into it.
    let span = places.clone().find(then).or_else(|| places.next());
    HitRecord {
        tid: hit.tid,
        time_ns: hit.time_ns,
        pc: hit.pc.unwrap_or(hit.reported_pc.offset(-1)),
        callers: callers.unwrap_or_else(|| hit.callers.clone()),
        access: hit.access.map(|access| match access.kind {
            program::code::AccessKind::Read => AccessKind::Read,
            program::code::AccessKind::Write => AccessKind::Write,
            program::code::AccessKind::ReadWrite => AccessKind::ReadWrite,
        }),
        addr: span.map_or(hit.addr, |span| span.addr),
        location: u32::try_from(hit.location).unwrap_or(u32::MAX),
        value: hit.value.map(|value| value.bits),
        before: hit.before.map(|value| value.bits),
        uncertain: hit.order_uncertain,
        in_frame: None,
    }
}

/// The modules of a process.
pub(crate) fn mapped(map: &ModuleMap) -> Vec<ModuleRecord> {
    let executable = map.executable();
    let modules = map.modules().iter().filter_map(|module| {
        let ranges = &module.mapped.ranges;
        Some(ModuleRecord {
            path: module.mapped.path.clone(),
            build_id: module.mapped.build_id.clone(),
            start: ranges.first()?.0.start,
            end: ranges.last()?.0.end,
            bias: module.mapped.bias?,
            executable: executable == Some(module),
        })
    });
    modules.collect()
}
