//! What this host is said to be able to do, as root and as nobody.

#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

use std::fs;
use std::io::Write as _;
use std::process::Command;

use failsketch_tests::folder::Folder;
use failsketch_tests::process::tool;
use failsketch_tests::skip;
use serde_json::Value;
use tracee::capability::{State, examine};

const NAMES: [&str; 11] = [
    "watchpoints",
    "exact-stops",
    "perf-rings",
    "bpf",
    "uprobes",
    "ptrace-launch",
    "ptrace-attach",
    "memory",
    "intel-pt",
    "open-files",
    "core-dumps",
];

#[test]
fn every_capability_is_reported_with_what_to_do() {
    let report = examine();
    let names: Vec<_> = report.capabilities.iter().map(|one| one.name).collect();
    assert_eq!(names, NAMES);
    for one in &report.capabilities {
        assert!(!one.detail.is_empty() && !one.detail.contains('\n'), "{one:?}");
        if one.state == State::Works {
            assert!(one.enable.is_empty(), "{one:?}");
        } else if one.name != "intel-pt" {
            assert!(!one.enable.is_empty(), "{one:?}");
        }
    }
    assert!(report.facts.kernel.contains('.'), "{:?}", report.facts);
    assert!(report.facts.setting("kernel.core_pattern").is_some());
}

#[test]
fn what_the_capabilities_of_root_allow_works() {
    let report = examine();
    let facts = &report.facts;
    let all = ["CAP_PERFMON", "CAP_BPF", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"]
        .iter()
        .all(|name| facts.has(name));
    if !all || facts.container.is_some() || facts.user_namespace || facts.seccomp {
        return skip::skipped("not root of the host");
    }
    for one in &report.capabilities[..8] {
        assert_eq!(one.state, State::Works, "{one:?}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let children = || fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let before = children();
    let _ = examine();
    assert_eq!(children(), before);
}

/// For the test below, which starts it as somebody else.
#[test]
fn printer() {
    if std::env::var_os("FAILSKETCH_PRINT").is_some() {
        // Past the harness, which keeps what a test prints.
        let report = serde_json::to_string(&examine()).unwrap();
        writeln!(std::io::stdout(), "\n{report}").unwrap();
    }
}

#[test]
fn nobody_gets_useful_commands() {
    if examine().facts.user != 0 || !skip::is_installed("setpriv") {
        return skip::skipped("only root can become somebody else");
    }
    // Where everybody may execute it.
    let folder = Folder::new("capability");
    let exe = folder.path().join("failsketch");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
        .arg(&exe)
        .args(["--exact", "printer"])
        .env("FAILSKETCH_PRINT", "1");
    let output = tool(&mut command, folder.path());
    let json = output.lines().find(|line| line.starts_with('{'));
    let report: Value = serde_json::from_str(json.unwrap_or_else(|| panic!("{output}"))).unwrap();
    assert_eq!(report["facts"]["user"], 65534);
    assert_eq!(report["facts"]["capabilities"], serde_json::json!([]));
    let find = |name: &str| {
        let mut all = report["capabilities"].as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap().clone()
    };
    let uprobes = find("uprobes");
    assert_eq!(uprobes["state"], "missing", "{uprobes}");
    let command = uprobes["enable"][0].as_str().unwrap();
    if report["facts"]["container"].is_null() && report["facts"]["no_new_privileges"] == false {
        assert_eq!(
            command,
            format!(
                "sudo setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_sys_admin+ep '{}'",
                exe.display()
            )
        );
    }
    let watchpoints = find("watchpoints");
    match watchpoints["state"].as_str() {
        Some("works") => {}
        _ => assert!(
            !watchpoints["enable"].as_array().unwrap().is_empty(),
            "{watchpoints}"
        ),
    }
}
