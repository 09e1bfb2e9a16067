//! Four threads with a known number of accesses.

use std::io::Write as _;
use std::process::{Command, Stdio};

use program::code::AccessKind;
use tracee::Pid;
use tracee::ptrace::{End, Launch, Stream};
use watchpoint::code::CodeFiles;
use watchpoint::observe::{ObserveWatcher, Values};
use watchpoint::session::Session;
use watchpoint::{Hit, Mode, Trigger};

use crate::support::can_watch;
use crate::watched::{Outcome, Program, attach, launch, to_end, wait_until_it_reads};

const THREADS: usize = 4;
const ROUNDS: usize = 100;

/// How the program comes under watch.
#[derive(Clone, Copy, Debug)]
enum Way {
    Launched,
    Attached,
}
use Way::{Attached, Launched};

fn run(way: &str, how: Way, mode: Mode, options: &str) -> Outcome {
    let program = Program::compile("counters.c", options);
    let rounds = ROUNDS.to_string();
    let counter = program.global("counter", 8, Trigger::ReadWrite);
    let arguments = [way, &rounds];
    let outcome = match how {
        Launched => launch(&program, &arguments, vec![counter], mode),
        Attached => attach(&program, &arguments, vec![counter], mode),
    };
    assert_eq!(outcome.end, End::Exited(7));
    outcome
}

fn writes(hit: &Hit) -> bool {
    hit.access.is_some_and(|access| access.kind.writes())
}

/// The hits of the four threads, without those of the first one, which prints the result.
fn of_workers(outcome: &Outcome) -> Vec<&Hit> {
    let workers = outcome.hits.iter().filter(|hit| hit.tid != outcome.pid.0);
    workers.collect()
}

/// Each read returns the last write. In exact mode that is so whether a place is certain or not: it is known when nobody
/// is on the way from an access to its report. The other modes assume how long that takes at most; whoever took
/// longer may come out of place, and then its hit, or the one that it comes after, says so.
fn assert_consistent(hits: &[&Hit], mode: Mode) {
    let (mut last, mut uncertain) = (0, false);
    for hit in hits {
        let (Some(before), Some(after)) = (hit.before, hit.value) else {
            panic!("a value is not known: {hit:#x?}");
        };
        uncertain |= hit.order_uncertain;
        let excused = uncertain && mode != Mode::Exact;
        assert!(before.bits == last || excused, "{last:#x} before {hit:#x?}");
        (last, uncertain) = (after.bits, hit.order_uncertain);
    }
}

fn printed(outcome: &Outcome) -> u64 {
    outcome
        .output
        .trim()
        .parse()
        .expect("the program prints a number")
}

fn check_plain(how: Way, mode: Mode, options: &str) {
    let outcome = run("plain", how, mode, options);
    let hits = of_workers(&outcome);
    assert_eq!(outcome.summary.lost, 0);
    assert_eq!(hits.len(), 2 * THREADS * ROUNDS);
    assert_eq!(hits.iter().filter(|hit| writes(hit)).count(), THREADS * ROUNDS);
    assert_consistent(&hits, mode);
    let last = hits.last().expect("there are many");
    if mode == Mode::Exact || !last.order_uncertain {
        assert_eq!(last.value.map(|value| value.bits), Some(printed(&outcome)));
    }
}

fn check_atomic(way: &str, how: Way, mode: Mode, options: &str) {
    let outcome = run(way, how, mode, options);
    let hits = of_workers(&outcome);
    assert_eq!(outcome.summary.lost, 0);
    assert_eq!(hits.len(), THREADS * ROUNDS);
    let atomic = |hit: &&&Hit| {
        hit.access
            .is_some_and(|access| access.atomic && access.kind == AccessKind::ReadWrite)
    };
    assert_eq!(hits.iter().filter(atomic).count(), THREADS * ROUNDS);
    assert_consistent(&hits, mode);
    let ours = outcome.bias..outcome.bias + (1 << 20);
    assert!(
        hits.iter()
            .all(|hit| hit.pc.is_some_and(|pc| ours.contains(&pc.0)))
    );
    assert_eq!(printed(&outcome), (THREADS * ROUNDS) as u64);
}

fn check_exchange(how: Way, mode: Mode, options: &str) {
    let outcome = run("exchange", how, mode, options);
    let hits = of_workers(&outcome);
    assert_eq!(outcome.summary.lost, 0);
    assert_eq!(hits.iter().filter(|hit| writes(hit)).count(), THREADS * ROUNDS);
    assert_consistent(&hits, mode);
    assert_eq!(printed(&outcome), (THREADS * ROUNDS) as u64);
}

