//! Random appends: the log is the first occurrence of each id, in the order in which they were acknowledged.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use server::store::model::Appended;

use crate::place::{Place, entries, opened, run};

/// Few enough ids that many come twice, in one call and in different ones.
fn calls() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    prop::collection::vec((0..2_usize, prop::collection::vec(0..24_u8, 0..10)), 1..12)
}

fn holds_on(place: &Place) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let servers = runtime.block_on(async { [place.open().await, place.open().await] });
    let number = AtomicU32::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 60,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&calls(), |calls| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(async {
            let case = opened(&*servers[0], &format!("bug-{number}")).await;
            let mut expected: Vec<(u64, String)> = Vec::new();
            let mut known = HashSet::new();
            for (server, ids) in &calls {
                let ids: Vec<String> = ids.iter().map(|id| format!("run-{id}")).collect();
                let runs = ids.iter().map(run).collect();
                let answers = servers[*server].append(&case, runs).await.expect("stored");
                prop_assert_eq!(answers.len(), ids.len());
                for (answer, id) in answers.into_iter().zip(ids) {
                    let next = expected.len() as u64 + 1;
                    if known.insert(id.clone()) {
                        prop_assert_eq!(answer, Appended::Stored(next));
                        expected.push((next, id));
                    } else {
                        prop_assert_eq!(answer, Appended::Duplicate);
                    }
                }
            }
            prop_assert_eq!(entries(&*servers[1], &case).await, expected);
            Ok(())
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn holds_in_sqlite() {
    holds_on(&Place::sqlite());
}

#[test]
fn holds_in_postgres() {
    holds_on(&Place::postgres());
}
