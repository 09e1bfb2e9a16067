//! Damaged files, the same ones in every run: whatever the bytes, an answer comes, and nothing panics.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use failsketch_tests::command;
use failsketch_tests::gdb;
use failsketch_tests::sample::Sample;
use failure::core_dump::CoreDump;
use failure::image::{self, Limits, ModuleFiles};
use failure::{Report, text};
use program::elf::Elf;
use program::{BuildId, Module, ModuleId, Pc, Program};
use slicer::slice::{Criterion, Slice};
use tracee::HostFiles;

/// Cases of each kind, in this process.
const CASES: u64 = 300;
/// Cases of each kind, through the command.
const COMMANDS: u64 = 12;
const STATEMENTS: usize = 32;
/// One case takes milliseconds; on a machine that is busy beyond measure, seconds.
const HANG: Duration = Duration::from_secs(90);

/// The program, its core and gdb's words about it, all whole.
struct Inputs {
    exe: Vec<u8>,
    core: Vec<u8>,
    trace: Vec<u8>,
    sample: Sample,
}

fn inputs() -> Inputs {
    let sample = Sample::build("list.c", &["gcc", "-O2"]);
    let core = sample.core();
    Inputs {
        exe: fs::read(&sample.exe).unwrap(),
        trace: gdb::ask(&sample.exe, &core, "thread apply all bt full").into_bytes(),
        core: fs::read(core).unwrap(),
        sample,
    }
}

/// Numbers that look random and never change.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }
}

/// Damages a part of a file: cuts it, writes over a few places, or moves a piece to another place.
fn damaged(bytes: &[u8], part: std::ops::Range<usize>, case: u64) -> Vec<u8> {
    let mut numbers = Numbers(case);
    let mut bytes = bytes.to_vec();
    let within = |numbers: &mut Numbers| part.start + numbers.below(part.len());
    match numbers.below(8) {
        0 => bytes.truncate(within(&mut numbers)),
        1 => {
            let (from, to) = (within(&mut numbers), within(&mut numbers));
            let len = numbers.below(200).min(part.end - from.max(to));
            bytes.copy_within(from..from + len, to);
        }
        _ => {
            for _ in 0..=numbers.below(6) {
                let extremes = [0, 1, 0xff, u64::MAX, 1 << 63, 1 << 31, 0x7f7f_7f7f_7f7f_7f7f];
                let value = match numbers.below(2) {
                    0 => numbers.next(),
                    _ => extremes[numbers.below(extremes.len())],
                };
                let width = [1, 1, 2, 4, 8][numbers.below(5)];
                let at = within(&mut numbers).min(bytes.len().saturating_sub(width));
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
        }
    }
    bytes
}

struct Only<'a>(&'a [u8]);

impl ModuleFiles for Only<'_> {
    fn module(&self, path: &str, _: Option<&BuildId>) -> Option<&[u8]> {
        path.ends_with("/program").then_some(self.0)
    }
}

/// Everything that `triage` and `slice` do with their input.
fn analyse(exe: &[u8], report: Option<Report>) {
    let files = HostFiles::of(Path::new("/nowhere/program"));
    let Ok(module) = Module::load("program", exe, &files) else {
        return;
    };
    let program = Program::new(vec![module]);
    if let Some(failure) = report.and_then(|report| failure::resolve(&report, &program).ok()) {
        let criterion = Criterion::failure(&program, &failure);
        Slice::new(&program, &criterion).take(STATEMENTS).for_each(drop);
    }
    let Some(module) = program.module(ModuleId(0)) else {
        return;
    };
    for line in [17, 34] {
        let Ok(found) = module.sources().addresses_of("list.c", line) else {
            continue;
        };
        let pc = |addr| Pc {
            module: ModuleId(0),
            addr,
        };
        let ranges: Vec<_> = found
            .matches
            .iter()
            .map(|at| (pc(at.range.start), pc(at.range.end)))
            .collect();
        let criterion = Criterion::ranges(&program, &ranges);
        Slice::new(&program, &criterion).take(STATEMENTS).for_each(drop);
    }
}

fn report_of(core: &[u8], exe: &[u8]) -> Option<Report> {
    let core = CoreDump::parse(core).ok()?;
    Some(image::report(&core, &Only(exe), Limits::default()))
}

