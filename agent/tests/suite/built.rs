//! Programs that are built for the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A program, and a folder of its own.
pub struct Built {
    pub folder: TempDir,
    pub path: PathBuf,
}

impl Built {
    pub fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = Path::new(source).file_stem().unwrap();
        let path = folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/suite")
            .join(source);
        let mut gcc = Command::new("gcc");
        gcc.args(["-g", "-O0", "-pthread", "-Wl,--build-id", "-o"])
            .arg(&path)
            .arg(source);
        assert!(gcc.status().unwrap().success(), "{gcc:?}");
        Self { folder, path }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command that runs it with its count beside it.
    pub fn command(&self) -> Vec<String> {
        [&self.path, &self.file("count")]
            .map(|path| path.display().to_string())
            .to_vec()
    }
}
