//! What was acknowledged is there after SIGKILL.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use failsketch_tests::postgres::Postgres;
use server::store::model::{Case, NewRun};
use server::store::{Body, Store, StoreError};
use sqlx::{AnyConnection, Connection as _};

use crate::place::{Place, case, entries, opened, run};

/// Says to [`appends_until_killed`] where.
const STORE: &str = "FAILSKETCH_TEST_STORE";
const ACKNOWLEDGED: &str = "acknowledged ";

fn large(id: String) -> NewRun {
    NewRun {
        body: Body::Inline(id.repeat(1 + 20_000 / id.len()).into()),
        ..run(id)
    }
}

/// Not a test but a program that one starts: tells each id once it is stored.
#[tokio::test]
async fn appends_until_killed() {
    let Ok(url) = std::env::var(STORE) else { return };
    let store = server::store::open(&url).await.expect("the store opens");
    for number in 0.. {
        let ids = [0, 1].map(|part| format!("{}-{number}-{part}", std::process::id()));
        let some = ids.clone().map(large).to_vec();
        store.append(&case("b"), some).await.expect("runs are stored");
        let mut out = std::io::stdout().lock();
        for id in ids {
            writeln!(out, "{ACKNOWLEDGED}{id}").expect("somebody listens");
        }
    }
}

#[tokio::test]
async fn sqlite_keeps_what_it_acknowledged_when_its_server_is_killed() {
    let place = Place::sqlite();
    let case = opened(&*place.open().await, "b").await;
    let mut acknowledged = Vec::new();
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().expect("a test knows its path"))
            .args(["--exact", "crashes::appends_until_killed", "--nocapture"])
            .env(STORE, place.url())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let ids = |line: std::io::Result<String>| line.ok()?.strip_prefix(ACKNOWLEDGED).map(str::to_owned);
        // Killed at another moment each time, in the middle of whatever it does then.
        acknowledged.extend(lines.by_ref().filter_map(ids).take(round * 61));
        std::thread::sleep(Duration::from_micros(137 * round as u64));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        acknowledged.extend(lines.filter_map(ids));
        let store = place.open().await;
        let log = entries(&*store, &case).await;
        check(&log, &acknowledged);
    }
    assert!(acknowledged.len() > 900);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_keeps_what_it_acknowledged_when_it_is_killed() {
    const WRITERS: usize = 8;
    const KILLS: usize = 3;
    let mut postgres = Postgres::start();
    let store = server::store::open(&postgres.url())
        .await
        .expect("the store opens");
    let case = opened(&*store, "b").await;
    let stored = Arc::new(AtomicUsize::new(0));
    let enough = Arc::new(AtomicUsize::new(usize::MAX));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, case) = (store.clone(), case.clone());
            let (stored, enough) = (stored.clone(), enough.clone());
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                let mut refusals = 0;
                while stored.load(Ordering::SeqCst) < enough.load(Ordering::SeqCst) {
                    let id = format!("{writer}-{}", acknowledged.len());
                    refusals += append_until_stored(&*store, &case, large(id.clone())).await;
                    acknowledged.push(id);
                    stored.fetch_add(1, Ordering::SeqCst);
                }
                (acknowledged, refusals)
            })
        })
        .collect();
    for _ in 0..KILLS {
        let before = stored.load(Ordering::SeqCst);
        while stored.load(Ordering::SeqCst) < before + 300 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        postgres.kill();
        postgres.start_again();
    }
    enough.store(stored.load(Ordering::SeqCst) + 100, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    let mut refusals = 0;
    for writer in writers {
        let (ids, refused) = writer.await.expect("a writer ends well");
        acknowledged.extend(ids);
        refusals += refused;
    }
    assert!(refusals > 0, "nobody noticed that the database was killed");
    let log = entries(&*store, &case).await;
    check(&log, &acknowledged);
    assert_eq!(
        log.len(),
        acknowledged.len(),
        "everything that was sent was acknowledged in the end"
    );
}

/// Whoever asks after the database was started again need not notice that it was.
#[tokio::test]
async fn connections_to_a_postgres_that_was_killed_are_made_anew() {
    let mut postgres = Postgres::start();
    let store = server::store::open(&postgres.url())
        .await
        .expect("the store opens");
    let case = opened(&*store, "b").await;
    store.append(&case, vec![run("a")]).await.expect("stored");
    postgres.kill();
    let away = store.append(&case, vec![run("b")]).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    postgres.start_again();
    store.append(&case, vec![run("b")]).await.expect("stored");
    postgres.kill();
    postgres.start_again();
    store
        .append(&case, vec![run("c")])
        .await
        .expect("stored at once, over a new connection");
    assert_eq!(entries(&*store, &case).await.len(), 3);
    store.ping().await.expect("it answers");
}

/// Another program has the file: that is no reason to wait for ever, and no reason to give up for good.
#[tokio::test]
async fn a_busy_sqlite_is_told_to_be_tried_again() {
    let place = Place::sqlite();
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    let mut other = AnyConnection::connect(&place.url()).await.expect("connects");
    let transaction = other
        .begin_with("BEGIN IMMEDIATE")
        .await
        .expect("it has the file");
    let busy = store.append(&case, vec![run("a")]).await;
    assert!(
        matches!(&busy, Err(StoreError::Unavailable(why)) if why.contains("locked")),
        "{busy:?}"
    );
    transaction.rollback().await.expect("it lets go");
    store.append(&case, vec![run("a")]).await.expect("stored");
}

/// How often it had to be sent again.
async fn append_until_stored(store: &dyn Store, case: &Case, run: NewRun) -> u32 {
    for refusals in 0.. {
        match store.append(case, vec![run.clone()]).await {
            Ok(_) => return refusals,
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("one sends again for ever")
}

/// Everything that was acknowledged is in the log, and everything in it is there once, without a gap.
fn check(log: &[(u64, String)], acknowledged: &[String]) {
    let ids: HashSet<&String> = log.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), log.len(), "an id is in the log twice");
    assert!(log.iter().map(|(seq, _)| *seq).eq(1..=log.len() as u64));
    let lost: Vec<_> = acknowledged.iter().filter(|id| !ids.contains(id)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}
