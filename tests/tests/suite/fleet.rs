//! Many hosts and a server: what one machine finds out, a fleet finds out; and nothing is lost or counted twice on the way.

use std::process::Command;
use std::time::Duration;

use failsketch_tests::folder::Folder;
use failsketch_tests::postgres::Postgres;
use failsketch_tests::{process, zoo};
use serde_json::Value;

use crate::service::{Server, failsketch, recorded, replay};

/// Sketches that are made before one is taken for wrong: on a busy machine a race may be lost each time, and then there is nothing
/// to compare with.
const ATTEMPTS: usize = 8;
/// Fleets of which most have to be right: each makes its own handful of runs.
const FLEETS: usize = 5;
/// Successful runs that there have to be.
const TO_COMPARE: u64 = 3;

fn sketch_of(arguments: &[&str]) -> Value {
    let done = failsketch(arguments);
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

/// The first predictor of a fleet, as pattern and places.
fn explained(name: &str, registers: &str) -> (String, Vec<(String, u64)>) {
    let binary = zoo::binary(name, "O0");
    let arguments = [
        "fleet",
        "--agents",
        "4",
        "--registers",
        registers,
        "--format",
        "json",
        "--time-limit",
        "120",
        "--",
        binary.to_str().unwrap(),
    ];
    let mut sketches = (0..ATTEMPTS).map(|_| sketch_of(&arguments));
    // Where locations are shared out, few of the runs watched what the best predictor is about.
    let compared = |sketch: &Value| sketch["predictors"][0]["successful"].as_u64() >= Some(TO_COMPARE);
    let sketch = sketches.find(compared).expect("runs to compare with");
    let best = &sketch["predictors"][0];
    let statements = best["statements"].as_array().expect("statements").iter();
    let place = |statement: &Value| {
        let file = statement["file"].as_str().unwrap_or_default();
        let name = file.rsplit('/').next().unwrap_or_default().to_owned();
        (name, statement["line"].as_u64().unwrap_or_default())
    };
    (
        best["pattern"].as_str().unwrap_or_default().to_owned(),
        statements.map(place).collect(),
    )
}

fn is_the_root_cause(name: &str, registers: &str) {
    let program = zoo::program(name);
    let root = &program.facts.root;
    let places = root.statements.iter().map(|step| {
        let place = program.place(&step.at);
        (place.file.clone(), u64::from(place.line))
    });
    let expected = (root.pattern.clone(), places.collect());
    let found: Vec<_> = (0..FLEETS).map(|_| explained(name, registers)).collect();
    let right = found.iter().filter(|found| **found == expected).count();
    assert!(2 * right > FLEETS, "{right} of {FLEETS}: {found:?}");
}

#[test]
fn four_hosts_and_a_server_find_an_atomicity_violation() {
    is_the_root_cause("mysql-proc-info", "4");
}

#[test]
fn four_hosts_find_it_though_none_sees_everything() {
    is_the_root_cause("mysql-proc-info", "1");
}

/// The only bug's figures, when the sketch has all runs in it.
pub fn counted(server: &str, runs: u64) -> Value {
    for _ in 0..300 {
        let listed = failsketch(&["bugs", "--server", server]);
        assert!(listed.status.success(), "{}", listed.stderr);
        let bug = listed
            .stdout
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        assert!(
            listed.stdout.contains(&format!(" {runs} tracked runs")),
            "{}",
            listed.stdout
        );
        let shown = failsketch(&["show", "--server", server, "--format", "json", &bug]);
        if let Ok(sketch) = serde_json::from_str::<Value>(&shown.stdout) {
            let of = |kind: &str| sketch["runs"][kind].as_u64().unwrap_or_default();
            let notes = sketch["notes"].to_string();
            if notes.contains(&format!(" of {runs} tracked runs")) {
                assert!(of("failing") + of("successful") <= runs, "{}", sketch["runs"]);
                return sketch;
            }
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("the runs were not taken in");
}

#[test]
fn no_run_is_lost_or_counted_twice_though_the_server_is_killed() {
    let folder = Folder::new("fleet");
    let kept = recorded(&folder);
    let store = format!("sqlite:{}", folder.path().join("bugs.db").display());
    let mut server = Server::start(&folder, &store);
    let mut fleet = replay(&server.url(), &kept, "40", "800");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        if fleet.runs() {
            server.kill_and_start_again();
        }
    }
    let done = fleet.finish();
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    assert!(
        done.stdout.contains("0 refused; the server has 800"),
        "{}",
        done.stdout
    );
    counted(&server.url(), 800);
}

#[test]
fn a_bug_is_stopped_widened_and_comes_back_after_it_was_fixed() {
    let folder = Folder::new("fleet");
    let kept = recorded(&folder);
    let store = format!("sqlite:{}", folder.path().join("bugs.db").display());
    let server = Server::start(&folder, &store);
    let url = server.url();
    let done = replay(&url, &kept, "2", "4").finish();
    assert!(done.status.success(), "{}", done.stderr);
    let bugs = failsketch(&["bugs", "--server", &url]).stdout;
    let bug = bugs.split_whitespace().next().unwrap();
    let steer = |how: &[&str]| {
        let arguments = [&["steer", "--server", &url, bug], how].concat();
        let done = failsketch(&arguments);
        assert!(done.status.success(), "{}", done.stderr);
        done.stdout
    };
    assert!(steer(&["--stop"]).contains("  stopped "));
    assert!(steer(&["--widen"]).contains("  tracking "));
    let build = zoo_build(&folder);
    assert!(steer(&["--fixed-in", &build]).contains("  fixed "));
    // Somebody reports the failure again, in the build that was to have it fixed.
    let done = replay(&url, &kept, "2", "4").finish();
    assert!(done.status.success(), "{}", done.stderr);
    let bugs = failsketch(&["bugs", "--server", &url]).stdout;
    assert!(bugs.contains("  regressed "), "{bugs}");
    let refused = failsketch(&["steer", "--server", &url, "0123456789abcdef", "--stop"]);
    assert!(
        refused.stderr.contains("there is no bug 0123456789abcdef"),
        "{}",
        refused.stderr
    );
}

/// The build-id of the program whose runs are replayed, as people copy it.
fn zoo_build(folder: &Folder) -> String {
    let mut readelf = Command::new("readelf");
    readelf.arg("-n").arg(zoo::binary("mysql-proc-info", "O0"));
    let notes = process::tool(&mut readelf, folder.path());
    let build = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    build.expect("a build-id").to_owned()
}

#[test]
fn two_servers_share_a_postgresql_and_agree_though_it_and_one_of_them_are_killed() {
    let folder = Folder::new("fleet");
    let kept = recorded(&folder);
    let mut database = Postgres::start();
    let mut one = Server::start(&folder, &database.url());
    let two = Server::start(&folder, &database.url());
    let first = replay(&one.url(), &kept, "10", "200");
    let second = replay(&two.url(), &kept, "10", "200");
    std::thread::sleep(Duration::from_millis(500));
    one.kill_and_start_again();
    database.kill();
    std::thread::sleep(Duration::from_millis(300));
    database.start_again();
    for fleet in [first, second] {
        let done = fleet.finish();
        assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
        assert!(done.stdout.contains(" 0 refused;"), "{}", done.stdout);
    }
    let (here, there) = (counted(&one.url(), 400), counted(&two.url(), 400));
    assert_eq!(here, there);
}
