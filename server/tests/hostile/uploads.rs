//! Who may upload does not fill the disk.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use diagnosis::record::{RunEnd, RunRecord};
use proto::v1::module::Part;
use proto::v1::run_receipt::Outcome;
use proto::v1::{Module, ModuleChunk, ReportRunsRequest, Run, RunReceipt};
use server::store;
use server::store::model::{BugId, Case, FailureSeen, NewCase, Retention};
use server::store::objects::folder::FolderObjects;
use tonic::{Code, Status};

use crate::place::{Agent, PROGRAM, Place, Server};

/// Bytes of a file that somebody uploads; counted, it is 64 KB more, and as much again for its name.
const FILE: usize = 100_000;
const COUNTED: u64 = FILE as u64 + (128 << 10);
/// What nobody is turned away for who was let in.
const NAME: u64 = 64 << 10;
const STORED: u64 = 1_000_000;
/// Files until there is no room.
const TAKEN: u64 = (STORED + NAME) / COUNTED;
const DAY: u64 = 24 * 60 * 60;

/// A file like no other. What several debug files have in common is no program, so that anything is one.
async fn upload(server: &Server, who: &Agent, number: u8) -> Result<(), Status> {
    let module = Module {
        path: "/usr/lib/debug/common".to_owned(),
        build_id: vec![number; 20].into(),
        part: Part::Supplementary.into(),
        ..Module::default()
    };
    let content = format!("{}-{number}-", who.name).repeat(FILE).into_bytes();
    let piece = ModuleChunk {
        module: Some(module),
        data: Bytes::from(content).slice(..FILE),
    };
    let sent = who.request(tokio_stream::once(piece));
    server.agents().await.upload_module(sent).await?;
    Ok(())
}

