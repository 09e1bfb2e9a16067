//! Every program of the zoo, at both levels: what failed, and whether the slice reaches the cause.

use failsketch_tests::facts::{Kind, Place, Program};
use failsketch_tests::failing::{HangCore, fail};
use failsketch_tests::{command, zoo};
use serde_json::Value;

use crate::answer::{place, text};

/// The racing access must be among so many statements, the failing one included.
const NEAR: usize = 8;
const WHOLE: usize = 100_000;

for_each_program!(check_program);

/// Checks a program at both levels before saying anything: a problem at one level is often explained by the other.
fn check_program(name: &str) {
    let program = zoo::program(name);
    let mut wrong = String::new();
    for (level, hang_core) in zoo::LEVELS.into_iter().zip([HangCore::Live, HangCore::Quit]) {
        for problem in check_level(&program, level, hang_core) {
            wrong += &format!("{name} {level}: {problem}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn check_level(program: &Program, level: &str, hang_core: HangCore) -> Vec<String> {
    let binary = zoo::binary(&program.facts.name, level);
    // Not a problem of failsketch.
    let failed = fail(program, &binary, hang_core).unwrap_or_else(|error| panic!("{error}"));
    let exe = binary.to_str().unwrap();
    let core = failed.core.to_str().unwrap();
    let at = program.place(&program.facts.failure.at).to_string();
    let mut problems = check_triage(program, core, exe);
    problems.extend(check_slice(program, exe, ["--core", core]));
    problems.extend(check_slice(program, exe, ["--at", &at]));
    problems
}

fn check_triage(program: &Program, core: &str, exe: &str) -> Vec<String> {
    let sketch = match command::json(["triage", core, "--exe", exe, "--json"]) {
        Ok(sketch) => sketch,
        Err(error) => return vec![format!("triage: {error}")],
    };
    let facts = &program.facts.failure;
    let failure = &sketch["failure"];
    let mut problems = Vec::new();
    let mut expect = |what: &str, found: String, expected: String| {
        if found != expected {
            problems.push(format!("triage: {what} is {found}, not {expected}"));
        }
    };
    expect("the kind", text(&failure["kind"]), facts.kind.name().to_owned());
    if facts.kind == Kind::Hang {
        let waiting: Vec<Option<Place>> = failure["stacks"]
            .as_array()
            .into_iter()
            .flatten()
            .map(innermost_own)
            .collect();
        for mark in &facts.blocked {
            let expected = program.place(mark);
            if !waiting.contains(&Some(expected.clone())) {
                problems.push(format!(
                    "triage: no thread waits at {expected}; they are at {waiting:?}"
                ));
            }
        }
        return problems;
    }
    let signal = facts.signal.as_deref().unwrap_or("SIGABRT");
    expect("the signal", text(&failure["signal"]), signal.to_owned());
    let statement = &failure["statement"];
    let found = place(statement).map_or_else(|| "nowhere".to_owned(), |place| place.to_string());
    expect(
        "the failing statement",
        found,
        program.place(&facts.at).to_string(),
    );
    expect(
        "the function",
        text(&statement["function"]),
        facts.function.clone(),
    );
    problems
}

fn check_slice(program: &Program, exe: &str, from: [&str; 2]) -> Vec<String> {
    let slice = |max: usize| {
        let max = max.to_string();
        let [option, value] = from;
        command::json(["slice", "--exe", exe, option, value, "--json", "--max", &max])
    };
    // A core's path tells a reader nothing.
    let criterion = if from[0] == "--core" {
        "from the core"
    } else {
        from[1]
    };
    let (near, whole) = match slice(NEAR).and_then(|near| Ok((near, slice(WHOLE)?))) {
        Ok(slices) => slices,
        Err(error) => return vec![format!("slice {criterion}: {error}")],
    };
    let mut problems = Vec::new();
    let near = statements(&near);
    let access = program.places(&program.facts.root.failing_thread_access);
    let is_reached = near
        .iter()
        .any(|item| place(&item["statement"]).is_some_and(|found| access.contains(&found)));
    if !is_reached {
        let wanted: Vec<String> = access.iter().map(Place::to_string).collect();
        problems.push(format!(
            "slice {criterion}: {} is not among the first {NEAR}:\n{}",
            wanted.join(" or "),
            listing(near)
        ));
    }
    let strays: Vec<Value> = statements(&whole)
        .iter()
        .filter(|item| is_unreachable(&text(&item["statement"]["function"]), &program.facts.unreachable))
        .cloned()
        .collect();
    if !strays.is_empty() {
        problems.push(format!(
            "slice {criterion}: cannot reach the failure, yet in the slice:\n{}",
            listing(&strays)
        ));
    }
    problems
}

/// Whether a function is one of those, by any of the names that a debugger may give it.
fn is_unreachable(function: &str, unreachable: &[String]) -> bool {
    let bare = |name: &str| {
        let name = name.split('(').next().unwrap_or(name);
        name.rsplit("::").next().unwrap_or(name).to_owned()
    };
    unreachable.iter().any(|name| bare(name) == bare(function))
}

fn statements(slice: &Value) -> &[Value] {
    slice["statements"].as_array().map_or(&[], Vec::as_slice)
}

fn listing(statements: &[Value]) -> String {
    let lines = statements.iter().map(|item| {
        let statement = &item["statement"];
        format!(
            "    {} {:<8}{} {}  {}",
            item["distance"],
            text(&item["why"]),
            text(&statement["function"]),
            place(statement).map_or_else(|| text(&statement["pc"]), |place| place.to_string()),
            text(&statement["text"]),
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn innermost_own(stack: &Value) -> Option<Place> {
    let frames = stack.as_array()?;
    frames.iter().find(|frame| frame["own"] == true).and_then(place)
}
