//! What pages show, without reading logs.

use server::store::model::{Audit, BugId, Case, Derived, HostRow, NewRun, State};

use crate::place::{Place, build, case, new_case, on_both, opened, run, seen, somebody};

on_both!(
    bugs_come_with_how_their_search_stands,
    failures_are_counted_by_the_hour,
    runs_and_hosts_are_found_by_their_names,
    every_bug_has_its_own_audit,
);

fn derived(seq: u64, words: &str) -> Derived {
    Derived {
        seq,
        widened: 0,
        sketch: "{}".into(),
        summary: format!("{{\"runs\":{seq}}}").into(),
        course: None,
        words: words.to_owned(),
    }
}

async fn bugs_come_with_how_their_search_stands(place: &Place) {
    let store = place.open().await;
    let one = opened(&*store, "one").await;
    let mut other = new_case(&case("other"), 5000);
    other.program = "Server_1".to_owned();
    store.open(other).await.expect("opened");
    let later = Case {
        build: build(2),
        ..one.clone()
    };
    store.open(new_case(&later, 9000)).await.expect("opened");
    store
        .derive(&one, derived(3, "old build"))
        .await
        .expect("derived");
    store
        .derive(&later, derived(1, "consumer read `q->mut` after main"))
        .await
        .expect("derived");

    let all = store.overview(&[], 10).await.expect("read");
    let ids: Vec<&str> = all.iter().map(|bug| bug.id.0.as_str()).collect();
    assert_eq!(ids, ["one", "other"], "the last seen first");
    let bug = &all[0];
    assert_eq!((bug.builds, &bug.build, bug.failures), (2, &build(2), 2));
    assert_eq!((bug.first_seen, bug.last_seen), (1000, 9000));
    assert_eq!((bug.seq, bug.summary.as_deref()), (1, Some(&b"{\"runs\":1}"[..])));
    assert_eq!((all[1].seq, &all[1].summary), (0, &None));
    assert_eq!(
        store.overview_of(&bug.id).await.expect("read").as_ref(),
        Some(bug)
    );
    assert_eq!(
        store.overview_of(&BugId("none".to_owned())).await.expect("read"),
        None
    );

    let found = async |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let found = store.overview(&words, 10).await.expect("read");
        found.into_iter().map(|bug| bug.id.0).collect::<Vec<_>>()
    };
    assert_eq!(found(&["Q->MUT", "main"]).await, ["one"]);
    assert_eq!(found(&["old"]).await, [""; 0], "that is of another build");
    assert_eq!(found(&["server_1"]).await, ["other"]);
    assert_eq!(found(&["server%1"]).await, [""; 0]);
    assert_eq!(found(&["sigsegv", "queue_take"]).await, ["one", "other"]);
    assert_eq!(
        found(&["sigsegv", "queue_take", "server", "other"]).await,
        ["other"]
    );
}

async fn failures_are_counted_by_the_hour(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let failed = |id: &str, at| NewRun {
        failed: true,
        at,
        ..run(id)
    };
    for _ in 0..2 {
        // What is sent again is not counted again.
        store.failed(&case, seen("f", 3599)).await.expect("counted");
        let runs = vec![
            failed("r1", 3600),
            failed("r2", 7300),
            failed("r3", 7200),
            run("r4"),
        ];
        store.append(&case, runs).await.expect("stored");
    }
    let hours = async |from| {
        let bugs = [case.bug.clone(), BugId("none".to_owned())];
        let hours = store.trend(&bugs, from).await.expect("read");
        hours
            .into_iter()
            .map(|hour| (hour.hour, hour.failures))
            .collect::<Vec<_>>()
    };
    assert_eq!(hours(0).await, [(0, 2), (1, 1), (2, 2)]);
    assert_eq!(hours(2).await, [(2, 2)]);
    assert_eq!(
        store
            .reporters(std::slice::from_ref(&case.bug))
            .await
            .expect("read"),
        [(case.bug.clone(), 2)]
    );
    let bug = store.overview_of(&case.bug).await.expect("read").expect("there");
    assert_eq!(bug.failures, 5);
}

async fn runs_and_hosts_are_found_by_their_names(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let runs: Vec<NewRun> = (1..=100).map(|number| run(format!("r{number}"))).collect();
    store.append(&case, runs).await.expect("stored");
    let found = store.runs_numbered(&case, &[100, 7, 999]).await.expect("read");
    let found: Vec<_> = found
        .iter()
        .map(|run| (run.seq, run.id.as_str(), run.is_kept))
        .collect();
    assert_eq!(found, [(100, "r100", true), (7, "r7", true)]);
    assert_eq!(store.runs_numbered(&case, &[]).await.expect("read"), []);
    let host = HostRow {
        id: "h1".to_owned(),
        registration: "said".into(),
        seen: 5,
    };
    store.host(host.clone(), &somebody()).await.expect("noted");
    let ids = ["h1".to_owned(), "h2".to_owned()];
    assert_eq!(store.hosts_named(&ids).await.expect("read"), [host]);
}

async fn every_bug_has_its_own_audit(place: &Place) {
    let store = place.open().await;
    for bug in ["a", "b"] {
        let case = opened(&*store, bug).await;
        for what in ["stopped", "resumed"] {
            let audit = Audit {
                at: 7,
                who: "ada".to_owned(),
                bug: case.bug.clone(),
                what: format!("{what} {bug}"),
            };
            store
                .steer(&case.bug, State::Stopped, 0, audit)
                .await
                .expect("steered");
        }
    }
    let audit = store.audit_of(&BugId("a".to_owned()), 5).await.expect("read");
    let whats: Vec<&str> = audit.iter().map(|audit| audit.what.as_str()).collect();
    assert_eq!(whats, ["resumed a", "stopped a"]);
    assert_eq!(
        store
            .audit_of(&BugId("a".to_owned()), 1)
            .await
            .expect("read")
            .len(),
        1
    );
}
