//! Each class of bug, as runs of programs of its kind look: the cause is first.

use super::Open;
use crate::run::Shape;
use crate::sketch::Why;
use crate::testkit::Lab;

fn first(lab: &mut Lab, runs: &[crate::run::Run]) -> String {
    let (_, ranked) = lab.rank(runs);
    lab.describe(&ranked[0])
}

/// A queue's lock is cleared (62) while a consumer will use it again (82). Between the consumer's last use (91) and
/// this one there is the write, but the pair of uses is not what is wrong.
#[test]
fn a_use_after_the_end_is_an_order_violation() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "consumer"), ('b', "consumer")],
        &[("q->mut", Shape::Pointer)],
    );
    let runs = [
        lab.success(
            "m:W51=5 a:R82=5 a:R91=5 b:R82=5 b:R91=5 a:R82=5 a:R91=5 b:R82=5 b:R91=5 m:R61=5 m:W62=0",
        ),
        lab.failure(
            "m:W51=5 a:R82=5 a:R91=5 b:R82=5 b:R91=5 a:R82=5 a:R91=5 m:R61=5 m:W62=0 b:R82=0",
            'b',
            &[82, 127],
        ),
        lab.success("m:W51=5 a:R82=5 a:R91=5 a:R82=5 a:R91=5 b:R82=5 b:R91=5 m:R61=5 m:W62=0"),
        lab.failure(
            "m:W51=5 a:R82=5 a:R91=5 b:R82=5 b:R91=5 m:R61=5 m:W62=0 a:R82=0",
            'a',
            &[82, 127],
        ),
    ];
    assert_eq!(first(&mut lab, &runs), "WR 62 82");
}

/// That one thread had a lock (62) before another one wanted it (82) is so whenever threads share it, and explains no hang.
#[test]
fn who_had_a_lock_before_whom_explains_nothing() {
    let explains = |takes: bool| {
        let mut lab = Lab::new(&[('m', "main"), ('a', "worker")], &[("lock", Shape::Unsigned)]);
        let runs = [
            lab.success("a:R82=0 m:W62=1"),
            lab.failure("m:W62=1 a:R82=1", 'a', &[82]),
        ];
        if takes {
            lab.takes(82);
        }
        let (_, ranked) = lab.rank(&runs);
        ranked.iter().any(|ranked| ranked.explains)
    };
    assert!(explains(false) && !explains(true));
}

/// A session is closed (26) while a worker will append to it (14), and is only watched from the worker's first use on: where it
/// had been closed before that, the worker's null is all that was seen.
#[test]
fn what_came_before_the_watch_does_not_speak_against_a_cause() {
    let mut lab = Lab::new(
        &[('r', "reap"), ('a', "serve")],
        &[("this->inbox", Shape::Pointer)],
    );
    let mut runs = [
        lab.success("a:R14=5 a:R14=5 r:W26=0"),
        lab.failure("a:R14=5 r:W26=0 a:R14=0", 'a', &[16, 65]),
        lab.failure("a:R14=0", 'a', &[16, 65]),
        lab.success("a:R14=5 r:W26=0"),
        lab.failure("a:R14=0", 'a', &[16, 65]),
    ];
    for run in &mut runs {
        run.late = run.watched.clone();
    }
    assert_eq!(first(&mut lab, &runs), "WR 26 14");
    // One that was watched from the start would have shown the write.
    runs.iter_mut().for_each(|run| run.late.clear());
    assert_ne!(first(&mut lab, &runs), "WR 26 14");
}

/// What is wrong (14) is not seen in every failing run; what one failing run had (96) happens to be in no successful one of few.
#[test]
fn what_one_failing_run_had_is_nothing_beside_what_many_had() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "serve")],
        &[("inbox", Shape::Pointer), ("workers", Shape::Pointer)],
    );
    let mut runs = Vec::new();
    let mut add = |run: crate::run::Run, unwatched: Option<u32>| {
        let watched = |location: &crate::run::LocationId| Some(location.0) != unwatched;
        let watched = run.watched.iter().copied().filter(watched).collect();
        runs.push(crate::run::Run { watched, ..run });
    };
    for _ in 0..6 {
        add(lab.failure("a:R14=0", 'a', &[16, 65]), Some(1));
    }
    add(lab.failure("a:R14=5 a:R14=5", 'a', &[16, 65]), Some(1));
    add(lab.failure("m:R96=0@workers", 'a', &[16, 65]), Some(0));
    for _ in 0..3 {
        add(lab.success("a:R14=5 m:R96=7@workers"), None);
    }
    assert!(first(&mut lab, &runs).contains("14"));
}

