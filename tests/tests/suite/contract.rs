//! The JSON that other programs read: its fields and their types stay.

use failsketch_tests::failing::{HangCore, fail};
use failsketch_tests::sample::Sample;
use failsketch_tests::target::Built;
use failsketch_tests::watch::Watch;
use failsketch_tests::{command, zoo};
use serde_json::Value;

/// A check of a value, and what it should be.
type Check = (&'static str, fn(&Value) -> bool);

const TEXT: Check = ("a string", Value::is_string);
const COUNT: Check = ("a number from 0", Value::is_u64);
const NUMBER: Check = ("a number", Value::is_number);
const TRUTH: Check = ("true or false", Value::is_boolean);
const LIST: Check = ("a list", Value::is_array);
const OBJECT: Check = ("an object", Value::is_object);
const HEX: Check = ("a hexadecimal string", is_hex);
const TEXT_OR_NULL: Check = ("a string or null", |value| value.is_string() || value.is_null());

fn is_hex(value: &Value) -> bool {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok())
}

/// Checks fields that must be there, and those that may be.
fn check(what: &str, object: &Value, required: &[(&str, Check)], optional: &[(&str, Check)]) {
    for (field, (kind, holds)) in required {
        let value = object.get(field);
        let value = value.unwrap_or_else(|| panic!("{what} has no {field}: {object:#}"));
        assert!(holds(value), "{what}: {field} is not {kind}: {value:#}");
    }
    for (field, (kind, holds)) in optional {
        if let Some(value) = object.get(field) {
            assert!(holds(value), "{what}: {field} is not {kind}: {value:#}");
        }
    }
}

fn check_statement(what: &str, statement: &Value) {
    let rest = [
        ("file", TEXT),
        ("line", COUNT),
        ("text", TEXT),
        ("accesses", LIST),
    ];
    check(what, statement, &[("function", TEXT), ("pc", HEX)], &rest);
    for access in list(&statement["accesses"]) {
        check("an access", access, &[("access", TEXT), ("variable", TEXT)], &[]);
        assert_one_of(&access["access"], &["R", "W", "RW"]);
    }
}

