//! Races, a deadlock and a branch.

use diagnosis::run::AccessKind::{Read, ReadWrite, Write};
use diagnosis::sketch::{
    Evidence, Examples, Frame, Predictor, PredictorKind, RunsBehind, Sketch, SourceExcerpt, Step,
};

use super::build::{File, StepExt as _, by, number, numbered, predictor, sketch, step, text};

const COMPRESS: File = File {
    path: "/src/pbzip2-queue/compress.c",
    lines: &[
        (51, "queue_init", "q->mut = malloc(sizeof *q->mut);"),
        (61, "queue_delete", "free(q->mut);"),
        (62, "queue_delete", "q->mut = NULL;"),
        (82, "queue_take", "pthread_mutex_lock(q->mut);"),
        (83, "queue_take", "while (q->count == 0 && !q->finished)"),
        (124, "consumer", "struct queue *q = arg;"),
        (127, "consumer", "while ((b = queue_take(q)) != NULL) {"),
        (
            165,
            "main",
            "pthread_create(&consumers[i], NULL, consumer, fifo);",
        ),
    ],
};

/// pbzip2-queue: a WR order violation.
pub fn order() -> Sketch {
    let mut sketch = sketch("pbzip2-queue", &["main", "consumer"]);
    sketch.failure.fault_address = Some(0x10);
    let at = |line| COMPRESS.at(line);
    let clear = step(0, at(62)).does(Write, "q->mut", text("null"));
    let lock = step(1, at(82)).does(Read, "q->mut", text("null"));
    let best = Predictor {
        statements: vec![
            by("main", Some(Write), at(62)),
            by("consumer", Some(Read), at(82)),
        ],
        examples: Some(Examples {
            failing: vec![clear.clone(), lock.clone()],
            successful: vec![
                step(1, at(82)).does(Read, "q->mut", text("0x55d0c8a012a0")),
                clear.clone(),
            ],
        }),
        runs: RunsBehind {
            failing: vec![229, 221, 198],
            successful: Vec::new(),
        },
        ..predictor(1, PredictorKind::Order, "WR", "q->mut", [17, 0])
    };
    let second = Predictor {
        predicate: Some("null".to_owned()),
        statements: vec![by("consumer", Some(Read), at(82))],
        ..predictor(2, PredictorKind::Value, "", "q->mut", [17, 0])
    };
    let third = Predictor {
        predicate: Some("not taken".to_owned()),
        statements: vec![by("consumer", None, at(83))],
        ..predictor(3, PredictorKind::Branch, "", "", [9, 61])
    };
    sketch.predictors = vec![best, second, third];
    sketch.sources = vec![SourceExcerpt {
        file: COMPRESS.path.to_owned(),
        first: 57,
        lines: [
            "static void queue_delete(struct queue *q)",
            "{",
            "\tpthread_mutex_destroy(q->mut);",
            "\t/* nobody waits for the consumers */",
            "\tfree(q->mut);",
            "\tq->mut = NULL;",
            "\tpthread_cond_destroy(q->changed);",
        ]
        .map(str::to_owned)
        .to_vec(),
    }];
    sketch.failure.stacks = vec![
        vec![
            Frame {
                statement: diagnosis::sketch::StatementRef {
                    function: "___pthread_mutex_lock".to_owned(),
                    pc: 0x8a2b4,
                    ..Default::default()
                },
                module: Some("/lib/x86_64-linux-gnu/libc.so.6".to_owned()),
                ..Frame::default()
            },
            Frame {
                inlined: true,
                ..Frame::from(at(82))
            },
            Frame::from(at(127)),
        ],
        vec![Frame::from(at(62))],
    ];
    numbered(
        sketch,
        vec![
            step(0, at(51)).does(Write, "q->mut", text("0x55d0c8a012a0")),
            step(0, at(165)),
            step(1, at(124)),
            step(0, at(61)).does(Read, "q->mut", text("0x55d0c8a012a0")),
            clear.of(1),
            step(1, at(127)),
            lock.of(1).fails(),
        ],
    )
}

const PROCESSLIST: File = File {
    path: "/src/mysql-proc-info/processlist.c",
    lines: &[
        (46, "append", "while (*s && r->used < sizeof r->text - 1)"),
        (60, "report_session", "if (thd->proc_info) {"),
        (63, "report_session", "append(r, thd->proc_info);"),
        (75, "monitor", "report_session(r, &sessions[s]);"),
        (83, "run_query", "thd->proc_info = \"Sending data\";"),
        (86, "run_query", "thd->proc_info = NULL;"),
    ],
};

