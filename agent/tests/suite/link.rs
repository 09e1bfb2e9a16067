//! The connection.

use std::fs;
use std::path::Path;
use std::time::Duration;

use agent::link::{Access, Backoff, Link, Planning, UploadError, patiently};
use proto::v1::{Module, Plan, PlanRequest, RegisterRequest, ReportFailureRequest, ReportRunsRequest};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tonic::{Code, Status};
use tracee::ProgramFiles;

use crate::server::{Memory, TestServer};

fn access(server: &TestServer) -> Access {
    Access {
        server: server.url(),
        ..Access::default()
    }
}

fn quickly() -> Backoff {
    Backoff::from(Duration::from_millis(20))
}

fn soon() -> Duration {
    Duration::from_secs(10)
}

/// A program with a build-id that every host of these tests has: this one.
pub fn own_module() -> Module {
    let path = std::env::current_exe().unwrap();
    let files = ProgramFiles::default();
    let build_id = files.module(&path).unwrap().elf().build_id().unwrap();
    Module {
        path: path.display().to_string(),
        build_id: build_id.0.into(),
        executable: true,
        ..Module::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_asked_again_and_one_that_refuses_is_not() {
    let server = TestServer::start();
    let link = Link::new(&access(&server)).unwrap();
    let register = || {
        let link = link.clone();
        async move { link.register(RegisterRequest::default()).await }
    };
    for busy in [
        Status::unavailable("starting"),
        Status::resource_exhausted("full"),
        Status::aborted("a conflict"),
    ] {
        server.memory.lock().refusals.push_back(busy);
    }
    patiently("a test", &mut quickly(), register).await.unwrap();
    assert_eq!(server.memory.lock().registered.len(), 1);

    for never in [Status::invalid_argument(""), Status::permission_denied("")] {
        server.memory.lock().refusals.push_back(never.clone());
        let refused = patiently("a test", &mut quickly(), register).await.unwrap_err();
        assert_eq!(refused.code(), never.code());
    }
    assert_eq!(server.memory.lock().registered.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_found_again() {
    let server = TestServer::start();
    let link = Link::new(&access(&server)).unwrap();
    link.register(RegisterRequest::default()).await.unwrap();
    let (memory, port) = tokio::task::block_in_place(|| server.kill());
    let away = link.register(RegisterRequest::default()).await.unwrap_err();
    assert_eq!(agent::link::remedy(&away), agent::link::Remedy::Later, "{away}");
    let again = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        TestServer::over(memory, Some(port), None)
    });
    let report = || {
        let link = link.clone();
        async move { link.report_runs(ReportRunsRequest::default()).await }
    };
    patiently("a test", &mut quickly(), report).await.unwrap();
    again.join().unwrap();
}

/// An authority, and what it signs for a name.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn signed(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (
            params.signed_by(&key, &self.0).unwrap().pem(),
            key.serialize_pem(),
        )
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

fn encrypted(authority: &Authority) -> TestServer {
    let (certificate, key) = authority.signed("localhost");
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(authority.pem()))
        .client_auth_optional(true);
    TestServer::over(Memory::default(), None, Some(tls))
}