/// What is tested (60) is cleared (86) before it is used (63). A run that watched it again from the clearing on cannot have seen
/// the test.
#[test]
fn a_pair_whose_beginning_was_not_watched_does_not_speak_against_its_being_torn() {
    let mut lab = Lab::new(
        &[('s', "session"), ('m', "monitor")],
        &[("thd->proc_info", Shape::Pointer)],
    );
    let mut runs = [
        lab.success("s:W83=5 m:R60=5 m:R63=5 s:W86=0"),
        lab.success("s:W83=5 s:W86=0 m:R60=0"),
        lab.failure("s:W83=5 m:R60=5 s:W86=0 m:R63=0", 'm', &[46, 63]),
        lab.failure("s:W83=5 m:R60=5 s:W86=0 m:R63=0", 'm', &[46, 63]),
        lab.failure("m:R63=5 s:W83=5 s:W86=0 m:R63=0", 'm', &[46, 63]),
    ];
    for run in &mut runs {
        run.late = run.watched.clone();
    }
    assert_eq!(first(&mut lab, &runs), "RWR 60 86 63");
    runs.iter_mut().for_each(|run| run.late.clear());
    assert_eq!(first(&mut lab, &runs), "WR 86 63");
}

/// Settings are made with nothing in them (23), and everybody can see them before they are loaded (38).
#[test]
fn a_use_before_what_was_made_empty_is_filled_came_too_early() {
    let mut lab = Lab::new(
        &[('a', "serve"), ('b', "serve")],
        &[("this->limits", Shape::Pointer)],
    );
    let runs = [
        lab.success("a:W23=0 a:W38=7 b:R43=7"),
        lab.failure("a:W23=0 b:R43=0", 'b', &[43, 75]),
        lab.success("b:W23=0 b:W38=7 a:R43=7"),
        lab.failure("b:W23=0 a:R43=0", 'a', &[43, 75]),
    ];
    assert_eq!(first(&mut lab, &runs), "-R 43");
}

/// A letter is put into a box (28) that somebody looked into before (43), who then sleeps and is not woken. Now and then he sleeps
/// early enough; the number that a handle has is another one in every run.
#[test]
fn a_number_that_one_failing_run_had_is_no_cause() {
    let mut lab = Lab::new(
        &[('m', "main"), ('f', "feeder"), ('p', "printer")],
        &[("box.letters", Shape::Signed), ("handle", Shape::Unsigned)],
    );
    let mut runs = Vec::new();
    for number in 0..4 {
        let handle = 1000 + number;
        runs.push(lab.failure(&format!("m:R71={handle}@handle p:R43=0 f:W28=1"), 'p', &[46]));
        runs.push(lab.success(&format!("m:R71={}@handle p:R43=0 f:W28=1", handle + 100)));
        runs.push(lab.success(&format!("m:R71={}@handle f:W28=1 p:R43=1", handle + 200)));
    }
    assert_eq!(first(&mut lab, &runs), "RW 43 28");
    let (_, ranked) = lab.rank(&runs);
    assert!(ranked.iter().all(|ranked| !lab.describe(ranked).contains("71")));
}

/// Width (29) and height (31) are changed one after the other, twice; what they have in common holds before and after. Neither of
/// them alone tells: each is read (47, 48) before and after each of its writes in successful runs, too.
#[test]
fn half_of_a_change_is_seen_where_one_variable_does_not_tell() {
    let mut lab = Lab::new(
        &[('w', "resizer"), ('r', "recorder")],
        &[("width", Shape::Signed), ("height", Shape::Signed)],
    );
    let resize = |width, height| format!("w:W29={width}@width w:W31={height}@height");
    let look = |width, height| format!("r:R47={width}@width r:R48={height}@height");
    let (one, two) = (resize(40, 50), resize(80, 25));
    let runs = [
        lab.success(&format!("{} {one} {two} {}", look(80, 25), look(80, 25))),
        lab.failure(
            &format!("{} w:W29=40@width {}", look(80, 25), look(40, 25)),
            'r',
            &[50],
        ),
        lab.success(&format!("{one} {} {two} {}", look(40, 50), look(80, 25))),
        lab.failure(
            &format!("{one} {} w:W29=80@width {}", look(40, 50), look(80, 50)),
            'r',
            &[50],
        ),
        lab.success(&format!("{one} {two} {}", look(80, 25))),
        lab.failure(&format!("{one} w:W29=80@width {}", look(80, 50)), 'r', &[50]),
    ];
    assert_eq!(first(&mut lab, &runs), "WRR 29 47 48");
    // Twice is chance, among so many pairs.
    assert_ne!(first(&mut lab, &runs[..5]), "WRR 29 47 48");
}

