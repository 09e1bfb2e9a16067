use crate::assemble::tests::{queue, sketch, sketch_of, sketch_with, steps};
use crate::assemble::{Giving, forgettable};
use crate::run::{AccessKind, Shape, What};
use crate::sketch::Why;
use crate::testkit::Lab;

/// A size that a loader left in an object (15), of which the program fails (54) in every run; registers take turns.
#[test]
fn who_left_what_the_failing_statement_read_is_shown_where_nothing_separates() {
    let mut lab = Lab::new(
        &[('m', "main")],
        &[("table->size", Shape::Unsigned), ("count", Shape::Unsigned)],
    );
    lab.function("load", &[15]);
    lab.function("plan", &[54, 53]);
    lab.slice(54, 0, None);
    lab.slice(53, 1, Some((Why::Control, 54)));
    let runs = [
        lab.failure(
            "m:W15=3@table->size+1 m:W15=0 m:R54=3@table->size+1 m:R54=0",
            'm',
            &[54],
        ),
        lab.failure("m:R53=1@count m:R54=0", 'm', &[54]),
    ];
    assert_eq!(steps(&sketch(&mut lab, &runs)), ["main:15 W", "main:54 R"]);
    let [shows, other] = runs;
    assert_eq!(forgettable(&[shows.clone(), other.clone(), other.clone()]), 1);
    assert_eq!(forgettable(&[shows.clone(), other.clone(), shows.clone()]), 0);
    assert_eq!(forgettable(&[other, shows]), 0);
}

/// A log in whose loop the failing thread goes on after the race.
#[test]
fn the_next_turn_of_a_loop_is_no_way_to_learn() {
    let mut lab = Lab::new(&[('a', "worker"), ('b', "worker")], &[("used", Shape::Unsigned)]);
    lab.function("log_request", &[52, 58]);
    lab.function("flush_log", &[66, 74]);
    lab.slice(66, 0, None);
    lab.slice(74, 1, Some((Why::Control, 66)));
    let bad = "a:R52=0 b:R52=0 b:RW58=1 a:RW58=2 b:R52=2 b:R74=2";
    let runs = [
        lab.success("a:R52=0 a:RW58=1 b:R52=1 b:RW58=2 b:R74=2"),
        lab.success("b:R52=0 b:RW58=1 a:R52=1 a:RW58=2 b:R52=2 b:R74=2"),
        lab.failure(bad, 'b', &[66]),
        lab.failure(bad, 'b', &[66]),
    ];
    let shown = steps(&sketch(&mut lab, &runs));
    assert_eq!(
        shown,
        [
            "worker:52 R",
            "worker:58 RW",
            "worker:58 RW",
            "worker:74 R",
            "worker:66"
        ]
    );
}

#[test]
fn a_run_that_shows_what_was_true_before_is_shown() {
    let (mut lab, runs) = queue();
    let mut late = runs[1].clone();
    late.events.remove(0);
    let runs = [runs[0].clone(), late, runs[2].clone()];
    assert_eq!(steps(&sketch(&mut lab, &runs))[0], "main:51 W");
}

/// Memory that was given back and handed out again, by somebody who is not watched.
#[test]
fn a_write_that_left_something_else_is_not_what_was_true_before() {
    let (mut lab, mut runs) = queue();
    for run in &mut runs {
        if let What::Access(access) = &mut run.events[0].what {
            access.value = Some(9);
        }
        let cleared = run
            .events
            .iter_mut()
            .rev()
            .find_map(|event| match &mut event.what {
                What::Access(access) if access.value == Some(0) && access.kind == AccessKind::Write => {
                    Some(access)
                }
                _ => None,
            });
        if let Some(access) = cleared {
            access.before = Some(5);
        }
    }
    let shown = steps(&sketch(&mut lab, &runs));
    assert!(!shown.contains(&"main:51 W".to_owned()), "{shown:?}");
    assert!(shown.contains(&"main:62 W".to_owned()), "{shown:?}");
}

/// What prepared a thread's argument is in the slice for the thread as well.
#[test]
fn only_what_creates_a_thread_is_its_creation() {
    let (mut lab, runs) = queue();
    lab.function("queue_init", &[53]);
    lab.slice(53, 3, Some((Why::Thread, 124)));
    let at = lab.line(53).0 as usize;
    lab.catalogue.statements[at].creates = false;
    let shown = steps(&sketch(&mut lab, &runs));
    assert!(!shown.contains(&"main:53".to_owned()), "{shown:?}");
    assert!(shown.contains(&"main:165".to_owned()), "{shown:?}");
}

