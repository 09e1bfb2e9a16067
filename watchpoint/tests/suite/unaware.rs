//! What a watched process must not notice.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tracee::Pid;
use tracee::perf::DEBUG_REGISTERS;
use tracee::process::ModuleMap;
use tracee::ptrace::End;
use watchpoint::code::CodeFiles;
use watchpoint::session::{Request, Session};
use watchpoint::{Mode, ModeRequest, Target, Trigger, WatchError};

use crate::support::can_watch;
use crate::watched::{LIMIT, Program, attach, keeper, launch, to_end, wait_until_it_reads};

#[test]
fn its_own_traps_reach_it() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("signals.c", "-O1");
    let counter = || vec![program.global("counter", 8, Trigger::Write)];
    for outcome in [
        launch(&program, &["own"], counter(), Mode::Exact),
        launch(&program, &["own"], counter(), Mode::Compat),
        launch(&program, &["own"], counter(), Mode::Observe),
        attach(&program, &["own"], counter(), Mode::Exact),
        attach(&program, &["own"], counter(), Mode::Observe),
    ] {
        let mode = outcome.summary.mode;
        assert_eq!(outcome.output, "50 10\n", "{mode}");
        assert_eq!((outcome.end, outcome.hits.len()), (End::Exited(3), 50), "{mode}");
    }
}

#[test]
fn hits_while_it_blocks_traps_are_counted_as_lost() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("signals.c", "-O1");
    let counter = || vec![program.global("counter", 8, Trigger::Write)];
    for outcome in [
        launch(&program, &["blocked"], counter(), Mode::Exact),
        attach(&program, &["blocked"], counter(), Mode::Exact),
    ] {
        assert_eq!((outcome.output.as_str(), outcome.end), ("50 0\n", End::Exited(3)));
        assert_eq!(outcome.hits.len() as u64 + outcome.summary.lost, 50);
    }
    let observed = launch(&program, &["blocked"], counter(), Mode::Observe);
    assert_eq!((observed.hits.len(), observed.summary.lost), (50, 0));
}

/// A process that blocks SIGTRAP is not watched in exact mode, and automatically in observe mode.
#[test]
fn a_process_that_blocks_traps_is_observed() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("blocker.c", "-O1");
    let mut child = Command::new(program.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait_until_it_reads(child.id());
    let request = |mode| Request {
        target: Target::Process(Pid(child.id())),
        locations: vec![program.global("counter", 8, Trigger::Write)],
        mode,
        keeper: Some(keeper()),
    };
    let files = CodeFiles::default();
    let refused = Session::start(request(ModeRequest::Only(Mode::Exact)), &files);
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("blocks SIGTRAP"), "{said}");
    let (mut session, _) = Session::start(request(ModeRequest::Auto), &files).expect("it can be observed");
    assert_eq!(session.mode(), Mode::Observe);
    let mut stdin = child.stdin.take().expect("it was asked for");
    stdin.write_all(b"\n").expect("the program reads");
    let (hits, _) = to_end(&mut session);
    assert_eq!(hits.len(), 50);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.stdout, b"50\n");
}

