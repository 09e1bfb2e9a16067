//! What the C++ runtime knew about an exception that nobody caught.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

#[path = "support/real.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod real;

use failure::core_dump::CoreDump;
use failure::image::{Limits, report};
use real::{Disk, Folder, build_from, crash};

fn said(compiler: &str, options: &[&str]) -> Option<Vec<(&'static str, Option<String>)>> {
    let folder = Folder::new();
    let program = build_from("throws.cc", &folder, compiler, options);
    let ways = [
        "derived", "plain", "number", "two", "noexcept", "thread", "rethrown", "abort",
    ];
    ways.into_iter()
        .map(|way| {
            let core = crash(&program, &[way])?;
            let core = CoreDump::parse(&core).unwrap();
            Some((way, report(&core, &Disk::default(), Limits::default()).message))
        })
        .collect()
}

#[test]
fn of_a_core() {
    let threw = |what: &str| Some(format!("terminate called after throwing an instance of {what}"));
    let expected = [
        ("derived", threw("'shop::OutOfStock': none left of 12")),
        ("plain", threw("'shop::Plain'")),
        ("number", threw("'int'")),
        // The text is not at the start of an object with several bases: no text rather than a wrong one.
        ("two", threw("'shop::Two'")),
        ("noexcept", threw("'std::out_of_range': no such shelf")),
        ("thread", threw("'std::logic_error': in a thread")),
        ("rethrown", threw("'std::invalid_argument': twice")),
        // An exception is being handled, but it is not why the program ended.
        ("abort", None),
    ];
    for (compiler, options) in [
        ("g++", &["-O0"][..]),
        ("g++", &["-O2"]),
        ("clang++", &["-O2"]),
        ("g++", &["-O2", "-static-libstdc++", "-static-libgcc"]),
    ] {
        if let Some(found) = said(compiler, options) {
            assert_eq!(found, expected, "{compiler} {options:?}");
        }
    }
}
