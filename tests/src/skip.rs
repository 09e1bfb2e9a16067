//! Tests that cannot be run here.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Says that the current test, or a part of it, does not test, and why. `make test` counts these lines.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // Written past the harness, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

/// Whether a program is installed.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}
