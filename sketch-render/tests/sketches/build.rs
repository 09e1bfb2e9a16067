//! Short words for the parts of a sketch.

use diagnosis::run::AccessKind;
use diagnosis::sketch::{
    Backends, Evidence, Failure, Predictor, PredictorKind, PredictorStatement, ProgramRef, Runs, RunsBehind,
    Sketch, Source, StatementRef, Step, Thread, VERSION, Value,
};

/// A source file with the lines that a sketch is about.
pub struct File {
    pub path: &'static str,
    pub lines: &'static [(u32, &'static str, &'static str)],
}

impl File {
    /// A statement: its function and its text go by the line.
    pub fn at(&self, line: u32) -> StatementRef {
        let (_, function, text) = self
            .lines
            .iter()
            .find(|(known, ..)| *known == line)
            .expect("the line is listed");
        StatementRef {
            function: (*function).to_owned(),
            file: Some(self.path.to_owned()),
            line: Some(line),
            pc: 0x1200 + u64::from(line) * 8,
            text: Some((*text).to_owned()),
            accesses: Vec::new(),
        }
    }
}

pub fn sketch(name: &str, roles: &[&str]) -> Sketch {
    let thread = |(id, role): (usize, &&str)| Thread {
        id: u32::try_from(id).expect("a few threads"),
        role: Some((*role).to_owned()),
        label: None,
    };
    Sketch {
        version: VERSION,
        bug: Some("5f1c0de9a7b34d21".to_owned()),
        program: ProgramRef {
            name: format!("/srv/app/{name}"),
            build_id: Some("93bc211df7d1c4aa09e1".to_owned()),
        },
        failure: Failure {
            kind: "signal".to_owned(),
            signal: Some("SIGSEGV".to_owned()),
            ..Failure::default()
        },
        sigma: 8,
        runs: Runs {
            failing: 17,
            successful: 212,
            recurrences: 16,
        },
        backends: Backends {
            control_flow: "software-pt".to_owned(),
            data_flow: "exact".to_owned(),
        },
        threads: roles.iter().enumerate().map(thread).collect(),
        ..Sketch::default()
    }
}

/// A step that a run was seen to take.
pub fn step(thread: u32, statement: StatementRef) -> Step {
    Step {
        thread,
        statement,
        evidence: Evidence::Traced,
        ..Step::default()
    }
}

pub trait StepExt {
    fn does(self, access: AccessKind, variable: &str, value: Option<Value>) -> Step;
    fn of(self, rank: u32) -> Step;
    fn fails(self) -> Step;
}

impl StepExt for Step {
    fn does(self, access: AccessKind, variable: &str, value: Option<Value>) -> Step {
        Step {
            access: Some(access),
            variable: Some(variable.to_owned()),
            value,
            source: Source::Watchpoint,
            ..self
        }
    }

    fn of(self, rank: u32) -> Step {
        Step {
            predictor: Some(rank),
            ..self
        }
    }

    fn fails(self) -> Step {
        Step {
            failing: true,
            ..self
        }
    }
}

/// Numbers the steps, and says where the failing one is.
pub fn numbered(mut sketch: Sketch, steps: Vec<Step>) -> Sketch {
    for (n, step) in (0..).zip(steps) {
        sketch.steps.push(Step { n, ..step });
    }
    let failing = sketch.steps.iter().find(|step| step.failing);
    sketch.failure.statement = failing.map(|step| step.statement.clone());
    sketch
}

pub fn text(text: &str) -> Option<Value> {
    Some(Value::Text(text.to_owned()))
}

pub fn number(number: i64) -> Option<Value> {
    Some(Value::Integer(number))
}

/// A predictor that held in all failing and in so many successful runs.
pub fn predictor(rank: u32, kind: PredictorKind, pattern: &str, variable: &str, with: [u64; 2]) -> Predictor {
    let [failing_with, successful_with] = with;
    let (failing, successful) = (17, 212);
    let precision = failing_with as f64 / (failing_with + successful_with) as f64;
    let recall = failing_with as f64 / failing as f64;
    Predictor {
        rank,
        kind,
        pattern: Some(pattern.to_owned()).filter(|pattern| !pattern.is_empty()),
        variable: Some(variable.to_owned()).filter(|variable| !variable.is_empty()),
        predicate: None,
        statements: Vec::new(),
        missing: Vec::new(),
        f: 1.25 * precision * recall / (0.25 * precision + recall),
        precision,
        recall,
        precision_interval: [(precision - 0.18).max(0.0), precision],
        recall_interval: [(recall - 0.18).max(0.0), recall],
        failing_with,
        failing,
        successful_with,
        successful,
        examples: None,
        runs: RunsBehind::default(),
    }
}

pub fn by(role: &str, access: Option<AccessKind>, statement: StatementRef) -> PredictorStatement {
    PredictorStatement {
        statement,
        thread_role: role.to_owned(),
        access,
    }
}
