//! Programs to watch: they stand still until their standard input ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::folder::Folder;
use crate::process;
use crate::running::Running;

/// What a program prints when it waits for the end of its standard input.
pub const READY: &str = "ready";

/// A program of `tests/programs`, compiled.
#[derive(Debug)]
pub struct Built {
    /// Where its binary is; goes away with this value.
    pub folder: Folder,
    /// The binary.
    pub exe: PathBuf,
    /// The source text.
    pub text: String,
}

impl Built {
    /// Compiles a source with debug information; `compiler` is the command with its options.
    ///
    /// # Panics
    /// When the compiler is not installed or does not take it.
    #[must_use]
    pub fn with(compiler: &[&str], source: &str) -> Self {
        let folder = Folder::new("target");
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("programs")
            .join(source);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let [compiler, options @ ..] = compiler else {
            panic!("no compiler was given")
        };
        let mut command = Command::new(compiler);
        command.args(options).arg("-g").arg(path).args(["-o", "program"]);
        let _ = process::tool(&mut command, folder.path());
        let exe = folder.path().join("program");
        Self { folder, exe, text }
    }

    /// Compiles a C source at a level: `O0` or `O2`.
    #[must_use]
    pub fn c(source: &str, level: &str) -> Self {
        let level = format!("-{level}");
        let options = ["gcc", &level, "-pthread", "-mno-red-zone", "-fno-strict-aliasing"];
        Self::with(&options, source)
    }

    /// Starts it; it waits for the end of its standard input.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(&mut self.command(arguments))
    }

    /// Starts one that says `ready` when it waits.
    ///
    /// # Panics
    /// When it does not say so.
    #[must_use]
    pub fn start_ready(&self, arguments: &[&str]) -> Running {
        let running = self.start(arguments);
        if let Err(instead) = running.stdout_line(READY) {
            panic!("{} does not get ready: {instead}", self.exe.display());
        }
        running
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> process::Finished {
        self.start(arguments).finish()
    }

    /// The command that starts it.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.exe);
        command.args(arguments).current_dir(self.folder.path());
        command
    }
}
