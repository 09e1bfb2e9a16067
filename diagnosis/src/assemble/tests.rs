use super::{Giving, Subject, assemble, representative};
use crate::accuracy::{Accuracy, Place, compare};
use crate::run::{AccessKind, Gap, Run, Shape, StatementId};
use crate::sketch::{Backends, Evidence as How, Failure, ProgramRef, Sketch, Source, Value, Why};
use crate::testkit::Lab;

pub(super) fn sketch(lab: &mut Lab, runs: &[Run]) -> Sketch {
    sketch_with(lab, runs, Vec::new())
}

pub(super) fn sketch_with(lab: &mut Lab, runs: &[Run], givers: Vec<Giving>) -> Sketch {
    sketch_of(lab, runs, givers, Vec::new())
}

pub(super) fn sketch_of(
    lab: &mut Lab,
    runs: &[Run],
    givers: Vec<Giving>,
    arguments: Vec<StatementId>,
) -> Sketch {
    let (evidence, ranked) = lab.rank(runs);
    assemble(Subject {
        catalogue: &lab.catalogue,
        evidence: &evidence,
        givers,
        arguments,
        tested: lab.tested.clone(),
        ranked: &ranked,
        run: representative(&lab.catalogue, &ranked, runs),
        successful: runs.iter().find(|run| run.failed.is_none()),
        bug: None,
        program: ProgramRef::default(),
        failure: Failure::default(),
        sigma: 8,
        backends: Backends::default(),
    })
}

/// `role:line`, with an access where there is one.
pub(super) fn steps(sketch: &Sketch) -> Vec<String> {
    let lane = |thread: u32| sketch.threads[thread as usize].role.clone().unwrap();
    sketch
        .steps
        .iter()
        .map(|step| {
            let access = match step.access {
                Some(AccessKind::Read) => " R",
                Some(AccessKind::Write) => " W",
                Some(AccessKind::ReadWrite) => " RW",
                None => "",
            };
            format!("{}:{}{access}", lane(step.thread), step.statement.line.unwrap())
        })
        .collect()
}

/// A queue whose lock is cleared while a consumer still needs it.
pub(super) fn queue() -> (Lab, Vec<Run>) {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "consumer"), ('b', "consumer")],
        &[("q->mut", Shape::Pointer)],
    );
    lab.function("queue_take", &[82, 91, 92]);
    lab.function("consumer", &[124, 127]);
    lab.function("main", &[165, 170]);
    lab.function("queue_init", &[51]);
    lab.function("queue_delete", &[61, 62]);
    lab.slice(82, 0, None);
    lab.slice(127, 1, Some((Why::Call, 82)));
    lab.slice(124, 1, Some((Why::Data, 82)));
    lab.slice(92, 2, Some((Why::Data, 127)));
    lab.slice(165, 2, Some((Why::Thread, 124)));
    let use_ = |thread: char| format!("{thread}:R82=5 {thread}:R91=5 ");
    let good = format!("m:W51=5 {}{}{}m:R61=5 m:W62=0", use_('a'), use_('b'), use_('a'));
    let bad = format!("m:W51=5 {}{}m:R61=5 m:W62=0 b:R82=0", use_('b'), use_('a'));
    let runs = vec![
        lab.success(&good),
        lab.failure(&bad, 'b', &[82, 127]),
        lab.failure(&bad, 'b', &[82, 127]),
    ];
    (lab, runs)
}

#[test]
fn a_sketch_shows_the_race_and_how_it_got_there() {
    let (mut lab, runs) = queue();
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(
        steps(&sketch),
        [
            "main:51 W",
            "main:165",
            "consumer:124",
            "main:62 W",
            "consumer:127",
            "consumer:82 R"
        ]
    );
    let last = sketch.steps.last().unwrap();
    assert!(last.failing && last.predictor == Some(1));
    assert_eq!(last.value, Some(Value::Text("NULL".into())));
    assert_eq!(last.evidence, How::Traced);
    assert_eq!(sketch.steps[1].evidence, How::Inferred);
    assert_eq!(sketch.steps[3].source, Source::Watchpoint);
    let numbers: Vec<u32> = sketch.steps.iter().map(|step| step.n).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    assert_eq!(sketch.predictors[0].pattern.as_deref(), Some("WR"));
    let examples = sketch.predictors[0].examples.as_ref().unwrap();
    let lines =
        |steps: &[crate::sketch::Step]| steps.iter().filter_map(|s| s.statement.line).collect::<Vec<_>>();
    assert_eq!(lines(&examples.failing), [62, 82]);
    assert_eq!(lines(&examples.successful).last(), Some(&62));
}

/// The slice finds them from the failure backwards.
#[test]
fn what_follows_from_the_code_stands_in_the_order_of_the_code() {
    let (mut lab, runs) = queue();
    lab.function("main", &[160]);
    lab.slice(160, 3, Some((Why::Thread, 124)));
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(steps(&sketch)[..3], ["main:51 W", "main:160", "main:165"]);
}