/// A monitor checks (60) and uses (63) what a session sets (83) and clears (86). Clearing before the check and after the
/// use both go well.
#[test]
fn a_check_apart_from_its_use_is_an_atomicity_violation() {
    let mut lab = Lab::new(
        &[('m', "monitor"), ('s', "session")],
        &[("thd->proc_info", Shape::Pointer)],
    );
    let runs = [
        lab.success("m:R60=0 s:W83=7 m:R60=7 m:R63=7 s:W86=0 s:W83=7 s:W86=0"),
        lab.failure(
            "s:W83=7 s:W86=0 s:W83=7 m:R60=7 s:W86=0 m:R63=0",
            'm',
            &[46, 63, 75],
        ),
        lab.success("s:W83=7 s:W86=0 m:R60=0 s:W83=7 m:R60=7 m:R63=7 s:W86=0"),
        lab.failure("s:W83=7 m:R60=7 s:W86=0 m:R63=0", 'm', &[46, 63, 75]),
    ];
    assert_eq!(first(&mut lab, &runs), "RWR 60 86 63");
}

/// The same with successful runs in which the monitor never got to its use (63): that a session is looked at between its two writes
/// explains as much, and more successful runs tell the two apart.
#[test]
fn what_no_successful_run_got_to_is_open() {
    let mut lab = Lab::new(
        &[('m', "monitor"), ('s', "session")],
        &[("thd->proc_info", Shape::Pointer)],
    );
    let mut runs = vec![
        lab.success("m:R60=0 s:W83=7 s:W86=0"),
        lab.success("s:W83=7 s:W86=0 m:R60=0"),
        lab.failure("s:W83=7 m:R60=7 s:W86=0 m:R63=0", 'm', &[46, 63, 75]),
        lab.failure("s:W83=7 m:R60=7 s:W86=0 m:R63=0", 'm', &[46, 63, 75]),
    ];
    let (evidence, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "WRW 83 60 86");
    assert_eq!(super::open(&evidence, &ranked), Some(Open::End));
    runs.push(lab.success("s:W83=7 m:R60=7 m:R63=7 s:W86=0"));
    let (evidence, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "RWR 60 86 63");
    assert_eq!(super::open(&evidence, &ranked), None);
}

/// A report checks a count (102) and divides by it (106); what resets it (78) was only seen after the check in successful runs. That the
/// reset came before the division explains the failure until one succeeds that was reset before both.
#[test]
fn what_no_successful_run_had_the_other_way_round_is_open() {
    let mut lab = Lab::new(
        &[('r', "reporter"), ('o', "rollover")],
        &[("count", Shape::Unsigned)],
    );
    let mut runs = vec![
        lab.success("r:R102=2 r:R106=2 o:W78=0"),
        lab.success("r:R102=2 r:R106=2"),
        lab.failure("r:R102=2 o:W78=0 r:R106=0", 'r', &[107]),
        lab.failure("r:R102=2 o:W78=0 r:R106=0", 'r', &[107]),
    ];
    let (evidence, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "WR 78 106");
    assert_eq!(super::open(&evidence, &ranked), Some(Open::Reverse));
    runs.push(lab.success("o:W78=0 r:R102=0"));
    let (evidence, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "RWR 102 78 106");
    assert_eq!(super::open(&evidence, &ranked), None);
}

/// Two workers find enough memory free (86) before one of them takes it (92), which mostly ends well. That there was less than nothing in the
/// end follows from that, unless it is chance.
#[test]
fn what_a_value_follows_from_is_open_as_long_as_it_may_be_chance() {
    let mut lab = Lab::new(&[('a', "work"), ('b', "work")], &[("free", Shape::Signed)]);
    let short = u64::MAX - 4;
    let mut runs = vec![lab.success("a:R86=60 b:R86=60 a:RW92=60>40 b:RW92=40>15"); 3];
    runs.push(lab.success("a:R86=60 a:RW92=60>35 b:R86=35 b:RW92=35>5"));
    let failing = format!("a:R86=40 b:R86=40 a:RW92=40>20 b:RW92=20>{short}");
    runs.extend(vec![lab.failure(&failing, 'b', &[94]); 4]);
    let (evidence, ranked) = lab.rank(&runs);
    assert!(lab.describe(&ranked[0]).starts_with("value"));
    assert_eq!(super::open(&evidence, &ranked), Some(Open::Doubt));
    let serial = lab.success("a:R86=60 a:RW92=60>35 b:R86=35 b:RW92=35>5");
    runs.extend(vec![serial; 6]);
    let (evidence, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "RWW 86 92 92");
    assert_eq!(super::open(&evidence, &ranked), None);
}

/// A transfer is said to be pending (84) after it was done (53), and the wait for it (74) fails. On a slow machine it may also fail because the
/// transfer is not done.
#[test]
fn what_was_read_of_the_last_write_of_an_explanation_follows_from_it() {
    let mut lab = Lab::new(
        &[('m', "main"), ('c', "completion")],
        &[("pending", Shape::Signed)],
    );
    let mut runs: Vec<_> = (0..10).map(|_| lab.success("m:W84=1 c:W53=0 m:R74=0")).collect();
    for bad in [
        "c:W53=0 m:W84=1 m:R74=1",
        "c:W53=0 m:W84=1 m:R74=1",
        "m:W84=1 m:R74=1",
    ] {
        runs.push(lab.failure(bad, 'm', &[74]));
    }
    assert_eq!(first(&mut lab, &runs), "WW 53 84");
}

