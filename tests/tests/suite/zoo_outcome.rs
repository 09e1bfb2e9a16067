//! Every program of the zoo, at both levels, run under our eyes until it fails: what failed and where, and the stacks of
//! all threads, against the facts, the core of the same failure, and gdb's reading of that core.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use failsketch_tests::facts::{Kind, Place, Program};
use failsketch_tests::failing::{find_core, kernel_writes_cores_here};
use failsketch_tests::folder::Folder;
use failsketch_tests::{gdb, skip, zoo};
use failure::core_dump::CoreDump;
use failure::image::{self, Limits};
use failure::{FailOn, Failure, Report, ResolvedThread, Signature};
use program::{Attribution, Pc};
use tracee::ptrace::{Launch, Stream};
use tracee::run::{Ended, Outcome, Output, RunOptions, Verdict, run};
use tracee::{HostModules, MappedFile, ProgramFiles};

/// The programs fail in at least 2% of their runs: so many runs without a failure do not happen.
const MOST_RUNS: usize = 400;
const LONGEST: Duration = Duration::from_secs(120);

for_each_program!(check_program);

/// Checks a program at both levels before saying anything: a problem at one level is often explained by the other.
fn check_program(name: &str) {
    let program = zoo::program(name);
    let mut wrong = String::new();
    for level in zoo::LEVELS {
        for problem in check_level(&program, level) {
            wrong += &format!("{name} {level}: {problem}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn check_level(program: &Program, level: &str) -> Vec<String> {
    let binary = zoo::binary(&program.facts.name, level);
    let (first, folder) = fail(program, &binary);
    let mut problems = check_failure(program, &binary, &first);
    problems.extend(check_stacks(program, &binary, &first, folder.path()));
    let (second, _folder) = fail(program, &binary);
    let [one, other] = [&first, &second].map(|outcome| signature(&binary, outcome));
    if one != other {
        problems.push(format!("two failures, two signatures: {one} and {other}"));
    }
    problems
}

/// Runs a program until it fails.
fn fail(program: &Program, binary: &Path) -> (Outcome, Folder) {
    let start = Instant::now();
    for _ in 0..MOST_RUNS {
        let folder = Folder::new("outcome");
        let outcome = run_once(program, binary, &folder);
        match outcome.verdict() {
            Verdict::Failed => return (outcome, folder),
            Verdict::Succeeded => (),
            Verdict::Inconclusive => panic!("{}: {:?}", binary.display(), outcome.ended),
        }
        if start.elapsed() > LONGEST {
            break;
        }
    }
    panic!("{} did not fail", binary.display())
}

fn run_once(program: &Program, binary: &Path, folder: &Folder) -> Outcome {
    let facts = &program.facts;
    let input = folder.write("input", &facts.stdin);
    let launch = Launch::new("sh")
        .args(["-c", "ulimit -c unlimited && exec \"$0\" \"$@\""])
        .args([binary])
        .args(&facts.args)
        .folder(folder.path())
        .stdin(Stream::File(File::open(input).unwrap()));
    let mut limit = Duration::from_secs(facts.timeout_secs);
    if facts.failure.kind != Kind::Hang {
        // Only a program that is known to hang may be taken for hanging when the machine is merely busy.
        limit *= 6;
    }
    let options = RunOptions {
        time_limit: Some(limit),
        deadlocks: false,
        fail_on: &FailOn::default(),
        stdout: Output::Discard,
        stderr: Output::Keep,
        child_crashes: false,
        subject: None,
        modules: &HostModules::of_this_host(),
        limits: Limits::default(),
        cancel: None,
    };
    run(launch, &options, &mut []).unwrap()
}

fn report(outcome: &Outcome) -> &Report {
    outcome.failure.as_deref().unwrap()
}

/// Matches a failure with its program and hands both over.
fn with_failure<T>(
    binary: &Path,
    report: &Report,
    look: impl FnOnce(&program::Program<'_>, &Failure) -> T,
) -> T {
    let files = ProgramFiles::default();
    let program = files.program_of(binary, report).unwrap();
    let failure = failure::resolve(report, &program).unwrap_or_else(|error| panic!("{error}"));
    look(&program, &failure)
}

fn signature(binary: &Path, outcome: &Outcome) -> Signature {
    with_failure(binary, report(outcome), |program, failure| {
        Signature::of(failure, program)
    })
}

fn check_failure(program: &Program, binary: &Path, outcome: &Outcome) -> Vec<String> {
    let facts = &program.facts.failure;
    let mut problems = Vec::new();
    let mut expect = |what: &str, found: String, expected: String| {
        if found != expected {
            problems.push(format!("{what} is {found}, not {expected}"));
        }
    };
    let expected_kind = match facts.kind {
        Kind::Signal => failure::Kind::Signal,
        Kind::Assertion => failure::Kind::Assertion,
        Kind::Abort => failure::Kind::Abort,
        Kind::Hang => failure::Kind::Hang,
    };
    with_failure(binary, report(outcome), |opened, failure| {
        expect(
            "the kind",
            format!("{:?}", failure.kind),
            format!("{expected_kind:?}"),
        );
        if facts.kind == Kind::Hang {
            expect(
                "the end",
                format!("{:?}", outcome.ended),
                format!("{:?}", Ended::TimeLimit),
            );
            let waiting: Vec<Place> = failure
                .threads
                .iter()
                .filter_map(|thread| innermost_own(opened, thread))
                .collect();
            for mark in &facts.blocked {
                let at = program.place(mark);
                expect(
                    "whether a thread waits where it should",
                    waiting.contains(at).to_string(),
                    "true".into(),
                );
            }
            return;
        }
        let signal = facts.signal.as_deref().unwrap_or("SIGABRT");
        expect(
            "the signal",
            failure.signal.unwrap().to_string(),
            signal.to_owned(),
        );
        let killed = match outcome.ended {
            Ended::Killed { signal, .. } => signal.to_string(),
            other => format!("{other:?}"),
        };
        expect("the end", killed, signal.to_owned());
        let at = failure
            .failing_frame
            .map(|frame| &failure.threads[failure.failing].frames[frame]);
        let statement = at.and_then(|frame| place(opened, frame.executing()?));
        expect(
            "the failing statement",
            statement.map_or_else(|| "nowhere".to_owned(), |place| place.to_string()),
            program.place(&facts.at).to_string(),
        );
        if let Some(message) = &facts.message {
            let stderr = String::from_utf8_lossy(&outcome.stderr.tail);
            let said = failure.message.as_deref().unwrap_or(&stderr);
            expect(
                "whether the message is told",
                said.contains(message).to_string(),
                "true".to_owned(),
            );
        }
    });
    problems
}

fn place(program: &program::Program<'_>, pc: Pc) -> Option<Place> {
    let pc = program.instruction_at(pc).unwrap_or(pc);
    let Attribution::Statement(found) = slicer::slice::failing_statement(program, pc) else {
        return None;
    };
    Some(Place {
        file: Path::new(&*found.file?).file_name()?.to_str()?.to_owned(),
        line: found.line?,
    })
}

fn innermost_own(program: &program::Program<'_>, thread: &ResolvedThread) -> Option<Place> {
    let frame = thread.frames.iter().find(|frame| frame.own)?;
    place(program, frame.executing()?)
}

/// The addresses of each thread's frames.
type Stacks = BTreeMap<u64, Vec<u64>>;

fn stacks(report: &Report) -> Stacks {
    let threads = report.threads.iter();
    let addresses = threads.map(|thread| {
        let frames = thread.frames.iter().filter_map(|frame| frame.address);
        (thread.id.unwrap(), frames.map(|address| address.0).collect())
    });
    addresses.collect()
}

fn check_stacks(program: &Program, binary: &Path, outcome: &Outcome, folder: &Path) -> Vec<String> {
    let live = report(outcome);
    let mut problems: Vec<String> = live
        .notes
        .iter()
        .filter(|note| note.contains("stack"))
        .cloned()
        .collect();
    if program.facts.failure.kind == Kind::Hang {
        // It was killed: no core.
        return problems;
    }
    if !kernel_writes_cores_here() {
        skip::skipped("no core of the same failure to compare the stacks with: cores go to somebody else");
        return problems;
    }
    let core = find_core(folder).unwrap();
    let bytes = MappedFile::open(&core).unwrap();
    let dump = CoreDump::parse(&bytes).unwrap();
    let dead = image::report(&dump, &HostModules::of_this_host(), Limits::default());
    let of_gdb = gdb::stacks(binary, &core).into_iter().map(|stack| {
        let frames = stack.frames.iter().map(|frame| frame.address);
        (stack.tid.parse().unwrap(), frames.collect())
    });
    let (live, dead, of_gdb) = (stacks(live), stacks(&dead), of_gdb.collect::<Stacks>());
    if live != dead {
        problems.push(format!("the stacks are {live:#x?}, in the core {dead:#x?}"));
    }
    // gdb's end at main, and leave out what is in no file.
    let is_part = |tid: &u64, frames: &Vec<u64>| {
        let ours = live.get(tid).map_or(&[][..], Vec::as_slice);
        let mut ours = ours.iter();
        frames.iter().all(|address| ours.any(|other| other == address))
    };
    for (tid, frames) in of_gdb.iter().filter(|(tid, frames)| !is_part(tid, frames)) {
        problems.push(format!(
            "thread {tid} is {:x?}, for gdb {frames:x?}",
            live.get(tid)
        ));
    }
    if live.len() != of_gdb.len() {
        problems.push(format!("{} threads, for gdb {}", live.len(), of_gdb.len()));
    }
    problems
}
