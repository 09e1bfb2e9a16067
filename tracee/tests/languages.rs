//! How C++ and Rust programs give up, and what they say about it.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use failsketch_tests::facts::marks_of;
use failsketch_tests::folder::Folder;
use failsketch_tests::process::tool;
use failure::image::Limits;
use failure::{FailOn, Kind};
use program::source::SourceFrame;
use tracee::ptrace::Launch;
use tracee::run::{Ended, Outcome, Output, RunOptions, Verdict, run};
use tracee::{HostModules, ProgramFiles};

fn source(name: &str) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = crate_folder.join("tests/programs").join(name);
    if here.exists() {
        here
    } else {
        crate_folder.join("../failure/tests/programs").join(name)
    }
}

fn compile(folder: &Folder, compiler: &[&str], name: &str) -> PathBuf {
    let mut command = Command::new(compiler[0]);
    command
        .args(&compiler[1..])
        .arg("-g")
        .arg(source(name))
        .args(["-o", "program"]);
    let _ = tool(&mut command, folder.path());
    folder.path().join("program")
}

fn outcome(exe: &Path, way: &str, fail_on: &str, stderr: Output) -> Outcome {
    let options = RunOptions {
        time_limit: Some(Duration::from_secs(60)),
        deadlocks: false,
        fail_on: &fail_on.parse::<FailOn>().unwrap(),
        stdout: Output::Discard,
        stderr,
        child_crashes: false,
        subject: None,
        modules: &HostModules::of_this_host(),
        limits: Limits::default(),
        cancel: None,
    };
    run(
        Launch::new(exe).args([way]).env("RUST_BACKTRACE", "0"),
        &options,
        &mut [],
    )
    .unwrap()
}

/// Kind, message and the line of the failing statement.
fn told(exe: &Path, outcome: &Outcome) -> (Kind, Option<String>, Option<SourceFrame>) {
    let report = outcome.failure.as_deref().expect("it failed");
    let files = ProgramFiles::default();
    let program = files.program_of(exe, report).unwrap();
    let failure = failure::resolve(report, &program).unwrap();
    let frame = failure
        .failing_frame
        .map(|at| &failure.threads[failure.failing].frames[at]);
    let own = |source: &&SourceFrame| !source.file.as_deref().is_some_and(program::is_library_path);
    let statement = frame.and_then(|frame| frame.sources.iter().find(own).cloned());
    (failure.kind, failure.message, statement)
}

#[test]
fn exceptions_are_told_from_memory_alone() {
    let folder = Folder::new("languages");
    for compiler in [["g++", "-O0", "-pthread"], ["clang++", "-O2", "-pthread"]] {
        let exe = compile(&folder, &compiler, "throws.cc");
        for (way, what) in [
            ("derived", "'shop::OutOfStock': none left of 12"),
            ("noexcept", "'std::out_of_range': no such shelf"),
            ("thread", "'std::logic_error': in a thread"),
            ("number", "'int'"),
        ] {
            let (kind, message, _) = told(&exe, &outcome(&exe, way, "signal", Output::Discard));
            assert_eq!(kind, Kind::Abort, "{way}");
            let expected = format!("terminate called after throwing an instance of {what}");
            assert_eq!(message, Some(expected), "{compiler:?} {way}");
        }
        // The text of this one is found in the output only.
        let (_, message, _) = told(&exe, &outcome(&exe, "two", "signal", Output::Keep));
        assert!(message.unwrap().ends_with("'shop::Two': two bases"));
    }
}

#[test]
fn panics_that_abort() {
    let text = std::fs::read_to_string(source("panics.rs")).unwrap();
    let marks = marks_of(&text);
    let mark = |way: &str| marks.iter().find(|(mark, _)| mark[1..] == *way).unwrap().1;
    let folder = Folder::new("languages");
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        let exe = compile(
            &folder,
            &["rustc", "--edition=2024", level, "-Cpanic=abort"],
            "panics.rs",
        );
        for (way, message) in [
            ("index", "index out of bounds: the len is 3 but the index is 5"),
            ("assert", "assertion `left == right` failed: they differ"),
        ] {
            let (kind, said, statement) = told(&exe, &outcome(&exe, way, "signal", Output::Keep));
            assert_eq!(kind, Kind::Assertion, "{way}");
            assert!(
                said.as_deref().is_some_and(|said| said.starts_with(message)),
                "{said:?}"
            );
            assert_eq!(statement.unwrap().line, mark(way), "{level} {way}");
        }
    }
}

#[test]
fn panics_that_unwind() {
    let text = std::fs::read_to_string(source("panics.rs")).unwrap();
    let marks = marks_of(&text);
    let mark = |way: &str| marks.iter().find(|(mark, _)| mark[1..] == *way).unwrap().1;
    let folder = Folder::new("languages");
    let exe = compile(
        &folder,
        &["rustc", "--edition=2024", "-Copt-level=2"],
        "panics.rs",
    );
    let differ = "assertion `left == right` failed: they differ\n  left: 1\n right: 2";
    for (way, at, message) in [
        (
            "index",
            "index",
            "index out of bounds: the len is 3 but the index is 5",
        ),
        ("thread", "assert", differ),
        ("any", "any", "code 3"),
        ("resumed", "assert", differ),
    ] {
        // What is written is not looked at.
        let outcome = outcome(&exe, way, "exit!=0", Output::Discard);
        let (kind, said, statement) = told(&exe, &outcome);
        assert_eq!(kind, Kind::ExitStatus, "{way}");
        assert_eq!(said, Some(format!("exit status 101: {message}")), "{way}");
        assert_eq!(statement.map(|statement| statement.line), Some(mark(at)), "{way}");
        assert!(outcome.failed_at_ns.is_some(), "{way}");
        let report = outcome.failure.as_deref().unwrap();
        let threads = if way == "thread" { 2 } else { 1 };
        assert_eq!(report.threads.len(), threads, "{way}");
    }
    // Who ends the program after a panic has decided so.
    let outcome = outcome(&exe, "exits", "exit!=0", Output::Discard);
    let (_, said, statement) = told(&exe, &outcome);
    assert_eq!(said.as_deref(), Some("exit status 3"));
    assert_eq!(statement.map(|statement| statement.line), Some(mark("exit")));
    assert_eq!(outcome.failed_at_ns, None);
}

#[test]
fn panics_that_are_caught_do_not_matter() {
    let folder = Folder::new("languages");
    let exe = compile(
        &folder,
        &["rustc", "--edition=2024", "-Copt-level=2"],
        "panics.rs",
    );
    let outcome = outcome(&exe, "caught", "exit!=0", Output::Keep);
    let said = String::from_utf8_lossy(&outcome.stderr.tail);
    assert_eq!(outcome.ended, Ended::Exited(0), "{said}");
    assert_eq!(outcome.verdict(), Verdict::Succeeded);
    assert_eq!(said.matches("panicked at").count(), 3, "{said}");
}
