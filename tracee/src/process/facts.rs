//! A process from outside: what `/proc` tells about it without stopping anything.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ProcessError;
use super::status::Status;
use crate::clock;
use crate::ids::{Pid, Tid};

/// A process that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pid: Pid,
}

impl Process {
    /// The process with this number, whether it is there or not.
    #[must_use]
    pub fn new(pid: Pid) -> Self {
        Self { pid }
    }

    /// Its number.
    #[must_use]
    pub fn pid(self) -> Pid {
        self.pid
    }

    fn path(self, rest: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{rest}", self.pid))
    }

    /// A thread that has the process's memory: the first, unless that one ended before the others and has
    /// nothing any more. `/proc` knows every thread by its number, as it knows processes.
    pub(super) fn living_thread(self) -> Tid {
        let first = self.pid.first_thread();
        let lives = |tid: &Tid| self.thread_status(*tid).is_ok_and(|status| !status.is_over());
        if lives(&first) {
            return first;
        }
        let threads = self.threads().unwrap_or_default();
        threads.into_iter().find(lives).unwrap_or(first)
    }

    fn error(self, what: &'static str) -> impl Fn(io::Error) -> ProcessError {
        move |source| ProcessError::of(self.pid, what, source)
    }

    /// The facts of its first thread. They go on telling user, name and parent when that thread has ended.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn status(self) -> Result<Status, ProcessError> {
        self.status_at(&self.path("status"))
    }

    /// The facts of one of its threads.
    ///
    /// # Errors
    /// When there is no such thread any more.
    pub fn thread_status(self, tid: Tid) -> Result<Status, ProcessError> {
        self.status_at(&self.path(&format!("task/{tid}/status")))
    }

    fn status_at(self, path: &Path) -> Result<Status, ProcessError> {
        let text = fs::read(path).map_err(self.error("the status"))?;
        Status::parse(&String::from_utf8_lossy(&text)).ok_or(ProcessError::Gone(self.pid))
    }

    /// Bytes that are others after an exec: where the kernel put the program that the process runs. They are the same again
    /// only where addresses are not randomised. `None` when there is no such process.
    #[must_use]
    pub fn program_mark(self) -> Option<Vec<u8>> {
        let path = format!("/proc/{}/auxv", self.living_thread());
        fs::read(path).ok().filter(|mark| !mark.is_empty())
    }

    /// Its threads, in order of their numbers. Threads may start and end while the list is read.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn threads(self) -> Result<Vec<Tid>, ProcessError> {
        let failed = self.error("the threads");
        let mut found = Vec::new();
        for entry in fs::read_dir(self.path("task")).map_err(&failed)? {
            let name = entry.map_err(&failed)?.file_name();
            found.extend(name.to_str().and_then(|name| name.parse().ok()).map(Tid));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// How long a thread has been on a processor; `None` when the kernel does not count it, or it is gone.
    #[must_use]
    pub fn run_time(self, tid: Tid) -> Option<Duration> {
        let text = fs::read_to_string(self.path(&format!("task/{tid}/schedstat"))).ok()?;
        let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }

    /// How long all of its threads together have been on processors; `None` when it is gone.
    #[must_use]
    pub fn time_on_processors(self) -> Option<Duration> {
        clock::time_on_processors(self.pid)
    }

    /// Whether every thread of it has ended: it only waits to be waited for.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn is_zombie(self) -> Result<bool, ProcessError> {
        if !self.status()?.is_over() {
            return Ok(false);
        }
        let lives = |tid: &Tid| self.thread_status(*tid).is_ok_and(|status| !status.is_over());
        Ok(!self.threads()?.iter().any(lives))
    }

    /// The path of its executable, as it was when it was started. The file may be gone or another one.
    ///
    /// # Errors
    /// When there is no such process, or it is not ours to look at.
    pub fn executable(self) -> Result<PathBuf, ProcessError> {
        let link = fs::read_link(self.executable_link()).map_err(self.error("the executable"))?;
        let text = link.to_str().and_then(|text| text.strip_suffix(" (deleted)"));
        Ok(text.map(PathBuf::from).unwrap_or(link))
    }

    /// A path under which the executable that it runs can be opened, even if its file was removed or is in
    /// another mount namespace.
    #[must_use]
    pub fn executable_link(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/exe", self.living_thread()))
    }

    /// Whether it runs a 32-bit executable.
    ///
    /// # Errors
    /// When there is no such process, or it is not ours to look at.
    pub fn is_32_bit(self) -> Result<bool, ProcessError> {
        let failed = self.error("the executable");
        let mut start = [0; 5];
        let mut file = File::open(self.executable_link()).map_err(&failed)?;
        file.read_exact(&mut start).map_err(&failed)?;
        Ok(start == *b"\x7fELF\x01")
    }

    /// Its arguments, for people to read; its name, if it has none.
    #[must_use]
    pub fn command(self) -> String {
        let line = fs::read(self.path("cmdline")).unwrap_or_default();
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        if line.is_empty() {
            return self.status().map(|status| status.name).unwrap_or_default();
        }
        String::from_utf8_lossy(line).replace('\0', " ")
    }
}
