//! Every way in which a program can end, and what is told about it.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use failsketch_tests::facts::marks_of;
use failsketch_tests::folder::Folder;
use failure::image::Limits;
use failure::report::Wanted;
use failure::resolve::{Waiting, waiting};
use failure::{FailOn, Failure, FrameOrigin, Kind, Likeness, Signal, Signature};
use traced::compile;
use tracee::ptrace::Launch;
use tracee::run::{Cancel, Ended, Outcome, Output, RunError, RunOptions, Subject, Tracker, Verdict, run};
use tracee::{HostModules, ProgramFiles};

/// A compiled `outcomes.c`.
struct Program {
    _folder: Folder,
    exe: PathBuf,
    marks: HashMap<String, u32>,
}

/// A failure in terms of the program.
struct Found {
    failure: Failure,
    signature: Signature,
    likeness: Likeness,
}

impl Program {
    fn new(options: &[&str]) -> Self {
        let folder = Folder::new("outcomes");
        let exe = compile(&folder, "outcomes.c", options);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/outcomes.c");
        let text = std::fs::read_to_string(source).unwrap();
        Self {
            _folder: folder,
            exe,
            marks: marks_of(&text).into_iter().collect(),
        }
    }

    fn launch(&self, way: &str) -> Launch {
        Launch::new(&self.exe).args([way])
    }

    fn run(&self, way: &str, fail_on: &str) -> Outcome {
        self.run_as(self.launch(way), fail_on, |_| ())
    }

