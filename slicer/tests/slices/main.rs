//! Slices of small programs, each about one thing that compilers do.
//!
//! The programs are in `cases`. Comments in them say what a slice from the line marked `from` must hold:
//! `in`: the line must be there, if it has code of its own; `out`: it must not; `maybe`: either is right.
//! A line without a mark must not be there: braces and declarations are no causes. `at -O0` limits a mark to
//! code that was not optimised: an optimiser merges what the source keeps apart.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic, and must where a case is wrong"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use program::{FileRequest, Files, Module, ModuleId, Pc, Program};
use slicer::slice::{Criterion, Slice};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    From,
    In,
    Out,
    Maybe,
}

/// The marks of a case, by line.
fn marks(source: &str, optimised: bool) -> BTreeMap<u32, Mark> {
    let mut marks = BTreeMap::new();
    for (line, text) in (1..).zip(source.lines()) {
        let Some((_, comment)) = text.rsplit_once("// ") else {
            continue;
        };
        let (word, limited) = match comment.strip_suffix(" at -O0") {
            Some(word) => (word, true),
            None => (comment, false),
        };
        let mark = match word {
            "from" => Mark::From,
            _ if limited && optimised => Mark::Maybe,
            "in" => Mark::In,
            "out" => Mark::Out,
            "maybe" => Mark::Maybe,
            other => panic!("line {line}: what does `{other}` mean?"),
        };
        marks.insert(line, mark);
    }
    marks
}

struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &FileRequest) -> Option<&[u8]> {
        None
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        Box::leak(bytes.into_boxed_slice())
    }

    fn tried(&self, _: &FileRequest) -> Vec<String> {
        Vec::new()
    }
}

fn compile(case: &Path, compiler: &str, level: u8) -> Vec<u8> {
    let name = case.file_name().unwrap().to_string_lossy();
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{compiler}-O{level}"));
    let result = Command::new(compiler)
        .args(["-g", "-w", &format!("-O{level}")])
        .arg(case)
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{compiler} {name}: {said}");
    let bytes = std::fs::read(&output).unwrap();
    std::fs::remove_file(output).unwrap();
    bytes
}

/// The code that belongs to a line and no other.
fn code_of(program: &Program<'_>, file: &str, line: u32) -> Vec<(Pc, Pc)> {
    let module = program.module(ModuleId(0)).unwrap();
    let Ok(found) = module.sources().addresses_of(file, line) else {
        return Vec::new();
    };
    let pc = |addr| Pc {
        module: ModuleId(0),
        addr,
    };
    let matches = found.matches.iter();
    matches
        .map(|found| (pc(found.range.start), pc(found.range.end)))
        .filter(|(start, _)| {
            let innermost = module.sources().frames_at(start.addr).into_iter().next();
            innermost.is_some_and(|frame| frame.line == line)
        })
        .collect()
}

/// Checks one case; gives what is wrong.
fn check(case: &Path, compiler: &str, level: u8) -> Vec<String> {
    let source = std::fs::read_to_string(case).unwrap();
    let marks = marks(&source, level > 0);
    let name = case.file_name().unwrap().to_string_lossy().into_owned();
    let bytes = compile(case, compiler, level);
    let module = Module::load(&name, &bytes, &NoFiles).unwrap();
    let program = Program::new(vec![module]);
    let from = *marks.iter().find(|(_, mark)| **mark == Mark::From).unwrap().0;
    let ranges = code_of(&program, &name, from);
    // An optimiser may leave the line no code of its own.
    if ranges.is_empty() {
        assert!(level > 0, "{name}:{from} has no code");
        return Vec::new();
    }
    let slice = Slice::new(&program, &Criterion::ranges(&program, &ranges));
    let lines: Vec<u32> = slice.filter_map(|found| found.statement.line).collect();
    let mut wrong = Vec::new();
    for (line, mark) in &marks {
        let there = lines.contains(line);
        if *mark == Mark::In && !there && !code_of(&program, &name, *line).is_empty() {
            wrong.push(format!("{name}:{line} is missing"));
        }
        if *mark == Mark::Out && there {
            wrong.push(format!("{name}:{line} should not be there"));
        }
    }
    let unmarked = lines.iter().filter(|line| !marks.contains_key(line));
    wrong.extend(unmarked.map(|line| format!("{name}:{line} should not be there: it has no mark")));
    wrong
}

fn check_all(c: &str, cpp: &str, level: u8) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slices/cases");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(cases.len() > 20, "the cases are missing");
    let mut wrong = Vec::new();
    for case in cases {
        let compiler = if case.extension().is_some_and(|extension| extension == "cpp") {
            cpp
        } else {
            c
        };
        wrong.extend(check(&case, compiler, level));
    }
    assert!(wrong.is_empty(), "{c} -O{level}:\n{}", wrong.join("\n"));
}

#[test]
fn gcc_unoptimised() {
    check_all("gcc", "g++", 0);
}

#[test]
fn gcc_optimised() {
    check_all("gcc", "g++", 2);
}

#[test]
fn clang_unoptimised() {
    check_all("clang", "clang++", 0);
}

#[test]
fn clang_optimised() {
    check_all("clang", "clang++", 2);
}
