//! Processes that run already.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agent::config::{AttachSettings, Config, Settings, SpoolSettings};
use agent::daemon;
use diagnosis::record::{RunEnd, RunRecord, WatchedRecord};
use diagnosis::tracking::{Assignment, ModuleName};
use failure::report::Report;
use program::LinkAddr;
use proto::v1::Plan;
use tracee::ProgramFiles;
use tracee::run::Cancel;
use watchpoint::{Address, Trigger, WatchSpec};

use crate::built::Built;
use crate::launched::{plan_from_first_failure, records};
use crate::server::{State, TestServer};

pub const SIGSEGV: i32 = 11;

/// A process of a service.
pub struct Service {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Service {
    pub fn start(built: &Built, ms: u64) -> Self {
        let mut child = Command::new(&built.path)
            .arg(ms.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, said }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        send(self.pid(), name);
    }

    pub fn end(mut self) -> (std::process::ExitStatus, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _taken = self.child.wait();
    }
}

/// The file of an agent that watches something, in short windows. What it may cost is another question: an agent that was not
/// optimised, on a busy machine, takes long.
pub fn settings(built: &Built, server: &str, job: &str) -> String {
    let folder = built.folder.path().display();
    format!(
        "server = '{server}'\nhost_id = '{folder}/host-id'\nwindow_seconds = 1\nceiling_percent = 25.0\nspool = {{ path = '{folder}/spool' }}\n{job}\n"
    )
}

fn follow(built: &Built, server: &str) -> String {
    settings(
        built,
        server,
        &format!("[follow]\nexecutable = '{}'", built.path.display()),
    )
}

fn attach(built: &Built, server: &str, pid: u32) -> String {
    settings(built, server, &format!("[attach]\npid = {pid}"))
}

const SETTINGS: &str = "FAILSKETCH_TEST_AGENT";

/// An agent in a process of its own: whoever traces a process takes its end, which is its parent's to take.
pub struct Agent(Child);

impl Agent {
    pub fn start(settings: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "attached::an_agent_by_itself", "--nocapture"]);
        command.env(SETTINGS, settings).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        send(self.0.id(), name);
    }

    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn end(mut self) {
        self.signal("TERM");
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _taken = self.0.wait();
    }
}

