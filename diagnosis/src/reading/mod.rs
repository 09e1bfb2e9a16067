//! From a run as a host recorded it to a run as evidence: addresses become statements, locations and roles.
//!
//! - `places`: addresses of the process as places in the program, and whose code is there
//! - `flow`: traces as statements that ran and branches that went one way
//! - `roles`: what kind of thread a thread is
//! - `catalogue`: numbers for statements, locations and branches, the same for every run

mod catalogue;
mod flow;
mod late;
mod places;
mod roles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use failure::report::{Kind, Position, Report};
use program::{FunctionRef, Pc, Program, RunAddr};
use slicer::threads::ThreadModel;

use crate::record::{HitRecord, RunEnd, RunRecord, WatchedRecord};
use crate::run::{
    Access, AccessKind, Event, Failed, Gap, LocationId, Run, RunThread, StatementId, ThreadIx, What,
};
pub use catalogue::Cataloguer;
pub(crate) use catalogue::module_named;
pub(crate) use places::Places;

/// A thread of which nothing is known.
const UNKNOWN: &str = "??";

/// A run as evidence.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The run.
    pub run: Run,
    /// The instructions that wrote to what was watched.
    pub writers: BTreeSet<Pc>,
    /// Library functions of the program's files that accessed what was watched, for whom nobody saw.
    pub library: BTreeSet<FunctionRef>,
    /// How often each traced branch went somewhere.
    pub branches: BTreeMap<Pc, u64>,
}

/// Reads a run. `failing` is the failing statement, for a run that failed; `model` knows what threads start with.
#[must_use]
pub fn read(
    record: &RunRecord,
    failing: Option<StatementId>,
    program: &Program<'_>,
    model: &ThreadModel<'_, '_>,
    catalogue: &mut Cataloguer,
) -> Reading {
    let places = Places::new(program, &record.modules);
    let locations: Vec<LocationId> = record
        .watched
        .iter()
        .map(|watched| catalogue.location(watched, program))
        .collect();
    let mut threads = Threads::new(record, &places, model);
    let mut events = Vec::new();
    let mut writers = BTreeSet::new();
    let mut library = BTreeSet::new();
    let mut last: Option<&HitRecord> = None;
    for hit in &record.hits {
        // One access to bytes that are watched for two reasons is still one access.
        let same = |other: &&HitRecord| {
            (other.tid, other.time_ns, other.pc, other.addr) == (hit.tid, hit.time_ns, hit.pc, hit.addr)
        };
        if last.as_ref().is_some_and(same) {
            continue;
        }
        last = Some(hit);
        let location = usize::try_from(hit.location)
            .ok()
            .filter(|&at| !is_given_up(record, at))
            .and_then(|at| locations.get(at).copied());
        let Some(location) = location else { continue };
        let Some(pc) = places.own(hit.pc, &hit.callers) else {
            library.extend(places.place(hit.pc).and_then(|pc| program.function_at(pc)));
            continue;
        };
        let Some(statement) = catalogue.statement_at(pc, program) else {
            continue;
        };
        catalogue.name_by(location, program.instruction_at(pc).unwrap_or(pc), program);
        let kind = hit.access.unwrap_or_else(|| kind_by_values(hit));
        if kind.writes() {
            writers.insert(program.instruction_at(pc).unwrap_or(pc));
        }
        events.push(Event {
            thread: threads.of(hit.tid),
            statement,
            time_ns: Some(hit.time_ns),
            uncertain: hit.uncertain,
            what: What::Access(Access {
                location,
                addr: hit.addr.0,
                kind,
                value: hit.value,
                before: hit.before,
            }),
        });
    }
    let flows = record
        .flow
        .as_ref()
        .map(|flow| flow::read(flow, program, catalogue));
    let flows = flows.unwrap_or_default();
    let events = with_flow(events, flows.threads, &mut threads);
    let gaps = flows.missing.into_iter().map(|(tid, what)| Gap {
        thread: tid.map(|tid| threads.of(tid)),
        before: events.len(),
        what,
    });
    let gaps = gaps.collect();
    let failed = match (&record.end, failing) {
        (RunEnd::Failed(report), Some(statement)) => {
            let thread = report.threads.get(report.failing);
            let tid = thread.and_then(|thread| u32::try_from(thread.id?).ok());
            threads.take_stacks(report, &places, catalogue);
            Some(Failed {
                thread: tid.map(|tid| threads.of(tid)),
                statement,
                hang: report.kind == Kind::Hang,
                polls: false,
            })
        }
        _ => None,
    };
    threads.take_calls(&places, catalogue);
    // What was given up half-way says nothing of what came after that.
    let watched = record.watched.iter().zip(&locations);
    let watched: Vec<_> = watched.filter(|(watched, _)| !watched.given_up).collect();
    let incomplete = incomplete(record)
        .or_else(|| threads.unlooked())
        .or_else(|| unattributed(record, &places))
        .or(flows.cut_short);
    let run = Run {
        number: record.number,
        failed,
        sigma: record.sigma,
        threads: threads.threads,
        watched: watched.iter().map(|(_, location)| **location).collect(),
        late: late::late(&watched, &events),
        events,
        traced: flows.traced,
        incomplete,
        gaps,
    };
    Reading {
        run,
        writers,
        library,
        branches: flows.branches,
    }
}