#[test]
fn a_sketch_shows_where_the_pointer_came_from_in_functions_that_it_shows() {
    let (mut lab, runs) = queue();
    lab.function("main", &[162]);
    lab.function("elsewhere", &[300]);
    let givers = [162, 300].map(|line| Giving {
        candidates: vec![lab.line(line)],
        around: Vec::new(),
    });
    let shown = steps(&sketch_with(&mut lab, &runs, givers.to_vec()));
    assert_eq!(
        shown.iter().filter(|step| *step == "main:162").count(),
        1,
        "{shown:?}"
    );
    assert!(!shown.iter().any(|step| step.ends_with(":300")), "{shown:?}");
    let place = |wanted: &str| shown.iter().position(|step| step == wanted);
    assert!(place("main:162") < place("main:165"), "{shown:?}");
}

#[test]
fn gaps_that_several_threads_have_are_told_once() {
    let (mut lab, mut runs) = queue();
    for run in &mut runs {
        let gap = |what: &str| Gap {
            thread: None,
            before: 0,
            what: what.to_owned(),
        };
        run.gaps = vec![gap("lost"), gap("unknown"), gap("lost"), gap("unknown")];
    }
    assert_eq!(sketch(&mut lab, &runs).gaps, ["lost", "unknown"]);
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let (mut lab, runs) = queue();
    let first = serde_json::to_string(&sketch(&mut lab, &runs)).unwrap();
    assert_eq!(serde_json::to_string(&sketch(&mut lab, &runs)).unwrap(), first);
}

#[test]
fn a_program_that_always_fails_gets_no_claims() {
    let (mut lab, mut runs) = queue();
    runs.retain(|run| run.failed.is_some());
    let sketch = sketch(&mut lab, &runs);
    assert!(sketch.predictors.is_empty());
    assert!(
        sketch.notes.iter().any(|note| note.contains("Every run failed")),
        "{:?}",
        sketch.notes
    );
    assert!(sketch.steps.last().unwrap().failing);
}

#[test]
fn without_a_tracked_failure_the_slice_is_shown() {
    let (mut lab, runs) = queue();
    let (_, ranked) = lab.rank(&runs);
    let evidence = crate::evidence::Evidence::new();
    let sketch = assemble(Subject {
        catalogue: &lab.catalogue,
        evidence: &evidence,
        givers: Vec::new(),
        arguments: Vec::new(),
        tested: Vec::new(),
        ranked: &ranked[..0],
        run: None,
        successful: None,
        bug: None,
        program: ProgramRef::default(),
        failure: Failure::default(),
        sigma: 3,
        backends: Backends::default(),
    });
    let lines: Vec<_> = sketch
        .steps
        .iter()
        .filter_map(|step| step.statement.line)
        .collect();
    assert_eq!(
        lines,
        [165, 92, 124, 127, 82],
        "σ is what is tracked, not what a person reads"
    );
    let named = |note: &String| note.starts_with("Static sketch");
    assert!(sketch.notes.iter().any(named), "{:?}", sketch.notes);
    assert!(sketch.steps.iter().all(|step| step.evidence == How::Inferred));
}

#[test]
fn an_uncertain_order_is_not_claimed() {
    let (mut lab, mut runs) = queue();
    for run in &mut runs {
        if run.failed.is_some() {
            let at = run.events.len() - 2;
            run.events[at].uncertain = true;
            run.events[at + 1].uncertain = true;
        }
    }
    let (evidence, ranked) = lab.rank(&runs);
    assert!(ranked.iter().all(|ranked| lab.describe(ranked) != "WR 62 82"));
    assert_eq!(evidence.runs().failing, 2);
}

/// The lost update of a log's index, as a whole: the two increments, how the writer learns of it, and nothing of the
/// loop around.
#[test]
fn the_failing_thread_learns_of_a_race_that_is_over() {
    let mut lab = Lab::new(
        &[('a', "worker"), ('b', "worker")],
        &[("access_log.used", Shape::Unsigned)],
    );
    lab.function("write_entry", &[66, 67]);
    lab.function("flush_log", &[74, 75]);
    lab.function("worker", &[93, 95]);
    lab.function("log_request", &[52, 58]);
    lab.slice(66, 0, None);
    lab.slice(67, 1, Some((Why::Data, 66)));
    lab.slice(75, 1, Some((Why::Call, 66)));
    lab.slice(74, 2, Some((Why::Control, 75)));
    lab.slice(95, 3, Some((Why::Call, 75)));
    lab.slice(58, 3, Some((Why::Data, 74)));
    let bad = "a:R52=0 b:R52=0 b:RW58=1 a:RW58=2 b:R74=2 b:R74=2";
    let runs = [
        lab.success("a:R52=0 a:RW58=1 b:R52=1 b:RW58=2 b:R74=2"),
        lab.success("b:R52=0 b:RW58=1 a:R52=1 a:RW58=2 b:R74=2"),
        lab.failure(bad, 'b', &[66, 75, 95]),
        lab.failure(bad, 'b', &[66, 75, 95]),
    ];
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(
        steps(&sketch),
        [
            "worker:52 R",
            "worker:58 RW",
            "worker:58 RW",
            "worker:95",
            "worker:74 R",
            "worker:75",
            "worker:66"
        ]
    );
    let ideal = [
        (52, true),
        (57, false),
        (58, true),
        (58, true),
        (95, false),
        (74, true),
        (75, false),
        (66, false),
    ];
    let ideal: Vec<Place> = ideal
        .into_iter()
        .map(|(line, access)| place(line, access))
        .collect();
    let ours: Vec<Place> = sketch
        .steps
        .iter()
        .map(|step| place(step.statement.line.unwrap(), step.access.is_some()))
        .collect();
    let Accuracy { relevance, ordering } = compare(&ours, &ideal);
    assert!(relevance > 0.8 && ordering == 1.0, "{relevance} {ordering}");
}

