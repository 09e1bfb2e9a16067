//! Missing sources, nothing to say, and names that somebody chose to do harm.

use diagnosis::run::AccessKind::{Read, Write};
use diagnosis::sketch::{Predictor, PredictorKind, Sketch, StatementRef, Value};

use super::build::{StepExt as _, by, number, numbered, predictor, sketch, step, text};

fn place(function: &str, file: Option<&str>, line: u32, code: Option<&str>) -> StatementRef {
    StatementRef {
        function: function.to_owned(),
        file: file.map(str::to_owned),
        line: file.map(|_| line),
        pc: 0x4000 + u64::from(line),
        text: code.map(str::to_owned),
        accesses: Vec::new(),
    }
}

/// No source text, and then no lines either.
pub fn missing_source() -> Sketch {
    let mut sketch = sketch("stripped", &["main", "io_loop"]);
    sketch.threads[1].role = None;
    sketch.program.build_id = None;
    let close = place("connection_close", Some("/build/net/conn.c"), 210, None);
    let write = place("sub_401c30", None, 0x1c30, None);
    let read = place("sub_402a10", None, 0x2a10, None);
    sketch.predictors = vec![Predictor {
        statements: vec![
            by("main", Some(Write), write.clone()),
            by("", Some(Read), read.clone()),
        ],
        ..predictor(1, PredictorKind::Order, "WR", "", [15, 1])
    }];
    sketch.gaps = vec![
        "no source file of this program could be read: --source-map OLD=NEW says where they are".to_owned(),
    ];
    let mut steps = vec![
        step(0, close),
        step(0, write).does(Write, "", Some(Value::Large(u64::MAX))).of(1),
        step(1, read.clone())
            .does(Read, "", Some(Value::Float(0.5)))
            .of(1),
        step(1, place("sub_402a10", None, 0x2a14, None)).fails(),
    ];
    for step in &mut steps {
        step.variable = None;
    }
    numbered(sketch, steps)
}

/// Runs were watched, and nothing separates them yet.
pub fn no_predictor() -> Sketch {
    let mut sketch = sketch("curl-url-glob", &["main"]);
    sketch.runs.successful = 0;
    sketch.runs.failing = 1;
    let file = Some("/src/curl-url-glob/glob.c");
    let count = place("glob_set", file, 31, Some("glob->size++;"));
    let next = place("next_url", file, 77, Some("word = set->words[set->index];"));
    let steps = vec![
        step(0, count).does(Write, "glob->size", number(2)),
        step(0, next).does(Read, "set->words", text("null")).fails(),
    ];
    numbered(sketch, steps)
}

/// Every text of a sketch replaced by one that tries something.
pub fn hostile() -> Sketch {
    let evil = "</script><img src=x onerror=alert(1)>\u{1b}[2J\u{9b}31m\u{202e}\u{2066}`|]]>\r\n::error::x\u{0}\u{7f}&lt;'\""
        .to_owned();
    let long = format!("{evil}{}", "A".repeat(1 << 20));
    let mut sketch = super::races::order();
    sketch.bug = Some(evil.clone());
    sketch.program.name.clone_from(&evil);
    sketch.program.build_id = Some(evil.clone());
    sketch.failure.kind.clone_from(&evil);
    sketch.failure.signal = Some(evil.clone());
    sketch.failure.message = Some(evil.clone());
    sketch.backends.control_flow.clone_from(&evil);
    sketch.backends.data_flow.clone_from(&evil);
    let spoil = |statement: &mut StatementRef| {
        statement.function.clone_from(&evil);
        statement.file = Some(evil.clone());
        statement.text = Some(evil.clone());
    };
    for thread in &mut sketch.threads {
        thread.role = Some(evil.clone());
        thread.label = Some(evil.clone());
    }
    for step in &mut sketch.steps {
        spoil(&mut step.statement);
        step.variable = Some(evil.clone());
        step.value = Some(Value::Text(evil.clone()));
        step.gap_before = Some(evil.clone());
    }
    for predictor in &mut sketch.predictors {
        predictor.pattern = Some(evil.clone());
        predictor.variable = Some(evil.clone());
        predictor.predicate = Some(evil.clone());
        for statement in &mut predictor.statements {
            spoil(&mut statement.statement);
            statement.thread_role.clone_from(&evil);
        }
    }
    for frame in sketch.failure.stacks.iter_mut().flatten() {
        spoil(&mut frame.statement);
        frame.module = Some(evil.clone());
    }
    for excerpt in &mut sketch.sources {
        excerpt.file.clone_from(&evil);
        excerpt.lines = vec![evil.clone(); 3];
    }
    sketch.gaps = vec![evil.clone()];
    sketch.notes = vec![evil, long.clone()];
    sketch.program.name.clone_from(&long);
    sketch.failure.message = Some(long.clone());
    let last = sketch.steps.last_mut().expect("there are steps");
    last.statement.function.clone_from(&long);
    last.statement.text = Some(long.clone());
    last.variable = Some(long.clone());
    last.value = Some(Value::Text(long.clone()));
    sketch.predictors[0].variable = Some(long.clone());
    sketch.predictors[0].statements[0].statement.text = Some(long.clone());
    sketch.sources[0].lines[0].clone_from(&long);
    sketch.threads[0].role = Some(long);
    sketch
}
