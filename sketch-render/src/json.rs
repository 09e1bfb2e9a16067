//! The sketch's JSON, version 1.

use serde_json::{Value, json};

use crate::model::{SliceStatement, StaticSketch, ThreadStack};

/// A static sketch in the shape of every sketch: no run was watched, so there are no predictors, and every
/// step is inferred.
///
/// # Errors
/// Never, for values of these types; serialisation is fallible by its signature.
pub fn static_sketch(sketch: &StaticSketch) -> Result<String, serde_json::Error> {
    let failing = sketch
        .threads
        .iter()
        .position(|thread| thread.failed)
        .unwrap_or(0);
    let mut failure = serde_json::to_value(&sketch.failure)?;
    failure["stacks"] = stacks(&sketch.threads)?;
    // Time runs downwards: the furthest statement first, the failing one last.
    let steps: Vec<Value> = sketch
        .statements
        .iter()
        .rev()
        .enumerate()
        .map(|(n, statement)| step(n, statement, failing))
        .collect::<Result<_, _>>()?;
    let threads: Vec<Value> = sketch
        .threads
        .iter()
        .enumerate()
        .map(|(id, thread)| json!({ "id": id, "role": role(thread), "label": thread.label }))
        .collect();
    let value = json!({
        "version": 1,
        "bug": Value::Null,
        "program": { "name": sketch.program, "build_id": sketch.build_id },
        "failure": failure,
        "sigma": sketch.statements.len(),
        "runs": { "failing": 0, "successful": 0, "recurrences": 0 },
        "backends": { "control_flow": "none", "data_flow": "none" },
        "threads": threads,
        "steps": steps,
        "predictors": [],
        "gaps": [],
        "notes": sketch.notes,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn stacks(threads: &[ThreadStack]) -> Result<Value, serde_json::Error> {
    threads
        .iter()
        .map(|thread| serde_json::to_value(&thread.frames))
        .collect()
}

/// A thread's role is its start routine: its outermost frame in the program's own code.
fn role(thread: &ThreadStack) -> Option<&str> {
    thread
        .frames
        .iter()
        .rev()
        .find(|frame| frame.own)
        .map(|frame| frame.statement.function.as_str())
}

fn step(n: usize, item: &SliceStatement, thread: usize) -> Result<Value, serde_json::Error> {
    let mut step = json!({
        "n": n,
        "thread": thread,
        "statement": serde_json::to_value(&item.statement)?,
        "distance": item.distance,
        "why": serde_json::to_value(item.why)?,
        "source": "slice",
        "evidence": "inferred",
    });
    if item.distance == 0 {
        step["failing"] = Value::Bool(true);
    }
    Ok(step)
}