/// Two workers take a slot (52) and advance the index (58) without excluding one another. Unoptimised, the increment
/// is a read and a write.
#[test]
fn a_lost_update_is_an_atomicity_violation_at_every_optimisation_level() {
    for (advance_a, advance_b, advance_a2) in [
        ("a:RW58=1", "b:RW58=2", "a:RW58=2"),
        ("a:R58=0 a:W58=1", "b:R58=1 b:W58=2", "a:R58=1 a:W58=2"),
    ] {
        let mut lab = Lab::new(
            &[('a', "worker"), ('b', "worker")],
            &[("access_log.used", Shape::Unsigned)],
        );
        let runs = [
            lab.success(&format!("a:R52=0 {advance_a} b:R52=1 {advance_b} b:R74=2")),
            lab.failure("a:R52=0 b:R52=0 b:RW58=1 a:RW58=2 b:R74=2", 'b', &[66, 75, 95]),
            lab.success("b:R52=0 b:RW58=1 a:R52=1 a:RW58=2 b:R74=2"),
            lab.failure(
                &format!("a:R52=0 b:R52=0 b:R58=0 b:W58=1 {advance_a2} a:R74=2"),
                'a',
                &[66, 75, 95],
            ),
        ];
        assert_eq!(first(&mut lab, &runs), "RWW 52 58 58");
    }
}

/// A reference is dropped (70) and the count is tested (72) in two steps.
#[test]
fn a_count_that_is_tested_late_is_an_atomicity_violation() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "worker"), ('b', "worker")],
        &[("obj->refcount", Shape::Signed)],
    );
    let runs = [
        lab.success("m:RW105=1 m:RW105=2 a:RW70=1 a:R72=1 b:RW70=0 b:R72=0"),
        lab.failure(
            "m:RW105=1 m:RW105=2 a:RW70=1 b:RW70=0 a:R72=0 b:R72=0",
            'b',
            &[58, 73, 88],
        ),
        lab.success("m:RW105=1 m:RW105=2 b:RW70=1 b:R72=1 a:RW70=0 a:R72=0"),
        lab.failure(
            "m:RW105=1 m:RW105=2 b:RW70=1 a:RW70=0 a:R72=0 b:R72=0",
            'b',
            &[58, 73, 88],
        ),
    ];
    assert_eq!(first(&mut lab, &runs), "WWR 70 70 72");
}

/// A log is closed (33) and opened again (28); a transaction that looks in between (41) takes it for switched off. That
/// the transaction had looked before does not matter.
#[test]
fn a_state_that_was_not_meant_to_be_seen_is_an_atomicity_violation() {
    let mut lab = Lab::new(
        &[('m', "main"), ('t', "run_transactions"), ('f', "flush_logs")],
        &[("this->state_", Shape::Unsigned)],
    );
    let runs = [
        lab.success("m:W28=1 t:R41=1 f:W33=0 f:W28=1 t:R41=1"),
        lab.failure("m:W28=1 t:R41=1 f:W33=0 t:R41=0 f:W28=1", 't', &[89, 97]),
        lab.success("m:W28=1 f:W33=0 f:W28=1 t:R41=1 t:R41=1"),
        lab.failure("m:W28=1 t:R41=1 t:R41=1 f:W33=0 t:R41=0 f:W28=1", 't', &[89, 97]),
    ];
    assert_eq!(first(&mut lab, &runs), "WRW 33 41 28");
}

/// A transfer is marked as pending (84) after it was started, and may be done (53) before. Every failure is that of the
/// second transfer here, so that the check of the first (74) always comes before: but what it saw was still true.
#[test]
fn a_write_that_nobody_saw_is_an_order_violation() {
    let mut lab = Lab::new(
        &[
            ('m', "main"),
            ('x', "complete_transfer"),
            ('y', "complete_transfer"),
        ],
        &[("io_pending", Shape::Signed)],
    );
    let good = "m:W84=1 m:R72=1 x:W53=0 m:R72=0 m:R74=0";
    let runs = [
        lab.success(&format!("{good} m:W84=1 m:R72=1 y:W53=0 m:R72=0 m:R74=0")),
        lab.failure(
            &format!("{good} y:W53=0 m:W84=1 m:R72=1 m:R72=1 m:R74=1"),
            'm',
            &[74, 85, 108],
        ),
        lab.success(&format!("{good} m:W84=1 y:W53=0 m:R72=0 m:R74=0")),
        lab.failure(
            &format!("{good} y:W53=0 m:W84=1 m:R72=1 m:R74=1"),
            'm',
            &[74, 85, 108],
        ),
    ];
    assert_eq!(first(&mut lab, &runs), "WW 53 84");
}

