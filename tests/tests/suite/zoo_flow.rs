//! Every program of the zoo, at both levels: what probes record of its control flow is what a tracer sees that goes
//! one instruction at a time, in the same run; and both decoders read the same out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use failsketch_tests::facts::Program as ZooProgram;
use failsketch_tests::folder::Folder;
use failsketch_tests::{skip, zoo};
use failure::FailOn;
use failure::image::Limits;
use program::{ModuleId, Pc, Program, RunAddr};
use pt_driver_client::code::{BlockId, Blocks};
use pt_driver_client::config::Config;
use pt_driver_client::flow::{Consumer, Decoder, FlowEvent, Gap, Part, ThreadFlow};
use pt_driver_client::recorder::software::{Options, SoftwarePt};
use pt_driver_client::recorder::step::SingleStep;
use pt_driver_client::recorder::{ControlFlow, Recorder as _, Recording, Source, What, choose};
use pt_driver_client::reference::{self, Instructions};
use slicer::plan::Plan;
use slicer::slice::{Criterion, Slice};
use tracee::ptrace::{Launch, Stream};
use tracee::run::{Output, RunOptions, run};
use tracee::{HostModules, ProgramFiles, Tid, libipt};

/// The first statements of the slice, the failing one included.
const SIGMA: usize = 8;

for_each_program!(check_program);

/// How many runs of each program at each level; `make eval` makes 20.
fn runs() -> usize {
    let wanted = std::env::var("FAILSKETCH_FLOW_RUNS").ok();
    wanted.and_then(|runs| runs.parse().ok()).unwrap_or(2)
}

