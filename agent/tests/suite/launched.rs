//! A command that is run again and again.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use agent::config::{Config, LaunchSettings, Settings, SpoolSettings};
use agent::daemon;
use diagnosis::inquiry::Inquiry;
use diagnosis::record::{RunEnd, RunRecord};
use failure::report::Report;
use proto::v1::{Plan, ReportFailureRequest};
use tracee::ProgramFiles;
use tracee::run::Cancel;

use crate::built::Built;
use crate::server::{Memory, TestServer};

/// What `secret` of the test's program is, as a number in JSON.
fn secret() -> String {
    u64::from_le_bytes(*b"hunter2!").to_string()
}

fn settings(built: &Built, server: &str, runs: u64) -> Settings {
    Settings {
        server: Some(server.to_owned()),
        host_id: Some(built.file("host-id")),
        fail_on: Some("signal".to_owned()),
        spool: Some(SpoolSettings {
            path: Some(built.file("spool")),
            megabytes: None,
        }),
        launch: Some(LaunchSettings {
            command: Some(built.command()),
            runs: Some(runs),
            mode: None,
        }),
        ..Settings::default()
    }
}

fn run(settings: Settings) {
    daemon::run(Config::try_from(settings).unwrap(), &Cancel::new()).unwrap();
}

/// The plan that a server makes of a failure.
fn plan(failure: &ReportFailureRequest, number: u64) -> Plan {
    let report: Report = serde_json::from_slice(&failure.report).unwrap();
    let files = ProgramFiles::default();
    let (own, others) = failure.modules.split_first().unwrap();
    let others = others.iter().map(|module| module.path.as_str());
    let program = files.program_of_modules(Path::new(&own.path), others).unwrap();
    let mut inquiry = Inquiry::open(&program, &report, None, 4, failure.runs).unwrap();
    let assignment = inquiry.assignment(number);
    assert!(!assignment.locations.is_empty(), "nothing to watch");
    Plan {
        bug: "bug-1".to_owned(),
        number,
        sigma: assignment.sigma,
        assignment: serde_json::to_vec(&assignment).unwrap().into(),
        ..Plan::default()
    }
}

/// Has the server make plans as soon as a failure is reported.
pub fn plan_from_first_failure(memory: &Memory) {
    memory.lock().plans_for_failure = Some(Box::new(plan));
}

pub fn records(memory: &Memory) -> Vec<RunRecord> {
    let state = memory.lock();
    let runs = state.runs.iter();
    runs.map(|run| serde_json::from_slice(&run.record).unwrap())
        .collect()
}

#[test]
fn what_a_call_returned_is_in_the_record() {
    let built = Built::new("lookup.c");
    let server = TestServer::start();
    server.memory.lock().wants_modules = true;
    plan_from_first_failure(&server.memory);
    run(settings(&built, &server.url(), 9));
    let mut compared = 0;
    for record in records(&server.memory) {
        let Some(number) = record.watched.iter().position(|watched| watched.result) else {
            continue;
        };
        assert!(!record.watched[number].given_up);
        let hits = record.hits.iter();
        let returned = hits.filter(|hit| hit.location as usize == number);
        let values: Vec<Option<u64>> = returned.map(|hit| hit.value).collect();
        let [Some(value)] = values[..] else {
            panic!("one call was made: {values:?}");
        };
        match record.end {
            RunEnd::Failed(_) => assert_eq!(value, 0),
            _ => assert_ne!(value, 0),
        }
        compared += 1;
    }
    assert!(compared >= 4, "{compared} runs noted what was found");
}

#[test]
fn from_the_first_failure_to_tracked_runs() {
    let built = Built::new("program.c");
    let server = TestServer::start();
    server.memory.lock().wants_modules = true;
    plan_from_first_failure(&server.memory);
    run(settings(&built, &server.url(), 30));
    let state = server.memory.lock();
    let first = state.failures.first().unwrap();
    assert_eq!(first.runs, 3);
    assert!(first.modules[0].executable && first.modules[0].path == built.path.display().to_string());
    assert!(first.modules.iter().any(|module| module.path.contains("libc")));
    assert_eq!(
        state.modules.values().next(),
        Some(&fs::read(&built.path).unwrap()),
        "the server lacked the program"
    );
    let host = fs::read_to_string(built.file("host-id")).unwrap();
    assert_eq!(first.host, host.trim());
    let registered = state.registered.first().unwrap();
    assert_eq!(
        (registered.host.as_str(), registered.programs.len()),
        (host.trim(), 1)
    );
    assert!(
        registered
            .capabilities
            .as_ref()
            .unwrap()
            .data_flow
            .contains(&"exact".to_owned())
    );
    drop(state);

    let records = records(&server.memory);
    assert!(records.len() >= 15, "{} runs were tracked", records.len());
    let failed = |record: &&RunRecord| matches!(record.end, RunEnd::Failed(_));
    assert!(records.iter().filter(failed).count() >= 4);
    assert!(
        records
            .iter()
            .filter(|record| record.end == RunEnd::Succeeded)
            .count()
            >= 8
    );
    for record in &records {
        assert!(record.number > 0 && record.sigma >= 4);
        assert!(
            record.hits.iter().any(|hit| hit.value.is_some()),
            "nothing was seen: {record:?}"
        );
    }
    assert!(
        records.iter().any(|record| record.flow.is_some()),
        "no control flow"
    );
}

