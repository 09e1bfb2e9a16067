//! SARIF 2.1.0: one result, whose code flow has a thread flow for each lane.

use diagnosis::sketch::{Frame, PredictorKind, Sketch, StatementRef, Step};
use serde_json::{Map, Value, json};

use super::json::pretty;
use super::view::{self, Lane};
use super::{figures, words};
use crate::text::plain_start;

/// What a failure sketch is, and how to read one: the paper that it is from.
const ABOUT: &str = "https://doi.org/10.1145/2815400.2815412";
/// Lines shown before and after the failing one.
const AROUND: u32 = 3;
/// Longer texts help nobody in an editor's list of problems.
const LONGEST: usize = 1000;

/// One rule a kind of cause.
struct Rule {
    id: &'static str,
    name: &'static str,
    means: &'static str,
    /// What to do about it.
    help: &'static str,
}

const RULES: [Rule; 6] = [
    Rule {
        id: "FS1000",
        name: "Failure",
        means: "The program failed, and nothing is known yet that separates failing from successful runs.",
        help: "The code flow has the statements that the failing one depends on. More runs may tell which of them matter.",
    },
    Rule {
        id: "FS1001",
        name: "OrderViolation",
        means: "Two threads access the same memory in an order that the program does not expect.",
        help: "Make the one thread wait for the other: join it, or signal it, before the second access.",
    },
    Rule {
        id: "FS1002",
        name: "AtomicityViolation",
        means: "Another thread's access comes between two accesses of a thread that belong together.",
        help: "Make the accesses that belong together one step for others: hold a lock over both, or use one atomic operation.",
    },
    Rule {
        id: "FS1003",
        name: "UnexpectedValue",
        means: "A statement sees a value that it sees in failing runs only.",
        help: "Follow the value back along the code flow to where it was made.",
    },
    Rule {
        id: "FS1004",
        name: "UnexpectedBranch",
        means: "A branch goes a way that it goes in failing runs only.",
        help: "Follow what the branch decides upon back along the code flow.",
    },
    Rule {
        id: "FS1005",
        name: "Deadlock",
        means: "Threads wait for one another.",
        help: "Take the locks in the same order everywhere, or give one back before waiting for the other.",
    },
];

/// A sketch as SARIF.
///
/// # Errors
/// Never, for a sketch; serialisation is fallible by its signature.
pub fn sarif(sketch: &Sketch) -> Result<String, serde_json::Error> {
    let pattern = sketch.predictors.first().and_then(|best| best.pattern.as_deref());
    let deadlock = pattern == Some(words::DEADLOCK);
    let rule = match sketch.predictors.first().map(|best| best.kind) {
        None => 0,
        Some(PredictorKind::Order) if deadlock => 5,
        Some(PredictorKind::Order) => 1,
        Some(PredictorKind::Atomicity) => 2,
        Some(PredictorKind::Value) => 3,
        Some(PredictorKind::Branch) => 4,
    };
    let rule = RULES.get(rule).unwrap_or(&RULES[0]);
    let driver = json!({
        "name": "failsketch",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": ABOUT,
        "rules": [{
            "id": rule.id,
            "name": rule.name,
            "shortDescription": { "text": rule.means },
            "fullDescription": { "text": rule.means },
            "help": { "text": rule.help },
            "helpUri": ABOUT,
            "defaultConfiguration": { "level": "error" },
            "messageStrings": { "sketch": { "text": "{0}." } },
        }],
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver },
            "columnKind": "utf16CodeUnits",
            "results": [result(sketch, rule.id)],
        }],
    });
    pretty(&log)
}

fn result(sketch: &Sketch, rule: &str) -> Value {
    let failing = sketch.failure.statement.as_ref();
    let said = words::sentence(sketch).plain();
    let mut result = json!({
        "ruleId": rule,
        "ruleIndex": 0,
        "level": "error",
        // Some readers do not look the message up.
        "message": { "id": "sketch", "arguments": [said], "text": format!("{said}.") },
        "locations": failing.map(|at| in_context(sketch, at)).into_iter().collect::<Vec<_>>(),
        "properties": properties(sketch),
    });
    if let Some(bug) = &sketch.bug {
        result["partialFingerprints"] = json!({ "failsketchBug/v1": plain_start(bug, LONGEST) });
    }
    if !sketch.steps.is_empty() {
        result["codeFlows"] = json!([code_flow(sketch)]);
    }
    // The schema wants each stack once; threads that wait alike have the same.
    let mut stacks: Vec<Value> = Vec::new();
    for frames in sketch.failure.stacks.iter().filter(|frames| !frames.is_empty()) {
        let stack = stack(frames);
        if !stacks.contains(&stack) {
            stacks.push(stack);
        }
    }
    if !stacks.is_empty() {
        result["stacks"] = Value::Array(stacks);
    }
    result["relatedLocations"] = related(sketch);
    result
}

/// The other statements of the best predictor.
fn related(sketch: &Sketch) -> Value {
    let statements = sketch.predictors.first().map_or(&[][..], |best| &best.statements);
    let failing = sketch.failure.statement.as_ref();
    let mut seen: Vec<&StatementRef> = failing.into_iter().collect();
    let mut found = Vec::new();
    for item in statements {
        if !seen.contains(&&item.statement) {
            seen.push(&item.statement);
            let mut related = location(&item.statement);
            let access = item.access.map_or("", view::letter);
            let role = view::role(&item.thread_role, LONGEST);
            related["message"] = json!({ "text": format!("{role} {access}").trim() });
            found.push(related);
        }
    }
    Value::Array(found)
}

