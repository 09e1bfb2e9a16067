//! Four threads with a known number of accesses.

use program::code::AccessKind;
use tracee::ptrace::End;
use watchpoint::{Hit, Mode, Trigger};

use crate::watched::{Outcome, Program, launch};

const THREADS: usize = 4;
const ROUNDS: usize = 100;

fn run(way: &str, mode: Mode) -> Outcome {
    let program = Program::compile("counters.c", "-O1");
    let rounds = ROUNDS.to_string();
    let counter = program.global("counter", 8, Trigger::ReadWrite);
    let outcome = launch(&program, &[way, &rounds], vec![counter], mode);
    assert_eq!(outcome.end, End::Exited(7));
    outcome
}

fn writes(hit: &Hit) -> bool {
    hit.access.is_some_and(|access| access.kind.writes())
}

/// The hits of the four threads, without those of the first one, which prints the result.
fn of_workers(outcome: &Outcome) -> Vec<&Hit> {
    let first = outcome.hits.iter().map(|hit| hit.tid).min();
    let workers = outcome.hits.iter().filter(|hit| Some(hit.tid) != first);
    workers.collect()
}

/// Each read returns the last write.
fn assert_consistent(hits: &[&Hit]) {
    let mut last = 0;
    for hit in hits {
        let (Some(before), Some(after)) = (hit.before, hit.value) else {
            panic!("a value is not known: {hit:#x?}");
        };
        assert_eq!(before.bits, last, "{hit:#x?}");
        last = after.bits;
    }
}

fn printed(outcome: &Outcome) -> u64 {
    outcome
        .output
        .trim()
        .parse()
        .expect("the program prints a number")
}

fn check_plain(mode: Mode) {
    let outcome = run("plain", mode);
    let hits = of_workers(&outcome);
    assert_eq!(outcome.summary.lost, 0);
    assert_eq!(hits.len(), 2 * THREADS * ROUNDS);
    assert_eq!(hits.iter().filter(|hit| writes(hit)).count(), THREADS * ROUNDS);
    assert_consistent(&hits);
    assert_eq!(
        hits.last()
            .and_then(|hit| hit.value)
            .expect("the last is known")
            .bits,
        printed(&outcome)
    );
}

fn check_atomic(way: &str, mode: Mode) {
    let outcome = run(way, mode);
    let hits = of_workers(&outcome);
    assert_eq!(outcome.summary.lost, 0);
    assert_eq!(hits.len(), THREADS * ROUNDS);
    let atomic = |hit: &&&Hit| {
        hit.access
            .is_some_and(|access| access.atomic && access.kind == AccessKind::ReadWrite)
    };
    assert_eq!(hits.iter().filter(atomic).count(), THREADS * ROUNDS);
    assert_consistent(&hits);
    let ours = outcome.bias..outcome.bias + (1 << 20);
    assert!(
        hits.iter()
            .all(|hit| hit.pc.is_some_and(|pc| ours.contains(&pc.0)))
    );
    assert_eq!(printed(&outcome), (THREADS * ROUNDS) as u64);
}

fn check_exchange(mode: Mode) {
    let outcome = run("exchange", mode);
    let hits = of_workers(&outcome);
    assert_eq!(outcome.summary.lost, 0);
    assert_eq!(hits.iter().filter(|hit| writes(hit)).count(), THREADS * ROUNDS);
    assert_consistent(&hits);
    assert_eq!(printed(&outcome), (THREADS * ROUNDS) as u64);
}

#[test]
fn plain_exact() {
    check_plain(Mode::Exact);
}

#[test]
fn plain_observe() {
    check_plain(Mode::Observe);
}

#[test]
fn plain_compat() {
    check_plain(Mode::Compat);
}

#[test]
fn increments_exact() {
    check_atomic("increment", Mode::Exact);
    check_atomic("fetch", Mode::Exact);
}

#[test]
fn increments_observe() {
    check_atomic("increment", Mode::Observe);
    check_atomic("fetch", Mode::Observe);
}

#[test]
fn exchanges() {
    check_exchange(Mode::Exact);
    check_exchange(Mode::Observe);
    check_exchange(Mode::Compat);
}