#[test]
fn without_a_server_the_program_runs_and_the_failures_wait() {
    let built = Built::new("program.c");
    let server = TestServer::start();
    let url = server.url();
    let (memory, port) = server.kill();
    run(settings(&built, &url, 9));
    assert_eq!(fs::read_to_string(built.file("count")).unwrap(), "9");
    assert!(memory.lock().failures.is_empty());

    let server = TestServer::over(memory, Some(port), None);
    run(settings(&built, &url, 1));
    server
        .memory
        .until("the failures", |state| state.failures.len() == 3);
    let runs: Vec<u64> = server
        .memory
        .lock()
        .failures
        .iter()
        .map(|failure| failure.runs)
        .collect();
    assert_eq!(runs, [3, 3, 3]);
}

/// All bytes of a folder's files.
fn bytes(folder: &Path) -> Vec<u8> {
    let files = fs::read_dir(folder).unwrap();
    files
        .flat_map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect()
}

fn contains(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

/// Tracks some runs whose records nobody takes, and gives what is on the disk then.
fn kept_with(privacy: &str) -> Vec<u8> {
    let built = Built::new("program.c");
    let server = TestServer::start();
    plan_from_first_failure(&server.memory);
    server.memory.lock().takes_no_runs = true;
    run(Settings {
        privacy: Some(privacy.to_owned()),
        ..settings(&built, &server.url(), 12)
    });
    let kept = bytes(&built.file("spool"));
    assert!(
        contains(&kept, "\"hits\":[{"),
        "no run is there: the test shows nothing"
    );
    kept
}

#[test]
fn values_that_may_not_leave_are_never_on_the_disk() {
    let full = std::thread::spawn(|| kept_with("full"));
    let scalars = std::thread::spawn(|| kept_with("scalars"));
    let none = kept_with("none");
    let (full, scalars) = (full.join().unwrap(), scalars.join().unwrap());
    assert!(contains(&full, &secret()), "the test shows nothing");
    for (kept, privacy) in [(&scalars, "scalars"), (&none, "none")] {
        assert!(!contains(kept, &secret()), "{privacy}");
        assert!(!contains(kept, "hunter2"), "{privacy}");
    }
    // Null is a number, and most of what a sketch needs.
    assert!(contains(&scalars, "\"value\":0,"));
    assert!(!contains(&none, "\"value\":0,"));
}

#[test]
fn asked_to_end_it_asks_the_program_and_waits_for_it() {
    let built = Built::new("patient.c");
    let server = TestServer::start();
    let asked = Cancel::new();
    let config = Config::try_from(settings(&built, &server.url(), 5)).unwrap();
    let started = Instant::now();
    let agent = std::thread::spawn({
        let asked = asked.clone();
        move || daemon::run(config, &asked)
    });
    while !built.file("count").exists() {
        assert!(started.elapsed() < Duration::from_secs(30), "it never started");
        std::thread::sleep(Duration::from_millis(10));
    }
    asked.cancel();
    agent.join().unwrap().unwrap();
    // It writes this when it is asked to end, after a while.
    assert_eq!(fs::read_to_string(built.file("count")).unwrap(), "tidied up");
    assert!(server.memory.lock().failures.is_empty());
}

#[test]
fn what_cannot_be_run_is_said() {
    let built = Built::new("program.c");
    let mut wrong = settings(&built, "http://127.0.0.1:1", 1);
    wrong.launch.as_mut().unwrap().command = Some(vec!["/nowhere/to/be/found".to_owned()]);
    let config = Config::try_from(wrong).unwrap();
    let error = daemon::run(config, &Cancel::new()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/to/be/found"), "{error}");
}
