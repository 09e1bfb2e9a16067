//! Frames that the stack does not show, and lines that the line table does not name.

use failsketch_tests::command;
use failsketch_tests::sample::Sample;
use serde_json::Value;

fn sketch(sample: &Sample) -> Value {
    let core = sample.core();
    let arguments = ["triage", "--json", core.to_str().unwrap(), "--exe"];
    command::json(arguments.into_iter().chain([sample.exe.to_str().unwrap()])).unwrap()
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