    fn run_as(&self, launch: Launch, fail_on: &str, change: impl FnOnce(&mut RunOptions<'_>)) -> Outcome {
        let fail_on: FailOn = fail_on.parse().unwrap();
        let modules = HostModules::of_this_host();
        let mut options = RunOptions {
            time_limit: Some(traced::LONG),
            deadlocks: false,
            fail_on: &fail_on,
            stdout: Output::Keep,
            stderr: Output::Keep,
            child_crashes: false,
            subject: None,
            modules: &modules,
            limits: Limits::default(),
            cancel: None,
        };
        change(&mut options);
        run(launch, &options, &mut []).unwrap()
    }

    fn resolve(&self, outcome: &Outcome) -> Found {
        let report = outcome.failure.as_deref();
        let report = report.unwrap_or_else(|| panic!("no failure: {outcome:?}"));
        let files = ProgramFiles::default();
        let program = files.program_of(&self.exe, report).unwrap();
        let failure = failure::resolve(report, &program).unwrap();
        let signature = Signature::of(&failure, &program);
        let likeness = Likeness::of(&failure, &program);
        Found {
            failure,
            signature,
            likeness,
        }
    }

    /// Checks where it failed.
    fn check(&self, way: &str, outcome: &Outcome, kind: Kind, signal: Option<i32>) -> Found {
        let found = self.resolve(outcome);
        assert_eq!(found.failure.kind, kind, "{way}");
        assert_eq!(found.failure.signal, signal.map(Signal), "{way}");
        assert_eq!(
            line(&found.failure),
            Some(self.marks[&format!("@{way}")]),
            "{way}"
        );
        found
    }
}

fn line(failure: &Failure) -> Option<u32> {
    let frame = failure.threads[failure.failing]
        .frames
        .get(failure.failing_frame?)?;
    frame.sources.first().map(|source| source.line)
}

const DEFAULT: &str = "signal,hang";
const LEVELS: [&[&str]; 3] = [&["-O0"], &["-O2", "-fomit-frame-pointer"], &["-O2", "-no-pie"]];

#[test]
fn signals_and_aborts() {
    for level in LEVELS {
        let program = Program::new(&[level, &["-fstack-protector-all"]].concat());
        for (way, kind, signal, message) in [
            ("segv", Kind::Signal, 11, None),
            ("fpe", Kind::Signal, 8, None),
            (
                "assert",
                Kind::Assertion,
                6,
                Some("Assertion `count > 0' failed."),
            ),
            ("double-free", Kind::Abort, 6, Some("double free")),
            ("smash", Kind::Abort, 6, Some("stack smashing detected")),
            ("abort", Kind::Abort, 6, None),
        ] {
            let outcome = program.run(way, DEFAULT);
            let found = program.check(way, &outcome, kind, Some(signal));
            let killed = Ended::Killed {
                signal: Signal(signal),
                core_dumped: false,
            };
            let dumped = matches!(
                outcome.ended,
                Ended::Killed {
                    core_dumped: true,
                    ..
                }
            );
            assert!(outcome.ended == killed || dumped, "{way}: {:?}", outcome.ended);
            let said = found.failure.message.as_deref();
            match message {
                Some(message) => assert!(said.is_some_and(|said| said.contains(message)), "{way}: {said:?}"),
                None => assert_eq!(said, None, "{way}"),
            }
            let again = program.resolve(&program.run(way, DEFAULT));
            assert_eq!(found.signature, again.signature, "{way}");
        }
    }
}

#[test]
fn a_fault_tells_its_address() {
    let program = Program::new(&["-O2"]);
    let found = program.resolve(&program.run("segv", DEFAULT));
    assert_eq!(found.failure.fault_address, Some(program::RunAddr(0)));
    assert_eq!(found.signature.kind, "SIGSEGV");
    assert!(
        found.signature.frames[0].starts_with("segv:"),
        "{}",
        found.signature
    );
}

#[test]
fn bugs_have_different_signatures() {
    let program = Program::new(&["-O0"]);
    let ways = ["segv", "fpe", "assert", "double-free", "abort", "hang"];
    let signatures = ways.map(|way| {
        let outcome = program.run_as(program.launch(way), DEFAULT, |options| {
            options.time_limit = Some(Duration::from_secs(2));
        });
        program.resolve(&outcome).signature.id()
    });
    for (index, one) in signatures.iter().enumerate() {
        assert!(!signatures[..index].contains(one), "{}", ways[index]);
    }
}

#[test]
fn a_thread_that_fails_while_another_ends_the_process_is_seen_or_says_nothing() {
    const TRIES: u32 = 300;
    const OFTEN: u32 = 5;
    let program = Program::new(&["-O2"]);
    let (mut failed, mut others) = (0, 0);
    // How long the process waits before it ends: about as long as this machine, busy as it is, takes for the failure.
    let mut later = 1000_u64;
    for _ in 0..TRIES {
        let launch = program.launch("while-ending").args([later.to_string()]);
        let outcome = program.run_as(launch, DEFAULT, |_| ());
        later = match outcome.verdict() {
            Verdict::Failed => {
                program.check("while-ending", &outcome, Kind::Signal, Some(11));
                failed += 1;
                later / 2
            }
            Verdict::Succeeded | Verdict::Inconclusive => {
                others += 1;
                later * 3 / 2 + 1000
            }
        };
        if failed >= OFTEN && others >= OFTEN && failed + others >= 12 * OFTEN {
            return;
        }
    }
    panic!("{failed} failed, {others} did not: the machine does not race");
}

#[test]
fn every_thread_has_its_stack() {
    let program = Program::new(&["-O2"]);
    let found = program.check(
        "in-thread",
        &program.run("in-thread", DEFAULT),
        Kind::Signal,
        Some(11),
    );
    let threads = &found.failure.threads;
    assert_eq!(threads.len(), 3);
    assert_eq!(found.failure.failing, 0, "the failing thread comes first");
    let lines = threads.iter().flat_map(|thread| {
        let own = thread.frames.iter().find(|frame| frame.own);
        own.and_then(|frame| frame.sources.first())
            .map(|source| source.line)
    });
    let lines: Vec<u32> = lines.collect();
    assert!(lines.contains(&program.marks["@idle"]), "{lines:?}");
}

#[test]
fn a_process_outlives_its_first_thread() {
    let program = Program::new(&["-O2"]);
    let outcome = program.run("leaderless", DEFAULT);
    let found = program.check("leaderless", &outcome, Kind::Signal, Some(11));
    assert_eq!(found.failure.threads.len(), 1);
    assert_eq!(found.failure.notes, [""; 0]);
}

#[test]
fn a_stack_that_is_used_up_is_told_with_its_innermost_part() {
    let program = Program::new(&["-O0"]);
    let outcome = program.run("overflow", DEFAULT);
    let found = program.resolve(&outcome);
    assert_eq!(
        (found.failure.kind, found.failure.signal),
        (Kind::Signal, Some(Signal(11)))
    );
    let frames = &found.failure.threads[0].frames;
    assert_eq!(frames.len(), Limits::default().frames);
    assert_eq!(found.signature.frames.len(), 1, "{}", found.signature);
    assert!(
        found.signature.frames[0].starts_with("recurse"),
        "{}",
        found.signature
    );
}

#[test]
fn a_hang_tells_who_waits_for_what() {
    for level in LEVELS {
        let program = Program::new(level);
        let outcome = program.run_as(program.launch("hang"), DEFAULT, |options| {
            options.time_limit = Some(Duration::from_secs(2));
        });
        assert_eq!(outcome.ended, Ended::TimeLimit);
        let found = program.check("hang", &outcome, Kind::Hang, None);
        let mut waits: Vec<Waiting> = found.failure.threads.iter().map(waiting).collect();
        waits.sort_unstable();
        assert_eq!(waits, [Waiting::Lock, Waiting::Lock, Waiting::Join]);
        assert_eq!(found.signature.frames.len(), 1, "{}", found.signature);
    }
}

#[test]
fn one_variable_in_several_places_is_one_bug() {
    for level in LEVELS {
        let program = Program::new(level);
        let found = |way: &str| {
            let outcome = program.run(way, DEFAULT);
            program.check(way, &outcome, Kind::Signal, Some(11)).likeness
        };
        let lock = found("queue-lock");
        for way in ["queue-unlock", "queue-call"] {
            let other = found(way);
            assert_ne!(lock.signature(), other.signature());
            assert!(lock.is_like(&other) && other.is_like(&lock), "{way} {level:?}");
        }
        for way in ["queue-slots", "segv"] {
            let other = found(way);
            assert!(!lock.is_like(&other) && !other.is_like(&lock), "{way} {level:?}");
        }
    }
}

#[test]
fn a_deadlock_is_noticed_before_the_time_is_over() {
    let program = Program::new(&["-O2"]);
    let outcome = program.run_as(program.launch("hang"), DEFAULT, |options| {
        options.time_limit = None;
        options.deadlocks = true;
    });
    let found = program.check("hang", &outcome, Kind::Hang, None);
    let why = "no thread can go on: each waits for what only another could do";
    assert!(
        found.failure.notes.iter().any(|note| note == why),
        "{:?}",
        found.failure.notes
    );
}

#[test]
fn who_waits_for_whom_is_reported() {
    for options in [&["-O2"][..], &["-O0", "-static"]] {
        let program = Program::new(options);
        let outcome = program.run_as(program.launch("hang"), DEFAULT, |options| {
            options.deadlocks = true
        });
        let report = outcome.failure.as_ref().unwrap();
        let waits = |thread: &failure::report::Thread| Some((thread.id?, thread.wants?));
        let waits: Vec<(u64, Wanted)> = report.threads.iter().filter_map(waits).collect();
        let locks = waits.iter().filter_map(|&(thread, wanted)| match wanted {
            Wanted::Lock { at, holder } => Some((thread, at, holder?)),
            _ => None,
        });
        let locks: Vec<_> = locks.collect();
        let [(one, first, for_two), (two, second, for_one)] = locks[..] else {
            panic!("{options:?}: {waits:?}");
        };
        assert_eq!((for_one, for_two), (one, two), "{options:?}");
        assert_ne!(first, second);
        let joins = |&(thread, wanted): &(u64, Wanted)| thread != one && wanted == Wanted::End { of: one };
        assert!(waits.iter().any(joins), "{options:?}: {waits:?}");
    }
}

#[test]
fn whoever_can_go_on_is_not_said_to_hang() {
    let program = Program::new(&["-O2"]);
    for way in ["slow-sleep", "slow-limit", "slow-signal", "slow-child"] {
        let outcome = program.run_as(program.launch(way), DEFAULT, |options| options.deadlocks = true);
        assert_eq!(outcome.ended, Ended::Exited(0), "{way}");
        assert_eq!(outcome.verdict(), Verdict::Succeeded, "{way}");
    }
}

#[test]
fn handlers_are_not_the_failure() {
    let program = Program::new(&["-O2"]);
    for (way, signal, ended) in [
        ("handled", 11, None),
        ("handled-abort", 6, None),
        ("handled-exit", 11, Some(Ended::Exited(9))),
    ] {
        let outcome = program.run(way, DEFAULT);
        let kind = if signal == 6 { Kind::Abort } else { Kind::Signal };
        let found = program.check(way, &outcome, kind, Some(signal));
        if let Some(ended) = ended {
            assert_eq!(outcome.ended, ended, "{way}");
        }
        let frames = &found.failure.threads[0].frames;
        let mut origins = frames.iter().map(|frame| frame.origin);
        let through_handler = origins.any(|origin| origin == FrameOrigin::SignalFrame);
        assert_eq!(through_handler, way == "handled-abort", "{way}");
        if signal == 11 {
            assert_eq!(found.failure.fault_address, Some(program::RunAddr(0)), "{way}");
        }
    }
}

#[test]
fn what_a_handler_comes_to_is_not_the_failure() {
    let program = Program::new(&["-O2"]);
    for way in ["handled-fault", "handled-wait"] {
        let outcome = program.run_as(program.launch(way), DEFAULT, |options| {
            options.time_limit = Some(Duration::from_secs(2));
        });
        let found = program.check(way, &outcome, Kind::Signal, Some(11));
        assert_eq!(found.failure.fault_address, Some(program::RunAddr(0)), "{way}");
        assert!(outcome.failed_at_ns.is_some(), "{way}");
    }
}

#[test]
fn a_fault_that_is_made_good_is_no_failure() {
    let program = Program::new(&["-O2"]);
    let outcome = program.run("made-good", "signal,exit");
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    assert_eq!(outcome.stdout.tail, b"7\n");
}

#[test]
fn exit_statuses() {
    for level in LEVELS {
        let program = Program::new(level);
        let outcome = program.run("exit", "exit=3");
        let found = program.check("exit", &outcome, Kind::ExitStatus, None);
        assert_eq!(found.failure.message.as_deref(), Some("exit status 3"));
        assert_eq!(outcome.ended, Ended::Exited(3));
        assert_eq!(outcome.stdout.tail, b"leaving with 3\n");
    }
    let program = Program::new(&[]);
    assert_eq!(program.run("exit", DEFAULT).verdict(), Verdict::Succeeded);
    assert_eq!(program.run("exit", "exit=4").verdict(), Verdict::Succeeded);
    assert_eq!(program.run("", "exit=0").verdict(), Verdict::Failed);
}

#[test]
fn regular_expressions_on_output() {
    let program = Program::new(&["-O2"]);
    // From where it was printed, not from where the buffer was written.
    let found = program.check(
        "leaving",
        &program.run("exit", r"stdout~^leaving with \d$"),
        Kind::Oracle,
        None,
    );
    let message = found.failure.message.unwrap();
    assert!(message.ends_with(": leaving with 3"), "{message}");
    assert_eq!(
        program.run("exit", "stdout~^with|hang").verdict(),
        Verdict::Succeeded
    );
    assert_eq!(
        program.run("exit", "stdout!~leaving").verdict(),
        Verdict::Succeeded
    );
    assert_eq!(program.run("exit", "stdout!~staying").verdict(), Verdict::Failed);
    let aborted = program.run("abort", "stderr~giving up");
    assert_eq!(aborted.failure.unwrap().kind, Kind::Oracle);
    assert_eq!(
        program.run("abort", "stdout!~anything").verdict(),
        Verdict::Inconclusive
    );
}

#[test]
fn a_request_to_end_from_inside_counts() {
    let program = Program::new(&["-O2"]);
    program.check("term", &program.run("term", DEFAULT), Kind::Signal, Some(15));
    assert_eq!(
        program.run("term", "signal=SEGV").verdict(),
        Verdict::Inconclusive
    );
}

#[test]
fn children_count_when_asked_for() {
    let program = Program::new(&["-O2"]);
    let outcome = program.run("child", DEFAULT);
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    assert_eq!(outcome.stdout.tail, b"child: 11\n");
    let followed = || program.launch("child").follow_forks();
    assert_eq!(
        program.run_as(followed(), DEFAULT, |_| ()).verdict(),
        Verdict::Succeeded
    );
    let outcome = program.run_as(followed(), DEFAULT, |options| options.child_crashes = true);
    let found = program.check("child", &outcome, Kind::Signal, Some(11));
    assert!(found.failure.notes.iter().any(|note| note.contains("child")));
    assert_eq!(outcome.stdout.tail, b"child: 11\n");
    assert_eq!(outcome.ended, Ended::Exited(0));
}

fn script(text: &str) -> Launch {
    Launch::new("/bin/sh").args(["-c", text]).follow_forks()
}

#[test]
fn the_process_of_a_script_that_failed_is_found_again_in_the_next_run() {
    let program = Program::new(&["-O2"]);
    let exe = program.exe.display();
    let text = format!("{exe} well; {exe} segv; exit 0");
    let outcome = program.run_as(script(&text), DEFAULT, |options| options.child_crashes = true);
    program.check("segv", &outcome, Kind::Signal, Some(11));
    assert_eq!(outcome.ended, Ended::Exited(0));
    let subject = outcome.subject.unwrap();
    assert_eq!(subject.executable, program.exe.canonicalize().unwrap());
    assert_eq!(subject.number, 1);
    let looked_at = |number| {
        program.run_as(script(&text), DEFAULT, |options| {
            options.subject = Some(Subject {
                number,
                ..subject.clone()
            });
        })
    };
    program.check("segv", &looked_at(1), Kind::Signal, Some(11));
    assert_eq!(looked_at(0).verdict(), Verdict::Succeeded);
    // One that was never started says nothing.
    assert_eq!(looked_at(2).verdict(), Verdict::Inconclusive);
}

#[test]
fn what_a_script_becomes_is_found_again_in_the_next_run() {
    let program = Program::new(&["-O2"]);
    let text = format!("exec {} segv", program.exe.display());
    let outcome = program.run_as(script(&text), DEFAULT, |options| options.child_crashes = true);
    program.check("segv", &outcome, Kind::Signal, Some(11));
    let subject = outcome.subject.unwrap();
    assert_eq!(subject.executable, program.exe.canonicalize().unwrap());
    let again = program.run_as(script(&text), DEFAULT, |options| options.subject = Some(subject));
    program.check("segv", &again, Kind::Signal, Some(11));
}

#[test]
fn what_a_script_becomes_is_known_when_it_ends_by_itself() {
    let program = Program::new(&["-O2"]);
    let run = |fail_on| {
        let text = format!("exec {} exit", program.exe.display());
        program.run_as(script(&text), fail_on, |options| options.child_crashes = true)
    };
    let outcome = run("exit!=0");
    assert_eq!(outcome.verdict(), Verdict::Failed);
    assert_eq!(
        outcome.subject.unwrap().executable,
        program.exe.canonicalize().unwrap()
    );
    let outcome = run("exit=4");
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    assert_eq!(outcome.subject, None);
}

#[test]
fn what_a_script_ends_did_not_fail() {
    let program = Program::new(&["-O2"]);
    let exe = program.exe.display();
    for text in [
        format!("{exe} hang & sleep 0.2; kill $!; wait; exit 0"),
        "yes | head -n 1; exit 0".to_owned(),
    ] {
        let outcome = program.run_as(script(&text), DEFAULT, |options| options.child_crashes = true);
        assert_eq!(outcome.verdict(), Verdict::Succeeded, "{text}: {outcome:?}");
    }
}

#[test]
fn a_script_that_hangs_does_so_in_the_program_that_it_runs() {
    let program = Program::new(&["-O2"]);
    let text = format!("{} hang; exit 0", program.exe.display());
    let outcome = program.run_as(script(&text), DEFAULT, |options| {
        options.child_crashes = true;
        options.time_limit = Some(Duration::from_secs(1));
    });
    assert_eq!(outcome.ended, Ended::TimeLimit);
    let found = program.resolve(&outcome);
    assert_eq!(found.failure.kind, Kind::Hang);
    assert_eq!(
        outcome.subject.unwrap().executable,
        program.exe.canonicalize().unwrap()
    );
}

#[test]
fn what_a_program_leaves_behind_is_not_waited_for() {
    let program = Program::new(&["-O2"]);
    for launch in [
        program.launch("left-behind"),
        program.launch("left-behind").follow_forks(),
    ] {
        let outcome = program.run_as(launch, DEFAULT, |_| ());
        assert_eq!(outcome.ended, Ended::Exited(0));
        assert_eq!(outcome.stdout.tail, b"");
    }
}

#[test]
fn a_run_can_be_cancelled() {
    let program = Program::new(&["-O2"]);
    let cancel = Cancel::new();
    thread::scope(|scope| {
        let runs = [(); 2].map(|()| {
            scope.spawn(|| {
                program.run_as(program.launch("hang"), DEFAULT, |options| {
                    options.cancel = Some(cancel.clone());
                })
            })
        });
        thread::sleep(Duration::from_millis(200));
        cancel.cancel();
        for run in runs {
            let outcome = run.join().unwrap();
            assert_eq!(
                (outcome.ended, outcome.verdict()),
                (Ended::Cancelled, Verdict::Inconclusive)
            );
        }
    });
}

#[derive(Default)]
struct Log(Vec<String>);

impl Tracker for Log {
    fn started(
        &mut self,
        tracer: &mut tracee::ptrace::Tracer<tracee::ptrace::Launched>,
    ) -> Result<(), tracee::run::TrackError> {
        self.0.push(format!("started with {}", tracer.threads().count()));
        Ok(())
    }

