//! What is kept beside the logs, and for how long.

use diagnosis::tracking::ModuleName;
use failsketch_tests::folder::Folder;
use server::access::Programs;
use server::store::model::{
    Appended, Audit, BugId, Case, Derived, HostRow, ModuleRow, NewCase, NewRun, Retention, State,
};
use server::store::objects::Objects as _;
use server::store::{Body, StoreError};

use crate::place::{
    PROGRAM, Place, build, case, entries, kept, new_case, objects, on_both, opened, run, runs, somebody,
    uploaded,
};

on_both!(
    what_knows_more_is_kept,
    steering_leaves_a_trace,
    bugs_are_listed_by_when_they_were_seen,
    logs_are_shortened_as_far_as_a_sketch_knows_them,
    old_bugs_are_forgotten,
    hosts_and_modules_are_noted,
    modules_that_no_bug_is_about_are_forgotten,
);

fn derived(widened: u32, seq: u64) -> Derived {
    Derived {
        seq,
        widened,
        sketch: format!("sketch {widened} {seq}").into(),
        summary: "{}".into(),
        course: Some("[]".into()),
        words: "queue_take".to_owned(),
    }
}

async fn what_knows_more_is_kept(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    assert_eq!(store.derived(&case).await.expect("read"), None);
    for (widened, seq, kept) in [
        (0, 5, true),
        (0, 4, false),
        (0, 5, false),
        (0, 9, true),
        (1, 2, true),
        (0, 20, false),
    ] {
        let answer = store.derive(&case, derived(widened, seq)).await.expect("written");
        assert_eq!(answer, kept, "widened {widened}, seq {seq}");
    }
    assert_eq!(store.derived(&case).await.expect("read"), Some(derived(1, 2)));
    assert!(
        !store
            .derive(&crate::place::case("none"), derived(0, 1))
            .await
            .expect("answered")
    );
    // However they race, the one that knows most is there in the end.
    let racers: Vec<_> = (1..=40_u64)
        .map(|seq| {
            let (store, case) = (store.clone(), case.clone());
            tokio::spawn(async move { store.derive(&case, derived(2, seq * 7 % 41)).await })
        })
        .collect();
    for racer in racers {
        racer.await.expect("it ends well").expect("written");
    }
    assert_eq!(store.derived(&case).await.expect("read"), Some(derived(2, 40)));
}

fn audit(bug: &str, what: &str) -> Audit {
    Audit {
        at: 1234,
        who: "ada".to_owned(),
        bug: BugId(bug.to_owned()),
        what: what.to_owned(),
    }
}

async fn steering_leaves_a_trace(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let states = [
        State::Stopped,
        State::Fixed(build(9)),
        State::Regressed(build(9)),
        State::Tracking,
    ];
    for (widen, state) in (0..).zip(&states) {
        let told = audit("b", &format!("{state:?}"));
        store
            .steer(&case.bug, state.clone(), widen, told)
            .await
            .expect("steered");
        let row = store.case(&case).await.expect("read").expect("there");
        assert_eq!(&row.state, state);
        assert_eq!(
            &store.bug(&case.bug).await.expect("read").expect("there").state,
            state
        );
    }
    let row = store.case(&case).await.expect("read").expect("there");
    assert_eq!(row.widened, 1 + 2 + 3, "each adds to those before");
    let trail = store.audit(3).await.expect("read");
    let whats: Vec<&str> = trail.iter().map(|audit| audit.what.as_str()).collect();
    let expected: Vec<String> = states[1..]
        .iter()
        .rev()
        .map(|state| format!("{state:?}"))
        .collect();
    assert_eq!(whats, expected, "the latest three, the latest first");
    // What was not done is not told of.
    let none = BugId("none".to_owned());
    let missing = store
        .steer(&none, State::Stopped, 0, audit("none", "stopped"))
        .await;
    assert!(matches!(missing, Err(StoreError::Refused(_))));
    assert_eq!(store.audit(100).await.expect("read").len(), 4);
}

async fn bugs_are_listed_by_when_they_were_seen(place: &Place) {
    let store = place.open().await;
    for (bug, program, builds) in [
        ("b1", "compress", 1..=3),
        ("b2", "other", 1..=1),
        ("b3", "compress", 2..=2),
    ] {
        for number in builds {
            let case = Case {
                bug: BugId(bug.to_owned()),
                build: build(number),
            };
            let mut new = new_case(&case, 1000 + u64::from(number));
            program.clone_into(&mut new.program);
            assert!(store.open(new).await.expect("opened"));
        }
    }
    let ids =
        |bugs: Vec<server::store::model::BugRow>| bugs.into_iter().map(|bug| bug.id.0).collect::<Vec<_>>();
    assert_eq!(ids(store.bugs(None, 10).await.expect("read")), ["b1", "b3", "b2"]);
    assert_eq!(ids(store.bugs(None, 2).await.expect("read")), ["b1", "b3"]);
    let of_program = store.bugs(Some("compress"), 10).await.expect("read");
    assert_eq!((of_program[0].first_seen, of_program[0].last_seen), (1001, 1003));
    assert_eq!((of_program[0].failures, of_program[0].hosts), (3, 1));
    assert_eq!(ids(of_program), ["b1", "b3"]);
    assert_eq!(store.bug(&BugId("none".to_owned())).await.expect("read"), None);
    let builds = |cases: Vec<server::store::model::CaseRow>| {
        cases
            .into_iter()
            .map(|row| (row.case.bug.0, row.case.build))
            .collect::<Vec<_>>()
    };
    let of_bug = store.cases_of_bug(&BugId("b1".to_owned())).await.expect("read");
    let expected = [3, 2, 1].map(|number| ("b1".to_owned(), build(number)));
    assert_eq!(builds(of_bug), expected, "the one that was active last first");
    let of_build = store.cases_of_build(PROGRAM, &build(2)).await.expect("read");
    assert_eq!(
        builds(of_build),
        [("b1".to_owned(), build(2)), ("b3".to_owned(), build(2))]
    );
    // The same build under another name has no bugs yet.
    let others = store.cases_of_build("decompress", &build(2)).await.expect("read");
    assert_eq!(builds(others), []);
}

