//! Which program it is, in which build.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use program::BuildId;
use proto::v1::Program;
use thiserror::Error;
use tracee::{ProgramError, ProgramFiles};

/// Why a program cannot be told from others.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// It cannot be read, or is none.
    #[error("{0} is not a program that can be tracked")]
    NotAProgram(PathBuf, #[source] Box<ProgramError>),
    /// It has no build-id.
    #[error("{0} has no build-id, so that nobody can tell which build it is: link it with -Wl,--build-id")]
    NoBuildId(PathBuf),
}

/// A program on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) build_id: BuildId,
    /// Tells that the file is another one by now.
    mark: Option<Mark>,
}

/// Device, file, and when it was changed.
type Mark = (u64, u64, i64, i64);

impl Identity {
    /// The program in a file, which people know by `path`.
    pub(crate) fn of(file: &Path, path: &Path) -> Result<Self, IdentityError> {
        let mark = mark(file);
        let files = ProgramFiles::default();
        let module = files
            .module(file)
            .map_err(|error| IdentityError::NotAProgram(path.to_owned(), Box::new(error)))?;
        let build_id = module.elf().build_id();
        Ok(Self {
            path: path.to_owned(),
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            build_id: build_id.ok_or_else(|| IdentityError::NoBuildId(path.to_owned()))?,
            mark,
        })
    }

    /// As it is now: programs are upgraded while agents run.
    pub(crate) fn refreshed(self) -> Result<Self, IdentityError> {
        if mark(&self.path) == self.mark {
            return Ok(self);
        }
        Self::of(&self.path, &self.path)
    }

    /// Whether others are likely to do its work: interpreters of scripts, and tools of the system such as `env` and `timeout`, have
    /// no debug information. One that fails itself is tracked all the same.
    pub(crate) fn has_others_do_its_work(&self) -> bool {
        let files = ProgramFiles::default();
        let module = files.module(&self.path);
        module.is_ok_and(|module| !module.has_debug_information())
    }

    pub(crate) fn program(&self) -> Program {
        Program {
            name: self.name.clone(),
            build_id: self.build_id.0.clone().into(),
        }
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.mtime(), file.mtime_nsec()))
}