    fn thread_started(
        &mut self,
        tracer: &mut tracee::ptrace::Tracer<tracee::ptrace::Launched>,
        tid: tracee::Tid,
    ) -> Result<(), tracee::run::TrackError> {
        tracer.registers(tid)?;
        self.0.push("thread".to_owned());
        Ok(())
    }

    fn failing(
        &mut self,
        tracer: &mut tracee::ptrace::Tracer<tracee::ptrace::Launched>,
        report: &failure::Report,
    ) -> Result<(), tracee::run::TrackError> {
        let stopped = tracer.threads().all(|(_, tid)| tracer.is_stopped(tid));
        self.0.push(format!("{:?} stopped: {stopped}", report.kind));
        Ok(())
    }

    fn ended(&mut self, ended: Ended) {
        self.0.push(format!("{}", matches!(ended, Ended::Killed { .. })));
    }
}

#[test]
fn trackers_ride_along() {
    let program = Program::new(&["-O2"]);
    let fail_on = FailOn::default();
    let modules = HostModules::of_this_host();
    let options = RunOptions {
        time_limit: None,
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
    let mut log = Log::default();
    run(program.launch("in-thread"), &options, &mut [&mut log]).unwrap();
    let expected = [
        "started with 1",
        "thread",
        "thread",
        "Signal stopped: true",
        "true",
    ];
    assert_eq!(log.0, expected);
    let error = run(Launch::new("/nowhere/program"), &options, &mut []).unwrap_err();
    assert!(matches!(error, RunError::Trace(_)), "{error}");
}

#[test]
fn output_goes_where_it_would_have_gone() {
    let program = Program::new(&["-O2"]);
    let folder = Folder::new("outcomes");
    let path = folder.path().join("output");
    let file = std::fs::File::create(&path).unwrap();
    let launch = program.launch("exit").stdout(tracee::ptrace::Stream::File(file));
    let outcome = program.run_as(launch, DEFAULT, |options| options.stdout = Output::Inherit);
    assert_eq!(outcome.stdout.total, 0);
    assert_eq!(std::fs::read(path).unwrap(), b"leaving with 3\n");
}