fn check_program(name: &str) {
    if let Err(error) = choose(ControlFlow::Only(Source::SoftwarePt)) {
        skip::skipped(&error.to_string());
        return;
    }
    let zoo_program = zoo::program(name);
    let mut wrong = String::new();
    for level in zoo::LEVELS {
        let binary = zoo::binary(name, level);
        let files = ProgramFiles::default();
        let program = files.program(&binary).unwrap();
        let plan = plan(&zoo_program, &program);
        let mut instructions = 0;
        for _ in 0..runs() {
            let (software, step) = record(&zoo_program, &binary, &program, &plan);
            match compare(&program, &plan, &software, &step) {
                Ok(count) => instructions += count,
                Err(problem) => wrong += &format!("{name} {level}: {problem}\n"),
            }
        }
        if instructions == 0 {
            wrong += &format!("{name} {level}: nothing of the plan was executed in any run\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn plan(zoo_program: &ZooProgram, program: &Program<'_>) -> Plan {
    let at = zoo_program.place(&zoo_program.facts.failure.at);
    let module = program.module(ModuleId(0)).unwrap();
    let found = module.sources().addresses_of(&at.file, at.line).unwrap();
    let pc = |addr| Pc {
        module: ModuleId(0),
        addr,
    };
    let ranges: Vec<(Pc, Pc)> = found
        .matches
        .iter()
        .map(|found| (pc(found.range.start), pc(found.range.end)))
        .collect();
    let mut slice = Slice::new(program, &Criterion::ranges(program, &ranges));
    let _ = slice.by_ref().take(SIGMA).count();
    slice.plan(SIGMA)
}

/// One run that both ride along in.
fn record(
    zoo_program: &ZooProgram,
    binary: &Path,
    program: &Program<'_>,
    plan: &Plan,
) -> (Recording, Recording) {
    let facts = &zoo_program.facts;
    let mut software = SoftwarePt::new(program, plan, Options::default());
    let mut step = SingleStep::new(program, plan);
    let modules = HostModules::of_this_host();
    let fail_on = FailOn::default();
    let options = RunOptions {
        time_limit: Some(Duration::from_secs(facts.timeout_secs * 2)),
        deadlocks: false,
        fail_on: &fail_on,
        stdout: Output::Discard,
        stderr: Output::Discard,
        child_crashes: false,
        subject: None,
        modules: &modules,
        limits: Limits::default(),
        cancel: None,
    };
    let folder = Folder::new("flow");
    let input = File::open(folder.write("input", &facts.stdin)).unwrap();
    let launch = Launch::new(binary)
        .args(&facts.args)
        .folder(folder.path())
        .stdin(Stream::File(input));
    run(launch, &options, &mut [&mut software, &mut step]).unwrap();
    (software.end(), Box::new(step).finish())
}

/// What both recorded must be the same; gives the number of instructions.
fn compare(
    program: &Program<'_>,
    plan: &Plan,
    software: &Recording,
    step: &Recording,
) -> Result<usize, String> {
    let unexpected = |what: &&What| !matches!(what, What::Branch(_));
    let mut missing = software
        .missing
        .iter()
        .chain(&step.missing)
        .map(|missing| &missing.what);
    if let Some(what) = missing.find(unexpected) {
        return Err(format!("missing: {what}"));
    }
    let [ours, oracle] = [software, step].map(|recording| read(program, plan, recording));
    let (ours, oracle) = (ours?, oracle?);
    let mut count = 0;
    for (tid, expected) in &oracle {
        let nothing = Read::default();
        let found = ours.get(tid).unwrap_or(&nothing);
        differ("branches", *tid, &found.branches, &expected.branches)?;
        differ("instructions", *tid, &found.instructions, &expected.instructions)?;
        count += found.instructions.len();
    }
    if let Some(tid) = ours.keys().find(|tid| !oracle.contains_key(tid)) {
        return Err(format!("thread {tid} was not seen by single steps"));
    }
    Ok(count)
}

fn differ<T: std::fmt::Debug + PartialEq>(
    what: &str,
    tid: Tid,
    ours: &[T],
    oracle: &[T],
) -> Result<(), String> {
    let same = ours.iter().zip(oracle).take_while(|(a, b)| a == b).count();
    if same == ours.len() && same == oracle.len() {
        return Ok(());
    }
    let around = |list: &[T]| format!("{:x?}", &list[same.saturating_sub(2)..list.len().min(same + 4)]);
    Err(format!(
        "{what} of thread {tid} differ after {same} of {} and {}:\n    {}\n    {}",
        ours.len(),
        oracle.len(),
        around(ours),
        around(oracle)
    ))
}

/// What a thread did.
#[derive(Default)]
struct Read {
    /// Branch and target.
    branches: Vec<(u64, Option<u64>)>,
    instructions: Vec<u64>,
}

impl Instructions for Read {
    fn instruction(&mut self, address: u64) {
        self.instructions.push(address);
    }

    fn gap(&mut self, gap: Gap) {
        panic!("libipt finds a gap in what was recorded: {gap:?}");
    }
}

/// What our decoder says that ran, instruction by instruction.
#[derive(Default)]
struct Ran(Vec<u64>);

impl Consumer for Ran {
    const EVENTS: bool = false;

    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        for &id in blocks {
            let block = code.block(id);
            self.0.extend(code.addresses(block.start, block.instructions));
        }
    }

    fn part(&mut self, code: &Blocks<'_>, part: Part) {
        self.0.extend(code.addresses(part.start, part.instructions));
    }

    fn gap(&mut self, gap: Gap) {
        panic!("our decoder finds a gap in what was recorded: {gap:?}");
    }
}

/// Reads a recording with both decoders, which must agree.
fn read(program: &Program<'_>, plan: &Plan, recording: &Recording) -> Result<BTreeMap<Tid, Read>, String> {
    let source = recording.source;
    let mut all = BTreeMap::new();
    for (thread, flow) in recording.decode(program, &plan.ranges) {
        if let Some(gap) = flow.gaps().next() {
            return Err(format!("{source}: {gap:?}"));
        }
        let space = &recording.spaces[thread.space];
        let mut read = Read::default();
        let image = space.image(program);
        let code = libipt::CodeFile::new(image.pieces()).unwrap();
        let theirs = libipt::Image::new(&code).unwrap();
        reference::decode(&theirs, &thread.bytes, &Config::default(), &mut read).unwrap();
        let outside = read.instructions.iter().find(|&&addr| {
            let pc = space.to_pc(program, RunAddr(addr));
            !pc.is_some_and(|pc| plan.ranges.iter().any(|range| range.contains(pc)))
        });
        if let Some(addr) = outside {
            return Err(format!("{source}: {addr:#x} is outside of the plan's ranges"));
        }
        let mut ran = Ran::default();
        Decoder::new(&image).decode(&thread.bytes, &mut ran);
        let which = format!("{source}: instructions by our decoder and libipt");
        differ(&which, thread.tid, &ran.0, &read.instructions)?;
        let starts = ran.0.iter().copied().collect::<BTreeSet<u64>>();
        if let Some(start) = blocks(&flow).find(|start| !starts.contains(start)) {
            return Err(format!("{source}: nothing ran at the block {start:#x}"));
        }
        read.branches = flow.branches().map(|branch| (branch.pc, branch.to)).collect();
        if !thread.bytes.is_empty() {
            all.insert(thread.tid, read);
        }
    }
    Ok(all)
}

fn blocks(flow: &ThreadFlow) -> impl Iterator<Item = u64> {
    flow.events.iter().filter_map(|event| match event {
        FlowEvent::Block { start, .. } => Some(*start),
        _ => None,
    })
}