/// In optimised code a thread's argument is where it was passed: nothing is left of `q = arg`.
#[test]
fn where_a_thread_takes_its_argument_is_shown_although_there_is_no_code() {
    let (mut lab, runs) = queue();
    lab.function("consumer", &[123]);
    lab.function("producer", &[140]);
    let arguments = [123, 140].map(|line| lab.line(line)).to_vec();
    let shown = steps(&sketch_of(&mut lab, &runs, Vec::new(), arguments));
    let place = |wanted: &str| shown.iter().position(|step| step == wanted);
    assert!(place("main:165") < place("consumer:123"), "{shown:?}");
    assert!(place("consumer:123") < place("consumer:127"), "{shown:?}");
    assert!(!shown.iter().any(|step| step.ends_with(":140")), "{shown:?}");
}

#[test]
fn what_made_the_value_that_a_branch_tests_is_shown() {
    let mut lab = Lab::new(&[('m', "main")], &[("glob->size", Shape::Unsigned)]);
    lab.function("next_url", &[85, 88]);
    lab.function("glob_set", &[53, 54, 57]);
    lab.slice(88, 0, None);
    lab.slice(85, 1, Some((Why::Control, 88)));
    lab.slice(53, 2, Some((Why::Data, 85)));
    lab.slice(57, 3, Some((Why::Control, 53)));
    lab.tested = vec![lab.line(54)];
    let runs = [
        lab.success("m:W53=1 m:B57+ m:R85=1"),
        lab.success("m:W53=1 m:B57+ m:R85=1"),
        lab.failure("m:W53=1 m:B57- m:R85=1", 'm', &[88]),
        lab.failure("m:W53=1 m:B57- m:R85=1", 'm', &[88]),
    ];
    let shown = steps(&sketch(&mut lab, &runs));
    let place = |wanted: &str| shown.iter().position(|step| step == wanted);
    assert!(
        place("main:54").is_some() && place("main:54") < place("main:57"),
        "{shown:?}"
    );
}

/// Two workers race for what main made before.
#[test]
fn where_somebody_got_a_pointer_who_only_prepared_things_is_not_shown() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "worker"), ('b', "worker")],
        &[("obj->refcount", Shape::Signed)],
    );
    lab.function("main", &[102, 105]);
    lab.function("worker", &[70, 71, 72]);
    lab.slice(72, 0, None);
    let bad = "m:RW105=2 a:RW70=1 b:RW70=0 a:R71=0 b:R71=0";
    let runs = [
        lab.success("m:RW105=2 a:RW70=1 a:R71=1 b:RW70=0 b:R71=0"),
        lab.success("m:RW105=2 b:RW70=1 b:R71=1 a:RW70=0 a:R71=0"),
        lab.failure(bad, 'b', &[72]),
        lab.failure(bad, 'b', &[72]),
    ];
    let givers = [102, 69].map(|line| Giving {
        candidates: vec![lab.line(line)],
        around: Vec::new(),
    });
    lab.function("worker", &[69]);
    let shown = steps(&sketch_with(&mut lab, &runs, givers.to_vec()));
    assert!(shown.contains(&"main:105 RW".to_owned()), "{shown:?}");
    assert!(shown.contains(&"worker:69".to_owned()), "{shown:?}");
    assert!(!shown.contains(&"main:102".to_owned()), "{shown:?}");
}

#[test]
fn the_creation_of_a_thread_that_came_too_late_is_shown() {
    let mut lab = Lab::new(&[('m', "main"), ('a', "loader")], &[("rows", Shape::Pointer)]);
    lab.function("convert", &[19]);
    lab.function("main", &[75, 77]);
    lab.function("loader", &[14]);
    lab.slice(19, 0, None);
    lab.slice(77, 1, Some((Why::Call, 19)));
    lab.slice(14, 2, Some((Why::Data, 19)));
    lab.slice(75, 3, Some((Why::Thread, 14)));
    let runs = [
        lab.success("a:W14=5 m:R19=5"),
        lab.success("a:W14=5 m:R19=5"),
        lab.failure("m:R19=0", 'm', &[19, 77]),
        lab.failure("m:R19=0", 'm', &[19, 77]),
    ];
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(sketch.predictors[0].pattern.as_deref(), Some("-R"));
    assert_eq!(steps(&sketch), ["main:75", "main:77", "main:19 R"]);
}

/// The thread's own way to a creation is no part of the story, whether control flow showed the creation or not.
#[test]
fn the_call_that_led_to_a_creation_is_left_out() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "event_loop")],
        &[("limit", Shape::Pointer)],
    );
    lab.function("event_loop", &[88]);
    lab.function("session_init", &[105, 107]);
    lab.function("main", &[125]);
    lab.slice(88, 0, None);
    lab.slice(105, 1, Some((Why::Thread, 88)));
    lab.slice(125, 2, Some((Why::Call, 105)));
    for seen in ["", "m:X105 "] {
        let bad = format!("{seen}a:R88=0");
        let runs = [
            lab.success("m:W107=5 a:R88=5"),
            lab.success("m:W107=5 a:R88=5"),
            lab.failure(&bad, 'a', &[88]),
            lab.failure(&bad, 'a', &[88]),
        ];
        assert_eq!(
            steps(&sketch(&mut lab, &runs)),
            ["main:105", "event_loop:88 R"],
            "{seen:?}"
        );
    }
}