/// mysql-proc-info: an RWR atomicity violation, with a write whose place is not certain.
pub fn atomicity() -> Sketch {
    let mut sketch = sketch("mysql-proc-info", &["session", "monitor"]);
    sketch.failure.message = Some("segfault at 0 ip 000055d0c8a012a0".to_owned());
    let at = |line| PROCESSLIST.at(line);
    sketch.predictors = vec![Predictor {
        statements: vec![
            by("monitor", Some(Read), at(60)),
            by("session", Some(Write), at(86)),
            by("monitor", Some(Read), at(63)),
        ],
        ..predictor(1, PredictorKind::Atomicity, "RWR", "thd->proc_info", [17, 3])
    }];
    sketch.notes =
        vec!["3 successful runs had the pattern: the session had set the field again in time".to_owned()];
    numbered(
        sketch,
        vec![
            step(0, at(83)).does(Write, "thd->proc_info", text("\"Sending data\"")),
            Step {
                unordered_after: Some(0),
                ..step(1, at(75))
            },
            step(1, at(60))
                .does(Read, "thd->proc_info", text("\"Sending data\""))
                .of(1),
            step(0, at(86)).does(Write, "thd->proc_info", text("null")).of(1),
            step(1, at(63)).does(Read, "thd->proc_info", text("null")).of(1),
            step(1, at(46)).fails(),
        ],
    )
}

const PAGER: File = File {
    path: "/src/sqlite-lock-order/pager.c",
    lines: &[
        (45, "commit_transaction", "pthread_mutex_lock(&db_mutex);"),
        (47, "commit_transaction", "pthread_mutex_lock(&cache_mutex);"),
        (71, "checkpoint", "pthread_mutex_lock(&cache_mutex);"),
        (73, "checkpoint", "pthread_mutex_lock(&db_mutex);"),
        (87, "writer", "commit_transaction(i);"),
        (97, "checkpointer", "checkpoint();"),
    ],
};

/// sqlite-lock-order: a hang.
pub fn hang() -> Sketch {
    let mut sketch = sketch("sqlite-lock-order", &["writer", "checkpointer"]);
    sketch.failure.kind = "hang".to_owned();
    sketch.failure.signal = None;
    let at = |line| PAGER.at(line);
    sketch.failure.stacks = vec![
        vec![Frame::from(at(73)), Frame::from(at(97))],
        vec![Frame::from(at(47)), Frame::from(at(87))],
    ];
    sketch.predictors = vec![Predictor {
        statements: vec![
            by("writer", Some(Read), at(47)),
            by("checkpointer", Some(Read), at(73)),
        ],
        ..predictor(
            1,
            PredictorKind::Order,
            "deadlock",
            "cache_mutex, db_mutex",
            [17, 0],
        )
    }];
    numbered(
        sketch,
        vec![
            step(0, at(87)),
            step(0, at(45)).does(ReadWrite, "db_mutex", number(1)),
            step(1, at(97)),
            step(1, at(71)).does(ReadWrite, "cache_mutex", number(1)),
            Step {
                unordered_after: Some(3),
                ..step(0, at(47)).does(Read, "cache_mutex", number(1)).of(1)
            },
            step(1, at(73)).does(Read, "db_mutex", number(1)).of(1).fails(),
        ],
    )
}

const INCR: File = File {
    path: "/src/memcached-incr/incr.c",
    lines: &[
        (83, "add_delta", "pthread_mutex_lock(lock);"),
        (84, "add_delta", "value = it->value + delta;"),
        (87, "add_delta", "it->value = value;"),
        (105, "check_total", "uint64_t total = item_get(key)->value;"),
        (108, "check_total", "assert(total == expected);"),
    ],
};

/// memcached-incr: two threads of one role in the pattern, values that are not known.
pub fn unknown_values() -> Sketch {
    let roles = [
        "main",
        "connection",
        "connection",
        "connection",
        "connection",
        "logger",
    ];
    let mut sketch = sketch("memcached-incr", &roles);
    sketch.failure.kind = "assertion".to_owned();
    sketch.failure.signal = Some("SIGABRT".to_owned());
    sketch.failure.message =
        Some("incr.c:108: check_total: Assertion `total == expected' failed.".to_owned());
    let at = |line| INCR.at(line);
    sketch.predictors = vec![Predictor {
        statements: vec![
            by("connection", Some(Read), at(84)),
            by("connection", Some(Write), at(87)),
            by("connection", Some(Write), at(87)),
        ],
        ..predictor(1, PredictorKind::Atomicity, "RWW", "it->value", [16, 2])
    }];
    let read = |thread, value| step(thread, at(84)).does(Read, "it->value", value);
    let write = |thread, value| step(thread, at(87)).does(Write, "it->value", value);
    numbered(
        sketch,
        vec![
            step(1, at(83)),
            read(1, number(40)),
            write(1, number(41)),
            step(5, at(105)).does(Read, "it->value", None),
            Step {
                unordered_after: Some(2),
                ..step(2, at(83))
            },
            step(3, at(83)),
            read(2, number(41)).of(1),
            read(3, number(41)),
            write(3, number(42)).of(1),
            write(2, number(42)).of(1),
            step(4, at(83)),
            read(4, number(42)),
            write(4, number(43)),
            step(0, at(105)).does(Read, "it->value", number(43)),
            step(0, at(108)).fails(),
        ],
    )
}

