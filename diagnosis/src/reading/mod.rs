//! From a run as a host recorded it to a run as evidence: addresses become statements, locations and roles.
//!
//! - `places`: addresses of the process as places in the program, and whose code is there
//! - `flow`: traces as statements that ran and branches that went one way
//! - `threads`: the threads, where they were and what they waited for; `roles`: what kind of thread a thread is
//! - `alike`: which accesses are to the same member
//! - `catalogue`: numbers for statements, locations and branches, the same for every run

mod aftermath;
mod alike;
mod catalogue;
mod flow;
mod globals;
mod late;
mod places;
mod roles;
mod threads;
mod told;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use failure::report::Kind;
use program::{FunctionRef, Pc, Program, RunAddr};
use slicer::threads::ThreadModel;

use crate::fixed;
use crate::record::{HitRecord, RunEnd, RunRecord};
use crate::run::{Access, AccessKind, Event, Failed, Gap, LocationId, Run, StatementId, ThreadIx, What};
pub(crate) use alike::member;
pub use catalogue::Cataloguer;
pub(crate) use catalogue::{access_name, module_named, name_at, name_of_result};
pub(crate) use places::Places;
use threads::Threads;

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

/// Reads a run. `failing` is the failing statement, for a run that failed, and `locks` the places in its report of the threads
/// that are in a function that takes a lock; `model` knows what threads start with. Accesses to locks count where the failure is
/// about them (`locked`).
#[must_use]
pub fn read(
    record: &RunRecord,
    failing: Option<StatementId>,
    locks: &BTreeSet<usize>,
    program: &Program<'_>,
    model: &ThreadModel<'_, '_>,
    locked: bool,
    catalogue: &mut Cataloguer,
) -> Reading {
    let places = Places::new(program, &record.modules);
    let locations: Vec<LocationId> = record
        .watched
        .iter()
        .map(|watched| catalogue.location(watched, program))
        .collect();
    let locations = called_otherwise(record, &places, locations, program, catalogue);
    let mut threads = Threads::new(record, &places, model);
    let mut events = Vec::new();
    let mut writers = BTreeSet::new();
    let mut library = BTreeSet::new();
    let mut last: Option<&HitRecord> = None;
    let mut of_locks: HashMap<(RunAddr, &[RunAddr]), bool> = HashMap::new();
    let mut in_frames: HashMap<(u32, Pc), bool> = HashMap::new();
    let mut seen: BTreeSet<(LocationId, RunAddr)> = BTreeSet::new();
    let mut reads: HashMap<(u32, RunAddr), (Pc, StatementId)> = HashMap::new();
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
        if let Some(behind) = hit.in_frame {
            let at = program.instruction_at(pc).unwrap_or(pc);
            let watched = record.watched.get(hit.location as usize);
            let same = || watched.is_some_and(|watched| alike::is_access_to(watched, at, program));
            // What a library's functions have in their own frames is theirs; behind these is what they were given.
            let is_it = match places.calls_to(hit.pc, &hit.callers) {
                0 => *in_frames.entry((hit.location, at)).or_insert_with(same),
                calls => behind >= calls,
            };
            if !is_it {
                continue;
            }
        }
        // Whoever takes a lock touches its word, which may be watched for whoever made it.
        let of_lock = of_locks
            .entry((hit.pc, &hit.callers))
            .or_insert_with(|| places.keeps_order(hit.pc, &hit.callers));
        if *of_lock && !locked {
            continue;
        }
        let Some(statement) = catalogue.statement_at(pc, program) else {
            continue;
        };
        catalogue.name_by(location, program.instruction_at(pc).unwrap_or(pc), program);
        if seen.insert((location, hit.addr)) {
            let at = fixed::place(record, hit.addr, program);
            catalogue.was_at(location, at, program.instruction_at(pc).unwrap_or(pc), program);
        }
        let kind = hit.access.unwrap_or_else(|| kind_by_values(hit));
        if kind.writes() {
            writers.insert(program.instruction_at(pc).unwrap_or(pc));
        }
        // What a thread read before it wrote is no check of what it reads after that.
        let before = match kind.reads() {
            true => reads.insert((hit.tid, hit.addr), (pc, statement)),
            false => reads.remove(&(hit.tid, hit.addr)),
        };
        if let Some(before) = before.filter(|_| failing.is_some() && kind.reads()) {
            catalogue.read_again(before, (pc, statement), program);
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
    let mut events = with_flow(events, flows.threads, &mut threads);
    let mut waits = Vec::new();
    let failed = match (&record.end, failing) {
        (RunEnd::Failed(report), Some(statement)) => {
            let thread = report.threads.get(report.failing);
            let tid = thread.and_then(|thread| u32::try_from(thread.id?).ok());
            threads.take_stacks(report, &places, catalogue);
            waits = threads.waits(report, locks);
            Some(Failed {
                thread: tid.map(|tid| threads.of(tid)),
                statement,
                instead_of: None,
                hang: report.kind == Kind::Hang,
                polls: false,
            })
        }
        _ => None,
    };
    if let Some(failed) = failed.filter(|failed| !failed.hang) {
        let stack = failed
            .thread
            .and_then(|thread| threads.threads.get(thread.0 as usize));
        let stack = stack.map_or(&[][..], |thread| &thread.stack);
        aftermath::leave_out(&mut events, failed, stack, catalogue.catalogue());
    }
    let gaps = flows.missing.into_iter().map(|(tid, what)| Gap {
        thread: tid.map(|tid| threads.of(tid)),
        before: events.len(),
        what,
    });
    let gaps = gaps.collect();
    threads.take_calls(&places, catalogue);
    // What was given up half-way says nothing of what came after that.
    let watched = record.watched.iter().zip(&locations);
    let watched: Vec<_> = watched.filter(|(watched, _)| !watched.given_up).collect();
    let incomplete = incomplete(record)
        .or_else(|| threads.unlooked())
        .or_else(|| unattributed(record, &places))
        .or(flows.cut_short);
    let traced = told::told(flows.traced, &events, &threads.threads);
    let run = Run {
        number: record.number,
        failed,
        sigma: record.sigma,
        threads: threads.threads,
        watched: watched.iter().map(|(_, location)| **location).collect(),
        late: late::late(&watched, &events),
        events,
        traced,
        incomplete,
        gaps,
        waits,
    };
    Reading {
        run,
        writers,
        library,
        branches: flows.branches,
    }
}

/// The locations of a run, those put together that this run shows to be one: where a location was, an instruction came by that another one is
/// watched for. What one function calls `q->mut` is `fifo->mut` to another, and has one story.
fn called_otherwise(
    record: &RunRecord,
    places: &Places<'_, '_, '_>,
    mut locations: Vec<LocationId>,
    program: &Program<'_>,
    catalogue: &mut Cataloguer,
) -> Vec<LocationId> {
    let mut seen: BTreeSet<(u32, RunAddr)> = BTreeSet::new();
    for hit in &record.hits {
        if !seen.insert((hit.location, hit.pc)) {
            continue;
        }
        let watched = record.watched.get(hit.location as usize);
        let at = places.place(hit.pc).filter(|at| places.is_own(*at));
        let at = at.and_then(|at| program.instruction_at(at));
        if let (Some(watched), Some(at)) = (watched, at)
            && let Some((kept, gone)) = catalogue.put_together(watched, at, program)
        {
            for location in locations.iter_mut().filter(|location| **location == gone) {
                *location = kept;
            }
        }
    }
    locations
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
    let mut made: BTreeMap<ThreadIx, Vec<(u64, StatementId)>> = BTreeMap::new();
    // Accesses come in their order, which times alone need not have.
    let mut latest = 0;
    for event in accesses {
        latest = latest.max(event.time_ns.unwrap_or(latest));
        made.entry(event.thread)
            .or_default()
            .push((latest, event.statement));
        keyed.push((latest, event));
    }
    for (tid, steps) in flows {
        let thread = threads.of(tid);
        let times = step_times(&steps, made.get(&thread).map_or(&[][..], Vec::as_slice));
        for (step, time) in steps.into_iter().zip(times) {
            let event = Event {
                thread,
                statement: step.statement,
                time_ns: step.time_ns,
                uncertain: step.time_ns.is_none(),
                what: step.what,
            };
            keyed.push((time, event));
        }
    }
    keyed.sort_by_key(|(time, _)| *time);
    keyed.into_iter().map(|(_, event)| event).collect()
}

/// When a thread's steps were, among its accesses. A trace has the time of branches, and whatever was done on the way to one has its
/// time: what stands before the statement of an access on that way came before the access.
fn step_times(steps: &[flow::FlowStep], accesses: &[(u64, StatementId)]) -> Vec<u64> {
    let mut latest = 0;
    let mut times: Vec<u64> = steps
        .iter()
        .map(|step| {
            latest = latest.max(step.time_ns.unwrap_or(latest));
            latest
        })
        .collect();
    for &(time, statement) in accesses {
        let first = times.partition_point(|&step| step <= time);
        let Some(&branch) = times.get(first) else { continue };
        let way = times
            .iter()
            .skip(first)
            .take_while(|&&step| step == branch)
            .count();
        let way = first..first + way;
        let here = steps.get(way.clone()).unwrap_or_default();
        if let Some(before) = here.iter().position(|step| step.statement == statement) {
            let last = first.checked_sub(1).and_then(|last| times.get(last));
            let before_it = time.saturating_sub(1).max(last.copied().unwrap_or(0));
            let earlier = times.get_mut(first..first + before).unwrap_or_default();
            earlier.fill(before_it);
        }
    }
    times
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

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(of: &[(u32, u64)]) -> Vec<flow::FlowStep> {
        let step = |&(statement, time)| flow::FlowStep {
            time_ns: Some(time),
            statement: StatementId(statement),
            what: What::Executed,
        };
        of.iter().map(step).collect()
    }

    #[test]
    fn what_stands_before_an_access_came_before_it() {
        let steps = steps(&[(1, 10), (54, 50), (56, 50), (57, 50), (60, 70)]);
        let times = |accesses: &[(u64, u32)]| {
            let accesses = accesses.iter().map(|&(time, at)| (time, StatementId(at)));
            step_times(&steps, &accesses.collect::<Vec<_>>())
        };
        assert_eq!(times(&[]), [10, 50, 50, 50, 70]);
        assert_eq!(times(&[(30, 56)]), [10, 29, 50, 50, 70]);
        assert_eq!(times(&[(30, 56), (40, 57)]), [10, 29, 39, 50, 70]);
        assert_eq!(times(&[(30, 99)]), [10, 50, 50, 50, 70], "not on the way");
        assert_eq!(times(&[(90, 60)]), [10, 50, 50, 50, 70], "after the last branch");
    }
}
