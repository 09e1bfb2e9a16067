//! Agents that mean harm, against a server as it is run: each is told what is wrong, nobody else notices, and memory stays what it is.

use std::future::Future;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use failsketch_tests::{command, kept, process, zoo};
use proto::v1::agents_client::AgentsClient;
use proto::v1::bugs_client::BugsClient;
use proto::v1::run_receipt::Outcome;
use proto::v1::steer_request::{Stop, What};
use proto::v1::*;
use serde_json::Value;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

const PROGRAM: &str = "mysql-proc-info";
const LONGEST: Duration = Duration::from_secs(240);
/// What the server may take in the end, in kB: what it has for messages, and as much again for itself.
const MOST_MEMORY: u64 = 1 << 20;

/// A server with a bug, and people who may do this and that.
struct Attacked {
    url: String,
    port: u16,
    server: Running,
    bug: String,
    program: Program,
    record: Value,
    /// How a run failed.
    report: Value,
    folder: Folder,
}

/// Who may do what.
const TOKENS: [(&str, &str, &str); 3] = [
    ("owner", "\"agent\", \"read\", \"steer\"", PROGRAM),
    ("stranger", "\"agent\"", "another"),
    ("reader", "\"read\"", PROGRAM),
];

fn secret(name: &str) -> String {
    format!("the-secret-of-{name}-which-is-long-enough")
}

fn sha256(bytes: &[u8]) -> String {
    let mut sum = Command::new("sha256sum");
    let done = process::run(&mut sum, bytes, LONGEST, |_| ());
    done.stdout.split_whitespace().next().unwrap().to_owned()
}

impl Attacked {
    fn start() -> Self {
        let folder = Folder::new("hostile");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut config = format!("listen = \"127.0.0.1:{port}\"\n[limits]\nmodule_bytes = 8000000\n");
        for (name, roles, program) in TOKENS {
            config += &format!(
                "[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\nroles = [{roles}]\nprograms = [\"{program}\"]\n",
                sha256(secret(name).as_bytes())
            );
            std::fs::write(folder.path().join(name), secret(name)).unwrap();
        }
        let file = folder.path().join("server.toml");
        std::fs::write(&file, config).unwrap();
        let mut serve = Command::new(command::binary());
        serve
            .args(["serve", "--config"])
            .arg(&file)
            .env("RUST_LOG", "warn");
        let server = Running::start(&mut serve);
        server.stderr_line("failsketch: serving on").unwrap();
        let url = format!("http://127.0.0.1:{port}");

        let kept_in = folder.path().join("kept");
        let binary = zoo::binary(PROGRAM, "O0");
        let mut run = Command::new(command::binary());
        run.args(["run", "--json", "--keep"])
            .arg(&kept_in)
            .arg("--")
            .arg(binary);
        let done = process::run(&mut run, b"", LONGEST, |_| ());
        assert!(done.status.success(), "{}", done.stderr);
        let done = replay(&url, &folder);
        assert!(done.status.success(), "{}", done.stderr);
        let bug = done.stdout.split([' ', ':']).nth(1).unwrap().to_owned();

        let records: Vec<Value> = kept::records(&kept_in);
        let traced = |record: &Value| record["flow"]["recording"].is_object();
        let report = records
            .iter()
            .find_map(|record| record["end"].get("failed"))
            .expect("a run that failed")
            .clone();
        let record = records
            .into_iter()
            .rfind(traced)
            .expect("a run with control flow");
        let modules = record["modules"].as_array().unwrap();
        let executable = modules
            .iter()
            .find(|module| module["executable"] == true)
            .unwrap();
        let build: Vec<u8> = serde_json::from_value(executable["build_id"].clone()).unwrap();
        Self {
            program: Program {
                name: PROGRAM.to_owned(),
                build_id: build.into(),
            },
            url,
            port,
            server,
            bug,
            record,
            report,
            folder,
        }
    }

    /// Where the server has files.
    fn objects(&self) -> PathBuf {
        self.folder.path().join("objects")
    }

    async fn channel(&self) -> Channel {
        let channel = Channel::from_shared(self.url.clone()).unwrap();
        channel.connect().await.unwrap()
    }

    fn run(&self, id: &str, record: impl Into<Bytes>) -> Run {
        Run {
            id: id.to_owned(),
            bug: self.bug.clone(),
            program: Some(self.program.clone()),
            record: record.into(),
        }
    }

    async fn send(&self, who: &str, runs: Vec<Run>) -> Result<Vec<RunReceipt>, Status> {
        let request = ReportRunsRequest {
            host: format!("{who}-host"),
            runs,
            dropped: 0,
        };
        let mut agents = AgentsClient::new(self.channel().await);
        let answer = agents.report_runs(as_who(Some(who), request)).await?;
        Ok(answer.into_inner().receipts)
    }