fn code_flow(sketch: &Sketch) -> Value {
    let flows: Vec<Value> = view::lanes(sketch)
        .iter()
        .map(|lane| thread_flow(sketch, lane))
        .collect();
    let what = if view::is_slice(sketch) {
        format!("The steps are {}.", view::SLICE)
    } else {
        "What the threads did, in the order in which they did it.".to_owned()
    };
    json!({
        "message": { "text": what },
        "threadFlows": flows,
    })
}

fn thread_flow(sketch: &Sketch, lane: &Lane) -> Value {
    let prefix = view::prefix(sketch);
    let own = |(_, step): &(usize, &Step)| step.thread == lane.thread;
    let steps = sketch.steps.iter().enumerate().filter(own);
    let locations: Vec<Value> = steps
        .map(|(index, step)| flow_location(sketch, step, index < prefix))
        .collect();
    json!({ "id": lane.thread.to_string(), "message": { "text": lane.name }, "locations": locations })
}

fn flow_location(sketch: &Sketch, step: &Step, grey: bool) -> Value {
    let mut at = location(&step.statement);
    let effect = view::effect(step);
    let mut text = effect.clone().unwrap_or_else(|| view::code(&step.statement));
    if let Some(gap) = &step.gap_before {
        text = format!("(gap before: {}) {text}", plain_start(gap, LONGEST));
    }
    at["message"] = json!({ "text": text });
    let importance = if step.predictor.is_some() || step.failing {
        "essential"
    } else if grey {
        "unimportant"
    } else {
        "important"
    };
    let mut location = json!({ "location": at, "importance": importance });
    // Without this property the order among threads is not known, which is what it then is.
    if step.unordered_after.is_none() && !view::is_slice(sketch) {
        location["executionOrder"] = json!(step.n);
    }
    if let (Some(variable), Some(value)) = (&step.variable, &step.value) {
        let mut state = Map::new();
        state.insert(
            plain_start(variable, LONGEST),
            json!({ "text": view::value(value) }),
        );
        location["state"] = Value::Object(state);
    }
    location
}

fn stack(frames: &[Frame]) -> Value {
    let frames: Vec<Value> = frames
        .iter()
        .map(|frame| {
            let mut shown = json!({ "location": location(&frame.statement) });
            if let Some(module) = &frame.module {
                shown["module"] = json!(plain_start(module, LONGEST));
            }
            shown
        })
        .collect();
    json!({ "frames": frames })
}

fn location(statement: &StatementRef) -> Value {
    let mut location = json!({
        "logicalLocations": [{ "fullyQualifiedName": plain_start(&statement.function, LONGEST), "kind": "function" }],
    });
    let mut physical = Map::new();
    if let Some(file) = &statement.file {
        physical.insert("artifactLocation".to_owned(), json!({ "uri": uri(file) }));
        if let Some(line) = statement.line.filter(|&line| line > 0) {
            let mut region = json!({ "startLine": line });
            if view::has_code(statement) {
                region["snippet"] = json!({ "text": view::code(statement) });
            }
            physical.insert("region".to_owned(), region);
        }
    } else {
        physical.insert(
            "address".to_owned(),
            json!({ "absoluteAddress": statement.pc, "kind": "instruction" }),
        );
    }
    location["physicalLocation"] = Value::Object(physical);
    location
}

/// The same for a result: with the lines around it, where they are known. Where not even the line is, the function has to do, as readers
/// of results want regions; the code flow has the address.
fn in_context(sketch: &Sketch, statement: &StatementRef) -> Value {
    let mut location = location(statement);
    let (Some(file), Some(line)) = (&statement.file, statement.line.filter(|&line| line > 0)) else {
        if let Some(location) = location.as_object_mut() {
            location.remove("physicalLocation");
        }
        return location;
    };
    for excerpt in sketch.sources.iter().filter(|excerpt| excerpt.file == *file) {
        let lines = (excerpt.first..).zip(&excerpt.lines);
        let near: Vec<_> = lines
            .filter(|(number, _)| number.abs_diff(line) <= AROUND)
            .collect();
        let (Some((first, _)), Some((last, _))) = (near.first(), near.last()) else {
            continue;
        };
        if (*first..=*last).contains(&line) && first < last {
            let text: Vec<String> = near.iter().map(|(_, text)| plain_start(text, LONGEST)).collect();
            location["physicalLocation"]["contextRegion"] =
                json!({ "startLine": first, "endLine": last, "snippet": { "text": text.join("\n") } });
            break;
        }
    }
    location
}

/// A path as a URI: absolute ones with a scheme, the bytes that a URI cannot have escaped.
fn uri(path: &str) -> String {
    let path = plain_start(path, LONGEST);
    let mut uri = if path.starts_with('/') {
        "file://".to_owned()
    } else {
        String::new()
    };
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~+".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

fn properties(sketch: &Sketch) -> Value {
    let predictors: Vec<Value> = sketch
        .predictors
        .iter()
        .take(10)
        .map(|predictor| {
            json!({
                "rank": predictor.rank,
                "kind": figures::kind(predictor),
                "text": words::predictor(sketch, predictor).plain(),
                "f": predictor.f,
                "failingWith": predictor.failing_with,
                "failing": predictor.failing,
                "successfulWith": predictor.successful_with,
                "successful": predictor.successful,
            })
        })
        .collect();
    let texts = |texts: &[String]| {
        texts
            .iter()
            .map(|text| plain_start(text, LONGEST))
            .collect::<Vec<_>>()
    };
    json!({
        "program": plain_start(&sketch.program.name, LONGEST),
        "failure": view::failure_kind(sketch),
        "predictors": predictors,
        "gaps": texts(&sketch.gaps),
        "notes": texts(&sketch.notes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("/src/a b/é.c"), "file:///src/a%20b/%C3%A9.c");
        assert_eq!(uri("src/x.c"), "src/x.c");
    }
}
