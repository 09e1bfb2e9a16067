//! From the disk to the server, whatever happens to either.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::courier::Courier;
use agent::link::{Access, Backoff, Link};
use agent::spool::{Item, Spool};
use proto::v1::{Module, ReportFailureRequest, Run};
use tokio::runtime::Runtime;
use tonic::Status;

use crate::link::own_module;
use crate::server::TestServer;

fn run(id: usize, bug: &str) -> Item {
    Item::Run(Run {
        id: format!("run-{id}"),
        bug: bug.to_owned(),
        record: vec![b'x'; 100].into(),
        ..Run::default()
    })
}

/// An agent's sending part that runs until it is dropped.
struct Sending {
    spool: Arc<Spool>,
    _runtime: Runtime,
}

impl Sending {
    fn start(folder: &Path, server: &TestServer) -> Self {
        let runtime = Runtime::new().unwrap();
        let spool = Arc::new(Spool::open(folder, 1 << 30).unwrap());
        let courier = runtime.block_on(async {
            let access = Access {
                server: server.url(),
                ..Access::default()
            };
            Courier {
                link: Link::new(&access).unwrap(),
                spool: Arc::clone(&spool),
                host: "host-1".to_owned(),
                backoff: Backoff::from(Duration::from_millis(20)),
            }
        });
        runtime.spawn(courier.serve());
        Self {
            spool,
            _runtime: runtime,
        }
    }

    fn until_empty(&self) {
        let start = std::time::Instant::now();
        while !self.spool.is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "never sent");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn every_run_arrives_once_though_answers_are_lost_and_the_server_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start();
    server.memory.lock().lose_answers = 3;
    let sending = Sending::start(folder.path(), &server);
    for id in 0..300 {
        sending.spool.push(&run(id, "bug-1")).unwrap();
    }
    server.memory.until("some runs", |state| !state.runs.is_empty());
    let (memory, port) = server.kill();
    for id in 300..400 {
        sending.spool.push(&run(id, "bug-1")).unwrap();
    }
    let server = TestServer::over(memory, Some(port), None);
    sending.until_empty();
    let state = server.memory.lock();
    let ids: Vec<&str> = state.runs.iter().map(|run| run.id.as_str()).collect();
    let all: Vec<String> = (0..400).map(|id| format!("run-{id}")).collect();
    assert_eq!(ids, all, "in their order, each once");
    assert!(
        state.duplicates > 0,
        "nothing was sent twice: the test shows nothing"
    );
}

#[test]
fn what_one_agent_could_not_send_the_next_one_sends() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 1 << 30).unwrap();
    for id in 0..10 {
        spool.push(&run(id, "bug-1")).unwrap();
    }
    drop(spool);
    let server = TestServer::start();
    Sending::start(folder.path(), &server).until_empty();
    assert_eq!(server.memory.lock().runs.len(), 10);
}

#[test]
fn a_message_that_is_refused_costs_only_the_run_that_is_to_blame() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start();
    let nonsense = Status::invalid_argument("one of them is nonsense");
    server.memory.lock().refusals.push_back(nonsense);
    let spool = Spool::open(folder.path(), 1 << 30).unwrap();
    for id in 0..3 {
        spool
            .push(&run(id, if id == 1 { "refused" } else { "bug-1" }))
            .unwrap();
    }
    drop(spool);
    Sending::start(folder.path(), &server).until_empty();
    let state = server.memory.lock();
    let ids: Vec<&str> = state.runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(ids, ["run-0", "run-2"]);
}

#[test]
fn dropped_runs_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 4 * 4096).unwrap();
    for id in 0..10 {
        spool.push(&run(id, "bug-1")).unwrap();
    }
    drop(spool);
    let server = TestServer::start();
    let sending = Sending::start(folder.path(), &server);
    sending.until_empty();
    assert_eq!(server.memory.lock().runs.len(), 4);
    server.memory.until("the count", |state| state.dropped == 6);
}

#[test]
fn a_failure_comes_with_the_files_that_the_server_lacks_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start();
    server.memory.lock().wants_modules = true;
    server.memory.lock().wants_too = Some(Module {
        path: "/etc/passwd".to_owned(),
        ..Module::default()
    });
    let module = own_module();
    let spool = Spool::open(folder.path(), 1 << 30).unwrap();
    let failure = ReportFailureRequest {
        id: "failure-1".to_owned(),
        modules: vec![module.clone()],
        ..ReportFailureRequest::default()
    };
    spool.push(&Item::Failure(failure)).unwrap();
    drop(spool);
    Sending::start(folder.path(), &server).until_empty();
    let state = server.memory.lock();
    let ids: Vec<&str> = state.failures.iter().map(|failure| failure.id.as_str()).collect();
    assert_eq!(ids, ["failure-1", "failure-1"], "again when the file is there");
    assert_eq!(
        state.modules.keys().map(|id| &id[..]).collect::<Vec<_>>(),
        [&module.build_id[..]]
    );
}

#[test]
fn a_failure_stays_until_the_server_has_time_for_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start();
    server.memory.lock().wants_modules = true;
    server.memory.lock().busy_uploads = 4;
    let spool = Spool::open(folder.path(), 1 << 30).unwrap();
    let failure = ReportFailureRequest {
        id: "failure-1".to_owned(),
        modules: vec![own_module()],
        ..ReportFailureRequest::default()
    };
    spool.push(&Item::Failure(failure)).unwrap();
    drop(spool);
    Sending::start(folder.path(), &server).until_empty();
    assert_eq!(server.memory.lock().modules.len(), 1);
}
