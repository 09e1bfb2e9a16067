//! Run reports accepted a second: the server against a bare one, which receives the same bytes and commits them to the same kind
//! of database. In turns, so that both meet the same machine.
//!
//! Prints a line of JSON for `bench.py`.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use failsketch_tests::kept;
use proto::v1::agents_client::AgentsClient;
use proto::v1::agents_server::{Agents, AgentsServer};
use proto::v1::run_receipt::Outcome;
use proto::v1::{
    ModuleChunk, Plan, PlanRequest, Program, RegisterRequest, RegisterResponse, ReportFailureRequest,
    ReportFailureResponse, ReportRunsRequest, ReportRunsResponse, Run, RunReceipt, UploadModuleResponse,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming, async_trait};

/// Hosts that report at the same time.
const HOSTS: u64 = 32;
/// How long each server is asked for at a time,
const TURN: Duration = Duration::from_secs(2);
/// and how often.
const TURNS: usize = 3;

/// A server that does nothing but receive and commit.
struct Bare(sqlx::SqlitePool);

#[async_trait]
impl Agents for Bare {
    async fn register(&self, _: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn report_failure(
        &self,
        _: Request<ReportFailureRequest>,
    ) -> Result<Response<ReportFailureResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    type PlansStream = tokio_stream::Empty<Result<Plan, Status>>;

    async fn plans(&self, _: Request<Streaming<PlanRequest>>) -> Result<Response<Self::PlansStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn report_runs(
        &self,
        request: Request<ReportRunsRequest>,
    ) -> Result<Response<ReportRunsResponse>, Status> {
        let failed = |error: sqlx::Error| Status::internal(error.to_string());
        let mut receipts = Vec::new();
        let mut transaction = self.0.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        for run in request.into_inner().runs {
            sqlx::query("INSERT INTO runs (id, body) VALUES ($1, $2)")
                .bind(&run.id)
                .bind(run.record.as_ref())
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
            receipts.push(RunReceipt {
                id: run.id,
                outcome: Outcome::Stored.into(),
                reason: String::new(),
            });
        }
        transaction.commit().await.map_err(failed)?;
        Ok(Response::new(ReportRunsResponse { receipts }))
    }

    async fn upload_module(
        &self,
        _: Request<Streaming<ModuleChunk>>,
    ) -> Result<Response<UploadModuleResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

async fn bare(folder: &Path) -> String {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("bare.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(30));
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options);
    let pool = pool.await.expect("a database");
    sqlx::query("CREATE TABLE runs (id TEXT PRIMARY KEY, body BLOB NOT NULL)")
        .execute(&pool)
        .await
        .expect("a table");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = Server::builder()
        .add_service(AgentsServer::new(Bare(pool)).max_decoding_message_size(proto::MOST_MESSAGE))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    url
}

async fn ours(folder: &Path) -> String {
    let config = server::config::Config {
        listen: ([127, 0, 0, 1], 0).into(),
        store: format!("sqlite:{}", folder.join("ours.db").display()),
        objects: folder.join("objects").into(),
        ..server::config::Config::default()
    };
    let running = server::serve::start(config, std::future::pending()).await;
    format!("http://{}", running.expect("a server").address)
}

/// What the hosts report.
#[derive(Clone)]
struct Reported {
    bug: String,
    program: Program,
    records: Arc<Vec<Bytes>>,
}

/// Runs that a server acknowledges in one turn.
async fn turn(url: &str, reported: &Reported, label: &str) -> u64 {
    let accepted = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + TURN;
    let hosts = (0..HOSTS).map(|host| {
        let (url, reported, accepted) = (url.to_owned(), reported.clone(), Arc::clone(&accepted));
        let label = label.to_owned();
        tokio::spawn(async move {
            let channel = Channel::from_shared(url).expect("an address").connect().await;
            let mut client = AgentsClient::new(channel.expect("a connection"));
            let host = format!("host-{label}-{host}");
            for number in 0.. {
                if Instant::now() >= until {
                    return;
                }
                let run = Run {
                    id: format!("{host}-{number}"),
                    bug: reported.bug.clone(),
                    program: Some(reported.program.clone()),
                    record: reported.records[number % reported.records.len()].clone(),
                };
                let request = ReportRunsRequest {
                    host: host.clone(),
                    runs: vec![run],
                    dropped: 0,
                };
                let answer = client.report_runs(request).await.expect("an answer");
                let stored = answer.into_inner().receipts;
                assert!(
                    stored.iter().all(|receipt| receipt.outcome() == Outcome::Stored),
                    "{stored:?}"
                );
                accepted.fetch_add(stored.len() as u64, Ordering::Relaxed);
            }
        })
    });
    for host in hosts.collect::<Vec<_>>() {
        host.await.expect("a host");
    }
    accepted.load(Ordering::Relaxed)
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(_program), Some(runs)) = (arguments.next(), arguments.next()) else {
        // `cargo test` starts benches, too.
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let records: Vec<serde_json::Value> = kept::records(Path::new(&runs));
        let (bare, ours) = (bare(folder.path()).await, ours(folder.path()).await);
        let reported = report(&ours, &records).await;
        let bytes: usize = reported.records.iter().map(Bytes::len).sum();
        let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for number in 0..TURNS {
            for (name, url) in [("bare", &bare), ("server", &ours)] {
                let accepted = turn(url, &reported, &format!("{name}-{number}")).await;
                rates
                    .entry(name)
                    .or_default()
                    .push(accepted as f64 / TURN.as_secs_f64());
            }
        }
        let median = |name: &str| {
            let mut of = rates[name].clone();
            of.sort_by(f64::total_cmp);
            of[of.len() / 2]
        };
        println!(
            "{}",
            serde_json::json!({
                "bare": median("bare"),
                "server": median("server"),
                "ratio": median("server") / median("bare"),
                "bytes": bytes / reported.records.len(),
            })
        );
    });
}

