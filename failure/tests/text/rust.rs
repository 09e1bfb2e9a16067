use failure::{Kind, Signal, Source};

use super::*;

#[test]
fn the_first_of_two_panics_is_the_failure() {
    let report = read("rust-thread.txt");
    assert_eq!(
        (report.source, report.kind, report.signal),
        (Source::RustPanic, Kind::Abort, None)
    );
    assert_eq!(
        report.message.as_deref(),
        Some("called `Option::unwrap()` on a `None` value")
    );
    assert_eq!(stack_names(&report), ["io worker", "main"]);
    assert_eq!((report.failing, failing(&report).id), (0, Some(7664)));
    assert_eq!(failing(&report).frames.len(), 7);
    assert_eq!(failing_line(&report), "- panic::Cache::get ./src/panic.rs:3:77");
}

#[test]
fn a_full_backtrace_has_addresses_and_inlined_frames() {
    let report = read("rust-full.txt");
    let frames = &failing(&report).frames;
    assert_eq!(frames.len(), 34, "without the null address at its end");
    assert_eq!(
        line(&frames[18]),
        "0x55ada324b745 core::option::Option<T>::unwrap::hc6a544d3b7b7d1ff \
         /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/option.rs:1016:21 inlined"
    );
    let own = "0x55ada324b745 panic::Cache::get::h276696e30590f4ae /src/app/src/panic.rs:3:77";
    assert_eq!(failing_line(&report), own);
}

#[test]
fn assertions_and_messages_of_several_lines() {
    let report = read("rust-assert.txt");
    assert_eq!(report.kind, Kind::Assertion);
    assert_eq!(
        report.message.as_deref(),
        Some("assertion `left == right` failed: cache size\nleft: 1\nright: 2")
    );
    let report = read("rust-lines.txt");
    assert_eq!(
        report.message.as_deref(),
        Some("first\nsecond line\n0: not a frame")
    );
    assert_eq!(
        symbols(failing(&report))[0],
        "std::panicking::begin_panic::<&str>"
    );
}

#[test]
fn code_of_the_libraries_is_not_the_programs() {
    assert_eq!(
        failing_line(&read("rust-index.txt")),
        "- panic::Cache::get ./src/panic.rs:3:85"
    );
}

#[test]
fn a_panic_that_cannot_unwind_aborts() {
    let report = read("rust-no-unwind.txt");
    assert_eq!((report.kind, report.signal), (Kind::Abort, Some(Signal(6))));
    assert_eq!(
        report.message.as_deref(),
        Some("called `Option::unwrap()` on a `None` value")
    );
    assert_eq!((report.threads.len(), report.failing), (2, 0));
}

#[test]
fn the_form_before_1_73_in_a_container_log() {
    let report = read("rust-old-kubernetes.txt");
    assert_eq!(stack_names(&report), ["tokio-runtime-worker"]);
    assert_eq!(
        report.message.as_deref(),
        Some("index out of bounds: the len is 2 but the index is 7")
    );
    assert_eq!(failing_line(&report), "- cache::Cache::get ./src/cache.rs:31:9");
}

#[test]
fn without_backtrace_the_message_names_the_place() {
    let text = "thread 'main' (12) panicked at src/main.rs:4:5:\nno entry\n\
                note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
    let report = failure::text::parse(text.as_bytes()).unwrap();
    assert_eq!(
        (report.source, report.message.as_deref()),
        (Source::RustPanic, Some("no entry"))
    );
    assert_eq!(lines(failing(&report)), ["-! src/main.rs:4:5"]);
}