const CACHE: File = File {
    path: "/src/apache-refcount/cache.c",
    lines: &[
        (58, "cleanup_cache_object", "free(obj);"),
        (70, "decrement_refcount", "atomic_fetch_sub(&obj->refcount, 1);"),
        (72, "decrement_refcount", "if (atomic_load(&obj->refcount) == 0)"),
        (73, "decrement_refcount", "cleanup_cache_object(obj);"),
        (88, "worker", "decrement_refcount(r->obj);"),
    ],
};

/// apache-refcount: holes in what was seen, and a step that follows from the code only.
pub fn gaps() -> Sketch {
    let mut sketch = sketch("apache-refcount", &["worker", "worker"]);
    sketch.failure.kind = "abort".to_owned();
    sketch.failure.signal = Some("SIGABRT".to_owned());
    sketch.failure.message = Some("free(): double free detected in tcache 2".to_owned());
    let at = |line| CACHE.at(line);
    sketch.predictors = vec![Predictor {
        statements: vec![
            by("worker", Some(ReadWrite), at(70)),
            by("worker", Some(ReadWrite), at(70)),
            by("worker", Some(Read), at(72)),
        ],
        ..predictor(1, PredictorKind::Atomicity, "WWR", "obj->refcount", [12, 4])
    }];
    sketch.gaps = vec![
        "2 of 17 failing runs lost watchpoint hits (the ring was full)".to_owned(),
        "control flow of the second worker is missing for 1.2 ms before its last read".to_owned(),
    ];
    sketch.notes = vec!["watched 4 of 6 locations in each run; the rest took turns".to_owned()];
    numbered(
        sketch,
        vec![
            Step {
                evidence: Evidence::Inferred,
                ..step(0, at(88))
            },
            step(0, at(70)).does(ReadWrite, "obj->refcount", number(1)).of(1),
            step(1, at(70)).does(ReadWrite, "obj->refcount", number(0)).of(1),
            step(0, at(72)).does(Read, "obj->refcount", number(0)).of(1),
            Step {
                gap_before: Some("1.2 ms of control flow, the processor lost packets".to_owned()),
                unordered_after: Some(2),
                ..step(1, at(72)).does(Read, "obj->refcount", None)
            },
            step(0, at(58)),
            step(1, at(73)),
            step(1, at(58)).fails(),
        ],
    )
}

const CHECKER: File = File {
    path: "/src/token-scopes/checker.cc",
    lines: &[
        (
            77,
            "Checker::open_scope",
            "if (at > 0 && tokens_[at - 1].front() == '\"')",
        ),
        (85, "Checker::close_scope", "Scope* closed = current_;"),
        (86, "Checker::close_scope", "if (closed == nullptr)"),
        (
            87,
            "Checker::close_scope",
            "throw std::logic_error(\"internal error: no scope to close\");",
        ),
        (100, "Checker::check", "close_scope();"),
    ],
};

/// token-scopes: one thread, a branch, no shared memory.
pub fn branch() -> Sketch {
    let mut sketch = sketch("token-scopes", &["main"]);
    sketch.failure.kind = "abort".to_owned();
    sketch.failure.signal = Some("SIGABRT".to_owned());
    sketch.failure.message =
        Some("terminate called after throwing an instance of 'std::logic_error'".to_owned());
    sketch.backends.data_flow = "none".to_owned();
    let at = |line| CHECKER.at(line);
    sketch.predictors = vec![Predictor {
        predicate: Some("taken".to_owned()),
        statements: vec![by("main", None, at(77))],
        ..predictor(1, PredictorKind::Branch, "", "", [17, 0])
    }];
    numbered(
        sketch,
        vec![
            step(0, at(77)).of(1),
            step(0, at(100)),
            step(0, at(85)).does(Read, "current_", text("null")),
            step(0, at(86)),
            step(0, at(87)).fails(),
        ],
    )
}
