//! What every form shows of a sketch, worked out once.

use diagnosis::run::AccessKind;
use diagnosis::sketch::{Evidence, Sketch, StatementRef, Step, Value};

use super::names::short;
use crate::text::{base_name, plain_start, width};

/// Longer values are shown by their beginning.
const LONGEST_VALUE: usize = 200;
/// Longer source lines are generated ones.
const LONGEST_LINE: usize = 400;

/// Whether no run was watched: everything that the sketch says follows from the binary and the failure.
#[must_use]
pub fn is_static(sketch: &Sketch) -> bool {
    sketch.runs.failing == 0 && sketch.runs.successful == 0
}

/// Whether the steps are what the failing statement depends on, and no order of execution: no failing run was watched, whether
/// successful ones were or not. Their only lane is no thread then: a slice goes through all of them.
#[must_use]
pub fn is_slice(sketch: &Sketch) -> bool {
    let inferred = |step: &Step| step.failing || step.evidence == Evidence::Inferred;
    sketch.runs.failing == 0 && sketch.steps.iter().all(inferred)
}

/// What [`is_slice`] means, for whoever reads the steps.
pub(super) const SLICE: &str =
    "what the failing statement depends on, nearest last; this is no order of execution";

/// The threads that have steps, in the order of the sketch, with the names of their lanes.
#[must_use]
pub fn lanes(sketch: &Sketch) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = sketch
        .threads
        .iter()
        .filter(|thread| sketch.steps.iter().any(|step| step.thread == thread.id))
        .map(|thread| Lane {
            thread: thread.id,
            role: thread.role.clone(),
            name: String::new(),
        })
        .collect();
    // A step of a thread that the sketch does not list is shown all the same.
    for step in &sketch.steps {
        if !lanes.iter().any(|lane| lane.thread == step.thread) {
            lanes.push(Lane {
                thread: step.thread,
                role: None,
                name: String::new(),
            });
        }
    }
    let roles: Vec<Option<String>> = lanes.iter().map(|lane| lane.role.clone()).collect();
    for (at, lane) in lanes.iter_mut().enumerate() {
        lane.name = match &lane.role {
            _ if is_slice(sketch) => "statement".to_owned(),
            None => format!("thread {}", lane.thread),
            Some(role) => {
                let same = |other: &&Option<String>| other.as_deref() == Some(role.as_str());
                let before = roles.iter().take(at).filter(same).count();
                let role = self::role(role, ROLE);
                match roles.iter().filter(same).count() {
                    1 => role,
                    _ => format!("{role} #{}", before + 1),
                }
            }
        };
    }
    lanes
}

/// Columns of a thread's role in text; whole names are in the JSON.
const ROLE: usize = 48;

/// How threads are called that run a C++ lambda. Its function has no other name than `operator()`; that of an object of a
/// class has the class's before it.
pub(super) const LAMBDA: &str = "lambda";

/// A thread's role in so many columns.
#[must_use]
pub fn role(role: &str, columns: usize) -> String {
    match role {
        "operator()" => LAMBDA.to_owned(),
        role => short(role, columns),
    }
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The thread's number in the sketch.
    pub thread: u32,
    /// Its start routine.
    pub role: Option<String>,
    /// What stands above it.
    pub name: String,
}

/// Whether two statements are the same: by line where both have one, as the instruction may be another.
#[must_use]
pub fn same_place(one: &StatementRef, other: &StatementRef) -> bool {
    let lines = |statement: &StatementRef| statement.file.is_some() && statement.line.is_some();
    if lines(one) && lines(other) {
        one.file == other.file && one.line == other.line && one.function == other.function
    } else {
        one.pc == other.pc
    }
}

/// How many steps come before the first one that a predictor or the failure is about: what led there, the same in
/// failing and successful runs as far as anybody knows.
#[must_use]
pub fn prefix(sketch: &Sketch) -> usize {
    if sketch.predictors.is_empty() {
        return 0;
    }
    let matters = |step: &Step| step.predictor.is_some() || step.failing;
    sketch.steps.iter().position(matters).unwrap_or(0)
}

