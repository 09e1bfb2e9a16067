//! Logs: each run once, in an order that holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use server::store::model::{Appended, Case, FailureSeen, NewCase, NewRun};
use server::store::{Body, Store, StoreError};

use crate::place::{Place, case, entries, log, new_case, on_both, opened, run, runs, seen, stored};

on_both!(
    a_run_is_stored_once,
    what_is_stored_comes_back,
    nothing_appears_behind_a_reader,
    calls_for_many_cases_do_not_get_mixed_up,
    one_bad_run_does_not_keep_others_out,
    failing_runs_count_as_failures,
    a_failing_run_counts_for_the_bug_that_it_was_of,
);

async fn a_run_is_stored_once(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let first = store
        .append(&case, runs(["a", "b", "a"]))
        .await
        .expect("runs are stored");
    assert_eq!(
        first,
        [Appended::Stored(1), Appended::Stored(2), Appended::Duplicate]
    );
    let second = store
        .append(&case, runs(["b", "c", "a", "d"]))
        .await
        .expect("runs are stored");
    let [duplicate, three, again, four] = second[..] else {
        panic!("four answers, not {second:?}")
    };
    assert_eq!((duplicate, again), (Appended::Duplicate, Appended::Duplicate));
    assert_eq!(
        (three, four),
        (Appended::Stored(3), Appended::Stored(4)),
        "numbers have no gaps"
    );
    // The same ids are other runs in another case, and in another server's eyes the same.
    let other = opened(&*store, "other").await;
    assert_eq!(
        store.append(&other, runs(["a"])).await.expect("stored"),
        [Appended::Stored(1)]
    );
    let beside = place.open().await;
    assert_eq!(
        beside.append(&case, runs(["d"])).await.expect("stored"),
        [Appended::Duplicate]
    );
    let expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d")].map(|(seq, id)| (seq, id.to_owned()));
    assert_eq!(entries(&*beside, &case).await, expected);
    assert_eq!(
        store.append(&case, Vec::new()).await.expect("nothing is fine"),
        []
    );
}

async fn what_is_stored_comes_back(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let all: Vec<u8> = (0..=255).cycle().take(60_000).collect();
    let key = "ab".repeat(32);
    store
        .object(crate::place::object(&key, 1), &crate::place::somebody())
        .await
        .expect("noted");
    let bodies = [
        Body::Inline(all.into()),
        Body::Inline("".into()),
        Body::Object(key),
    ];
    // 131 runs are more than one statement takes.
    let some: Vec<NewRun> = (0..131_usize)
        .map(|number| NewRun {
            id: format!("ä-{number}"),
            host: format!("host-{}", number % 7),
            at: number as u64,
            failed: false,
            body: bodies[number % 3].clone(),
        })
        .collect();
    let answers = store.append(&case, some.clone()).await.expect("runs are stored");
    assert_eq!(stored(&answers), (1..=131).collect::<Vec<u64>>());
    let log = log(&*store, &case).await;
    assert_eq!(log.len(), some.len());
    for (entry, run) in log.iter().zip(&some) {
        assert_eq!((&entry.id, &entry.host, entry.at), (&run.id, &run.host, run.at));
        assert_eq!(entry.body, run.body);
    }
    let bug = store
        .bug(&case.bug)
        .await
        .expect("bugs can be read")
        .expect("it is there");
    assert_eq!(
        bug.hosts, 7,
        "host-1 to host-6 and host-0; host-1 reported the failure as well"
    );
    assert_eq!((bug.runs, bug.failures), (131, 1));
}