async fn logs_are_shortened_as_far_as_a_sketch_knows_them(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let folder = Folder::new("objects");
    let objects = objects(&folder).await;
    let shared = kept(&*store, &objects, "shared", 1000).await;
    let own = kept(&*store, &objects, "own", 1000).await;
    let object = |id: &str, key: &str| NewRun {
        body: Body::Object(key.to_owned()),
        ..run(id)
    };
    let mut some = vec![object("1", &shared), object("2", &own)];
    some.extend(runs(["3", "4", "5", "6", "7", "8"]));
    some.push(object("9", &shared));
    store.append(&case, some).await.expect("stored");
    let keep = |runs_of_a_case| Retention {
        runs_of_a_case,
        seconds: 1_000_000,
    };
    let numbers = async || {
        entries(&*store, &case)
            .await
            .into_iter()
            .map(|(seq, _)| seq)
            .collect::<Vec<_>>()
    };

    assert_eq!(
        store.retire(keep(2), 2000).await.expect("done").runs,
        0,
        "no sketch knows them"
    );
    store.derive(&case, derived(0, 3)).await.expect("derived");
    let retired = store.retire(keep(2), 2000).await.expect("done");
    assert_eq!(
        (retired.runs, retired.bugs),
        (3, 0),
        "four are too many as well, but not in the sketch"
    );
    // The other one is meant by the last run, too.
    assert_eq!(store.remove_objects(&objects, 2000).await.expect("done"), 1);
    assert!(!objects.exists(&own).await.expect("asked"));
    assert!(objects.exists(&shared).await.expect("asked"));
    assert_eq!(numbers().await, [4, 5, 6, 7, 8, 9]);
    assert_eq!(
        store.case(&case).await.expect("read").expect("there").retired_seq,
        3
    );

    store.derive(&case, derived(0, 9)).await.expect("derived");
    assert_eq!(store.retire(keep(2), 2000).await.expect("done").runs, 4);
    assert_eq!(store.retire(keep(2), 2000).await.expect("done").runs, 0);
    assert_eq!(numbers().await, [8, 9]);
    assert_eq!(store.retire(keep(0), 2000).await.expect("done").runs, 2);
    assert!(numbers().await.is_empty());
    assert_eq!(store.remove_objects(&objects, 2000).await.expect("done"), 1);
    assert!(!objects.exists(&shared).await.expect("asked"));

    // What was forgotten was there all the same.
    let again = store.append(&case, runs(["1", "9", "10"])).await.expect("stored");
    assert_eq!(
        again,
        [Appended::Duplicate, Appended::Duplicate, Appended::Stored(10)]
    );
}

async fn old_bugs_are_forgotten(place: &Place) {
    let store = place.open().await;
    let (old, young) = (case("old"), case("young"));
    let folder = Folder::new("objects");
    let objects = objects(&folder).await;
    let keys = [
        kept(&*store, &objects, "old", 1000).await,
        kept(&*store, &objects, "young", 1000).await,
    ];
    for (case, at, key) in [(&old, 1000, &keys[0]), (&young, 1500, &keys[1])] {
        store.open(new_case(case, at)).await.expect("opened");
        let large = NewRun {
            body: Body::Object(key.clone()),
            ..run("large")
        };
        store.append(case, vec![run("a"), large]).await.expect("stored");
        store.derive(case, derived(0, 1)).await.expect("derived");
    }
    // Successful runs do not keep a bug; a failing one does.
    let failing = NewRun {
        failed: true,
        at: 1600,
        ..run("again")
    };
    let keep = Retention {
        runs_of_a_case: 100,
        seconds: 1000,
    };
    assert_eq!(store.retire(keep, 2000).await.expect("done").bugs, 0);
    store.append(&young, vec![failing]).await.expect("stored");
    let retired = store.retire(keep, 2550).await.expect("done");
    assert_eq!((retired.bugs, retired.runs), (1, 2));
    assert_eq!(store.remove_objects(&objects, 2550).await.expect("done"), 1);
    assert!(!objects.exists(&keys[0]).await.expect("asked"));
    assert!(objects.exists(&keys[1]).await.expect("asked"));
    assert_eq!(store.case(&old).await.expect("read"), None);
    assert_eq!(store.derived(&old).await.expect("read"), None);
    assert_eq!(store.bug(&old.bug).await.expect("read"), None);
    assert_eq!(entries(&*store, &old).await, []);
    assert_eq!(entries(&*store, &young).await.len(), 3);
    let gone = store.append(&old, runs(["b"])).await;
    assert!(matches!(gone, Err(StoreError::Refused(_))), "{gone:?}");
    // It may come again, as a new one.
    assert!(store.open(new_case(&old, 2600)).await.expect("opened"));
    assert_eq!(
        store.append(&old, runs(["a"])).await.expect("stored"),
        [Appended::Stored(1)]
    );
    assert_eq!(store.bug(&old.bug).await.expect("read").expect("there").hosts, 2);
}

