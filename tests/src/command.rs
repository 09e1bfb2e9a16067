//! The `failsketch` command, as a user runs it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::process::{self, Finished};

/// A command that takes longer hangs, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs `failsketch` with these arguments.
pub fn failsketch<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Finished {
    with_input(arguments, b"")
}

/// The same, with standard input.
pub fn with_input<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, stdin: &[u8]) -> Finished {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("DEBUGINFOD_CACHE_PATH");
    process::run(&mut command, stdin, LONGEST, |_| ())
}

/// Runs `failsketch` and reads the JSON that it prints.
///
/// # Errors
/// With what it did instead.
pub fn json<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Value, String> {
    let done = failsketch(arguments);
    if !done.status.success() {
        return Err(format!("{}: {}", done.how(), done.stderr.trim()));
    }
    serde_json::from_str(&done.stdout).map_err(|error| format!("the output is not JSON: {error}"))
}

/// Where the command is: `$FAILSKETCH`, or built beside the tests.
///
/// # Panics
/// When it cannot be built.
pub fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("FAILSKETCH") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    // Tests are in TARGET/PROFILE/deps, the command is in TARGET/PROFILE.
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("tests are built into a target folder");
    let target = folder.parent().expect("a profile's folder is in a target folder");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--package", "cli", "--target-dir"])
        .arg(target);
    if folder.file_name() == Some(OsStr::new("release")) {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "the failsketch command does not build"
    );
    folder.join("failsketch")
}
