//! Threads that do not go on, told by what they wait for.

use crate::predictor::Predictor;
use crate::predictor::extract::{deadlocks, observe};
use crate::run::{Run, Shape, ThreadIx, Wanted};
use crate::sketch::Why;
use crate::testkit::Lab;

const A: u64 = 0x1000;
const B: u64 = 0x2000;

fn lock(addr: u64, holder: Option<u32>) -> Wanted {
    Wanted::Lock {
        addr,
        holder: holder.map(ThreadIx),
    }
}

/// A run that hangs; its threads in the order of the lab, each with the line it waits in and what it waits for.
fn hang(lab: &mut Lab, text: &str, threads: &[(char, u32, Option<Wanted>)]) -> Run {
    let stacks: Vec<(char, [u32; 1])> = threads.iter().map(|(name, line, _)| (*name, [*line])).collect();
    let stacks: Vec<(char, &[u32])> = stacks.iter().map(|(name, line)| (*name, &line[..])).collect();
    let mut run = lab.hang(text, &stacks);
    for &(thread, _, wanted) in threads {
        lab.waits(&mut run, thread, wanted);
    }
    run
}

fn first(lab: &mut Lab, runs: &[Run]) -> String {
    let (_, ranked) = lab.rank(runs);
    lab.describe(&ranked[0])
}

fn philosophers() -> Lab {
    let mut lab = Lab::new(
        &[
            ('a', "dine"),
            ('b', "dine"),
            ('c', "dine"),
            ('d', "dine"),
            ('e', "dine"),
        ],
        &[("seat->right->taken", Shape::Unknown)],
    );
    lab.function("dine", &[23, 26]);
    lab
}

#[test]
fn philosophers_are_one_deadlock_however_many_they_are() {
    let mut lab = philosophers();
    let two = [
        ('a', 26, Some(lock(B, Some(1)))),
        ('b', 26, Some(lock(A, Some(0)))),
    ];
    let three = [
        ('a', 26, Some(lock(1, Some(1)))),
        ('b', 26, Some(lock(2, Some(2)))),
        ('c', 26, Some(lock(0, Some(0)))),
    ];
    let runs = [
        lab.success(""),
        hang(&mut lab, "", &two),
        hang(&mut lab, "", &three),
        lab.success(""),
    ];
    let (_, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "deadlock 26 26");
    assert_eq!((ranked[0].counts.failing_with, ranked[0].counts.failing), (2, 2));
    assert_eq!(ranked[0].counts.successful, 2);
    // The code says where the forks were taken, if there is only one place.
    lab.takes(23);
    lab.takes(26);
    assert_eq!(first(&mut lab, &runs), "deadlock 23 23 26 26");
    lab.function("dine", &[24]);
    lab.takes(24);
    assert_eq!(first(&mut lab, &runs), "deadlock 26 26");
}

#[test]
fn what_one_run_saw_completes_the_others() {
    let mut lab = philosophers();
    lab.function("dine", &[24]);
    lab.takes(24);
    let waits = [
        ('a', 26, Some(lock(B, Some(1)))),
        ('b', 26, Some(lock(A, Some(0)))),
    ];
    let seen = "a:RW23=0>1 b:RW26=1>2";
    let runs = [
        lab.success(""),
        hang(&mut lab, "", &waits),
        hang(&mut lab, seen, &waits),
        hang(&mut lab, "", &waits),
    ];
    let (_, ranked) = lab.rank(&runs);
    assert_eq!(
        lab.describe(&ranked[0]),
        "deadlock 23 23 26 26",
        "what was seen counts, not what the code leaves"
    );
    assert_eq!(ranked[0].counts.failing_with, 3);
    let found = deadlocks(&lab.catalogue, &runs[2]);
    assert_eq!(found[0].events(), [0, 1]);
}

#[test]
fn a_thread_may_wait_for_what_it_has() {
    let mut lab = Lab::new(&[('f', "fill"), ('t', "take")], &[("box->lock", Shape::Unknown)]);
    let waits = [
        ('f', 20, Some(lock(A, Some(0)))),
        ('t', 44, Some(lock(A, Some(0)))),
    ];
    let text = "t:RW44=0>1 t:W46=1>0 f:RW26=0>1 t:RW44=1>2 f:RW20=2>2";
    let runs = [lab.success("t:RW44=0>1 t:W46=1>0"), hang(&mut lab, text, &waits)];
    assert_eq!(first(&mut lab, &runs), "deadlock 26 20");
    // The same statement twice, and no word of who holds the lock.
    let text = "t:RW44=0>1 t:W46=1>0 f:RW20=0>1 f:RW20=1>2";
    let waits = [('f', 20, Some(lock(A, None)))];
    let runs = [lab.success("t:RW44=0>1 t:W46=1>0"), hang(&mut lab, text, &waits)];
    assert_eq!(first(&mut lab, &runs), "deadlock 20 20");
}

