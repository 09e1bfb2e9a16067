//! Scripts: the program that runs is the interpreter that the first line names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// How much of a script the kernel looks at (`BINPRM_BUF_SIZE`).
const LOOKED_AT: u64 = 256;
/// How many interpreters that are scripts themselves the kernel follows.
const DEEPEST: usize = 5;

/// Why nobody can tell what a command executes.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The command cannot be read.
    #[error("cannot read {0}")]
    Command(PathBuf, #[source] io::Error),
    /// The interpreter cannot.
    #[error("{0} is run by {1}, which cannot be read")]
    Interpreter(PathBuf, PathBuf, #[source] io::Error),
    /// Scripts that are run by scripts.
    #[error("{0} is a script whose interpreter is a script, and so on: name the program that runs it")]
    TooDeep(PathBuf),
}

/// The file that the kernel executes for a command: itself, or the interpreter of a script.
///
/// # Errors
/// When a file cannot be read, or scripts are run by scripts without end.
pub fn executable(command: &Path) -> Result<PathBuf, ScriptError> {
    let mut file = command.to_path_buf();
    for _ in 0..=DEEPEST {
        let start = start(&file).map_err(|error| match file == command {
            true => ScriptError::Command(file.clone(), error),
            false => ScriptError::Interpreter(command.to_owned(), file.clone(), error),
        })?;
        match interpreter(&start) {
            None => return Ok(file),
            Some(next) => file = next,
        }
    }
    Err(ScriptError::TooDeep(command.to_owned()))
}

fn start(file: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(file)?.take(LOOKED_AT).read_to_end(&mut start)?;
    Ok(start)
}

/// What the first line of a script names: up to a blank, after any.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut words = line.split(is_blank).filter(|word| !word.is_empty());
    let name = words.next()?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(start: &[u8]) -> Option<String> {
        interpreter(start).map(|path| path.display().to_string())
    }

    #[test]
    fn the_first_line_names_the_interpreter() {
        assert_eq!(named(b"#!/bin/sh\necho\n").as_deref(), Some("/bin/sh"));
        assert_eq!(
            named(b"#! \t/usr/bin/perl -w x\n").as_deref(),
            Some("/usr/bin/perl")
        );
        assert_eq!(named(b"#!/bin/sh").as_deref(), Some("/bin/sh"));
        assert_eq!(named(b"#!\n/bin/sh"), None);
        assert_eq!(named(b"\x7fELF"), None);
        assert_eq!(named(b""), None);
    }
}