/// Rates are used (19) before their loader has published them (14): the program does not live to see the write.
#[test]
fn a_use_before_anybody_wrote_is_an_order_violation() {
    let mut lab = Lab::new(
        &[('m', "main"), ('l', "load_rates")],
        &[("this->rows_", Shape::Pointer)],
    );
    let runs = [
        lab.success("l:W14=9 m:R19=9 m:R19=9 m:R26=9 m:W32=0"),
        lab.failure("m:R19=0", 'm', &[20, 67, 77]),
        lab.success("l:W14=9 m:R19=9 m:R26=9 m:W32=0"),
        lab.failure("m:R19=0", 'm', &[20, 67, 77]),
    ];
    assert_eq!(first(&mut lab, &runs), "-R 19");
    let late = lab.failure("m:R19=0 l:W14=9", 'm', &[20, 67, 77]);
    let runs: Vec<_> = runs.into_iter().chain([late]).collect();
    assert_eq!(
        first(&mut lab, &runs),
        "-R 19",
        "the write may come while the program dies"
    );
}

/// Whoever never saw a write succeed says nothing about a write that is missing.
#[test]
fn a_read_of_what_nobody_writes_is_no_predictor() {
    let mut lab = Lab::new(&[('m', "main")], &[("limit", Shape::Signed)]);
    let runs = [lab.success("m:R9=3"), lab.failure("m:R9=3 m:R10=3", 'm', &[11])];
    let (_, ranked) = lab.rank(&runs);
    assert!(
        ranked.iter().all(|ranked| ranked.predictor.pattern().is_none()),
        "{ranked:?}"
    );
}

/// A session is closed: its buffer (26) and its fill (27) are cleared. The worker reads both (14); the null is what it
/// dies of.
#[test]
fn of_two_fields_the_one_whose_value_is_wrong_counts() {
    let mut lab = Lab::new(
        &[('s', "serve"), ('r', "reap")],
        &[("this->inbox_", Shape::Pointer), ("this->fill_", Shape::Unsigned)],
    );
    let append = |fill: u32| format!("s:R14=9 s:R14={fill}@this->fill_ s:W19={}@this->fill_ ", fill + 7);
    let close = "r:W26=0 r:W27=0@this->fill_ ";
    let runs = [
        lab.success(&format!("{}{}{close}", append(0), append(7))),
        lab.failure(
            &format!("{}{close} s:R14=0 s:R14=0@this->fill_", append(0)),
            's',
            &[16, 65],
        ),
        lab.success(&format!("{}{}{}{close}", append(0), append(7), append(14))),
        lab.failure(
            &format!("{}{}{close} s:R14=0 s:R14=0@this->fill_", append(0), append(7)),
            's',
            &[16, 65],
        ),
    ];
    let (_, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "WR 26 14");
}

/// Two threads take two locks in opposite orders.
#[test]
fn a_deadlock_is_named_as_one() {
    let mut lab = Lab::new(
        &[('w', "writer"), ('c', "checkpointer")],
        &[("db_mutex", Shape::Unknown), ("cache_mutex", Shape::Unknown)],
    );
    let write = "w:RW45=1@db_mutex w:RW47=1@cache_mutex w:W52=0@cache_mutex w:W53=0@db_mutex ";
    let check = "c:RW71=1@cache_mutex c:RW73=1@db_mutex c:W78=0@db_mutex c:W79=0@cache_mutex ";
    let stacks: [(char, &[u32]); 2] = [('c', &[73, 97]), ('w', &[47, 87])];
    let runs = [
        lab.success(&format!("{write}{check}{write}{check}")),
        lab.hang(
            &format!(
                "{write}w:RW45=1@db_mutex c:RW71=1@cache_mutex w:RW47=2@cache_mutex c:R73=1@db_mutex c:RW73=2@db_mutex"
            ),
            &stacks,
        ),
        lab.success(&format!("{check}{write}{write}{check}")),
        lab.hang(
            "c:RW71=1@cache_mutex w:RW45=1@db_mutex c:RW73=2@db_mutex w:RW47=2@cache_mutex",
            &stacks,
        ),
    ];
    assert_eq!(first(&mut lab, &runs), "deadlock 71 45 47 73");
}

/// The same where the locks were not watched: the stacks and the slice know enough.
#[test]
fn threads_that_poll_one_counter_are_in_no_deadlock() {
    let mut lab = Lab::new(&[('a', "worker"), ('b', "worker")], &[("pending", Shape::Signed)]);
    lab.function("work", &[20, 24, 26]);
    lab.slice(26, 0, None);
    lab.slice(24, 1, Some((Why::Data, 26)));
    let good = "a:R20=2 a:W24=1 b:R20=1 b:W24=0 a:R26=0 b:R26=0";
    let bad = "a:R20=2 b:R20=2 a:W24=1 b:W24=1 a:R26=1 b:R26=1";
    let stacks: [(char, &[u32]); 2] = [('a', &[26]), ('b', &[26])];
    let mut polling = || {
        let mut run = lab.hang(bad, &stacks);
        if let Some(failed) = &mut run.failed {
            failed.polls = true;
        }
        run
    };
    let failing = [polling(), polling(), polling()];
    let successful = [lab.success(good), lab.success(good), lab.success(good)];
    let runs: Vec<_> = failing.into_iter().chain(successful).collect();
    assert_eq!(first(&mut lab, &runs), "RWW 20 24 24");
}

