//! A static sketch and every sketch are one thing: without runs, steps are inferred and predictors missing.

use diagnosis::run::AccessKind;
use diagnosis::sketch::{
    self, Backends, Evidence, Frame, ProgramRef, Sketch, Source, Step, Thread, VERSION, Why,
};

use crate::model::{
    Failure, FrameLine, NamedAccess, Reason, SliceStatement, StatementRef, StaticSketch, ThreadStack,
};

/// What a static sketch that was cut says about itself.
const MORE: &str = "more statements further away; ask for them with --max N";

impl From<&StaticSketch> for Sketch {
    fn from(own: &StaticSketch) -> Self {
        let failing = own.threads.iter().position(|thread| thread.failed).unwrap_or(0);
        let failing = number(failing);
        // Time runs downwards: the furthest statement first, the failing one last.
        let steps = own.statements.iter().rev().zip(0..);
        let steps = steps.map(|(item, n)| Step {
            n,
            thread: failing,
            statement: statement(&item.statement),
            source: Source::Slice,
            evidence: Evidence::Inferred,
            failing: item.distance == 0,
            distance: Some(item.distance),
            why: Some(why(item.why)),
            ..Step::default()
        });
        let threads = own.threads.iter().zip(0..).map(|(thread, id)| Thread {
            id,
            role: role(thread).map(str::to_owned),
            label: Some(thread.label.clone()),
        });
        let none = || "none".to_owned();
        Self {
            version: VERSION,
            program: ProgramRef {
                name: own.program.clone(),
                build_id: own.build_id.clone(),
            },
            failure: sketch::Failure {
                kind: own.failure.kind.to_owned(),
                signal: own.failure.signal.clone(),
                message: own.failure.message.clone(),
                fault_address: own.failure.fault_address,
                statement: own.failure.statement.as_ref().map(statement),
                stacks: own.threads.iter().map(|thread| frames(&thread.frames)).collect(),
            },
            sigma: number(own.statements.len()),
            backends: Backends {
                control_flow: none(),
                data_flow: none(),
            },
            threads: threads.collect(),
            steps: steps.collect(),
            gaps: own.more.then(|| MORE.to_owned()).into_iter().collect(),
            notes: own.notes.clone(),
            ..Self::default()
        }
    }
}

impl From<&Sketch> for StaticSketch {
    fn from(sketch: &Sketch) -> Self {
        let failing = sketch
            .steps
            .iter()
            .find(|step| step.failing)
            .map(|step| step.thread);
        let threads = sketch.threads.iter().zip(&sketch.failure.stacks);
        let threads = threads.map(|(thread, frames)| ThreadStack {
            label: thread
                .label
                .clone()
                .unwrap_or_else(|| format!("Thread {}", thread.id)),
            failed: Some(thread.id) == failing,
            frames: frames.iter().map(frame_line).collect(),
        });
        let statements = sketch.steps.iter().rev().map(|step| SliceStatement {
            distance: step.distance.unwrap_or(u32::from(!step.failing)),
            why: reason(step.why.unwrap_or(Why::Data)),
            statement: own_statement(&step.statement),
        });
        let gaps = sketch.gaps.iter().filter(|gap| *gap != MORE);
        Self {
            program: sketch.program.name.clone(),
            build_id: sketch.program.build_id.clone(),
            failure: Failure {
                kind: known(&sketch.failure.kind, &KINDS),
                signal: sketch.failure.signal.clone(),
                message: sketch.failure.message.clone(),
                fault_address: sketch.failure.fault_address,
                statement: sketch.failure.statement.as_ref().map(own_statement),
            },
            threads: threads.collect(),
            statements: statements.collect(),
            more: sketch.gaps.iter().any(|gap| gap == MORE),
            notes: sketch.notes.iter().chain(gaps).cloned().collect(),
        }
    }
}

const KINDS: [&str; 6] = ["signal", "assertion", "abort", "hang", "exit-status", "oracle"];
const ORIGINS: [&str; 8] = [
    "text",
    "context",
    "cfi",
    "frame-pointer",
    "signal-frame",
    "tail-call",
    "returned",
    "scan",
];

/// The word of a list that a text is; one that came from elsewhere and is none is not repeated.
fn known(text: &str, words: &[&'static str]) -> &'static str {
    words
        .iter()
        .find(|word| **word == text)
        .copied()
        .unwrap_or("unknown")
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A thread's role is its start routine: its outermost frame in the program's own code.
fn role(thread: &ThreadStack) -> Option<&str> {
    let own = thread.frames.iter().rev().find(|frame| frame.own)?;
    Some(&own.statement.function)
}

fn frames(lines: &[FrameLine]) -> Vec<Frame> {
    let frame = |line: &FrameLine| Frame {
        statement: statement(&line.statement),
        module: line.module.clone(),
        inlined: line.inlined,
        own: line.own,
        origin: Some(line.origin.to_owned()),
    };
    lines.iter().map(frame).collect()
}

fn frame_line(frame: &Frame) -> FrameLine {
    FrameLine {
        statement: own_statement(&frame.statement),
        module: frame.module.clone(),
        inlined: frame.inlined,
        own: frame.own,
        origin: known(frame.origin.as_deref().unwrap_or_default(), &ORIGINS),
    }
}

fn statement(own: &StatementRef) -> sketch::StatementRef {
    let access = |named: &NamedAccess| sketch::NamedAccess {
        access: match named.access {
            "W" => AccessKind::Write,
            "RW" => AccessKind::ReadWrite,
            _ => AccessKind::Read,
        },
        variable: named.variable.clone(),
    };
    sketch::StatementRef {
        function: own.function.clone(),
        file: own.file.clone(),
        line: own.line,
        pc: own.pc,
        text: own.text.clone(),
        accesses: own.accesses.iter().map(access).collect(),
    }
}

fn own_statement(statement: &sketch::StatementRef) -> StatementRef {
    let access = |named: &sketch::NamedAccess| NamedAccess {
        access: crate::sketch::view::letter(named.access),
        variable: named.variable.clone(),
    };
    StatementRef {
        function: statement.function.clone(),
        file: statement.file.clone(),
        line: statement.line,
        pc: statement.pc,
        text: statement.text.clone(),
        accesses: statement.accesses.iter().map(access).collect(),
    }
}

fn why(reason: Reason) -> Why {
    match reason {
        Reason::Data => Why::Data,
        Reason::Control => Why::Control,
        Reason::Call => Why::Call,
        Reason::Thread => Why::Thread,
    }
}

fn reason(why: Why) -> Reason {
    match why {
        Why::Data => Reason::Data,
        Why::Control => Reason::Control,
        Why::Call => Reason::Call,
        Why::Thread => Reason::Thread,
    }
}