/// Runs all cases in a thread that tells which one it is at, so that one that does not end has a name.
fn survive(run: impl Fn(u64) + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let mut panicked = Vec::new();
        for case in 0..CASES {
            let _ = tell.send(case);
            if catch_unwind(AssertUnwindSafe(|| run(case))).is_err() {
                panicked.push(case);
            }
        }
        panicked
    });
    let mut at = 0;
    loop {
        match told.recv_timeout(HANG) {
            Ok(case) => at = case,
            Err(RecvTimeoutError::Timeout) => panic!("case {at} does not end"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let panicked = worker.join().unwrap();
    assert!(panicked.is_empty(), "cases {panicked:?} panicked");
}

/// Runs some cases through the command, which reads `name` in the sample's folder.
fn survive_commands(sample: &Sample, name: &str, damage: impl Fn(u64) -> Vec<u8>, arguments: &[&str]) {
    let folder = sample.folder.path().to_str().unwrap();
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace("$", folder)).collect();
    for case in 0..COMMANDS {
        sample.folder.write(name, damage(case));
        let done = command::failsketch(&arguments);
        let lines = done.stderr.lines().count();
        let fine = match done.how().as_str() {
            "exit status 0" => lines == 0,
            "exit status 1" => lines == 1,
            _ => false,
        };
        assert!(fine, "case {case} of {name}: {}\n{}", done.how(), done.stderr);
    }
}

#[test]
fn whole_files_are_understood() {
    let Inputs { exe, core, trace, .. } = inputs();
    let files = HostFiles::of(Path::new("/nowhere/program"));
    let program = Program::new(vec![Module::load("program", &exe, &files).unwrap()]);
    for report in [report_of(&core, &exe).unwrap(), text::parse(&trace).unwrap()] {
        let failure = failure::resolve(&report, &program).unwrap();
        let criterion = Criterion::failure(&program, &failure);
        assert!(Slice::new(&program, &criterion).count() > 4);
    }
}

#[test]
fn programs() {
    let Inputs {
        exe,
        core,
        trace: _,
        sample,
    } = inputs();
    // Headers, symbols and relocations; the debug sections have their own test.
    let end = debug_sections(&exe).start;
    let whole = exe.clone();
    survive_commands(
        &sample,
        "damaged",
        |case| damaged(&whole, 0..end, case),
        &["triage", "$/core", "--exe", "$/damaged"],
    );
    survive(move |case| {
        let exe = damaged(&exe, 0..end, case);
        analyse(&exe, report_of(&core, &exe));
    });
}

#[test]
fn debug_information() {
    let Inputs {
        exe, core, sample, ..
    } = inputs();
    let part = debug_sections(&exe);
    let whole = exe.clone();
    let (range, commands) = (part.clone(), part.clone());
    survive_commands(
        &sample,
        "damaged",
        |case| damaged(&whole, commands.clone(), case),
        &["slice", "--exe", "$/damaged", "--at", "list.c:34"],
    );
    survive(move |case| {
        let exe = damaged(&exe, range.clone(), case);
        analyse(&exe, report_of(&core, &exe));
    });
}

#[test]
fn cores() {
    let Inputs {
        exe, core, sample, ..
    } = inputs();
    // Most of a core is memory; what is read first is at its start and at its end.
    let part = |case: u64, len: usize| {
        if case.is_multiple_of(3) {
            0..len
        } else {
            0..len.min(8192)
        }
    };
    let whole = core.clone();
    survive_commands(
        &sample,
        "damaged",
        |case| damaged(&whole, part(case, whole.len()), case),
        &["triage", "$/damaged", "--exe", "$/program"],
    );
    survive(move |case| {
        let core = damaged(&core, part(case, core.len()), case);
        analyse(&exe, report_of(&core, &exe));
    });
}

#[test]
fn traces() {
    let Inputs {
        exe, trace, sample, ..
    } = inputs();
    let whole = trace.clone();
    survive_commands(
        &sample,
        "damaged",
        |case| damaged(&whole, 0..whole.len(), case),
        &["triage", "$/damaged", "--exe", "$/program"],
    );
    survive(move |case| {
        let trace = damaged(&trace, 0..trace.len(), case);
        analyse(&exe, text::parse(&trace).ok());
    });
}

/// Where the debug sections are in a file.
fn debug_sections(exe: &[u8]) -> std::ops::Range<usize> {
    let elf = Elf::parse(exe).unwrap();
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_str",
        ".debug_rnglists",
        ".debug_loclists",
    ];
    let found: Vec<_> = names
        .iter()
        .filter_map(|name| elf.section(name))
        .map(|(_, section)| {
            let start = section.as_ptr().addr() - exe.as_ptr().addr();
            start..start + section.len()
        })
        .collect();
    assert!(found.len() >= 4, "debug sections are missing");
    let start = found.iter().map(|range| range.start).min().unwrap();
    start..found.iter().map(|range| range.end).max().unwrap()
}
