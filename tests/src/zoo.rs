//! The bug zoo, built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::facts::Program;
use crate::process;

/// How a program of the zoo is optimised.
pub const LEVELS: [&str; 2] = ["O0", "O2"];

/// The zoo's folder.
#[must_use]
pub fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/zoo"))
}

/// A program of the zoo, by name.
///
/// # Panics
/// When there is no such program, or its facts are wrong.
#[must_use]
pub fn program(name: &str) -> Program {
    Program::load(&folder().join(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// The binary of a program at a level. The first call builds whatever is not up to date.
///
/// # Panics
/// When the zoo does not build.
#[must_use]
pub fn binary(name: &str, level: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut make = Command::new("make");
        // A make that runs the tests must not hand its flags and its job server down.
        make.args(["-j2", "-C"])
            .arg(folder())
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL");
        let _ = process::tool(&mut make, folder());
    });
    folder().join("build").join(level).join(name)
}
