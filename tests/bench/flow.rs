//! What software PT costs: where its ranges are not executed, and for each branch where they are, beside probes on the
//! same instructions that nobody listens to. `flow PROGRAM TURNS`, PROGRAM being flow.c; prints JSON.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::error::Error;
use std::path::Path;

use failure::FailOn;
use failure::image::Limits;
use program::{ModuleId, Pc, Program};
use pt_driver_client::recorder::software::{Options, SoftwarePt};
use slicer::plan::{PcRange, Plan};
use tracee::perf::{Delivery, ProbeEnd, ProbeFile, ProbeTarget, Uprobe};
use tracee::ptrace::{Launch, Launched, Tracer};
use tracee::run::{Output, RunOptions, TrackError, Tracker, run};
use tracee::{HostModules, ProgramFiles};

const MODULE: ModuleId = ModuleId(0);
/// Iterations with probes, and without: a hit takes thousands of times as long as an iteration.
const SLOW: u64 = 20_000;
const FAST: u64 = 30_000_000;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let [_, path, turns] = &words[..] else {
        return Err("usage: flow PROGRAM TURNS".into());
    };
    let files = ProgramFiles::default();
    let program = files.program(Path::new(path))?;
    let (hot, cold) = (plan(&program, "hot")?, plan(&program, "cold")?);
    let mut times: [Vec<u64>; 4] = Default::default();
    let mut hits = 0;
    for _ in 0..turns.parse::<u32>()? {
        times[0].push(measure(path, FAST, &mut [])?);
        let mut idle = SoftwarePt::new(&program, &cold, Options::default());
        times[1].push(measure(path, FAST, &mut [&mut idle])?);
        let mut recorder = SoftwarePt::new(&program, &hot, Options::default());
        let mut bare = Bare::new(&program, path, &recorder)?;
        times[2].push(measure(path, SLOW, &mut [&mut bare])?);
        let counts = bare.probes.iter().map(Uprobe::count);
        let met: u64 = counts.sum::<Result<u64, _>>()?;
        times[3].push(measure(path, SLOW, &mut [&mut recorder])?);
        let recording = recorder.end();
        if recording.counts.lost > 0 || !recording.missing.is_empty() {
            return Err(format!("not everything was recorded: {:?}", recording.missing).into());
        }
        hits = recording.counts.hits;
        if met != hits {
            return Err(format!("{met} hits of bare probes, {hits} recorded").into());
        }
    }
    let [plain, idle, bare, recorded] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let per_hit = |nanoseconds: u64| nanoseconds / hits.max(1);
    let (bare, recorded) = (per_hit(bare), per_hit(recorded));
    println!(
        "{{\"plain_ns\": {plain}, \"idle_ns\": {idle}, \"hits\": {hits}, \"bare_hit_ns\": {bare}, \"hit_ns\": {recorded}}}"
    );
    Ok(())
}

/// All of a function.
fn plan(program: &Program<'_>, name: &str) -> Result<Plan, Failed> {
    let module = program.module(MODULE).ok_or("no module")?;
    let addr = module.exported(name).ok_or("no such function")?;
    let pc = Pc { module: MODULE, addr };
    let function = program.function_at(pc).ok_or("no such function")?;
    let flow = module.code().flow(function.function);
    let blocks = flow.blocks.iter();
    Ok(Plan {
        ranges: slicer::plan::merge(
            blocks
                .map(|block| PcRange {
                    module: MODULE,
                    start: block.start,
                    end: block.end,
                })
                .collect(),
        ),
        ..Plan::default()
    })
}

/// The nanoseconds of the program's loop.
fn measure(path: &str, count: u64, trackers: &mut [&mut dyn Tracker]) -> Result<u64, Failed> {
    let fail_on = FailOn::default();
    let modules = HostModules::of_this_host();
    let options = RunOptions {
        time_limit: None,
        deadlocks: false,
        fail_on: &fail_on,
        stdout: Output::Keep,
        stderr: Output::Discard,
        child_crashes: false,
        subject: None,
        modules: &modules,
        limits: Limits::default(),
        cancel: None,
    };
    let launch = Launch::new(path).args([count.to_string()]);
    let outcome = run(launch, &options, trackers)?;
    Ok(String::from_utf8_lossy(&outcome.stdout.tail).trim().parse()?)
}

/// Probes that nobody listens to.
struct Bare {
    file: ProbeFile,
    offsets: Vec<program::FileOffset>,
    probes: Vec<Uprobe>,
}

impl Bare {
    fn new(program: &Program<'_>, path: &str, recorder: &SoftwarePt) -> Result<Self, Failed> {
        let module = program.module(MODULE).ok_or("no module")?;
        let segments = module.elf().segments();
        let probed = recorder.probed();
        let offsets = probed.iter().filter_map(|pc| segments.to_file_offset(pc.addr));
        Ok(Self {
            file: ProbeFile::at(Path::new(path)),
            offsets: offsets.collect(),
            probes: Vec::new(),
        })
    }
}

impl Tracker for Bare {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        let target = ProbeTarget::Thread(tracer.pid().first_thread());
        for &offset in &self.offsets {
            let probe = Uprobe::open(&self.file, offset, ProbeEnd::Entry, target, Delivery::Silent)?;
            self.probes.push(probe);
        }
        Ok(())
    }
}