fn assert_one_of(value: &Value, allowed: &[&str]) {
    assert!(
        value.as_str().is_some_and(|text| allowed.contains(&text)),
        "{value} is none of {allowed:?}"
    );
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn of_slice() {
    let program = zoo::program("pbzip2-queue");
    let exe = zoo::binary("pbzip2-queue", "O2");
    let at = program.place(&program.facts.failure.at).to_string();
    let max = "5";
    let arguments = [
        "slice",
        "--exe",
        exe.to_str().unwrap(),
        "--at",
        &at,
        "--json",
        "--max",
        max,
    ];
    let slice = command::json(arguments).unwrap();
    let required = [
        ("criterion", OBJECT),
        ("statements", LIST),
        ("elapsed_ms", NUMBER),
        ("more", TRUTH),
    ];
    check("a slice", &slice, &required, &[("notes", LIST)]);
    check_statement("the criterion", &slice["criterion"]);
    let statements = list(&slice["statements"]);
    assert_eq!(statements.len(), 5);
    assert_eq!(slice["more"], true);
    for item in statements {
        check(
            "a statement",
            item,
            &[("distance", COUNT), ("why", TEXT), ("statement", OBJECT)],
            &[],
        );
        assert_one_of(&item["why"], &["data", "control", "call", "thread"]);
        check_statement("a statement", &item["statement"]);
    }
    let distances: Vec<u64> = statements
        .iter()
        .filter_map(|item| item["distance"].as_u64())
        .collect();
    assert!(distances.is_sorted(), "{distances:?}");
    assert_eq!(distances.first(), Some(&0));
}

#[test]
fn of_triage() {
    let program = zoo::program("mysql-proc-info");
    let exe = zoo::binary("mysql-proc-info", "O2");
    let failed = fail(&program, &exe, HangCore::Live).unwrap();
    let [core, exe] = [&failed.core, &exe].map(|path| path.to_str().unwrap());
    let sketch = command::json(["triage", core, "--exe", exe, "--json"]).unwrap();
    let required = [
        ("version", COUNT),
        ("bug", TEXT_OR_NULL),
        ("program", OBJECT),
        ("failure", OBJECT),
        ("sigma", COUNT),
        ("runs", OBJECT),
        ("backends", OBJECT),
        ("threads", LIST),
        ("steps", LIST),
        ("predictors", LIST),
        ("gaps", LIST),
    ];
    check("a sketch", &sketch, &required, &[("notes", LIST)]);
    assert_eq!(sketch["version"], 1);
    check(
        "the program",
        &sketch["program"],
        &[("name", TEXT), ("build_id", TEXT_OR_NULL)],
        &[],
    );
    let runs = [("failing", COUNT), ("successful", COUNT), ("recurrences", COUNT)];
    check("the runs", &sketch["runs"], &runs, &[]);
    check(
        "the backends",
        &sketch["backends"],
        &[("control_flow", TEXT), ("data_flow", TEXT)],
        &[],
    );
    check_failure(&sketch["failure"]);
    let threads = list(&sketch["threads"]);
    assert_eq!(threads.len(), list(&sketch["failure"]["stacks"]).len());
    for thread in threads {
        check("a thread", thread, &[("id", COUNT), ("role", TEXT_OR_NULL)], &[]);
    }
    check_steps(list(&sketch["steps"]), threads.len());
}

#[test]
fn of_watch() {
    let built = Built::c("names.c", "O0");
    let watch = Watch::launch(
        &built.command(&[]),
        "auto",
        &["plain_global", "pointed", "outer.share"],
    );
    let done = watch.0.finish();
    assert_eq!(done.how(), "exit status 0", "{}", done.stderr);
    let lines: Vec<Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (summary, hits) = lines.split_last().unwrap();
    assert_eq!(hits.len(), 4, "{}", done.stdout);
    let required = [
        ("seq", COUNT),
        ("time_ns", COUNT),
        ("tid", COUNT),
        ("pc", HEX),
        ("statement", OBJECT),
        ("access", TEXT),
        ("addr", HEX),
        (
            "value",
            ("a number, hexadecimal text or null", |value| {
                value.is_number() || value.is_null() || is_hex(value)
            }),
        ),
    ];
    let optional = [("variable", TEXT), ("atomic", TRUTH), ("unordered", TRUTH)];
    for (hit, seq) in hits.iter().zip(1..) {
        check("a hit", hit, &required, &optional);
        check_statement("a hit", &hit["statement"]);
        assert_one_of(&hit["access"], &["R", "W", "RW"]);
        assert_eq!(hit["seq"], seq);
    }
    assert_eq!(hits[1]["value"], 2.5, "a number with a fraction: {:#}", hits[1]);
    assert!(is_hex(&hits[2]["value"]), "an address: {:#}", hits[2]);
    let counts = [
        ("hits", COUNT),
        ("lost", COUNT),
        ("late_armed", COUNT),
        ("mode", TEXT),
    ];
    check(
        "the summary",
        &summary["summary"],
        &counts,
        &[("reason", TEXT), ("ended", TEXT), ("notes", LIST)],
    );
    assert_eq!(summary["summary"]["hits"], 4);
}

fn check_failure(failure: &Value) {
    let required = [("kind", TEXT), ("statement", OBJECT), ("stacks", LIST)];
    let optional = [("signal", TEXT), ("message", TEXT), ("fault_address", HEX)];
    check("the failure", failure, &required, &optional);
    assert_one_of(
        &failure["kind"],
        &["signal", "assertion", "abort", "hang", "exit-status", "oracle"],
    );
    check_statement("the failing statement", &failure["statement"]);
    for stack in list(&failure["stacks"]) {
        assert!(!list(stack).is_empty());
        for frame in list(stack) {
            check_statement("a frame", frame);
        }
    }
}

fn check_steps(steps: &[Value], threads: usize) {
    assert!(!steps.is_empty());
    let required = [
        ("n", COUNT),
        ("thread", COUNT),
        ("statement", OBJECT),
        ("source", TEXT),
        ("evidence", TEXT),
    ];
    let optional = [
        ("access", TEXT),
        ("variable", TEXT),
        ("predictor", COUNT),
        ("failing", TRUTH),
    ];
    for step in steps {
        check("a step", step, &required, &optional);
        check_statement("a step", &step["statement"]);
        assert_one_of(&step["source"], &["slice", "watchpoint"]);
        assert_one_of(&step["evidence"], &["traced", "inferred"]);
        assert!(
            step["thread"]
                .as_u64()
                .is_some_and(|thread| thread < threads as u64),
            "{step:#}"
        );
    }
    let last = steps.last().unwrap();
    assert_eq!(
        last["failing"], true,
        "the failing statement is the last one: {last:#}"
    );
}

#[test]
fn what_failed_may_come_through_a_pipe() {
    let sample = Sample::build("list.c", &["gcc", "-O0"]);
    let exe = sample.exe.to_str().unwrap();
    let text = format!(
        "#0  0x0000000000001139 in apply (item=0x4141) at {}\n",
        sample.fails_at
    );
    let core = std::fs::read(sample.core()).unwrap();
    for (what, bytes) in [("a text", text.as_bytes()), ("a core", &core)] {
        for file in ["-", "/dev/stdin", "/dev/fd/0"] {
            let done = command::with_input(["triage", file, "--exe", exe], bytes);
            let place = format!("apply ({})", sample.fails_at);
            assert!(
                done.status.success() && done.stdout.contains(&place),
                "{what} as {file}: {}{}",
                done.stderr,
                done.stdout
            );
        }
    }
}

#[test]
fn a_line_is_found_by_any_spelling_of_its_file() {
    let sample = Sample::build("list.c", &["gcc", "-O2"]);
    let exe = sample.exe.to_str().unwrap();
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
    let line = sample.fails_at.line;
    for file in [
        "list.c",
        "./list.c",
        "programs/list.c",
        "../programs/list.c",
        "../../tests/programs/./list.c",
        &format!("{programs}/list.c"),
        &format!("{programs}/../programs/list.c"),
    ] {
        let at = format!("{file}:{line}");
        let slice = command::json(["slice", "--exe", exe, "--at", &at, "--json"]);
        let slice = slice.unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(slice["criterion"]["line"], line, "{at}");
    }
    let other = command::json([
        "slice",
        "--exe",
        exe,
        "--at",
        &format!("/elsewhere/list.c:{line}"),
        "--json",
    ]);
    assert!(other.is_err(), "another file of that name");
}