async fn hosts_and_modules_are_noted(place: &Place) {
    let store = place.open().await;
    let host = |id: &str, seen, registration: &'static str| HostRow {
        id: id.to_owned(),
        registration: registration.into(),
        seen,
    };
    for row in [
        host("b", 10, "old"),
        host("B", 5, "other"),
        host("b", 20, "new"),
        host("b", 15, "late"),
    ] {
        store.host(row, &somebody()).await.expect("noted");
    }
    assert_eq!(
        store.hosts().await.expect("read"),
        [host("B", 5, "other"), host("b", 20, "new")]
    );
    store
        .retire(
            Retention {
                runs_of_a_case: 1,
                seconds: 10,
            },
            20,
        )
        .await
        .expect("done");
    assert_eq!(store.hosts().await.expect("read"), [host("b", 20, "new")]);

    let module = |number: u8| ModuleRow {
        build: build(number),
        programs: Programs::new(&["*".to_owned()]),
        path: "/usr/bin/compress".to_owned(),
        bytes: 5 << 32,
        object: format!("{number:02x}").repeat(32),
        seen: 20,
    };
    for number in 0..150 {
        uploaded(&*store, &module(number)).await;
        uploaded(&*store, &module(number)).await;
    }
    let asked: Vec<_> = (100..250).rev().chain([100]).map(build).collect();
    let known = store.modules(&asked).await.expect("read");
    assert_eq!(known, (100..150).map(module).collect::<Vec<_>>());
    assert_eq!(store.modules(&[]).await.expect("read"), []);
    // Others have another file that says it is the same build.
    let forged = ModuleRow {
        programs: Programs::new(&["web-*".to_owned(), "db".to_owned()]),
        object: "ff".repeat(32),
        ..module(100)
    };
    uploaded(&*store, &forged).await;
    let both = store.modules(&[build(100)]).await.expect("read");
    assert_eq!(both, [module(100), forged.clone()]);
    let believed = |program: &str| both.iter().filter(|row| row.programs.contain(program)).count();
    assert_eq!((believed("web-1"), believed("db"), believed("dbx")), (2, 2, 1));
    store.ping().await.expect("it answers");
}

async fn modules_that_no_bug_is_about_are_forgotten(place: &Place) {
    let store = place.open().await;
    let module = |number: u8| ModuleRow {
        build: build(number),
        programs: Programs::new(&["*".to_owned()]),
        path: "/usr/lib/libc.so.6".to_owned(),
        bytes: 1,
        object: format!("{number:02x}").repeat(32),
        seen: 1000,
    };
    for number in 1..=4 {
        uploaded(&*store, &module(number)).await;
    }
    // One of them was uploaded by two who do not believe each other.
    let other = ModuleRow {
        programs: Programs::new(&["other".to_owned()]),
        object: "ff".repeat(32),
        ..module(4)
    };
    uploaded(&*store, &other).await;
    // The first is a bug's; the second, some host was seen to have again.
    let needed = ModuleName {
        path: "/usr/lib/libc.so.6".to_owned(),
        build_id: Some(build(1)),
    };
    let new = NewCase {
        modules: serde_json::to_vec(&[needed]).expect("JSON").into(),
        ..new_case(&case("young"), 2000)
    };
    store.open(new).await.expect("opened");
    let seen = store
        .modules_seen(&[build(2), build(9)], 2000)
        .await
        .expect("noted");
    assert_eq!(
        seen,
        [ModuleRow {
            seen: 2000,
            ..module(2)
        }]
    );
    let keep = Retention {
        runs_of_a_case: 100,
        seconds: 500,
    };
    let retired = store.retire(keep, 2000).await.expect("done");
    assert_eq!((retired.modules, retired.bugs), (3, 0));
    let all: Vec<_> = (1..=4).map(build).collect();
    let left = store.modules(&all).await.expect("read");
    let left: Vec<_> = left.into_iter().map(|row| row.build).collect();
    assert_eq!(left, [build(1), build(2)]);
    // With its last bug the module goes.
    let retired = store.retire(keep, 3000).await.expect("done");
    assert_eq!((retired.modules, retired.bugs), (2, 1));
}