#[test]
fn a_thread_that_ended_may_have_what_others_wait_for() {
    let mut lab = Lab::new(&[('f', "fill"), ('t', "take")], &[("box->lock", Shape::Unknown)]);
    let text = "f:RW26=0>1 t:RW44=1>2";
    let mut gone = hang(&mut lab, text, &[('t', 44, Some(lock(A, Some(0))))]);
    gone.threads[0].ended = true;
    let runs = [lab.success("f:RW26=0>1 f:W30=1>0"), gone];
    assert_eq!(first(&mut lab, &runs), "deadlock 26 44");
    // A flag that it left is not a lock that it has.
    let mut flag = hang(&mut lab, "f:W26=0>1 t:R44=1", &[('t', 44, None)]);
    flag.threads[0].ended = true;
    assert!(deadlocks(&lab.catalogue, &flag).is_empty());
}

#[test]
fn who_joins_a_thread_waits_for_it() {
    let mut lab = Lab::new(&[('m', "main"), ('w', "work")], &[("lock", Shape::Unknown)]);
    let waits = [
        ('m', 12, Some(Wanted::End(ThreadIx(1)))),
        ('w', 5, Some(lock(A, Some(0)))),
    ];
    let runs = [lab.success(""), hang(&mut lab, "m:RW9=0>1 w:RW5=1>2", &waits)];
    assert_eq!(first(&mut lab, &runs), "deadlock 9 5 12");
}

#[test]
fn whoever_waits_for_a_lock_does_not_have_it() {
    let mut lab = Lab::new(
        &[('a', "carry"), ('b', "carry"), ('c', "carry")],
        &[("from", Shape::Unknown), ("to", Shape::Unknown)],
    );
    let none = |addr| Some(lock(addr, None));
    // `c` came to the lock of `a` last, and wrote to it that it waits.
    let text = "a:RW21=0>1 b:RW21=0>1@to a:RW24=1>2@to b:RW24=1>2 c:RW24=2>2";
    let waits = [('a', 24, none(B)), ('b', 24, none(A)), ('c', 24, none(A))];
    let run = hang(&mut lab, text, &waits);
    let found = deadlocks(&lab.catalogue, &run);
    let holders: Vec<(u32, u32)> = found[0]
        .threads
        .iter()
        .map(|edge| (edge.thread.0, edge.holder.0))
        .collect();
    assert_eq!((found.len(), holders), (1, vec![(0, 1), (1, 0)]));
    // Who reads has found the mark of one who wants to write.
    let text = "a:RW32=0>8 a:RW35=0>2@to b:RW53=2>10@to b:RW56=8>10";
    let run = hang(&mut lab, text, &[('a', 35, none(B)), ('b', 56, none(A))]);
    let found = deadlocks(&lab.catalogue, &run);
    assert_eq!(found[0].threads.len(), 2, "{found:?}");
}

#[test]
fn a_run_that_does_not_know_who_has_a_lock_says_nothing() {
    let mut lab = Lab::new(&[('a', "carry"), ('b', "carry")], &[("lock", Shape::Unknown)]);
    let named = [
        ('a', 24, Some(lock(B, Some(1)))),
        ('b', 24, Some(lock(A, Some(0)))),
    ];
    let open = [('a', 24, Some(lock(B, None))), ('b', 24, Some(lock(A, None)))];
    let signal = [('a', 24, Some(Wanted::Word(B))), ('b', 24, Some(Wanted::Word(A)))];
    let failing = |lab: &mut Lab, other: &[(char, u32, Option<Wanted>)]| {
        let runs = [lab.success(""), hang(lab, "", &named), hang(lab, "", other)];
        let (_, ranked) = lab.rank(&runs);
        (ranked[0].counts.failing_with, ranked[0].counts.failing)
    };
    assert_eq!(failing(&mut lab, &open), (1, 1));
    assert_eq!(failing(&mut lab, &signal), (1, 2));
}

/// The code says what a thread may have come past, and not whether it is the one that has the lock.
#[test]
fn of_several_that_may_have_a_lock_none_is_chosen() {
    let mut lab = philosophers();
    lab.slice(26, 0, None);
    lab.slice(23, 1, Some((Why::Data, 26)));
    let none = |addr| Some(lock(addr, None));
    let two = hang(&mut lab, "", &[('a', 26, none(A)), ('b', 26, none(B))]);
    assert_eq!(deadlocks(&lab.catalogue, &two).len(), 1);
    let three = hang(
        &mut lab,
        "",
        &[('a', 26, none(A)), ('b', 26, none(B)), ('c', 26, none(0))],
    );
    assert!(deadlocks(&lab.catalogue, &three).is_empty());
}

#[test]
fn a_holder_that_waits_for_a_signal_is_no_explanation() {
    let mut lab = Lab::new(&[('a', "drain"), ('b', "push")], &[("outer", Shape::Unknown)]);
    let waits = [
        ('a', 30, Some(Wanted::Word(B))),
        ('b', 12, Some(lock(A, Some(0)))),
    ];
    let run = hang(&mut lab, "a:RW28=0>1 b:RW12=1>2", &waits);
    let runs = [lab.success("a:RW28=0>1"), run];
    let (_, ranked) = lab.rank(&runs);
    let deadlock = ranked
        .iter()
        .find(|ranked| matches!(ranked.predictor, Predictor::Deadlock { .. }));
    let deadlock = deadlock.expect("it is told");
    assert_eq!(lab.describe(deadlock), "deadlock 28 12 30");
    assert!(!deadlock.explains);
}

