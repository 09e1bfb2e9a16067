//! What a Rust program said before a panic ended it, from its core.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

#[path = "support/real.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod real;

use failure::core_dump::CoreDump;
use failure::image::{Limits, report};
use real::{Disk, Folder, build_from, crash};

const WAYS: [(&str, Option<&str>); 9] = [
    ("plain", Some("plain words")),
    ("formatted", Some("no cell 7 on a board of 3")),
    (
        "index",
        Some("index out of bounds: the len is 3 but the index is 7"),
    ),
    ("expect", Some("a cell must be there")),
    (
        "unwrap",
        Some("called `Result::unwrap()` on an `Err` value: ParseIntError { kind: InvalidDigit }"),
    ),
    ("string", Some("a string about 7")),
    ("number", None),
    ("thread", Some("told by another thread, 7")),
    ("abort", None),
];

fn said(program: &std::path::Path, way: &str) -> Option<Option<String>> {
    let core = crash(program, &[way])?;
    let core = CoreDump::parse(&core).unwrap();
    Some(report(&core, &Disk::default(), Limits::default()).message)
}

#[test]
fn of_a_panic_that_aborts() {
    for level in ["opt-level=0", "opt-level=2"] {
        let folder = Folder::new();
        let program = build_from("panics.rs", &folder, "rustc", &["-C", "panic=abort", "-C", level]);
        for (way, expected) in WAYS {
            let Some(found) = said(&program, way) else { return };
            assert_eq!(found.as_deref(), expected, "{level} {way}");
        }
    }
}

#[test]
fn of_a_panic_that_cannot_unwind() {
    let folder = Folder::new();
    let program = build_from("panics.rs", &folder, "rustc", &["-C", "opt-level=2"]);
    if let Some(found) = said(&program, "nounwind") {
        assert_eq!(found.as_deref(), Some("panic in a function that cannot unwind"));
    }
}