/// No test: what [`Agent`] runs.
#[test]
fn an_agent_by_itself() {
    let Ok(text) = std::env::var(SETTINGS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    std::fs::write(&path, text).unwrap();
    let asked = Cancel::new();
    signal_hook::flag::register(signal_hook::consts::SIGTERM, asked.switch()).unwrap();
    let config = Config::try_from(Settings::read(&path).unwrap()).unwrap();
    daemon::run(config, &asked).unwrap();
}

fn send(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

pub fn registered(state: &State) -> bool {
    !state.registered.is_empty()
}

fn failed(record: &RunRecord) -> bool {
    matches!(record.end, RunEnd::Failed(_))
}

#[test]
fn processes_are_followed_through_failures_and_restarts() {
    let built = Built::new("service.c");
    let server = TestServer::start();
    plan_from_first_failure(&server.memory);
    let first = Service::start(&built, 60_000);
    let agent = Agent::start(&follow(&built, &server.url()));
    server.memory.until("it is watched", registered);
    first.signal("USR2");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(
        server.memory.lock().failures.is_empty(),
        "a signal with a handler is no failure"
    );
    first.signal("USR1");
    let (status, _) = first.end();
    assert_eq!(status.signal(), Some(SIGSEGV));
    server
        .memory
        .until("the failure", |state| !state.failures.is_empty());
    let report: Report = serde_json::from_slice(&server.memory.lock().failures[0].report).unwrap();
    assert_eq!(report.threads.len(), 2, "{report:?}");
    let frames = |number: usize| report.threads[number].frames.len();
    assert!(frames(0) >= 3 && frames(1) >= 3, "{report:?}");
    assert!(report.notes.is_empty(), "{report:?}");
    assert_eq!(report.fault_address.map(|addr| addr.0), Some(0));
    assert!(
        server.memory.lock().failures[0].runs >= 2,
        "windows without a failure count"
    );

    // It is started again, and watched as the server says.
    let second = Service::start(&built, 60_000);
    server.memory.until("two windows", |state| state.runs.len() >= 2);
    // Into the middle of the third: between two windows nobody looks for a moment.
    std::thread::sleep(Duration::from_millis(500));
    second.signal("USR1");
    assert_eq!(second.end().0.signal(), Some(SIGSEGV));
    let has_failed = |state: &State| {
        let last = state
            .runs
            .last()
            .map(|run| serde_json::from_slice(&run.record).unwrap());
        last.is_some_and(|record| failed(&record))
    };
    server.memory.until("the failing window", has_failed);
    agent.end();
    let records = records(&server.memory);
    for record in &records {
        assert_eq!(record.data_flow.as_deref(), Some("observe"), "{record:?}");
        assert!(!record.hits.is_empty(), "nothing was seen");
        assert!(record.cut_short.is_none(), "{:?}", record.cut_short);
    }
    let last = records.last().unwrap();
    let null = last.hits.iter().rev().find(|hit| hit.value == Some(0));
    assert!(null.is_some(), "the null was not seen: {:?}", last.hits);
    assert_eq!(last.threads.len(), 2);
    assert!(
        server
            .memory
            .lock()
            .questions
            .iter()
            .all(|question| question.attached)
    );
}

#[test]
fn a_process_that_is_left_goes_on_as_if_nobody_had_looked() {
    let built = Built::new("service.c");
    let server = TestServer::start();
    let service = Service::start(&built, 3000);
    let agent = Agent::start(&attach(&built, &server.url(), service.pid()));
    server.memory.until("it is watched", registered);
    service.signal("USR2");
    std::thread::sleep(Duration::from_millis(300));
    agent.end();
    let (status, said) = service.end();
    assert_eq!((status.code(), said.as_str()), (Some(7), "stored 1\n"));
    assert!(server.memory.lock().failures.is_empty());
}

#[test]
fn a_process_that_ends_by_itself_ends_the_watch() {
    let built = Built::new("service.c");
    let server = TestServer::start();
    let service = Service::start(&built, 1500);
    let mut agent = Agent::start(&attach(&built, &server.url(), service.pid()));
    assert_eq!(service.end().0.code(), Some(7));
    assert!(agent.0.wait().unwrap().success());
}

#[test]
fn an_exit_status_that_counts_as_a_failure_is_one() {
    let built = Built::new("service.c");
    let server = TestServer::start();
    let service = Service::start(&built, 8000);
    let settings = attach(&built, &server.url(), service.pid());
    let mut agent = Agent::start(&format!("fail_on = 'exit=7'\n{settings}"));
    server.memory.until("it is watched", registered);
    let (status, said) = service.end();
    assert_eq!((status.code(), said.as_str()), (Some(7), "stored 1\n"));
    assert!(agent.0.wait().unwrap().success());
    server
        .memory
        .until("the failure", |state| !state.failures.is_empty());
    let state = server.memory.lock();
    let report: Report = serde_json::from_slice(&state.failures[0].report).unwrap();
    assert_eq!(report.message.as_deref(), Some("exit status 7"));
    assert_eq!(report.threads.len(), 2, "{report:?}");
    let frames = |number: usize| report.threads[number].frames.len();
    assert!(frames(0) >= 3 && frames(1) >= 3, "{report:?}");
}

#[test]
fn what_cannot_be_watched_is_said() {
    let built = Built::new("service.c");
    let mut settings = Settings {
        server: Some("http://127.0.0.1:1".to_owned()),
        host_id: Some(built.file("host-id")),
        attach: Some(AttachSettings {
            pid: Some(std::process::id()),
        }),
        ..Settings::default()
    };
    settings.spool = Some(SpoolSettings {
        path: Some(built.file("spool")),
        megabytes: None,
    });
    let config = Config::try_from(settings).unwrap();
    let error = daemon::run(config, &Cancel::new()).unwrap_err().to_string();
    assert!(error.contains("itself") || error.contains("own"), "{error}");
}

/// A program that touches one variable all the time and another one now and then, watched with a ceiling of 1 %.
#[test]
fn what_is_touched_too_often_is_turned_off_counted_and_reported() {
    let built = Built::new("busy.c");
    let server = TestServer::start();
    let plan = watching(&built, &["busy", "calm"]);
    server.memory.lock().plan = Some(Box::new(move |_| plan.clone()));
    let mut busy = Command::new(&built.path).stdout(Stdio::piped()).spawn().unwrap();
    let job = format!("[attach]\npid = {}", busy.id());
    let settings = settings(&built, &server.url(), &job);
    let settings = settings
        .replace("ceiling_percent = 25.0", "ceiling_percent = 1.0")
        .replace("window_seconds = 1", "window_seconds = 3");
    let agent = Agent::start(&settings);
    server
        .memory
        .until("three windows", |state| state.runs.len() >= 3);
    agent.end();
    busy.kill().unwrap();
    let mut touches = String::new();
    busy.stdout.take().unwrap().read_to_string(&mut touches).unwrap();
    busy.wait().unwrap();
    let touches: usize = touches.lines().last().unwrap().parse().unwrap();
    let records = records(&server.memory);
    for record in &records {
        let cut = record.cut_short.as_deref().unwrap_or_default();
        assert!(cut.contains("turned off: tracking may cost 1 %"), "{cut}");
    }
    let seen = |record: &RunRecord| record.hits.iter().filter(|hit| hit.location == 0).count();
    let all: usize = records.iter().map(seen).sum();
    assert!(all > 0, "it was watched at first");
    assert!(all < touches / 10, "{all} of {touches} were noticed");
}

/// A plan to watch some variables of eight bytes, and nothing else.
fn watching(built: &Built, variables: &[&str]) -> Plan {
    let symbols = Command::new("nm").arg(&built.path).output().unwrap().stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let location = |name: &&str| {
        let mut lines = symbols.lines();
        let line = lines.find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        let addr = LinkAddr(u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap());
        let watched = WatchedRecord {
            module: None,
            access: addr,
            passed: None,
            width: 8,
            within: 0,
            always_at: Some(addr),
            fixed: None,
            late: false,
            given_up: false,
            stores: false,
            result: false,
            found: 0,
        };
        let spec = WatchSpec {
            address: Address::Static { module: None, addr },
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        (watched, spec)
    };
    let build_id = ProgramFiles::default()
        .module(&built.path)
        .unwrap()
        .elf()
        .build_id();
    let assignment = Assignment {
        sigma: 1,
        locations: variables.iter().map(location).collect(),
        modules: vec![ModuleName {
            path: built.path.display().to_string(),
            build_id,
        }],
        ..Assignment::default()
    };
    Plan {
        bug: "busy".to_owned(),
        number: 1,
        sigma: 1,
        assignment: serde_json::to_vec(&assignment).unwrap().into(),
        ..Plan::default()
    }
}

/// Killed at many moments of its work, at which the process is being attached to, armed, watched, sent signals, or dies.
#[test]
fn an_agent_that_is_killed_leaves_the_process_alone() {
    let built = Built::new("service.c");
    let server = TestServer::start();
    plan_from_first_failure(&server.memory);
    // A failure first, so that there is something to watch.
    let first = Service::start(&built, 60_000);
    let agent = Agent::start(&follow(&built, &server.url()));
    server.memory.until("it is watched", registered);
    first.signal("USR1");
    server
        .memory
        .until("the failure", |state| !state.failures.is_empty());
    agent.end();
    drop(first);
    for ms in [40, 90, 130, 170, 220, 350, 600, 900] {
        let service = Service::start(&built, 1500);
        let mut agent = Agent::start(&follow(&built, &server.url()));
        for _ in 0..ms / 10 {
            std::thread::sleep(Duration::from_millis(10));
            service.signal("USR2");
        }
        agent.kill();
        let (status, said) = service.end();
        assert_eq!(
            (status.code(), said.as_str()),
            (Some(7), "stored 1\n"),
            "killed after {ms} ms"
        );
    }
    for us in [0, 300, 600, 900, 1500, 2500, 5000, 8000] {
        let service = Service::start(&built, 60_000);
        let mut agent = Agent::start(&follow(&built, &server.url()));
        let questions = server.memory.lock().questions.len();
        server
            .memory
            .until("it is watched", |state| state.questions.len() > questions);
        service.signal("USR1");
        std::thread::sleep(Duration::from_micros(us));
        agent.kill();
        assert_eq!(
            service.end().0.signal(),
            Some(SIGSEGV),
            "killed {us} us after the signal"
        );
    }
}