/// Two servers with eight writers each, while a reader follows the log.
async fn nothing_appears_behind_a_reader(place: &Place) {
    const CALLS: usize = 25;
    let servers = [place.open().await, place.open().await];
    let case = opened(&*servers[0], "b").await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(follow(place.open().await, case.clone(), done.clone()));
    let writers = (0..16_usize).map(|writer| {
        let (store, case) = (servers[writer % 2].clone(), case.clone());
        tokio::spawn(async move {
            for call in 0..CALLS {
                // The second run is one that the writer of the other server sends too.
                let ids = [
                    format!("{writer}-{call}"),
                    format!("shared-{}-{call}", writer / 2),
                ];
                let answers = store.append(&case, ids.map(run).to_vec()).await;
                assert_eq!(answers.expect("runs are stored").len(), 2);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer ends well");
    }
    done.store(true, Ordering::SeqCst);
    let followed = reader.await.expect("the reader ends well");
    assert_eq!(
        followed,
        entries(&*servers[0], &case).await,
        "who follows a log sees all of it"
    );
    assert_eq!(followed.len(), 16 * CALLS + 8 * CALLS);
    assert!(followed.iter().map(|(seq, _)| *seq).eq(1..=followed.len() as u64));
}

async fn follow(store: Arc<dyn Store>, case: Case, done: Arc<AtomicBool>) -> Vec<(u64, String)> {
    let mut followed: Vec<(u64, String)> = Vec::new();
    loop {
        let last_look = done.load(Ordering::SeqCst);
        let last = followed.last().map_or(0, |(seq, _)| *seq);
        let more = store
            .runs_after(&case, last, 7)
            .await
            .expect("the log can be read");
        if more.is_empty() && last_look {
            return followed;
        }
        followed.extend(more.into_iter().map(|run| (run.seq, run.id)));
    }
}

async fn calls_for_many_cases_do_not_get_mixed_up(place: &Place) {
    let store = place.open().await;
    let mut calls = Vec::new();
    for bug in 0..6 {
        let case = opened(&*store, &format!("bug-{bug}")).await;
        for part in 0..20 {
            let (store, case) = (store.clone(), case.clone());
            calls.push(tokio::spawn(async move {
                let ids = [format!("{bug}-{part}-x"), format!("{bug}-{part}-y")];
                let answers = store.append(&case, ids.clone().map(run).to_vec()).await;
                (case, stored(&answers.expect("runs are stored")), ids)
            }));
        }
    }
    let mut answered = Vec::new();
    for call in calls {
        answered.push(call.await.expect("a call ends well"));
    }
    for (case, numbers, ids) in answered {
        let log = entries(&*store, &case).await;
        let told: Vec<(u64, String)> = numbers.into_iter().zip(ids).collect();
        assert_eq!(told.len(), 2);
        assert!(
            told.iter().all(|entry| log.contains(entry)),
            "{told:?} is what was answered"
        );
        assert_eq!(log.len(), 40);
    }
}

async fn one_bad_run_does_not_keep_others_out(place: &Place) {
    let store = place.open().await;
    let good = opened(&*store, "good").await;
    let mut calls = Vec::new();
    for number in 0..40 {
        let (store, good) = (store.clone(), good.clone());
        calls.push(tokio::spawn(async move {
            match number % 4 {
                // PostgreSQL has no text with a NUL; SQLite has, which is as good.
                0 => drop(store.append(&good, vec![run(format!("bad\0{number}"))]).await),
                1 => {
                    let error = store.append(&case("none"), runs(["a"])).await;
                    assert!(matches!(error, Err(StoreError::Refused(_))), "{error:?}");
                }
                _ => {
                    let answers = store.append(&good, vec![run(format!("good-{number}"))]).await;
                    assert_eq!(stored(&answers.expect("a good run is stored")).len(), 1);
                }
            }
        }));
    }
    for call in calls {
        call.await.expect("a call ends well");
    }
    let log = entries(&*store, &good).await;
    assert_eq!(log.iter().filter(|(_, id)| id.starts_with("good")).count(), 20);
    assert!(log.iter().map(|(seq, _)| *seq).eq(1..=log.len() as u64));
}

async fn failing_runs_count_as_failures(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    assert!(
        !store
            .open(new_case(&case, 1000))
            .await
            .expect("it can be told again")
    );
    assert!(
        store
            .failed(&case, seen("late", 900))
            .await
            .expect("failures are counted")
    );
    assert!(
        !store
            .failed(&case, seen("late", 900))
            .await
            .expect("failures are counted")
    );
    let failing = |id: &str| NewRun {
        failed: true,
        at: 2000,
        ..run(id)
    };
    for _ in 0..2 {
        let some = vec![failing("x"), run("y"), failing("z")];
        store.append(&case, some).await.expect("runs are stored");
    }
    let row = store
        .case(&case)
        .await
        .expect("cases can be read")
        .expect("it is there");
    assert_eq!(row.failures, 4, "opening, late, x and z, each once");
    assert_eq!((row.first_seen, row.last_seen, row.last_seq), (900, 2000, 3));
    let missing = store.failed(&crate::place::case("none"), seen("x", 1)).await;
    assert!(matches!(missing, Err(StoreError::Refused(_))));
}

async fn a_failing_run_counts_for_the_bug_that_it_was_of(place: &Place) {
    const DAY: u64 = 86_400;
    let store = place.open().await;
    let [tracked, other] = ["b", "other"].map(case);
    assert!(store.open(new_case(&tracked, 1000)).await.expect("opened"));
    let failing = |id: &str, at: u64| NewRun {
        failed: true,
        at,
        ..run(id)
    };
    let runs = vec![
        failing("own", DAY),
        failing("x", 3 * DAY),
        failing("y", 3 * DAY + 1),
    ];
    store.append(&tracked, runs).await.expect("runs are stored");
    let of_another = |id: &str, at| FailureSeen {
        counted_for: Some(tracked.clone()),
        ..seen(id, at)
    };
    for _ in 0..2 {
        let new = NewCase {
            seen: of_another("x", 3 * DAY),
            ..new_case(&other, 3 * DAY)
        };
        store.open(new).await.expect("opened");
        let found = store.failed(&other, of_another("y", 3 * DAY + 1)).await;
        found.expect("failures are counted");
    }
    let row = async |case: &Case| store.case(case).await.expect("read").expect("there");
    assert_eq!(row(&other).await.failures, 2, "x and y, each once");
    let tracked_row = row(&tracked).await;
    assert_eq!(tracked_row.failures, 2, "opening and its own");
    let known_to_the_hour = DAY..DAY + 3600;
    assert!(
        known_to_the_hour.contains(&tracked_row.last_seen),
        "{tracked_row:?}"
    );
    let hours = store.trend(std::slice::from_ref(&tracked.bug), 0).await;
    let hours: Vec<_> = hours.expect("read").iter().map(|hour| hour.hour).collect();
    assert_eq!(hours, [0, 24]);
}
