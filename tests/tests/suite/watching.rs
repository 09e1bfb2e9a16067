//! The ways to watch a program, and what is left of a watch afterwards.

use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use failsketch_tests::target::{Built, READY};
use failsketch_tests::watch::{Watch, Watched};
use failsketch_tests::{command, skip};
use tracee::Tid;
use tracee::perf::{DEBUG_REGISTERS, free_registers};

/// A mode of a watch, for a program that runs already or one that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// `--mode`.
    pub mode: &'static str,
    launched: bool,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            if self.launched { "launched" } else { "attached" },
            self.mode
        )
    }
}

impl Way {
    /// For programs that run already.
    pub const ATTACHED: [Self; 2] = [Self::attached("exact"), Self::attached("observe")];
    /// For programs that we start.
    pub const LAUNCHED: [Self; 3] = [
        Self::launched("exact"),
        Self::launched("observe"),
        Self::launched("compat"),
    ];

    const fn attached(mode: &'static str) -> Self {
        Self {
            mode,
            launched: false,
        }
    }

    const fn launched(mode: &'static str) -> Self {
        Self { mode, launched: true }
    }

    /// Whether the program is started under watch.
    pub fn is_launched(self) -> bool {
        self.launched
    }

    /// Watches a whole run of a program.
    pub fn watch(self, built: &Built, arguments: &[&str], variables: &[&str]) -> Watched {
        self.watch_and_print(built, arguments, variables).0
    }

    /// The same, with what the program printed. The programs end with status 3.
    pub fn watch_and_print(self, built: &Built, arguments: &[&str], variables: &[&str]) -> (Watched, String) {
        if self.launched {
            let watched = Watch::launch(&built.command(arguments), self.mode, variables).finish();
            let printed = printed_by_program(&watched.stderr);
            let ended = watched.summary["ended"].as_str().unwrap_or_default();
            assert!(ended.contains("status 3"), "{self}: {}", watched.summary);
            return (watched, printed);
        }
        let mut target = built.start_ready(arguments);
        let watch = Watch::attach(target.pid(), self.mode, variables);
        target.end_input();
        let done = target.finish();
        assert_eq!(
            done.status.code(),
            Some(3),
            "{self}: {}\n{}",
            done.how(),
            done.stderr
        );
        (watch.finish(), printed_by_program(&done.stdout))
    }
}

/// Without our own messages and the program's word that it is ready.
fn printed_by_program(text: &str) -> String {
    let ours = |line: &&str| !line.starts_with("failsketch: ") && *line != READY;
    let lines = text.lines().filter(ours);
    lines.map(|line| format!("{line}\n")).collect()
}

/// The line of a source that has a text in it.
pub fn line_of(text: &str, part: &str) -> u32 {
    let found = text.lines().zip(1..).find(|(line, _)| line.contains(part));
    found.unwrap_or_else(|| panic!("{part} is not in the source")).1
}

/// The threads of a process that lives.
pub fn threads(pid: u32) -> Vec<Tid> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.map(Tid).collect()
}

/// Waits until nothing of a watch is left in a process that lives: nobody traces it, and no thread has a debug
/// register in use. Says what is left after a time in which anything would have been tidied up.
pub fn is_clean(pid: u32) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let left = left_behind(pid);
        if left.is_ok() || Instant::now() > end {
            return left;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn left_behind(pid: u32) -> Result<(), String> {
    for thread in threads(pid) {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        if let Some(tracer) = tracer.map(str::trim).filter(|tracer| *tracer != "0") {
            return Err(format!("thread {thread} is traced by {tracer}"));
        }
        match free_registers(thread) {
            Ok(DEBUG_REGISTERS) => {}
            Ok(free) => return Err(format!("only {free} debug registers of thread {thread} are free")),
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Whether we may become somebody else. Says so where not.
pub fn is_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !root {
        skip::skipped("only root can become somebody else");
    }
    root
}

/// The command where anybody may execute it.
pub fn public_copy(folder: &Folder) -> PathBuf {
    let copy = folder.path().join("failsketch");
    fs::copy(command::binary(), &copy).unwrap();
    for path in [folder.path(), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

/// A command run by somebody without rights.
pub fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program);
    command
}