fn place(line: u32, access: bool) -> Place {
    Place {
        role: "worker".into(),
        file: "a.c".into(),
        line,
        access: access.then_some(AccessKind::Read),
    }
}

#[test]
fn a_deadlock_shows_every_thread_of_the_cycle() {
    let mut lab = Lab::new(
        &[('w', "writer"), ('c', "checkpointer")],
        &[("db_mutex", Shape::Unknown), ("cache_mutex", Shape::Unknown)],
    );
    lab.function("commit_transaction", &[45, 47, 52, 53]);
    lab.function("checkpoint", &[71, 73, 78, 79]);
    lab.function("writer", &[87]);
    lab.function("checkpointer", &[97]);
    lab.slice(73, 0, None);
    let good = "w:RW45=1 w:RW47=1@cache_mutex w:W52=0@cache_mutex w:W53=0 \
                c:RW71=1@cache_mutex c:RW73=1 c:W78=0 c:W79=0@cache_mutex";
    let bad = "w:RW45=1 c:RW71=1@cache_mutex w:RW47=2@cache_mutex c:RW73=2";
    let stacks: [(char, &[u32]); 2] = [('c', &[73, 97]), ('w', &[47, 87])];
    let runs = [lab.success(good), lab.hang(bad, &stacks), lab.hang(bad, &stacks)];
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(
        steps(&sketch),
        [
            "writer:87",
            "writer:45 RW",
            "checkpointer:97",
            "checkpointer:71 RW",
            "writer:47 RW",
            "checkpointer:73 RW"
        ]
    );
}

#[test]
fn an_uncertain_place_looks_uncertain() {
    let mut lab = Lab::new(
        &[('w', "writer"), ('c', "checkpointer")],
        &[("db", Shape::Unknown), ("cache", Shape::Unknown)],
    );
    lab.slice(73, 0, None);
    let good = "w:RW45=1 w:RW47=1@cache w:W52=0@cache w:W53=0 c:RW71=1@cache c:RW73=1 c:W78=0 c:W79=0@cache";
    let bad = "w:RW45=1? c:RW71=1@cache? w:RW47=2@cache c:RW73=2";
    let stacks: [(char, &[u32]); 2] = [('c', &[73]), ('w', &[47])];
    let runs = [lab.success(good), lab.hang(bad, &stacks)];
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(
        steps(&sketch),
        [
            "writer:45 RW",
            "checkpointer:71 RW",
            "writer:47 RW",
            "checkpointer:73 RW"
        ]
    );
    let unordered: Vec<_> = sketch.steps.iter().map(|step| step.unordered_after).collect();
    assert_eq!(
        unordered,
        [None, Some(0), None, None],
        "which lock was taken first is not known"
    );
}

/// What is read too early is read before it is written, also if the process lives to see the write.
#[test]
fn a_failing_statement_that_read_too_early_reads_before_the_write() {
    let mut lab = Lab::new(
        &[('m', "loader"), ('a', "client")],
        &[("r->routes", Shape::Pointer)],
    );
    lab.function("dispatch", &[29]);
    lab.function("loader", &[24]);
    lab.slice(29, 0, None);
    let runs = vec![
        lab.success("m:W24=5 a:R29=5"),
        lab.success("m:W24=5 a:R29=5"),
        lab.failure("a:R29=0 m:W24=5", 'a', &[29]),
        lab.failure("a:R29=0 m:W24=5", 'a', &[29]),
    ];
    let sketch = sketch(&mut lab, &runs);
    assert_eq!(sketch.predictors[0].pattern.as_deref(), Some("RW"));
    assert_eq!(steps(&sketch), ["client:29 R", "loader:24 W", "client:29"]);
    let failing: Vec<bool> = sketch.steps.iter().map(|step| step.failing).collect();
    assert_eq!(failing, [false, false, true]);
}
