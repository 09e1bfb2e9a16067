//! What people and programs get to read, to the byte. `BLESS=1 cargo test -p sketch-render` writes the files
//! anew; read the difference before committing it.

use std::path::PathBuf;

use sketch_render::model::NamedAccess;
use sketch_render::term::{self, Terminal};
use sketch_render::{
    Failure, FrameLine, Reason, SliceResult, SliceStatement, StatementRef, StaticSketch, ThreadStack, json,
};

const PLAIN: Terminal = Terminal {
    width: 100,
    colour: false,
};

fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file is there: BLESS=1 makes it");
    assert_eq!(text, golden, "{name} differs");
}

fn at(function: &str, line: u32, text: &str) -> StatementRef {
    StatementRef {
        function: function.to_owned(),
        file: Some("/src/app/queue.c".to_owned()),
        line: Some(line),
        pc: 0x1000 + u64::from(line),
        text: Some(text.to_owned()),
        accesses: Vec::new(),
    }
}

fn frame(statement: StatementRef, own: bool) -> FrameLine {
    FrameLine {
        statement,
        module: Some("/usr/bin/app".to_owned()),
        inlined: false,
        own,
        origin: "cfi",
    }
}

fn library(function: &str, pc: u64) -> FrameLine {
    let statement = StatementRef {
        function: function.to_owned(),
        file: None,
        line: None,
        pc,
        text: None,
        accesses: Vec::new(),
    };
    FrameLine {
        statement,
        module: Some("/lib/libc.so.6".to_owned()),
        inlined: false,
        own: false,
        origin: "cfi",
    }
}

fn item(distance: u32, why: Reason, statement: StatementRef) -> SliceStatement {
    SliceStatement {
        distance,
        why,
        statement,
    }
}

fn statements() -> Vec<SliceStatement> {
    let mut failing = at("take", 82, "\tlock(q->mut);");
    failing.accesses.push(NamedAccess {
        access: "R",
        variable: "q->mut".to_owned(),
    });
    vec![
        item(0, Reason::Data, failing),
        item(
            1,
            Reason::Control,
            at("consumer", 127, "while ((b = take(q)) != NULL) {"),
        ),
        item(
            1,
            Reason::Thread,
            at("main", 165, "pthread_create(&t, NULL, consumer, q);"),
        ),
        item(2, Reason::Call, at("main", 170, "run(q);")),
    ]
}

fn sketch() -> StaticSketch {
    let waiting = |label: &str| ThreadStack {
        label: label.to_owned(),
        failed: false,
        frames: vec![
            library("epoll_wait", 0x10_8b03),
            frame(at("worker", 44, "wait_for_work();"), true),
        ],
    };
    StaticSketch {
        program: "/usr/bin/app".to_owned(),
        build_id: Some("93bc211df7d1c4aa".to_owned()),
        failure: Failure {
            kind: "signal",
            signal: Some("SIGSEGV".to_owned()),
            message: None,
            fault_address: Some(0x10),
            statement: Some(at("take", 82, "\tlock(q->mut);")),
        },
        threads: vec![
            waiting("Thread 11"),
            ThreadStack {
                label: "Thread 12 (app)".to_owned(),
                failed: true,
                frames: vec![
                    library("pthread_mutex_lock", 0x8_a2b4),
                    frame(at("take", 82, "lock(q->mut);"), true),
                ],
            },
            waiting("Thread 13"),
        ],
        statements: statements(),
        more: true,
        notes: vec!["the core is 4096 bytes short".to_owned()],
    }
}

#[test]
fn a_sketch_on_a_terminal() {
    check("sketch.txt", &term::static_sketch(&sketch(), PLAIN));
    check(
        "sketch-60.txt",
        &term::static_sketch(&sketch(), Terminal { width: 60, ..PLAIN }),
    );
    check(
        "sketch-colour.txt",
        &term::static_sketch(
            &sketch(),
            Terminal {
                colour: true,
                ..PLAIN
            },
        ),
    );
}

/// The JSON has everything that the terminal shows.
#[test]
fn a_sketch_that_was_kept() {
    let text = json::static_sketch(&sketch()).expect("plain data");
    let kept: diagnosis::sketch::Sketch = serde_json::from_str(&text).expect("it is a sketch");
    check("sketch.txt", &sketch_render::sketch::term(&kept, PLAIN));
    check("sketch.md", &sketch_render::sketch::markdown(&kept));
    check("sketch.html", &sketch_render::sketch::html(&kept));
    check(
        "sketch.sarif",
        &sketch_render::sketch::sarif(&kept).expect("plain data"),
    );
}

#[test]
fn a_sketch_as_json() {
    check(
        "sketch.json",
        &json::static_sketch(&sketch()).expect("plain data"),
    );
}

#[test]
fn a_slice_on_a_terminal() {
    let slice = SliceResult {
        criterion: at("take", 82, "lock(q->mut);"),
        statements: statements(),
        more: false,
        elapsed_ms: 1.5,
        notes: Vec::new(),
    };
    check("slice.txt", &term::slice(&slice, PLAIN));
}

#[test]
fn hostile_names_are_shown_and_not_obeyed() {
    let mut sketch = sketch();
    let name = format!("evil\u{1b}[2J\u{202e}{}\r\n\u{7}</script>", "x".repeat(100_000));
    sketch.program.clone_from(&name);
    sketch.notes = vec![name.clone()];
    sketch.failure.message = Some(name.clone());
    for thread in &mut sketch.threads {
        thread.label.clone_from(&name);
        for frame in &mut thread.frames {
            frame.statement.function.clone_from(&name);
            frame.statement.text = Some(name.clone());
        }
    }
    for item in &mut sketch.statements {
        item.statement.function.clone_from(&name);
        item.statement.text = Some(name.clone());
    }
    let text = term::static_sketch(&sketch, PLAIN);
    let dangerous = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!text.contains(dangerous), "no control character gets through");
}