    /// What became of one record, and why.
    async fn told(&self, id: &str, record: impl Into<Bytes>) -> (Outcome, String) {
        let receipts = self.send("owner", vec![self.run(id, record)]).await.unwrap();
        (receipts[0].outcome(), receipts[0].reason.clone())
    }

    /// How many runs the bug has: whoever is honest is served as before.
    async fn runs(&self) -> u64 {
        self.bug().await.runs
    }

    async fn bug(&self) -> Bug {
        let request = GetBugRequest {
            bug: self.bug.clone(),
        };
        let mut bugs = BugsClient::new(self.channel().await);
        let bug = bugs.get_bug(as_who(Some("owner"), request)).await.unwrap();
        bug.into_inner()
    }

    /// The bug once the server has drawn what the fleet reported: runs are acknowledged before they are in a sketch.
    async fn drawn_bug(&self) -> Bug {
        const QUIET: Duration = Duration::from_millis(500);
        let mut known = self.bug().await;
        for _ in 0..100 {
            tokio::time::sleep(QUIET).await;
            let bug = self.bug().await;
            if bug.revision > 0 && bug == known {
                return bug;
            }
            known = bug;
        }
        panic!("the server goes on drawing: {known:?}");
    }

    fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// An honest fleet, which reports the failure and four runs.
fn replay(url: &str, folder: &Folder) -> process::Finished {
    let mut fleet = Command::new(command::binary());
    fleet.args([
        "fleet", "--agents", "2", "--runs", "4", "--server", url, "--replay",
    ]);
    fleet
        .arg(folder.path().join("kept"))
        .arg("--token")
        .arg(folder.path().join("owner"));
    process::run(&mut fleet, b"", LONGEST, |_| ())
}

fn as_who<T>(who: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(who) = who {
        let token = format!("Bearer {}", secret(who)).parse().unwrap();
        request.metadata_mut().insert("authorization", token);
    }
    request
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// What every method says to somebody.
async fn everything(attacked: &Attacked, who: Option<&str>) -> Vec<(&'static str, Code)> {
    let (program, bug) = (attacked.program.clone(), attacked.bug.clone());
    let mut agents = AgentsClient::new(attacked.channel().await);
    let mut bugs = BugsClient::new(attacked.channel().await);
    let code = |status: Status| status.code();
    let host = "host".to_owned();
    let register = RegisterRequest {
        host: host.clone(),
        programs: vec![program.clone()],
        ..RegisterRequest::default()
    };
    let failure = ReportFailureRequest {
        host: host.clone(),
        id: "f".to_owned(),
        program: Some(program.clone()),
        ..ReportFailureRequest::default()
    };
    let asked = PlanRequest {
        host: host.clone(),
        program: Some(program.clone()),
        registers: 4,
        attached: false,
    };
    let runs = ReportRunsRequest {
        host,
        runs: vec![attacked.run("unauthorised", "{}")],
        dropped: 0,
    };
    let piece = ModuleChunk {
        module: Some(Module {
            path: "/x".to_owned(),
            build_id: program.build_id.clone(),
            executable: true,
            ..Module::default()
        }),
        data: "x".into(),
    };
    let steer = SteerRequest {
        bug: bug.clone(),
        what: Some(What::Stop(Stop {})),
    };
    let get = GetBugRequest { bug: bug.clone() };
    let sketch = GetSketchRequest {
        bug,
        ..GetSketchRequest::default()
    };
    let first_plan = async {
        let asked = tokio_stream::once(asked);
        let mut plans = agents.clone().plans(as_who(who, asked)).await?.into_inner();
        plans.message().await
    };
    let plans = first_plan.await.map_or_else(code, |_| Code::Ok);
    let of_runs = agents.report_runs(as_who(who, runs)).await;
    let of_runs = of_runs.map_or_else(code, |answer| match answer.into_inner().receipts[0].outcome() {
        Outcome::Stored | Outcome::Duplicate => Code::Ok,
        Outcome::Refused | Outcome::Unspecified => Code::PermissionDenied,
    });
    let upload = agents.upload_module(as_who(who, tokio_stream::once(piece)));
    vec![
        ("plans", plans),
        ("runs", of_runs),
        ("upload", upload.await.map_or_else(code, |_| Code::Ok)),
        (
            "register",
            agents
                .register(as_who(who, register))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "failure",
            agents
                .report_failure(as_who(who, failure))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "list",
            bugs.list_bugs(as_who(who, ListBugsRequest::default()))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "bug",
            bugs.get_bug(as_who(who, get.clone()))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "sketch",
            bugs.get_sketch(as_who(who, sketch))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "watch",
            bugs.watch_bug(as_who(who, get))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "steer",
            bugs.steer(as_who(who, steer))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
        (
            "audit",
            bugs.list_audit(as_who(who, ListAuditRequest::default()))
                .await
                .map_or_else(code, |_| Code::Ok),
        ),
    ]
}

#[test]
fn who_may_not_is_refused_everything() {
    let attacked = Attacked::start();
    block_on(async {
        for (method, code) in everything(&attacked, None).await {
            assert_eq!(code, Code::Unauthenticated, "{method}, without a token");
        }
        for (method, code) in everything(&attacked, Some("nobody")).await {
            assert_eq!(code, Code::Unauthenticated, "{method}, with a wrong token");
        }
        let reads = ["list", "bug", "sketch", "watch", "audit"];
        for (method, code) in everything(&attacked, Some("reader")).await {
            let wanted = if reads.contains(&method) {
                Code::Ok
            } else {
                Code::PermissionDenied
            };
            assert_eq!(code, wanted, "{method}, by a reader");
        }
        // An agent of another program may upload files for that, and this is none.
        for (method, code) in everything(&attacked, Some("stranger")).await {
            let wanted = match method {
                "upload" => Code::InvalidArgument,
                _ => Code::PermissionDenied,
            };
            assert_eq!(code, wanted, "{method}, by another program's agent");
        }
        // Under the name of its own program it has no such bug.
        let disguised = Run {
            program: Some(Program {
                name: "another".to_owned(),
                ..attacked.program.clone()
            }),
            ..attacked.run("disguised", attacked.record.to_string())
        };
        let receipts = attacked.send("stranger", vec![disguised]).await.unwrap();
        assert_eq!(receipts[0].outcome(), Outcome::Refused);
        assert!(
            receipts[0].reason.contains("has no bug"),
            "{}",
            receipts[0].reason
        );
        assert_eq!(attacked.runs().await, 4);
    });
}

/// One who may report on another program uses that to get at this one, whose build he knows.
#[test]
fn another_programs_agent_learns_nothing_of_a_build_and_changes_nothing_about_it() {
    let attacked = Attacked::start();
    let binary = zoo::binary(PROGRAM, "O0");
    let content = std::fs::read(&binary).unwrap();
    let disguised = Program {
        name: "another".to_owned(),
        ..attacked.program.clone()
    };
    let module = |build: &Bytes| Module {
        path: binary.to_str().unwrap().to_owned(),
        build_id: build.clone(),
        executable: true,
        ..Module::default()
    };
    block_on(async {
        let mut agents = AgentsClient::new(attacked.channel().await);
        let before = attacked.drawn_bug().await;
        let asked = tokio_stream::once(PlanRequest {
            host: "stranger-host".to_owned(),
            program: Some(disguised.clone()),
            registers: 4,
            attached: false,
        });
        let answer = agents.plans(as_who(Some("stranger"), asked)).await.unwrap();
        let plan = answer.into_inner().message().await.unwrap().unwrap();
        assert_eq!(
            (plan.bug.as_str(), plan.assignment.len()),
            ("", 0),
            "a plan of his"
        );

        // Files that others uploaded are not taken for files of his program.
        let failure = ReportFailureRequest {
            host: "stranger-host".to_owned(),
            id: "f".to_owned(),
            program: Some(disguised),
            modules: vec![module(&attacked.program.build_id)],
            runs: 1,
            report: attacked.report.to_string().into(),
            ..ReportFailureRequest::default()
        };
        let report = async |failure: ReportFailureRequest| {
            let mut agents = AgentsClient::new(attacked.channel().await);
            let answer = agents.report_failure(as_who(Some("stranger"), failure)).await;
            answer.map(tonic::Response::into_inner)
        };
        let lacking = report(failure.clone()).await.unwrap().lacking;
        assert_eq!(lacking, [module(&attacked.program.build_id)]);
        // Nor do files of his become files of others. The same bytes under a wrong name take nothing from those who have them.
        let upload = async |build: &Bytes, content: Vec<u8>| {
            let piece = ModuleChunk {
                module: Some(module(build)),
                data: content.into(),
            };
            let mut agents = AgentsClient::new(attacked.channel().await);
            let sent = as_who(Some("stranger"), tokio_stream::once(piece));
            agents.upload_module(sent).await.map_err(|status| status.code())
        };
        let refused = upload(&vec![1; 20].into(), content.clone()).await;
        assert_eq!(refused.unwrap_err(), Code::InvalidArgument);
        let mut forged = content;
        forged.extend(b"forged");
        let known = upload(&attacked.program.build_id, forged).await.unwrap();
        assert!(!known.into_inner().known);
        let bug = report(failure).await.unwrap().bug;
        assert!(!bug.is_empty() && bug != attacked.bug, "{bug}");

        assert_eq!(attacked.drawn_bug().await, before);
    });
    let honest = replay(&attacked.url, &attacked.folder);
    assert!(honest.status.success(), "{}", honest.stderr);
    block_on(async { assert_eq!(attacked.runs().await, 8) });
    let name = sha256(&std::fs::read(&binary).unwrap());
    assert!(
        attacked.objects().join(&name[..2]).join(&name).exists(),
        "the program is gone"
    );
}

#[test]
fn what_is_malformed_oversized_or_a_bomb_is_refused_and_memory_stays_bounded() {
    let attacked = Attacked::start();
    block_on(async {
        let deep = "[".repeat(200_000);
        let malformed = [
            ("half", "{"),
            ("text", "\u{0}\u{1}"),
            ("shape", "{\"number\":[]}"),
            ("deep", &deep),
        ];
        for (id, record) in malformed {
            let (outcome, reason) = attacked.told(id, record.to_owned()).await;
            assert_eq!(outcome, Outcome::Refused, "{id}");
            assert!(!reason.is_empty() && reason.len() < 2000, "{id}: {reason}");
        }
        let changed = |pointer: &str, value: Value| {
            let mut record = attacked.record.clone();
            *record.pointer_mut(pointer).unwrap() = value;
            record.to_string()
        };
        let hit = attacked.record["hits"][0].clone();
        let a_million = (0..20_000_u32).map(|n| {
            let mut hit = hit.clone();
            hit["tid"] = (n * 7919 % 997).into();
            hit["pc"] = (0x1000 + n * 104_729 % 1009).into();
            hit
        });
        let (outcome, reason) = attacked
            .told("predictors", changed("/hits", Value::Array(a_million.collect())))
            .await;
        assert_eq!(outcome, Outcome::Refused);
        assert!(reason.contains("orders and interleavings"), "{reason}");

        // Every byte of it is six branches: twelve millions of them.
        let bytes = "/flow/recording/threads/0/bytes";
        let trace = attacked
            .record
            .pointer(bytes)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned();
        let bomb = |length: usize| trace.clone() + &"fe".repeat(length);
        let (outcome, reason) = attacked
            .told("bomb", changed(bytes, bomb(2_000_000).into()))
            .await;
        assert_eq!(outcome, Outcome::Refused, "{reason}");
        // One that stays below what is refused has to be decoded in its time.
        let (outcome, _) = attacked
            .told("small-bomb", changed(bytes, bomb(150_000).into()))
            .await;
        assert_eq!(outcome, Outcome::Stored);

        let large = attacked.run("large", vec![b' '; (16 << 20) + 1]);
        let refused = attacked.send("owner", vec![large]).await.unwrap_err();
        assert!(
            matches!(refused.code(), Code::OutOfRange | Code::ResourceExhausted),
            "{refused:?}"
        );
        let many = (0..300)
            .map(|n| attacked.run(&format!("many-{n}"), "{}"))
            .collect();
        let refused = attacked.send("owner", many).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        let mut agents = AgentsClient::new(attacked.channel().await);
        let piece = |n: u8| ModuleChunk {
            module: (n == 0).then(|| Module {
                path: "/large".to_owned(),
                build_id: vec![1; 20].into(),
                executable: false,
                ..Module::default()
            }),
            data: vec![n; 1 << 20].into(),
        };
        let pieces = tokio_stream::iter((0..20).map(piece));
        let refused = agents
            .upload_module(as_who(Some("owner"), pieces))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
        assert_eq!(attacked.runs().await, 5);
    });
    let peak = attacked.peak_memory();
    assert!(peak < MOST_MEMORY, "{peak} kB");
}

#[test]
fn what_is_sent_again_counts_once_whoever_sends_it() {
    let attacked = Attacked::start();
    block_on(async {
        let record = attacked.record.to_string();
        let twice = vec![
            attacked.run("again", record.clone()),
            attacked.run("again", record.clone()),
        ];
        let receipts = attacked.send("owner", twice).await.unwrap();
        let outcomes: Vec<Outcome> = receipts.iter().map(RunReceipt::outcome).collect();
        assert_eq!(outcomes, [Outcome::Stored, Outcome::Duplicate]);
        for _ in 0..50 {
            let (outcome, _) = attacked.told("again", record.clone()).await;
            assert_eq!(outcome, Outcome::Duplicate);
        }
        assert_eq!(attacked.runs().await, 5);
    });
}

#[test]
fn who_says_nothing_or_little_keeps_nobody_waiting() {
    let attacked = Attacked::start();
    let mut idle = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(("127.0.0.1", attacked.port)).unwrap();
        // Some say nothing, some begin and stop, some send a header a while.
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _ => b"POST /failsketch.v1.Agents/ReportRuns HTTP/1.1\r\nHost: localhost\r\nX-",
        };
        stream.write_all(begun).unwrap();
        idle.push(stream);
    }
    block_on(async {
        for _ in 0..20 {
            assert_eq!(attacked.runs().await, 4);
        }
    });
    drop(idle);
}
