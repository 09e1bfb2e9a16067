//! Small programs, compiled for a test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use program::{Attribution, FileRequest, Files, FunctionRef, Module, Pc, Program};

/// Tests run side by side and may compile the same program: each compilation gets a folder of its own.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Which compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// gcc
    C,
    /// g++
    Cpp,
    /// clang++
    ClangCpp,
    /// rustc
    Rust,
}

/// Compiles `source` with debug information at `-O{level}` and returns the file's bytes.
pub fn compile(name: &str, language: Language, level: u8, source: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}-{}", FOLDERS.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir_all(&folder).unwrap();
    let (compiler, extension) = match language {
        Language::C => ("gcc", "c"),
        Language::Cpp => ("g++", "cpp"),
        Language::ClangCpp => ("clang++", "cpp"),
        Language::Rust => ("rustc", "rs"),
    };
    let input: PathBuf = folder.join(format!("{name}.{extension}"));
    let output = folder.join(name);
    std::fs::write(&input, source).unwrap();
    let mut command = Command::new(compiler);
    match language {
        Language::Rust => command.args(["-g", "--edition=2024", "-C", &format!("opt-level={level}")]),
        Language::C => command.args(["-g", "-pthread", &format!("-O{level}")]),
        Language::Cpp | Language::ClangCpp => {
            command.args(["-g", "-std=c++20", "-pthread", &format!("-O{level}")])
        }
    };
    let result = command.arg(&input).arg("-o").arg(&output).output().unwrap();
    assert!(
        result.status.success(),
        "{compiler}: {}",
        String::from_utf8_lossy(&result.stderr)
    );
    let bytes = std::fs::read(output).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    bytes
}

/// No file but the one that is given.
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

/// [`compile`], then loaded as a program. Kept to the end of the test run.
pub fn program(name: &str, language: Language, level: u8, source: &str) -> &'static Program<'static> {
    let bytes: &'static [u8] = Box::leak(compile(name, language, level, source).into_boxed_slice());
    let module = Module::load(name, bytes, &NoFiles).unwrap();
    Box::leak(Box::new(Program::new(vec![module])))
}

/// A function by its name, as people write it.
pub fn function(program: &Program<'_>, name: &str) -> FunctionRef {
    let (module, file) = program.modules().next().unwrap();
    let found = file.code().functions().named(name);
    let function = *found.first().unwrap_or_else(|| panic!("no function {name}"));
    FunctionRef { module, function }
}

/// A function's name, as people write it.
pub fn name_of(program: &Program<'_>, id: FunctionRef) -> String {
    program
        .module(id.module)
        .unwrap()
        .code()
        .functions()
        .display_name(id.function)
}

/// The line of a source that has a mark.
pub fn line_of(source: &str, mark: &str) -> u32 {
    let mark = format!("/* {mark} */");
    let found = (1..).zip(source.lines()).find(|(_, line)| line.contains(&mark));
    found.unwrap_or_else(|| panic!("no {mark}")).0
}

/// The line of the statement at an instruction.
pub fn line_at(program: &Program<'_>, pc: Pc) -> Option<u32> {
    match program.statement_at(pc) {
        Attribution::Statement(statement) => statement.line,
        _ => None,
    }
}
