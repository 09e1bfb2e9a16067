//! Frames that the stack does not show, and lines that the line table does not name.

use std::path::Path;

use failsketch_tests::command;
use failsketch_tests::sample::Sample;
use serde_json::Value;

fn sketch(sample: &Sample) -> Value {
    sketch_of(sample, &sample.core())
}

fn sketch_of(sample: &Sample, core: &Path) -> Value {
    let [core, exe] = [core, &sample.exe].map(|path| path.to_str().unwrap());
    command::json(["triage", "--json", core, "--exe", exe]).unwrap()
}

/// The functions of the failing thread's own frames, innermost first.
fn own_functions(sketch: &Value) -> Vec<String> {
    let stacks = sketch["failure"]["stacks"].as_array().unwrap();
    let frames = stacks[0].as_array().unwrap();
    frames
        .iter()
        .filter(|frame| frame["own"] == true)
        .map(|frame| frame["function"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_tail_call_s_frame_is_put_back() {
    for build in [&["gcc", "-O2"][..], &["clang", "-O2"], &["gcc", "-O0"]] {
        let sample = Sample::build("tail.c", build);
        let sketch = sketch(&sample);
        let functions = own_functions(&sketch);
        assert_eq!(functions[..3], ["finish", "relay", "main"], "{build:?}");
        assert_eq!(
            sketch["failure"]["statement"]["line"], sample.fails_at.line,
            "{build:?}"
        );
    }
}

#[test]
fn an_instruction_without_a_line_belongs_to_the_line_before_it() {
    for build in [&["gcc", "-O0"][..], &["gcc", "-O2"]] {
        let sample = Sample::build("line_zero.c", build);
        let sketch = sketch(&sample);
        let statement = &sketch["failure"]["statement"];
        assert_eq!(statement["function"], "main", "{build:?}");
        assert_eq!(statement["line"], sample.fails_at.line, "{build:?}");
    }
}

/// The lines of a slice from a core up to a distance, the nearest first.
fn lines_near(sample: &Sample, core: &Path, farthest: u64) -> Vec<u32> {
    let [exe, core] = [&sample.exe, core].map(|path| path.to_str().unwrap());
    let slice = command::json(["slice", "--json", "--exe", exe, "--core", core]).unwrap();
    let statements = slice["statements"].as_array().unwrap().iter();
    let near = statements.filter(|found| found["distance"].as_u64().unwrap() <= farthest);
    near.map(|found| u32::try_from(found["statement"]["line"].as_u64().unwrap()).unwrap())
        .collect()
}

#[test]
fn an_overwritten_frame_is_about_the_writes_that_can_have_gone_too_far() {
    for build in [["gcc", "-O0"], ["gcc", "-O2"], ["clang", "-O0"], ["clang", "-O2"]] {
        let protected = [build[0], build[1], "-fstack-protector-all", "-U_FORTIFY_SOURCE"];
        let sample = Sample::build("smashed.c", &protected);
        let core = sample.core();
        let found = sketch_of(&sample, &core);
        let failure = &found["failure"];
        assert_eq!(failure["statement"]["function"], "handle", "{build:?}");
        let message = failure["message"].as_str().unwrap();
        assert!(
            message.contains("stack smashing detected"),
            "{build:?}: {message}"
        );
        let nearest = lines_near(&sample, &core, 1);
        assert!(nearest.contains(&sample.mark("@write")), "{build:?}: {nearest:?}");
        if build[1] == "-O0" {
            assert!(nearest.contains(&sample.mark("@copy")), "{build:?}: {nearest:?}");
        }
        // Who only reads it has not overwritten it.
        for reader in ["@count", "@read"] {
            assert!(!nearest.contains(&sample.mark(reader)), "{build:?}: {nearest:?}");
        }
        let further = lines_near(&sample, &core, 4);
        assert!(further.contains(&sample.mark("@text")), "{build:?}: {further:?}");
    }
}