#[test]
fn a_deadlock_is_named_by_stacks_where_nothing_was_watched() {
    let mut lab = Lab::new(&[('m', "main"), ('w', "writer"), ('c', "checkpointer")], &[]);
    lab.function("commit_transaction", &[45, 47, 52, 53]);
    lab.function("checkpoint", &[71, 73, 78, 79]);
    lab.slice(47, 0, None);
    lab.slice(73, 0, Some((Why::Data, 47)));
    lab.slice(118, 0, Some((Why::Data, 47)));
    for (line, of) in [(52, 47), (71, 47), (79, 47), (45, 73), (53, 73), (78, 73)] {
        lab.slice(line, 1, Some((Why::Data, of)));
    }
    let stacks: [(char, &[u32]); 3] = [('w', &[47, 87]), ('m', &[118]), ('c', &[73, 97])];
    let runs = [
        lab.success(""),
        lab.hang("", &stacks),
        lab.success(""),
        lab.hang("", &stacks),
    ];
    let (_, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "deadlock 71 45 47 73");
    assert_eq!(ranked[0].counts.failing, 2);
    assert_eq!(ranked[0].counts.successful, 2);
}

/// A set without words is followed: one thread, no branch that was traced.
#[test]
fn a_sequential_bug_is_told_by_its_value() {
    let mut lab = Lab::new(
        &[('m', "main")],
        &[("glob->size", Shape::Unsigned), ("set->words", Shape::Pointer)],
    );
    let url = |sets: u32, words: u32| format!("m:RW55={sets} m:R85={sets} m:R88={words}@set->words ");
    let runs = [
        lab.success(&format!("{}{}", url(1, 7), url(2, 8))),
        lab.failure(&format!("{}{}", url(1, 7), url(2, 0)), 'm', &[88, 119, 146]),
        lab.success(&url(3, 9)),
        lab.failure(&url(2, 0), 'm', &[88, 119, 146]),
    ];
    assert_eq!(first(&mut lab, &runs), "value 88 Zero Ever");
}

/// A closing brace without a scope: the branch right before the failure only says that it failed.
#[test]
fn the_branch_that_made_the_difference_comes_before_the_one_that_reports_it() {
    let mut lab = Lab::new(&[('m', "main")], &[("this->current_", Shape::Pointer)]);
    lab.slice(87, 0, None);
    lab.slice(86, 1, Some((Why::Control, 87)));
    lab.slice(85, 2, Some((Why::Data, 86)));
    lab.slice(77, 4, Some((Why::Data, 85)));
    let block = "m:B77- m:W80=5 m:R85=5 m:B86- m:W88=0 ";
    let runs = [
        lab.success(block),
        lab.failure(&format!("m:B77+ {block} m:R85=0 m:B86+"), 'm', &[87, 100, 126]),
        lab.success(&format!("{block}{block}")),
        lab.failure(
            &format!("{block} m:B77+ {block} m:R85=0 m:B86+"),
            'm',
            &[87, 100, 126],
        ),
    ];
    assert_eq!(first(&mut lab, &runs), "branch 77 Taken");
}

/// A table and its count belong together; the flush clears the one before the other.
#[test]
fn of_two_variables_that_belong_together_the_one_that_was_too_early_is_named() {
    let mut lab = Lab::new(
        &[('m', "main"), ('c', "collect"), ('s', "run_script")],
        &[("cache.table", Shape::Pointer), ("cache.filled", Shape::Unsigned)],
    );
    let fill = "m:W59=9 m:W60=6@cache.filled ";
    let hit = "s:R83=6@cache.filled s:R85=9 ";
    let runs = [
        lab.success(&format!(
            "{fill}{hit} c:R74=9 c:W75=0 c:W77=0@cache.filled s:R83=0@cache.filled"
        )),
        lab.failure(
            &format!("{fill}{hit} c:R74=9 c:W75=0 s:R83=6@cache.filled s:R85=0"),
            's',
            &[86, 102],
        ),
        lab.success(&format!("{fill}{hit}{hit} c:R74=9 c:W75=0 c:W77=0@cache.filled")),
        lab.failure(
            &format!("{fill}{hit}{hit} c:R74=9 c:W75=0 s:R83=6@cache.filled s:R85=0"),
            's',
            &[86, 102],
        ),
    ];
    assert_eq!(first(&mut lab, &runs), "WR 75 85");
}