#[test]
fn a_run_that_ends_has_no_deadlock() {
    let mut lab = Lab::new(&[('a', "carry"), ('b', "carry")], &[("lock", Shape::Unknown)]);
    let mut run = lab.failure("", 'a', &[24]);
    lab.waits(&mut run, 'a', Some(lock(B, Some(1))));
    lab.waits(&mut run, 'b', Some(lock(A, Some(0))));
    assert!(observe(&lab.catalogue, &run).held.is_empty());
}

/// A lock for readers and writers, as glibc has it: two steps to take it for writing, a bit that stays, eight for each reader.
#[test]
fn who_has_given_a_lock_back_does_not_hold_it() {
    let mut lab = Lab::new(
        &[('l', "listener"), ('r', "reader")],
        &[("tree.lock", Shape::Unknown)],
    );
    let waits = [('r', 111, Some(lock(A, None)))];
    let text = "l:RW150=0>2 l:RW150=2>3 l:RW154=3>1 r:RW123=1>9 r:RW123=9>8 r:RW111=8>10";
    let mut own = hang(&mut lab, text, &waits);
    own.threads[0].ended = true;
    let runs = [lab.success("r:RW123=0>8 r:RW141=8>0"), own];
    assert_eq!(first(&mut lab, &runs), "deadlock 123 111");
    // Nobody has what everybody gave back.
    let mut nobody = hang(&mut lab, "l:RW150=0>2 l:RW150=2>3 l:RW154=3>1", &waits);
    nobody.threads[0].ended = true;
    assert!(deadlocks(&lab.catalogue, &nobody).is_empty());
}

/// Two locks that do not say who holds them, and one register: each run watched one of them.
#[test]
fn who_waits_for_whom_is_put_together_from_runs_that_watched_one_lock_each() {
    let mut lab = Lab::new(
        &[('s', "saver"), ('w', "spender"), ('m', "main")],
        &[("current", Shape::Unknown), ("savings", Shape::Unknown)],
    );
    let waits = [
        ('s', 39, Some(lock(B, None))),
        ('w', 48, Some(lock(A, None))),
        ('m', 80, Some(Wanted::End(ThreadIx(0)))),
    ];
    let current = "s:RW37=0>1 w:RW48=1>2";
    let savings = "w:RW46=0>1@savings s:RW39=1>2@savings";
    let mut runs = vec![lab.success("s:RW37=0>1 s:W40=1>0 w:RW48=0>1")];
    runs.extend([current, savings, current, savings].map(|text| hang(&mut lab, text, &waits)));
    let (evidence, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "deadlock 37 46 48 39");
    assert!(ranked[0].explains && evidence.is_pieced(&ranked[0].predictor));
    assert_eq!((ranked[0].counts.failing_with, ranked[0].counts.failing), (4, 4));
    // Once may be chance.
    let (_, ranked) = lab.rank(&runs[..3]);
    assert!(!lab.describe(&ranked[0]).starts_with("deadlock"));
    // One that was seen to wait for somebody else is in no circle.
    let others = [('s', 39, Some(lock(B, Some(2)))), waits[1]];
    let contrary = hang(
        &mut lab,
        current,
        &[others[0], others[1], ('m', 90, Some(lock(0, None)))],
    );
    let runs: Vec<Run> = runs.into_iter().chain([contrary]).collect();
    let (_, ranked) = lab.rank(&runs);
    assert!(!lab.describe(&ranked[0]).starts_with("deadlock"), "{ranked:?}");
}

#[test]
fn of_two_that_wait_in_one_place_nobody_knows_which_one_it_was() {
    let mut lab = Lab::new(
        &[('s', "saver"), ('t', "saver"), ('w', "spender")],
        &[("current", Shape::Unknown), ("savings", Shape::Unknown)],
    );
    let waits = [
        ('s', 39, Some(lock(B, None))),
        ('t', 39, Some(lock(B, None))),
        ('w', 48, Some(lock(A, None))),
    ];
    let runs: Vec<Run> = (0..4)
        .map(|_| hang(&mut lab, "s:RW37=0>1 w:RW48=1>2", &waits))
        .collect();
    let (evidence, _) = lab.rank(&runs);
    assert_eq!(evidence.pieced().count(), 0);
}

/// Workers look for jobs (72) and wait for more (83), while `main` waits for a job to be done (40).
#[test]
fn idle_workers_do_not_wait_for_one_another() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "work"), ('b', "work")],
        &[("pool->jobs", Shape::Unsigned)],
    );
    lab.function("work", &[72, 83]);
    lab.slice(83, 0, None);
    lab.slice(72, 1, Some((Why::Data, 83)));
    let word = |addr| Some(Wanted::Word(addr));
    let waits = [('m', 40, word(A)), ('a', 83, word(B)), ('b', 83, word(B))];
    let run = hang(&mut lab, "", &waits);
    assert_eq!(deadlocks(&lab.catalogue, &run), []);
}