fn write(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_with_a_certificate_or_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = encrypted(&authority);
    server.memory.lock().token = Some("s3cret".to_owned());
    let (certificate, key) = authority.signed("agent-7");
    let access = Access {
        server: format!("https://localhost:{}", server.address.port()),
        ca: Some(write(folder.path(), "ca.pem", &authority.pem())),
        identity: Some((
            write(folder.path(), "agent.pem", &certificate),
            write(folder.path(), "agent.key", &key),
        )),
        token: Some(write(folder.path(), "token", "s3cret\n")),
        insecure: false,
    };
    let link = Link::new(&access).unwrap();
    link.register(RegisterRequest::default()).await.unwrap();

    let other = Access {
        token: Some(write(folder.path(), "other", "guessed")),
        ..access.clone()
    };
    let refused = Link::new(&other)
        .unwrap()
        .register(RegisterRequest::default())
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);

    let stranger = Access {
        ca: Some(write(folder.path(), "stranger.pem", &Authority::new().pem())),
        ..access
    };
    let refused = Link::new(&stranger)
        .unwrap()
        .register(RegisterRequest::default())
        .await;
    assert!(refused.is_err(), "a server that another authority vouches for");
    assert_eq!(server.memory.lock().registered.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_goes_in_pieces_and_arrives_whole() {
    let server = TestServer::start();
    let link = Link::new(&access(&server)).unwrap();
    let module = own_module();
    let failure = ReportFailureRequest {
        modules: vec![module.clone()],
        ..ReportFailureRequest::default()
    };
    let answer = link.upload(&failure, &module).await.unwrap();
    assert!(!answer.known);
    let here = fs::read(&module.path).unwrap();
    assert!(here.len() > 2 * proto::CHUNK, "too small to need pieces");
    assert!(server.memory.lock().modules.get(&module.build_id[..]) == Some(&here));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_no_file_that_the_failure_did_not_name() {
    let server = TestServer::start();
    let link = Link::new(&access(&server)).unwrap();
    let failure = ReportFailureRequest {
        modules: vec![own_module()],
        ..ReportFailureRequest::default()
    };
    let passwords = Module {
        path: "/etc/passwd".to_owned(),
        ..Module::default()
    };
    let refused = link.upload(&failure, &passwords).await;
    assert!(matches!(refused, Err(UploadError::NotNamed(_))), "{refused:?}");

    // Named, but replaced by another build since.
    let folder = tempfile::tempdir().unwrap();
    let replaced = Module {
        path: write(folder.path(), "program", "not a program")
            .display()
            .to_string(),
        ..own_module()
    };
    let failure = ReportFailureRequest {
        modules: vec![replaced.clone()],
        ..ReportFailureRequest::default()
    };
    let refused = link.upload(&failure, &replaced).await;
    assert!(matches!(refused, Err(UploadError::OtherBuild(_))), "{refused:?}");
    assert!(server.memory.lock().modules.is_empty());
}

fn numbered(number: u64) -> Plan {
    Plan {
        bug: "bug-1".to_owned(),
        number,
        ..Plan::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_come_in_order_and_the_stream_is_opened_again_when_it_breaks() {
    let server = TestServer::start();
    server.memory.lock().plan = Some(Box::new(numbered));
    server.memory.lock().answers_a_stream = Some(3);
    let link = Link::new(&access(&server)).unwrap();
    let (planner, planning) = Planning::new(link, quickly());
    let serving = tokio::spawn(planning.serve());
    let asked = tokio::task::spawn_blocking(move || {
        let mut numbers = Vec::new();
        for _ in 0..200 {
            let plan = planner.ask(PlanRequest::default(), soon());
            numbers.extend(plan.map(|plan| plan.number));
            if numbers.len() == 9 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        numbers
    });
    let numbers = asked.await.unwrap();
    assert_eq!(numbers.len(), 9, "{numbers:?}");
    assert!(numbers.is_sorted(), "{numbers:?}");
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_server_that_is_away_or_too_old() {
    let server = TestServer::start();
    server.memory.lock().without_plans = true;
    let link = Link::new(&access(&server)).unwrap();
    let (planner, planning) = Planning::new(link.clone(), quickly());
    tokio::spawn(planning.serve());
    let asking = planner.clone();
    let asked = move || asking.ask(PlanRequest::default(), soon());
    assert_eq!(tokio::task::spawn_blocking(asked).await.unwrap(), None);
    tokio::task::block_in_place(|| drop(server.kill()));

    let (planner, planning) = Planning::new(link, Backoff::from(Duration::from_secs(60)));
    tokio::spawn(planning.serve());
    let started = std::time::Instant::now();
    let asked = tokio::task::spawn_blocking(move || {
        (0..1000).all(|_| planner.ask(PlanRequest::default(), soon()).is_none())
    });
    assert!(asked.await.unwrap());
    // A thousand times what one answer is waited for would be hours: all but the first are answered at once.
    assert!(started.elapsed() < soon());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_thinks_long_holds_nobody_up_and_is_heard_all_the_same() {
    let server = TestServer::start();
    server.memory.lock().plan = Some(Box::new(numbered));
    server.memory.lock().thinks = Duration::from_millis(400);
    let link = Link::new(&access(&server)).unwrap();
    let (planner, planning) = Planning::new(link, quickly());
    tokio::spawn(planning.serve());
    let asked = tokio::task::spawn_blocking(move || {
        let started = std::time::Instant::now();
        let within = Duration::from_millis(200);
        let plans: Vec<bool> = (0..20)
            .map(|_| planner.ask(PlanRequest::default(), within).is_some())
            .collect();
        (plans, started.elapsed())
    });
    let (plans, took) = asked.await.unwrap();
    assert!(!plans[0], "it had not thought enough");
    let got = plans.iter().filter(|plan| **plan).count();
    assert!(got >= 1, "{plans:?}");
    assert!(took < Duration::from_millis(20 * 200), "{took:?}");
}