/// Puts what control flow tells between the accesses, by time. The order within each thread stays as it was recorded.
fn with_flow(
    accesses: Vec<Event>,
    flows: BTreeMap<u32, Vec<flow::FlowStep>>,
    threads: &mut Threads<'_>,
) -> Vec<Event> {
    if flows.is_empty() {
        return accesses;
    }
    let mut keyed: Vec<(u64, Event)> = Vec::with_capacity(accesses.len());
    // Accesses come in their order, which times alone need not have.
    let mut latest = 0;
    for event in accesses {
        latest = latest.max(event.time_ns.unwrap_or(latest));
        keyed.push((latest, event));
    }
    for (tid, steps) in flows {
        let thread = threads.of(tid);
        let mut latest = 0;
        for step in steps {
            latest = latest.max(step.time_ns.unwrap_or(latest));
            let event = Event {
                thread,
                statement: step.statement,
                time_ns: step.time_ns,
                uncertain: step.time_ns.is_none(),
                what: step.what,
            };
            keyed.push((latest, event));
        }
    }
    keyed.sort_by_key(|(time, _)| *time);
    keyed.into_iter().map(|(_, event)| event).collect()
}

fn is_given_up(record: &RunRecord, location: usize) -> bool {
    record
        .watched
        .get(location)
        .is_some_and(|watched| watched.given_up)
}

/// An access whose instruction is not known wrote if the value is another one afterwards.
fn kind_by_values(hit: &HitRecord) -> AccessKind {
    match (hit.before, hit.value) {
        (Some(before), Some(after)) if before != after => AccessKind::Write,
        _ => AccessKind::Read,
    }
}

fn incomplete(record: &RunRecord) -> Option<String> {
    let lost = (record.lost > 0).then(|| format!("{} accesses were not reported", record.lost));
    record.cut_short.clone().or(lost)
}

/// Where nobody is stopped, an instruction under a probe is caught in the page that the kernel runs it in: that the location
/// was touched is known, and not by which statement. (Elsewhere code that no file has is the program's own way.)
fn unattributed(record: &RunRecord, places: &Places<'_, '_, '_>) -> Option<String> {
    if record.data_flow.as_deref() != Some("observe") {
        return None;
    }
    let nowhere = |hit: &&HitRecord| !places.is_mapped(hit.pc);
    let count = record.hits.iter().filter(nowhere).count();
    (count > 0).then(|| format!("{count} accesses were not seen where they were made"))
}

/// The threads of a run by their numbers, in the order in which they were first seen to do something.
struct Threads<'r> {
    known: BTreeMap<u32, ThreadIx>,
    threads: Vec<RunThread>,
    roles: BTreeMap<u32, Arc<str>>,
    /// Threads that nobody looked at, and whose code does not tell what they are.
    unknown: usize,
    record: &'r RunRecord,
}