/// Reports the first failure, so that there is a bug that runs can be of.
async fn report(url: &str, records: &[serde_json::Value]) -> Reported {
    let first = records
        .iter()
        .position(|record| record["end"].get("failed").is_some());
    let first = first.expect("a run that failed");
    let records_: Vec<diagnosis::record::RunRecord> = records[first..]
        .iter()
        .map(|record| serde_json::from_value(record.clone()).expect("a run"))
        .collect();
    let link = agent::link::Link::new(&agent::link::Access {
        server: url.to_owned(),
        ..agent::link::Access::default()
    });
    let link = link.expect("a way to the server");
    let executable = records_[0]
        .modules
        .iter()
        .find(|module| module.executable)
        .expect("the executable");
    let build = |module: &diagnosis::record::ModuleRecord| {
        Bytes::from(module.build_id.clone().map(|build| build.0).unwrap_or_default())
    };
    let program = Program {
        name: executable.path.rsplit('/').next().unwrap_or_default().to_owned(),
        build_id: build(executable),
    };
    let failure = ReportFailureRequest {
        host: "bench".to_owned(),
        id: "first".to_owned(),
        program: Some(program.clone()),
        modules: records_[0]
            .modules
            .iter()
            .map(|module| proto::v1::Module {
                path: module.path.clone(),
                build_id: build(module),
                executable: module.executable,
                ..Default::default()
            })
            .collect(),
        runs: 1,
        report: Bytes::from(serde_json::to_vec(&records[first]["end"]["failed"]).expect("a report")),
        ..ReportFailureRequest::default()
    };
    let mut answer = link.report_failure(failure.clone()).await.expect("an answer");
    for module in std::mem::take(&mut answer.lacking) {
        link.upload(&failure, &module).await.expect("an upload");
    }
    if answer.bug.is_empty() {
        answer = link.report_failure(failure).await.expect("an answer");
    }
    let tracked = records[first + 1..]
        .iter()
        .filter(|record| record["sigma"].as_u64() > Some(0));
    let tracked = tracked.map(|record| Bytes::from(serde_json::to_vec(record).expect("JSON")));
    Reported {
        bug: answer.bug,
        program,
        records: Arc::new(tracked.collect()),
    }
}
