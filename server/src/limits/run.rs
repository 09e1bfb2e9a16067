//! What the record of a run has to be like.

use diagnosis::record::{AllocationsRecord, FlowRecord, RunEnd, RunRecord};
use program::RunAddr;

use super::refusal::{Refusal, at_most, name, nonsense, read};
use super::report::{self, PATH, build_id, text};
use super::{predictors, traces};

/// Bytes of a record.
const BYTES: usize = proto::MOST_MESSAGE;
/// Accesses. A location that is touched more often is given up long before.
pub const HITS: usize = 100_000;
/// Locations: there are four registers, and those that take turns in a run.
pub const WATCHED: usize = 64;
/// Files of a process.
const MODULES: usize = 4096;
/// Looks at threads.
const LOOKS: usize = 65_536;
/// Different threads.
const THREADS: usize = 16_384;
/// Addresses on one stack.
const STACK: usize = 4096;
/// Addresses on all stacks.
const ADDRESSES: usize = 1 << 20;
/// Bytes of why tracking was cut short.
const WHY: usize = 4096;
/// Blocks of memory.
const BLOCKS: usize = 65_536;
/// Bytes of all traces. Time and memory of decoding are in proportion to them.
pub const TRACES: usize = 2 << 20;
/// Traces: each thread in each program that it executed.
const THREAD_TRACES: usize = 1024;
/// Programs that one process executed.
const SPACES: usize = 16;
/// Ranges and branches of a plan.
const RANGES: usize = 16_384;
const BRANCHES: usize = 65_536;
/// What is missing from traces, and times without a processor.
const MISSING: usize = 65_536;
const ABSENCES: usize = 262_144;
/// Predictors. As many of them cost 0.4 s and twenty megabytes where a hundred thousand accesses have them, 0.1 s where twenty
/// thousand have (measured); accesses without any cost 0.1 s.
pub const PREDICTORS: usize = 50_000;

/// Reads a record.
pub fn run(bytes: &[u8]) -> Result<RunRecord, Refusal> {
    let record: RunRecord = read("the record", bytes, BYTES)?;
    check(&record)?;
    Ok(record)
}

/// Whether a record that somebody sent is one that can be worked on.
fn check(record: &RunRecord) -> Result<(), Refusal> {
    if let RunEnd::Failed(report) = &record.end {
        report::check("end.failed.", report)?;
    }
    at_most("modules", record.modules.len(), MODULES)?;
    for (number, module) in record.modules.iter().enumerate() {
        let at = format!("modules[{number}]");
        name(format_args!("{at}.path"), &module.path, PATH)?;
        build_id(format_args!("{at}.build_id"), module.build_id.as_ref())?;
        if module.start > module.end {
            return Err(nonsense(format_args!("{at}.end"), "it ends before it begins"));
        }
    }
    at_most("watched", record.watched.len(), WATCHED)?;
    for (number, watched) in record.watched.iter().enumerate() {
        let at = format!("watched[{number}]");
        let fixed = watched.fixed.as_ref().and_then(|(module, _)| module.as_ref());
        for module in watched.module.iter().chain(fixed) {
            name(format_args!("{at}.module"), module, PATH)?;
        }
    }
    at_most("hits", record.hits.len(), HITS)?;
    let strange = |hit: &diagnosis::record::HitRecord| hit.location as usize >= record.watched.len();
    if let Some(number) = record.hits.iter().position(strange) {
        return Err(nonsense(
            format_args!("hits[{number}].location"),
            "nothing with that number was watched",
        ));
    }
    at_most("threads", record.threads.len(), LOOKS)?;
    let looks = record.threads.iter().map(|thread| thread.tid);
    let tids: std::collections::BTreeSet<u32> = looks.chain(record.hits.iter().map(|hit| hit.tid)).collect();
    at_most("threads[].tid", tids.len(), THREADS)?;
    stacks(record)?;
    text("data_flow", record.data_flow.as_deref(), WHY)?;
    text("cut_short", record.cut_short.as_deref(), WHY)?;
    if let Some(flow) = &record.flow {
        check_flow(flow)?;
    }
    if let Some(allocations) = &record.allocations {
        check_allocations(allocations)?;
    }
    match predictors::more_than(record, PREDICTORS) {
        true => Err(Refusal::TooManyPredictors { most: PREDICTORS }),
        false => Ok(()),
    }
}

fn stacks(record: &RunRecord) -> Result<(), Refusal> {
    let looks = record
        .threads
        .iter()
        .map(|thread| ("threads[].stack", &thread.stack));
    let callers = record.hits.iter().map(|hit| ("hits[].callers", &hit.callers));
    let blocks = record.allocations.iter().flat_map(|all| &all.blocks);
    let blocks = blocks.map(|block| ("allocations.blocks[].stack", &block.stack));
    let mut all = 0;
    for (path, stack) in looks.chain(callers).chain(blocks) {
        let stack: &Vec<RunAddr> = stack;
        at_most(path, stack.len(), STACK)?;
        all += stack.len();
    }
    at_most("addresses on stacks", all, ADDRESSES)
}

fn check_allocations(allocations: &AllocationsRecord) -> Result<(), Refusal> {
    at_most("allocations.blocks", allocations.blocks.len(), BLOCKS)?;
    let differ = |block: &diagnosis::record::BlockRecord| block.alike.len() != block.stack.len();
    match allocations.blocks.iter().position(differ) {
        Some(number) => Err(nonsense(
            format_args!("allocations.blocks[{number}].alike"),
            "there is not one for each address of the stack",
        )),
        None => Ok(()),
    }
}

fn check_flow(flow: &FlowRecord) -> Result<(), Refusal> {
    let recording = &flow.recording;
    at_most("flow.ranges", flow.ranges.len(), RANGES)?;
    at_most("flow.branches", flow.branches.len(), BRANCHES)?;
    at_most("flow.recording.unit.filter", recording.unit.filter.len(), RANGES)?;
    at_most("flow.recording.spaces", recording.spaces.len(), SPACES)?;
    for space in &recording.spaces {
        at_most("flow.recording.spaces[].modules", space.modules.len(), MODULES)?;
        for placed in &space.modules {
            build_id(
                "flow.recording.spaces[].modules[].build_id",
                placed.build_id.as_ref(),
            )?;
        }
    }
    at_most("flow.recording.missing", recording.missing.len(), MISSING)?;
    let absences = recording.absences.values().map(Vec::len).sum();
    at_most("flow.recording.absences", absences, ABSENCES)?;
    at_most("flow.recording.threads", recording.threads.len(), THREAD_TRACES)?;
    let strange = |trace: &pt_driver_client::recorder::ThreadTrace| trace.space >= recording.spaces.len();
    if let Some(number) = recording.threads.iter().position(strange) {
        let path = format!("flow.recording.threads[{number}].space");
        return Err(nonsense(path, "there is no space with that number"));
    }
    let traces = recording.threads.iter().map(|trace| trace.bytes.len()).sum();
    at_most("flow.recording.threads[].bytes", traces, TRACES)?;
    let traces = recording.threads.iter().map(|trace| trace.bytes.as_slice());
    at_most(
        "flow.recording.threads[].bytes: branches",
        traces.map(traces::branches).sum(),
        traces::BRANCHES,
    )
}