#[test]
fn a_session_that_stops_leaves_it_running() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("steady.c", "-O1");
    for mode in [Mode::Exact, Mode::Observe] {
        let child = Command::new(program.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let files = CodeFiles::default();
        let request = Request {
            target: Target::Process(Pid(child.id())),
            locations: vec![program.global("counter", 8, Trigger::Write)],
            mode: ModeRequest::Only(mode),
            keeper: Some(keeper()),
        };
        let (mut session, _) = Session::start(request, &files).expect("it can be watched");
        let mut hits = Vec::new();
        let started = Instant::now();
        while hits.is_empty() {
            hits.extend(session.next(Duration::from_millis(100)).expect("it runs").hits);
            assert!(started.elapsed() < LIMIT, "no hit in {mode}");
        }
        hits.extend(session.stop().expect("it can be left"));
        let first = tracee::Tid(child.id());
        let left = Instant::now();
        // A process that another test starts at this moment has copies of our files until it executes its program.
        while let Ok(free) = tracee::perf::free_registers(first)
            && free < DEBUG_REGISTERS
        {
            assert!(left.elapsed() < LIMIT, "{free} registers are free in {mode}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "660 0\n", "{mode}");
        assert_eq!(output.status.code(), Some(5), "{mode}");
    }
}

#[test]
fn a_location_is_left_without_the_others() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("steady.c", "-O1");
    let child = Command::new(program.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let files = CodeFiles::default();
    let request = Request {
        target: Target::Process(Pid(child.id())),
        locations: vec![
            program.global("counter", 8, Trigger::Write),
            program.global("counter", 4, Trigger::Write),
        ],
        mode: ModeRequest::Only(Mode::Observe),
        keeper: None,
    };
    let (mut session, _) = Session::start(request, &files).expect("it can be watched");
    let started = Instant::now();
    while session.traps().values().sum::<u64>() < 10 {
        session.next(Duration::from_millis(10)).expect("it runs");
        assert!(started.elapsed() < LIMIT, "no trap is counted");
    }
    session.leave(0);
    let until = tracee::monotonic_ns();
    let (rest, _) = to_end(&mut session);
    let later = |location: usize| {
        let hits = rest.iter().filter(|hit| hit.location == location);
        hits.filter(|hit| hit.time_ns > until).count()
    };
    assert_eq!(later(0), 0, "it is watched still");
    assert!(later(1) > 100, "the other one is not watched any more");
    let spans = session.summary().spans;
    let ended = |location: usize| {
        let mut own = spans.iter().filter(|span| span.location == location);
        own.all(|span| span.until_ns.is_some())
    };
    assert!(ended(0) && !ended(1), "{spans:?}");
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "660 0\n");
}

/// The front is killed at some instant; the process must not notice, and nothing of ours may stay.
fn kill_front(program: &Program, mode: &str, after: Duration) {
    let child = Command::new(program.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let started = Instant::now();
    let counter = loop {
        let modules = ModuleMap::of(Pid(child.id())).ok();
        let found = modules.and_then(|modules| modules.to_run(program::LinkAddr(program.symbols["counter"])));
        if let Some(found) = found {
            break found;
        }
        assert!(started.elapsed() < LIMIT, "the program does not start");
    };
    let keeper = keeper().program;
    let mut front = Command::new(keeper.with_file_name("front"))
        .args([child.id().to_string(), counter.0.to_string(), mode.to_owned()])
        .arg(&keeper)
        .spawn()
        .expect("the front starts");
    std::thread::sleep(after);
    front.kill().expect("it can be killed");
    front.wait().expect("it was killed");
    let output = child.wait_with_output().expect("the program ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        (shown.as_ref(), output.status.code()),
        ("660 0\n", Some(5)),
        "{mode}, killed after {after:?}"
    );
}

#[test]
fn the_front_may_be_killed_at_any_instant() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("steady.c", "-O1");
    for step in 0..12 {
        // Spread over starting, arming, hits and leaving; uneven, so that no rhythm is met.
        let after = Duration::from_micros(1_000 + step * 23_917);
        kill_front(&program, "exact", after);
        kill_front(&program, "observe", after / 2);
    }
}

#[test]
fn who_cannot_be_watched_is_said() {
    if !can_watch() {
        return;
    }
    let attempt = |pid, mode| {
        let files = CodeFiles::default();
        let request = Request {
            target: Target::Process(Pid(pid)),
            locations: vec![watchpoint::WatchSpec {
                address: watchpoint::Address::Run(program::RunAddr(0x1000)),
                len: 8,
                trigger: Trigger::Write,
                places: 1,
            }],
            mode: ModeRequest::Only(mode),
            keeper: Some(keeper()),
        };
        Session::start(request, &files)
            .err()
            .map(|error| error.to_string())
    };
    for mode in [Mode::Exact, Mode::Observe] {
        let said = attempt(0x3f_ffff, mode).unwrap_or_default();
        assert!(said.contains("no process"), "{mode}: {said}");
    }
    let said = attempt(std::process::id(), Mode::Compat).unwrap_or_default();
    assert!(said.contains("for programs that failsketch starts"), "{said}");
    assert!(matches!(
        watchpoint::Location {
            addr: program::RunAddr(0x1000),
            len: 40,
            trigger: Trigger::Write,
        }
        .slots()
        .map_err(WatchError::from),
        Err(WatchError::Location(_))
    ));
}
