//! Programs compiled for a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use failsketch_tests::skip::skipped;
use tracee::Tid;
use tracee::bpf::{HitProgram, HitRing};
use tracee::perf::{Breakpoint, Delivery, Follow, Range, Start, Trigger};

/// Whether this host lets processes be watched in all the ways that the tests use; says so when it does not.
pub fn can_watch() -> bool {
    let nowhere = || Range::new(program::RunAddr(0x1000), 1).map(Trigger::Write);
    let breakpoint = nowhere().and_then(|nowhere| {
        let delivery = Delivery::stop(0);
        Breakpoint::open(Tid::this(), nowhere, delivery, Follow::Threads, Start::Disabled)
    });
    let program = HitRing::new(4096, 8).and_then(|ring| HitProgram::for_breakpoints(&ring, 0));
    if let Err(error) = &breakpoint {
        skipped(&error.to_string());
    } else if let Err(error) = &program {
        skipped(&error.to_string());
    }
    breakpoint.is_ok() && program.is_ok()
}

/// A folder that goes when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("watchpoint-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be made");
        Self(path.canonicalize().expect("the temporary folder exists"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the file can be written");
        path
    }

    /// Runs a command line in the folder and gives its output.
    pub fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a command");
        let output = Command::new(program).args(words).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{program} must be installed: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
