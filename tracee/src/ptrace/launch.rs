//! What to launch, and how.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::error::LaunchError;

/// Where one of the standard streams of a launched program goes.
#[derive(Debug, Default)]
pub enum Stream {
    /// Where ours goes.
    #[default]
    Inherit,
    /// Nowhere.
    Null,
    /// Into (or out of) this file.
    File(File),
    /// To us: see [`Pipes`].
    Pipe,
}

/// Our ends of the streams that are pipes.
#[derive(Debug, Default)]
pub struct Pipes {
    /// Writes to the program's standard input; it ends when this is dropped.
    pub stdin: Option<File>,
    /// Reads its standard output.
    pub stdout: Option<File>,
    /// Reads its standard error.
    pub stderr: Option<File>,
}

/// A program to run under our eyes. Unless told otherwise it gets what it would get without us: our standard
/// streams, terminal, environment, working folder, signal dispositions and signal mask.
#[derive(Debug)]
pub struct Launch {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) changes: BTreeMap<OsString, Option<OsString>>,
    pub(super) folder: Option<PathBuf>,
    pub(super) streams: [Stream; 3],
    pub(super) own_group: bool,
    pub(super) follow_forks: bool,
}

impl Launch {
    /// A program by path, or by a name that is looked up in PATH, without arguments.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            changes: BTreeMap::new(),
            folder: None,
            streams: Default::default(),
            own_group: false,
            follow_forks: false,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.changes.insert(name.into(), Some(value.into()));
        self
    }

    /// Takes a variable out of its environment.
    #[must_use]
    pub fn without_env(mut self, name: impl Into<OsString>) -> Self {
        self.changes.insert(name.into(), None);
        self
    }

    /// The folder that it starts in.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Its standard input.
    #[must_use]
    pub fn stdin(mut self, stream: Stream) -> Self {
        self.streams[0] = stream;
        self
    }

    /// Its standard output.
    #[must_use]
    pub fn stdout(mut self, stream: Stream) -> Self {
        self.streams[1] = stream;
        self
    }

    /// Its standard error.
    #[must_use]
    pub fn stderr(mut self, stream: Stream) -> Self {
        self.streams[2] = stream;
        self
    }

    /// Makes it the first of a process group of its own: what the terminal sends to us (an interrupt from the
    /// keyboard) does not reach it, and it cannot read from the terminal.
    #[must_use]
    pub fn own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Traces the processes that it forks, too. Otherwise they run free, from their first instruction on.
    #[must_use]
    pub fn follow_forks(mut self) -> Self {
        self.follow_forks = true;
        self
    }

    /// The value that a variable will have for the program.
    fn variable(&self, name: &str) -> Option<OsString> {
        match self.changes.get(OsStr::new(name)) {
            Some(changed) => changed.clone(),
            None => env::var_os(name),
        }
    }

    /// The file to execute. Looked up here, not by `execvp`, which would hand a file in an unknown format to
    /// a shell.
    ///
    /// # Errors
    /// When there is none.
    pub fn path(&self) -> Result<PathBuf, LaunchError> {
        if self.program.as_bytes().contains(&b'/') {
            return Ok(PathBuf::from(&self.program));
        }
        let folders = self.variable("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let mut forbidden = None;
        for folder in env::split_paths(&folders) {
            let path = folder.join(&self.program);
            match fs::metadata(&path) {
                Ok(file) if !file.is_file() => (),
                Ok(file) if file.permissions().mode() & 0o111 != 0 => return Ok(path),
                Ok(_) => forbidden = Some(path),
                Err(_) => (),
            }
        }
        Err(forbidden.map_or_else(
            || LaunchError::NotInPath(self.program.to_string_lossy().into_owned()),
            LaunchError::NotExecutable,
        ))
    }

    /// The arguments, the program's name first.
    pub(super) fn argv(&self) -> Result<Vec<CString>, LaunchError> {
        let all = [&self.program].into_iter().chain(&self.arguments);
        all.map(|text| c_string(text.clone())).collect()
    }

    /// The environment.
    pub(super) fn envp(&self) -> Result<Vec<CString>, LaunchError> {
        let kept = env::vars_os().filter(|(name, _)| !self.changes.contains_key(name));
        let set = self
            .changes
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        kept.chain(set)
            .map(|(mut text, value)| {
                text.push("=");
                text.push(value);
                c_string(text)
            })
            .collect()
    }
}

pub(super) fn c_string(text: OsString) -> Result<CString, LaunchError> {
    CString::new(text.into_vec()).map_err(|_| LaunchError::Nul)
}

pub(super) fn c_path(path: &Path) -> Result<CString, LaunchError> {
    c_string(path.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_ours_with_the_changes() {
        let launch = Launch::new("x").env("FAILSKETCH_A", "1=2").without_env("PATH");
        let all = launch.envp().unwrap();
        assert!(all.contains(&c"FAILSKETCH_A=1=2".to_owned()));
        assert!(!all.iter().any(|text| text.as_bytes().starts_with(b"PATH=")));
        assert_eq!(all.len(), env::vars_os().count());
    }

    #[test]
    fn names_are_looked_up_where_the_program_would_look() {
        let found = Launch::new("sh").env("PATH", "/nowhere:/bin").path().unwrap();
        assert_eq!(found, Path::new("/bin/sh"));
        let missing = Launch::new("sh").env("PATH", "/nowhere").path();
        assert!(matches!(missing, Err(LaunchError::NotInPath(name)) if name == "sh"));
        let nul = Launch::new("sh").args(["a\0b"]).argv();
        assert!(matches!(nul, Err(LaunchError::Nul)));
    }
}