impl<'r> Threads<'r> {
    fn new(record: &'r RunRecord, places: &Places<'_, '_, '_>, model: &ThreadModel<'_, '_>) -> Self {
        let mut stacks: BTreeMap<u32, Vec<&[RunAddr]>> = BTreeMap::new();
        for thread in &record.threads {
            stacks.entry(thread.tid).or_default().push(&thread.stack);
        }
        let mut unlooked: BTreeMap<u32, Vec<RunAddr>> = BTreeMap::new();
        for hit in &record.hits {
            if hit.tid != record.pid && !stacks.contains_key(&hit.tid) {
                unlooked.entry(hit.tid).or_default().push(hit.pc);
            }
        }
        let mut roles: BTreeMap<u32, Arc<str>> = stacks
            .into_iter()
            .filter_map(|(tid, stacks)| Some((tid, roles::of_stacks(stacks, places, model)?)))
            .collect();
        let mut unknown = 0;
        for (tid, seen_at) in unlooked {
            match roles::of_code(seen_at, places, model) {
                Some(role) => _ = roles.insert(tid, role),
                None => unknown += 1,
            }
        }
        Self {
            known: BTreeMap::new(),
            threads: Vec::new(),
            roles,
            unknown,
            record,
        }
    }

    /// That threads did something whose kind is not known because nobody looked: what they did may be what a predictor
    /// says of their kind.
    fn unlooked(&self) -> Option<String> {
        (self.unknown > 0).then(|| {
            format!(
                "{} threads were not looked at, and may be of any kind",
                self.unknown
            )
        })
    }

    fn of(&mut self, tid: u32) -> ThreadIx {
        if let Some(&known) = self.known.get(&tid) {
            return known;
        }
        let role = if tid == self.record.pid {
            "main".into()
        } else {
            self.roles.get(&tid).map_or_else(|| UNKNOWN.into(), Arc::clone)
        };
        let number = ThreadIx(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        self.threads.push(RunThread {
            role,
            stack: Vec::new(),
            calls: BTreeMap::new(),
        });
        self.known.insert(tid, number);
        number
    }

    /// By which calls each thread came to where it was looked at.
    fn take_calls(&mut self, places: &Places<'_, '_, '_>, catalogue: &mut Cataloguer) {
        // The last look at a statement is the nearest to the failure.
        for looked in self.record.threads.iter().rev() {
            let Some(known) = self.known.get(&looked.tid) else {
                continue;
            };
            let inside = looked.stack.iter().map(|addr| addr.offset(-1));
            let mut stack = own_statements(inside, places, catalogue).into_iter();
            let (Some(statement), Some(thread)) = (stack.next(), self.threads.get_mut(known.0 as usize))
            else {
                continue;
            };
            thread.calls.entry(statement).or_insert_with(|| stack.collect());
        }
    }

    /// Where each thread was when the run failed.
    fn take_stacks(&mut self, report: &Report, places: &Places<'_, '_, '_>, catalogue: &mut Cataloguer) {
        for thread in &report.threads {
            let Some(tid) = thread.id.and_then(|id| u32::try_from(id).ok()) else {
                continue;
            };
            // Functions that were inlined have frames of their own at the same place.
            let frames = thread.frames.iter().filter(|frame| !frame.inlined);
            let inside = frames.filter_map(|frame| match frame.position {
                Position::Exact => frame.address,
                Position::Return => Some(frame.address?.offset(-1)),
            });
            let stack = own_statements(inside, places, catalogue);
            let number = self.of(tid);
            if let Some(thread) = self.threads.get_mut(number.0 as usize) {
                thread.stack = stack;
            }
        }
    }
}

/// The statements of the program's own code on a stack, those of inlined calls among them.
fn own_statements(
    stack: impl Iterator<Item = RunAddr>,
    places: &Places<'_, '_, '_>,
    catalogue: &mut Cataloguer,
) -> Vec<StatementId> {
    let own = stack.filter_map(|addr| places.own(addr, &[]));
    let statements = own.flat_map(|pc| catalogue.statements_at(pc, places.program));
    statements.collect()
}
