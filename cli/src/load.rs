//! Opening the program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use elsa::FrozenVec;
use program::{Module, Program};
use tracee::HostFiles;

/// Owns the bytes of everything that a command opens.
#[derive(Default)]
pub struct Opened {
    files: FrozenVec<Box<HostFiles>>,
}

impl Opened {
    /// The program of one executable.
    pub fn program(&self, exe: &Path, debug_dirs: &[PathBuf]) -> Result<Program<'_>> {
        Ok(Program::new(vec![self.module(exe, debug_dirs)?]))
    }

    /// One module.
    pub fn module(&self, path: &Path, debug_dirs: &[PathBuf]) -> Result<Module<'_>> {
        let files = self
            .files
            .push_get(Box::new(HostFiles::with_debug_folders(path, debug_dirs.to_vec())));
        let bytes = files.binary()?;
        let name = path.display().to_string();
        Module::load(&name, bytes, files).with_context(|| name)
    }
}
