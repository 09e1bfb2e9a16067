//! The small programs of `programs/`, compiled as a test likes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::facts::{Place, marks_of};
use crate::folder::Folder;
use crate::process;

/// A compiled program, in a folder of its own.
#[derive(Debug)]
pub struct Sample {
    /// The folder.
    pub folder: Folder,
    /// The binary.
    pub exe: PathBuf,
    /// The line of its mark `@fail`.
    pub fails_at: Place,
    /// All its marks, with their lines.
    marks: Vec<(String, u32)>,
}

impl Sample {
    /// Compiles `source` with debug information.
    ///
    /// # Panics
    /// When the compiler is not installed or does not take it.
    #[must_use]
    pub fn build(source: &str, compiler: &[&str]) -> Self {
        let folder = Folder::new("sample");
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("programs")
            .join(source);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let marks = marks_of(&text);
        let fail = marks.iter().find(|(mark, _)| mark == "@fail");
        let &(_, line) = fail.unwrap_or_else(|| panic!("{source} has no mark @fail"));
        let [compiler, options @ ..] = compiler else {
            panic!("no compiler was given")
        };
        let mut command = Command::new(compiler);
        command.args(options).arg("-g").arg(path).args(["-o", "program"]);
        let _ = process::tool(&mut command, folder.path());
        Self {
            exe: folder.path().join("program"),
            folder,
            fails_at: Place {
                file: source.to_owned(),
                line,
            },
            marks,
        }
    }

    /// The line of a mark.
    ///
    /// # Panics
    /// When the program has no such mark.
    #[must_use]
    pub fn mark(&self, name: &str) -> u32 {
        let found = self.marks.iter().find(|(mark, _)| mark == name);
        let &(_, line) = found.unwrap_or_else(|| panic!("{} has no mark {name}", self.fails_at.file));
        line
    }

    /// What the program prints to standard error while it fails.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn stderr(&self, environment: (&str, &str)) -> String {
        // ThreadSanitizer needs its memory where randomisation may put something else.
        let mut command = Command::new("setarch");
        command
            .arg("-R")
            .arg(&self.exe)
            .env(environment.0, environment.1)
            .current_dir(self.folder.path());
        let done = process::run(&mut command, b"", Duration::from_secs(60), |_| ());
        assert!(!done.hung, "{} hangs", self.exe.display());
        done.stderr
    }

    /// The core that the program leaves: one that gdb writes, which is the same on every machine.
    ///
    /// # Panics
    /// When it leaves none.
    #[must_use]
    pub fn core(&self) -> PathBuf {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-ex", "run", "-ex", "generate-core-file core"])
            .arg(&self.exe);
        let _ = process::tool(&mut gdb, self.folder.path());
        let core = self.folder.path().join("core");
        assert!(core.is_file(), "{} leaves no core", self.exe.display());
        core
    }
}