#[test]
fn the_ranking_does_not_depend_on_the_order_of_the_runs() {
    let mut lab = Lab::new(&[('a', "worker"), ('b', "worker")], &[("n", Shape::Signed)]);
    let mut runs = vec![
        lab.success("a:R1=0 a:W2=1 b:R1=1 b:W2=2"),
        lab.failure("a:R1=0 b:R1=0 b:W2=1 a:W2=1", 'a', &[9]),
        lab.failure("b:R1=0 a:R1=0 b:W2=1 a:W2=1", 'a', &[9]),
        lab.success("b:R1=0 b:W2=1 a:R1=1 a:W2=2"),
    ];
    let (evidence, ranked) = lab.rank(&runs);
    runs.reverse();
    assert_eq!(lab.rank(&runs), (evidence, ranked));
}

/// A log is closed (33) and opened again (28), and somebody writes to it between (41): the program may be over before it is opened.
#[test]
fn who_dies_of_a_read_between_two_writes_need_not_live_to_see_the_second() {
    let mut lab = Lab::new(&[('r', "rotate"), ('a', "write")], &[("state", Shape::Signed)]);
    let whole = lab.failure("a:R41=1 r:W33=0 a:R41=0 r:W28=1", 'a', &[41]);
    let over = lab.failure("a:R41=1 r:W33=0 a:R41=0", 'a', &[41]);
    let mut runs = vec![
        lab.success("a:R41=1 r:W33=0 r:W28=1 a:R41=1"),
        lab.success("r:W33=0 r:W28=1 a:R41=1 a:R41=1"),
        whole.clone(),
        over.clone(),
        whole,
        over.clone(),
    ];
    assert_eq!(first(&mut lab, &runs), "WRW 33 41 28");
    let (evidence, ranked) = lab.rank(&runs);
    let counts = evidence.counts(&ranked[0].predictor);
    assert_eq!((counts.failing_with, counts.failing), (2, 2), "two of four tell");
    // A thread that was over by itself would have written, had it been going to.
    for run in runs.iter_mut().filter(|run| run.failed.is_some()) {
        run.threads[0].ended = true;
    }
    assert_ne!(first(&mut lab, &runs), "WRW 33 41 28");
}

/// A name is copied (28) over the pointer beside it, which was set (20) and is then followed (32). What it points to is each
/// run's own.
#[test]
fn who_wrote_what_was_read_is_a_cause_where_the_value_says_nothing() {
    let mut lab = Lab::new(&[('m', "main")], &[("e->owner", Shape::Pointer)]);
    let runs = [
        lab.success("m:W20=5 m:R32=5"),
        lab.failure("m:W20=5 m:W28=7 m:R32=7", 'm', &[32]),
        lab.success("m:W20=6 m:R32=6"),
        lab.success("m:W20=4 m:R32=4"),
        lab.failure("m:W20=4 m:W28=9 m:R32=9", 'm', &[32]),
    ];
    let read = lab.line(32);
    assert_eq!(
        first(&mut lab, &runs),
        format!("value 28 NonZeroReadBy({read:?}) Ever")
    );
}

/// What the failing statement met is part of the order that led to it, though one run came too late to show that.
#[test]
fn what_a_read_found_is_no_cause_beside_the_write_that_it_found() {
    let mut lab = Lab::new(&[('m', "main"), ('a', "worker")], &[("sink", Shape::Pointer)]);
    let mut runs = vec![lab.success("m:W1=5 a:R42=5 m:W55=0"); 5];
    runs.extend(vec![lab.failure("m:W1=5 m:W55=0 a:R42=0", 'a', &[43]); 4]);
    runs.push(lab.failure("a:R42=0", 'a', &[43]));
    assert_eq!(first(&mut lab, &runs), "WR 55 42");
}

/// Half of a change (33, 35) is seen in failing runs, and in successful ones where it does no harm. That the check (44) failed says
/// less, although it never does otherwise.
#[test]
fn that_it_failed_is_no_reason_however_badly_reasons_do() {
    let mut lab = Lab::new(
        &[('f', "pan"), ('r', "render")],
        &[("left", Shape::Unsigned), ("right", Shape::Unsigned)],
    );
    let torn = "f:W33=9 r:R41=9 r:R44=5@right f:W35=14@right";
    let whole = "f:W33=9 f:W35=14@right r:R41=9 r:R44=14@right";
    let mut runs = vec![lab.success(whole); 12];
    runs.extend(vec![lab.success(torn); 4]);
    runs.extend(vec![lab.failure("f:W33=9 r:R41=9 r:R44=5@right", 'r', &[44]); 5]);
    let (_, ranked) = lab.rank(&runs);
    assert!(
        ranked.iter().all(|ranked| !ranked.restates()),
        "{:?}",
        lab.describe(&ranked[0])
    );
}

