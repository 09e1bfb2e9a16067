//! The systemd unit of an agent: it is one, and leaves the agent what it needs.

use std::path::Path;
use std::process::Command;

use failsketch_tests::folder::Folder;
use failsketch_tests::{command, process, skip};
use serde_json::Value;

use crate::service::LONGEST;

fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/failsketch-agent.service");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn systemd_takes_the_unit() {
    if !skip::is_installed("systemd-analyze") {
        return skip::skipped("systemd-analyze is not installed");
    }
    let folder = Folder::new("unit");
    let installed = unit().replace("/usr/bin/failsketch", command::binary().to_str().unwrap());
    assert_ne!(installed, unit(), "the command is somewhere else");
    let path = folder.write("failsketch-agent.service", installed);
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(path);
    let done = process::run(&mut verify, b"", LONGEST, |_| ());
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("failsketch-agent"), "{said}");
}

#[test]
fn with_the_rights_of_the_unit_everything_works_that_works_for_root() {
    let unit = unit();
    let rights = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .unwrap();
    let rights = rights
        .split_whitespace()
        .map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    let bounds = format!("--bounding-set=-all{}", rights.collect::<String>());
    let mut limited = Command::new("setpriv");
    limited.args([&bounds, "--no-new-privs"]);
    limited.arg(command::binary()).args(["doctor", "--json"]);
    let done = process::run(&mut limited, b"", LONGEST, |_| ());
    if done.stdout.is_empty() {
        return skip::skipped("rights can be given away by root alone");
    }
    let works = |text: &str| {
        let report: Value = serde_json::from_str(text).unwrap();
        let all = report["capabilities"].as_array().unwrap().clone();
        let working = all.into_iter().filter(|one| one["state"] == "works");
        working.map(|one| one["name"].to_string()).collect::<Vec<_>>()
    };
    let everything = command::failsketch(["doctor", "--json"]).stdout;
    assert_eq!(works(&done.stdout), works(&everything));
}
