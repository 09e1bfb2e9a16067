//! What this host can do, found out by trying.

use std::collections::BTreeMap;
use std::process::Command;

use failsketch_tests::command;
use failsketch_tests::folder::Folder;
use failsketch_tests::process::Finished;
use failsketch_tests::running::Running;
use failsketch_tests::target::Built;
use failsketch_tests::watch::Watch;
use serde_json::Value;

use crate::watching::{as_nobody, is_root, public_copy};

/// The states of a report's capabilities, by name, after a look at its fields.
fn states(done: &Finished) -> BTreeMap<String, String> {
    assert_eq!(done.how(), "exit status 0", "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(report["facts"]["kernel"].is_string(), "{report:#}");
    assert!(report["facts"]["settings"].is_array(), "{report:#}");
    let text = |entry: &Value, field: &str| {
        let text = entry[field].as_str().unwrap_or_default().to_owned();
        assert!(!text.is_empty(), "no {field}: {entry:#}");
        text
    };
    let list = report["capabilities"].as_array().unwrap();
    let read = |entry: &Value| {
        let state = text(entry, "state");
        assert!(
            ["works", "degraded", "missing"].contains(&state.as_str()),
            "{entry:#}"
        );
        let _ = (text(entry, "detail"), text(entry, "purpose"));
        let commands = entry["enable"].as_array().unwrap();
        assert!(commands.iter().all(Value::is_string), "{entry:#}");
        assert!(
            state != "works" || commands.is_empty(),
            "it works already: {entry:#}"
        );
        (text(entry, "name"), state)
    };
    list.iter().map(read).collect()
}

fn doctor(command: &mut Command, arguments: &[&str]) -> Finished {
    Running::start(command.arg("doctor").args(arguments)).finish()
}

/// What it says works is what works: each mode is tried on a program.
#[test]
fn tells_what_watching_finds() {
    let states = states(&doctor(&mut Command::new(command::binary()), &["--json"]));
    let works = |name: &str| states[name] != "missing";
    let built = Built::c("names.c", "O0");
    let observes = works("perf-rings") || works("bpf");
    for (mode, expected) in [
        ("observe", observes),
        ("exact", works("exact-stops")),
        ("compat", works("ptrace-launch")),
    ] {
        let words = ["--mode", mode, "--var", "own", "--", built.exe.to_str().unwrap()];
        let done = Watch::start(words).0.finish();
        assert_eq!(
            done.status.success(),
            expected,
            "{mode}, {states:#?}: {}",
            done.stderr
        );
    }
}

#[test]
fn tells_the_same_in_words() {
    let binary = || Command::new(command::binary());
    let states = states(&doctor(&mut binary(), &["--json"]));
    let words = doctor(&mut binary(), &[]);
    assert_eq!(words.how(), "exit status 0", "{}", words.stderr);
    for (name, state) in &states {
        let told = |line: &str| line.starts_with(state.as_str()) && line.contains(name.as_str());
        assert!(
            words.stdout.lines().any(told),
            "{name} is {state}:\n{}",
            words.stdout
        );
    }
    assert!(
        words.stdout.lines().all(|line| !line.contains('\u{1b}')),
        "{}",
        words.stdout
    );
}

#[test]
fn tells_somebody_without_rights_what_to_do() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("nobody");
    let copy = public_copy(&folder);
    let done = doctor(&mut as_nobody(&copy), &["--json"]);
    let states = states(&done);
    assert_eq!(states["bpf"], "missing", "{states:#?}");
    // Whoever is not root may trace a child of his own.
    assert_eq!(states["ptrace-launch"], "works", "{states:#?}");
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    for entry in report["capabilities"].as_array().unwrap() {
        let by_right = ["bpf", "ptrace-attach"].contains(&entry["name"].as_str().unwrap());
        if by_right && entry["state"] == "missing" {
            let commands = entry["enable"].as_array().unwrap();
            assert!(!commands.is_empty(), "no word of what would enable it: {entry:#}");
        }
    }
    let words = doctor(&mut as_nobody(&copy), &[]);
    assert!(words.stdout.contains("to enable: "), "{}", words.stdout);
}
