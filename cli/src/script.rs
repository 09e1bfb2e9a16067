//! Scripts: the program that runs is the interpreter that the first line names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// How much of a script the kernel looks at (`BINPRM_BUF_SIZE`).
const LOOKED_AT: u64 = 256;
/// How many interpreters that are scripts themselves the kernel follows.
const DEEPEST: usize = 5;

/// The file that the kernel executes for a command: itself, or the interpreter of a script.
pub fn executable(command: &Path) -> Result<PathBuf> {
    let mut file = command.to_path_buf();
    for _ in 0..=DEEPEST {
        let start = start(&file).with_context(|| match file == command {
            true => format!("cannot read {}", file.display()),
            false => format!(
                "{} is run by {}, which cannot be read",
                command.display(),
                file.display()
            ),
        })?;
        match interpreter(&start) {
            None => return Ok(file),
            Some(next) => file = next,
        }
    }
    bail!(
        "{} is a script whose interpreter is a script, and so on: name the program that runs it",
        command.display()
    )
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