/// Uploads until that is refused; gives how many were taken, and the refusal.
async fn fill(servers: &[Server], who: &Agent) -> (u64, Status) {
    for number in 0..100 {
        let server = &servers[usize::from(number) % servers.len()];
        if let Err(status) = upload(server, who, number).await {
            return (number.into(), status);
        }
    }
    panic!("{} may upload without end", who.name);
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn what_one_credential_may_store_is_bounded(mut place: Place) {
    place.limits.stored_bytes = STORED;
    let (greedy, honest) = (Agent::new("greedy"), Agent::new("honest"));
    let servers = [
        place.server(&[&greedy, &honest]).await,
        place.server(&[&greedy, &honest]).await,
    ];
    let (taken, refused) = fill(&servers, &greedy).await;
    assert_eq!(taken, TAKEN);
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("limits.stored_bytes"), "{refused}");
    let told: u64 = servers
        .iter()
        .map(|server| server.figure(&honest, "stored_refused_total "))
        .sum();
    assert_eq!(told, 1);
    // What is there already may be sent again, and others are not concerned.
    upload(&servers[1], &greedy, 0).await.unwrap();
    upload(&servers[0], &honest, 201).await.unwrap();

    // Once it was forgotten, there is room for as much again.
    let config = place.config(&[]);
    let store = store::open(&config.store).await.unwrap();
    let objects = FolderObjects::open(&place.folder.path().join("objects"))
        .await
        .unwrap();
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100 * DAY,
    };
    let later = now() + 101 * DAY;
    let retired = store.retire(keep, later).await.unwrap();
    assert_eq!(retired.modules, taken + 1);
    let still = upload(&servers[0], &greedy, 200)
        .await
        .map_err(|status| status.code());
    assert!(still.is_ok(), "rows were given back: {still:?}");
    store.retire(keep, later).await.unwrap();
    store.remove_objects(&objects, later).await.unwrap();
    assert_eq!(fill(&servers, &greedy).await.0, TAKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_credential_may_store_is_bounded_in_sqlite() {
    what_one_credential_may_store_is_bounded(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_credential_may_store_is_bounded_in_postgres() {
    what_one_credential_may_store_is_bounded(Place::postgres()).await;
}

/// Two servers, each told of as much as there is room for.
async fn uploads_that_race_are_bounded_together(mut place: Place) {
    place.limits.stored_bytes = STORED;
    let greedy = Agent::new("greedy");
    let servers = [place.server(&[&greedy]).await, place.server(&[&greedy]).await];
    let greedy = Arc::new(greedy);
    let servers = servers.map(Arc::new);
    let uploads = (0..12_u8).map(|number| {
        let (server, who) = (servers[usize::from(number % 2)].clone(), greedy.clone());
        tokio::spawn(async move { upload(&server, &who, number).await })
    });
    let mut taken = 0;
    for upload in uploads.collect::<Vec<_>>() {
        match upload.await.unwrap() {
            Ok(()) => taken += 1,
            Err(status) => assert_eq!(status.code(), Code::FailedPrecondition, "{status}"),
        }
    }
    assert!(taken > 0 && taken * (COUNTED - NAME) <= STORED, "{taken} files");
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_race_are_bounded_together_in_sqlite() {
    uploads_that_race_are_bounded_together(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_race_are_bounded_together_in_postgres() {
    uploads_that_race_are_bounded_together(Place::postgres()).await;
}

/// A record of that many bytes, unlike others.
fn record(number: u64, bytes: usize) -> Bytes {
    let record = RunRecord {
        number,
        pid: 1,
        sigma: 1,
        end: RunEnd::Succeeded,
        elapsed_ns: 1,
        modules: Vec::new(),
        threads: Vec::new(),
        watched: Vec::new(),
        planned: 0,
        hits: Vec::new(),
        lost: 0,
        data_flow: None,
        cut_short: None,
        flow: None,
        allocations: None,
    };
    let mut text = serde_json::to_vec(&record).unwrap();
    text.resize(bytes, b' ');
    text.into()
}

async fn send(server: &Server, who: &Agent, case: &Case, id: &str, record: Bytes) -> RunReceipt {
    let request = ReportRunsRequest {
        host: format!("host-of-{}", who.name),
        runs: vec![Run {
            id: id.to_owned(),
            bug: case.bug.0.clone(),
            program: Some(crate::place::program()),
            record,
        }],
        dropped: 0,
    };
    let mut agents = server.agents().await;
    let answer = agents.report_runs(who.request(request)).await.unwrap();
    answer.into_inner().receipts[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_runs_are_counted_also_those_that_were_there_before() {
    let mut place = Place::sqlite();
    place.limits.stored_bytes = STORED;
    let (greedy, honest) = (Agent::new("greedy"), Agent::new("honest"));
    let server = place.server(&[&greedy, &honest]).await;
    let case = Case {
        bug: BugId("b".to_owned()),
        build: program::BuildId(vec![1; 20]),
    };
    let seen = FailureSeen {
        counted_for: None,
        id: "f".to_owned(),
        host: "host-of-honest".to_owned(),
        at: now(),
    };
    let new = NewCase {
        case: case.clone(),
        program: PROGRAM.to_owned(),
        signature: "SIGSEGV take:82".to_owned(),
        modules: "[]".into(),
        report: "{}".into(),
        runs: 1,
        seen,
    };
    let store = store::open(&place.config(&[]).store).await.unwrap();
    store.open(new).await.unwrap();
    // The same id again and again, each time with another record.
    let mut outcomes = Vec::new();
    for number in 0..20 {
        let receipt = send(&server, &greedy, &case, "again", record(number, FILE)).await;
        outcomes.push(receipt.outcome());
        if receipt.outcome() == Outcome::Refused {
            assert!(
                receipt.reason.contains("limits.stored_bytes"),
                "{}",
                receipt.reason
            );
            break;
        }
    }
    let room = usize::try_from(STORED / (COUNTED - (64 << 10))).unwrap();
    let mut expected = vec![Outcome::Stored];
    expected.resize(room, Outcome::Duplicate);
    expected.push(Outcome::Refused);
    assert_eq!(outcomes, expected);
    // Small ones are in the log, of which a part is kept.
    let small = send(&server, &greedy, &case, "small", record(1, 1000)).await;
    assert_eq!(small.outcome(), Outcome::Stored);
    let other = send(&server, &honest, &case, "other", record(99, FILE)).await;
    assert_eq!(other.outcome(), Outcome::Stored);
}