/// `R q->mut = null`: what a step did to its variable. A value that is not known is a question mark.
#[must_use]
pub fn effect(step: &Step) -> Option<String> {
    effect_in(step, LONGEST_VALUE)
}

/// [`effect`] in so many columns: the variable's name is cut before its value is.
#[must_use]
pub fn effect_in(step: &Step, columns: usize) -> Option<String> {
    let value = step.value.as_ref().map(value);
    let letters = step.access.map_or(0, |access| letter(access).len() + 1);
    let rest = value.as_deref().map_or(1, width) + " = ".len() + letters;
    let room = columns.saturating_sub(rest).max(8);
    let variable = step.variable.as_deref().map(|name| short(name, room));
    let access = step.access.map(letter);
    match (access, variable, value) {
        (None, None, None) => None,
        (None, None, Some(value)) => Some(value),
        (None, Some(variable), None) => Some(variable),
        (None, Some(variable), Some(value)) => Some(format!("{variable} = {value}")),
        (Some(access), variable, value) => Some(format!(
            "{access} {} = {}",
            variable.as_deref().unwrap_or("(unnamed)"),
            value.as_deref().unwrap_or("?")
        )),
    }
}

/// `R`, `W` or `RW`.
#[must_use]
pub fn letter(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Read => "R",
        AccessKind::Write => "W",
        AccessKind::ReadWrite => "RW",
    }
}

/// A value as people read it.
#[must_use]
pub fn value(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        // Beyond every signed number: a mask, a hash, -1 of somebody who has no sign.
        Value::Large(number) => format!("{number:#x}"),
        Value::Float(number) => number.to_string(),
        Value::Text(text) if text == "0x0" || text == "NULL" => "null".to_owned(),
        Value::Text(text) => plain_start(text, LONGEST_VALUE),
    }
}

/// The source text of a statement, or what there is instead.
#[must_use]
pub fn code(statement: &StatementRef) -> String {
    match statement.text.as_deref().map(str::trim) {
        Some(text) if !text.is_empty() => plain_start(text, LONGEST_LINE),
        _ => match statement.line {
            Some(_) => "(source not available)".to_owned(),
            None => format!("(no line, {:#x})", statement.pc),
        },
    }
}

/// Whether [`code`] is source text.
#[must_use]
pub fn has_code(statement: &StatementRef) -> bool {
    statement
        .text
        .as_deref()
        .is_some_and(|text| !text.trim().is_empty())
}

/// `compress.c:82`, or the address.
#[must_use]
pub fn place(statement: &StatementRef) -> String {
    match (&statement.file, statement.line) {
        (Some(file), Some(line)) => format!("{}:{line}", plain_start(base_name(file), ROLE)),
        _ => format!("{:#x}", statement.pc),
    }
}

/// `queue_take (compress.c:82)`, with the function's name cut to so many columns.
#[must_use]
pub fn position(statement: &StatementRef, columns: usize) -> String {
    format!("{} ({})", short(&statement.function, columns), place(statement))
}

/// Whether a step was only inferred although runs were watched.
#[must_use]
pub fn is_inferred(sketch: &Sketch, step: &Step) -> bool {
    !is_slice(sketch) && step.evidence == Evidence::Inferred && !step.failing
}

/// The data address that a fault was about. With other signals comes the address of the instruction,
/// which says nothing that the statement does not.
#[must_use]
pub(crate) fn fault(signal: Option<&str>, address: Option<u64>) -> Option<u64> {
    address.filter(|_| signal.is_none_or(|signal| matches!(signal, "SIGSEGV" | "SIGBUS")))
}

/// `SIGSEGV`, `assertion (SIGABRT)`, `hang`.
#[must_use]
pub fn failure_kind(sketch: &Sketch) -> String {
    let failure = &sketch.failure;
    let text = match (&failure.signal, failure.kind.as_str()) {
        (Some(signal), "signal") => signal.clone(),
        (Some(signal), kind) => format!("{kind} ({signal})"),
        (None, kind) => kind.to_owned(),
    };
    plain_start(&text, ROLE)
}