/// A total is zero (52) while it is made anew (61), and whoever divides by it (76) dies at once.
#[test]
fn who_dies_of_the_read_itself_never_sees_the_second_write() {
    let mut lab = Lab::new(
        &[('m', "main"), ('w', "worker")],
        &[("up->total", Shape::Unsigned)],
    );
    let mut runs = vec![
        lab.success("m:W38=5 w:R76=5 m:W52=0 m:W61=4 w:R76=4"),
        lab.success("m:W38=5 m:W52=0 m:W61=4 w:R76=4 m:W52=0 m:W61=5"),
        lab.failure("m:W38=5 w:R76=5 m:W52=0 w:R76=0", 'w', &[76]),
        lab.failure("m:W38=5 m:W52=0 m:W61=4 m:W52=0 w:R76=0", 'w', &[76]),
    ];
    assert_eq!(first(&mut lab, &runs), "WRW 52 76 61");
    // Where the first write may be the last one, nothing was interrupted.
    runs.push(lab.success("m:W38=5 w:R76=5 m:W52=0"));
    assert_eq!(first(&mut lab, &runs), "WR 52 76");
}

/// A session's inbox is cleared (26) before a thread reads it (14). One failing run missed the write; the fill, which is cleared with it,
/// was zero in all failing runs that were asked about it, and they are fewer.
#[test]
fn a_value_that_fewer_runs_were_asked_about_is_no_cause_beside_a_sure_explanation() {
    let locations = [("inbox", Shape::Pointer), ("fill", Shape::Unsigned)];
    let mut lab = Lab::new(&[('r', "reap"), ('s', "serve")], &locations);
    let mut runs = vec![
        lab.failure("r:W26=0 s:R14=0", 's', &[16]),
        lab.failure("s:R11=0@fill s:R14=0", 's', &[16]),
        lab.failure("r:W26=0 s:R11=0@fill s:R14=0", 's', &[16]),
        lab.failure("r:W26=0 s:R11=0@fill s:R14=0", 's', &[16]),
    ];
    runs[0].watched.retain(|location| location.0 == 0);
    for _ in 0..6 {
        runs.push(lab.success("s:R11=7@fill s:R14=9 r:W26=0"));
    }
    assert_eq!(first(&mut lab, &runs), "WR 26 14");
}

/// Whoever draws (41) finds a left edge that was moved (33) and a right one (42) that was not. How far the other thread had come shows in
/// what it read itself (30).
#[test]
fn what_another_thread_found_is_no_cause_beside_an_explanation() {
    let locations = [("left", Shape::Signed), ("right", Shape::Signed)];
    let mut lab = Lab::new(&[('f', "finger"), ('d', "draw")], &locations);
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(lab.failure("f:R30=0 f:W33=9 d:R41=9 d:R42=5@right", 'd', &[50]));
        runs.push(lab.success("f:R30=3 f:W33=9 f:W37=12@right d:R41=9 d:R42=12@right"));
        runs.push(lab.success("d:R41=1 d:R42=5@right f:R30=3 f:W33=9 f:W37=12@right"));
    }
    runs.push(lab.success("f:R30=3 f:W33=9 d:R41=9 d:R42=5@right f:W37=12@right"));
    assert_eq!(first(&mut lab, &runs), "WRR 33 41 42");
}

/// Sessions come and go, and the one register is with the newest: that the reaper emptied a slot (26) was missed in two of the runs that
/// failed of it (14).
#[test]
fn a_write_that_was_missed_speaks_against_nobody() {
    let mut lab = Lab::new(&[('s', "serve"), ('r', "reap")], &[("slot", Shape::Pointer)]);
    let seen = "s:W12=7 r:W26=0 s:R14=0";
    let missed = "s:W12=7 s:W12=9@slot+1 s:R14=0";
    let mut runs: Vec<_> = (0..5).map(|_| lab.success("s:W12=7 s:R14=7 r:W26=0")).collect();
    runs.extend([seen, missed, seen, missed].map(|bad| lab.failure(bad, 's', &[14])));
    for run in &mut runs {
        run.late = run.watched.clone();
    }
    let (_, ranked) = lab.rank(&runs);
    assert_eq!(lab.describe(&ranked[0]), "WR 26 14");
    assert_eq!((ranked[0].counts.failing_with, ranked[0].counts.failing), (2, 2));
}

/// A scaler takes buffers from a pool (83) and gives them back (150) if there still is one; main closes it (61) too early. That it was there
/// for the last buffer was no promise for the next.
#[test]
fn what_is_checked_after_its_use_is_no_check() {
    let mut lab = Lab::new(&[('m', "main"), ('s', "scaler")], &[("pool", Shape::Pointer)]);
    let bad = "s:R83=7 s:R150=7 m:W61=0 s:R83=0";
    let runs = [
        lab.success("s:R83=7 s:R150=7 s:R83=7 s:R150=7 m:W61=0"),
        lab.success("s:R83=7 s:R150=7 s:R83=7 m:W61=0 s:R150=0"),
        lab.failure(bad, 's', &[84]),
        lab.failure(bad, 's', &[84]),
    ];
    assert_eq!(first(&mut lab, &runs), "WR 61 83");
}