#[test]
fn of_inlined_calls_the_outermost_in_a_function_with_steps_gave_the_pointer() {
    let (mut lab, runs) = queue();
    lab.function("queue_init", &[49]);
    lab.function("main", &[162]);
    lab.function("elsewhere", &[300]);
    let candidates = [49, 162, 300].map(|line| lab.line(line)).to_vec();
    let inside = Giving {
        candidates: candidates[..1].to_vec(),
        around: candidates[1..].to_vec(),
    };
    let outside = Giving {
        candidates,
        around: Vec::new(),
    };
    let shown = steps(&sketch_with(&mut lab, &runs, vec![inside, outside]));
    assert!(shown.contains(&"main:162".to_owned()), "{shown:?}");
    assert!(!shown.contains(&"main:49".to_owned()), "{shown:?}");
    assert!(!shown.contains(&"main:300".to_owned()), "{shown:?}");
}

/// `let idle = stage.load() == IDLE; if idle { … }`: what the read returned says which way it went.
#[test]
fn the_test_of_a_racing_read_adds_nothing_to_it() {
    let mut lab = Lab::new(&[('m', "monitor"), ('s', "serve")], &[("stage", Shape::Signed)]);
    lab.slice(66, 0, None);
    lab.slice(65, 1, Some((Why::Data, 66)));
    lab.slice(60, 1, Some((Why::Control, 66)));
    lab.slice(59, 2, Some((Why::Data, 60)));
    let runs = [
        lab.success("s:W37=3 m:R59=3 m:B60- m:R65=3 s:W41=9"),
        lab.success("s:W37=3 s:W41=9 m:R59=9 m:B60+"),
        lab.failure("s:W37=3 m:R59=3 m:B60- s:W41=9 m:R65=9", 'm', &[66]),
        lab.failure("s:W37=3 m:R59=3 m:B60- s:W41=9 m:R65=9", 'm', &[66]),
    ];
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(sketch.predictors[0].pattern.as_deref(), Some("RWR"));
    let shown = [
        "serve:37 W",
        "monitor:59 R",
        "serve:41 W",
        "monitor:65 R",
        "monitor:66",
    ];
    assert_eq!(steps(&sketch), shown);
}

/// A client looks at an entry twice (57, 62) that is emptied in between (75); main had filled it (49) before there were others.
#[test]
fn what_others_left_before_a_check_is_where_everything_starts() {
    let mut lab = Lab::new(
        &[('m', "main"), ('c', "client"), ('s', "sweeper")],
        &[("e->data", Shape::Pointer)],
    );
    lab.function("client", &[57, 62]);
    lab.function("sweeper", &[75]);
    lab.function("main", &[49]);
    lab.slice(62, 0, None);
    let bad = "m:W49=7 c:R57=7 s:W75=0 c:R62=0";
    let runs = [
        lab.success("m:W49=7 c:R57=7 c:R62=7 s:W75=0"),
        lab.success("m:W49=7 s:W75=0 c:R57=0"),
        lab.failure(bad, 'c', &[62]),
        lab.failure(bad, 'c', &[62]),
    ];
    let shown = steps(&sketch(&mut lab, &runs));
    assert_eq!(shown, ["client:57 R", "sweeper:75 W", "client:62 R"]);
}

/// A runner starts a job (116) for whose status it asks (118), sets its state (124) after the job has (110), and goes on to start
/// others.
#[test]
fn a_thread_is_created_before_its_steps_whoever_is_created_after_them() {
    let mut lab = Lab::new(&[('m', "main"), ('j', "run_job")], &[("j->state", Shape::Signed)]);
    lab.function("job_start", &[116, 118, 124]);
    lab.function("run_job", &[106, 108, 110]);
    lab.function("collect", &[136]);
    lab.slice(136, 0, None);
    lab.slice(124, 1, Some((Why::Data, 136)));
    lab.slice(118, 2, Some((Why::Control, 124)));
    lab.slice(116, 3, Some((Why::Data, 118)));
    let creation = lab.line(116).0 as usize;
    lab.catalogue.statements[creation].creates = true;
    let bad = "m:X116 j:W110=2 m:W124=1 m:X116 m:R136=1";
    let runs = [
        lab.success("m:X116 m:W124=1 j:W110=2 m:X116 m:R136=2"),
        lab.success("m:X116 m:W124=1 j:W110=2 m:X116 m:R136=2"),
        lab.failure(bad, 'm', &[136]),
        lab.failure(bad, 'm', &[136]),
    ];
    let shown = steps(&sketch(&mut lab, &runs));
    assert_eq!(shown, ["main:116", "run_job:110 W", "main:124 W", "main:136 R"]);
}