fn check_all(how: Way, mode: Mode, options: &str) {
    check_plain(how, mode, options);
    check_atomic("increment", how, mode, options);
    check_atomic("fetch", how, mode, options);
    check_exchange(how, mode, options);
}

#[test]
fn exact_launched() {
    if !can_watch() {
        return;
    }
    check_all(Launched, Mode::Exact, "-O0");
    check_all(Launched, Mode::Exact, "-O2");
}

#[test]
fn exact_attached() {
    if !can_watch() {
        return;
    }
    check_all(Attached, Mode::Exact, "-O0");
    check_all(Attached, Mode::Exact, "-O2");
}

#[test]
fn observe_launched() {
    if !can_watch() {
        return;
    }
    check_all(Launched, Mode::Observe, "-O1");
}

#[test]
fn observe_attached() {
    if !can_watch() {
        return;
    }
    check_all(Attached, Mode::Observe, "-O1");
}

#[test]
fn compat_launched() {
    if !can_watch() {
        return;
    }
    check_plain(Launched, Mode::Compat, "-O1");
    check_exchange(Launched, Mode::Compat, "-O1");
}

/// Without a program in the kernel: values are those that registers tell.
#[test]
fn plain_observed_by_perf_alone() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("counters.c", "-O1");
    let locations = vec![program.global("counter", 8, Trigger::ReadWrite)];
    let launch = Launch::new(program.path())
        .args(["plain", "100"])
        .stdin(Stream::Null)
        .stdout(Stream::Null);
    let watcher = ObserveWatcher::launch(launch, locations.clone(), Values::OfRegisters);
    let (watcher, _) = watcher.expect("the program can be watched");
    assert!(!watcher.sees_memory());
    let files = CodeFiles::default();
    let mut session = Session::over(Box::new(watcher), &locations, &files);
    let (hits, end) = to_end(&mut session);
    assert_eq!((end, session.summary().lost), (End::Exited(7), 0));
    let first = session.pid().0;
    let workers: Vec<&Hit> = hits.iter().filter(|hit| hit.tid != first).collect();
    assert_eq!(workers.len(), 2 * THREADS * ROUNDS);
    assert_consistent(&workers, Mode::Observe);
}

/// Nobody reads the ring while it overflows: what does not fit is counted.
#[test]
fn what_finds_no_room_is_counted() {
    if !can_watch() {
        return;
    }
    const MANY: usize = 6000;
    let program = Program::compile("counters.c", "-O1");
    let mut child = Command::new(program.path())
        .args(["increment", &MANY.to_string(), "wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait_until_it_reads(child.id());
    let locations = vec![program.global("counter", 8, Trigger::Write)];
    let watcher = ObserveWatcher::attach(Pid(child.id()), locations.clone(), Values::All);
    let watcher = watcher.expect("the process can be watched");
    let mut stdin = child.stdin.take().expect("it was asked for");
    stdin.write_all(b"\n").expect("the program reads");
    child.wait().expect("the program ends");
    let files = CodeFiles::default();
    let mut session = Session::over(Box::new(watcher), &locations, &files);
    let (hits, _) = to_end(&mut session);
    let summary = session.summary();
    assert!(summary.lost > 0, "the ring had room for all");
    assert_eq!(hits.len() as u64 + summary.lost, (THREADS * MANY) as u64);
}

/// 200 threads that come and go: each is watched from its first instruction on.
fn check_visitors(how: Way, mode: Mode) {
    const VISITS: u64 = 200 * 20;
    let program = Program::compile("visitors.c", "-O1");
    let counter = program.global("counter", 8, Trigger::Write);
    let outcome = match how {
        Launched => launch(&program, &[], vec![counter], mode),
        Attached => attach(&program, &[], vec![counter], mode),
    };
    assert_eq!(printed(&outcome), VISITS);
    assert_eq!(outcome.hits.len() as u64 + outcome.summary.lost, VISITS);
    if mode != Mode::Observe {
        assert_eq!(outcome.summary.lost, 0);
    }
    let last = outcome
        .hits
        .iter()
        .filter_map(|hit| hit.value)
        .map(|value| value.bits)
        .max();
    assert_eq!(last, Some(VISITS));
}

#[test]
fn visitors_exact() {
    if !can_watch() {
        return;
    }
    check_visitors(Launched, Mode::Exact);
    check_visitors(Attached, Mode::Exact);
}

#[test]
fn visitors_observe() {
    if !can_watch() {
        return;
    }
    check_visitors(Launched, Mode::Observe);
    check_visitors(Attached, Mode::Observe);
}

#[test]
fn visitors_compat() {
    if !can_watch() {
        return;
    }
    check_visitors(Launched, Mode::Compat);
}
