//! Real failures: a program runs until it fails as its facts say, and leaves a core.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::facts::{FailureFacts, Kind, Program};
use crate::folder::Folder;
use crate::process::{self, Finished};

/// The programs fail in at least 2% of their runs: so many runs without a failure do not happen.
const MOST_RUNS: usize = 400;
const LONGEST: Duration = Duration::from_secs(120);

/// A failure that happened. Its files go away with it.
#[derive(Debug)]
pub struct Failed {
    /// The core that it left.
    pub core: PathBuf,
    /// What the program wrote to standard error.
    pub stderr: String,
    _folder: Folder,
}

/// How to get a core of a process that hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangCore {
    /// Copied from the living process by gdb's `gcore`.
    Live,
    /// Written by the kernel on SIGQUIT, as by Ctrl-\ in a terminal.
    Quit,
}

/// Runs a binary of a program until it fails as the facts say.
///
/// # Errors
/// When it fails in another way, or not at all, or leaves no core.
pub fn fail(program: &Program, binary: &Path, hang_core: HangCore) -> Result<Failed, String> {
    let start = Instant::now();
    for _ in 0..MOST_RUNS {
        if let Some(failed) = run_once(program, binary, hang_core)? {
            return Ok(failed);
        }
        if start.elapsed() > LONGEST {
            break;
        }
    }
    Err(format!("{} did not fail", binary.display()))
}

fn run_once(program: &Program, binary: &Path, hang_core: HangCore) -> Result<Option<Failed>, String> {
    let facts = &program.facts;
    let folder = Folder::new("core");
    let by_gdb = !kernel_writes_cores_here();
    let mut command = if by_gdb {
        under_gdb(binary)
    } else {
        with_cores(binary)
    };
    command.args(&facts.args).current_dir(folder.path());
    let mut limit = Duration::from_secs(facts.timeout_secs);
    if facts.failure.kind != Kind::Hang {
        // Only a program that is known to hang may be taken for hanging when the machine is merely busy.
        limit *= 6;
    }
    let done = process::run(&mut command, facts.stdin.as_bytes(), limit, |pid| {
        take_core(
            pid,
            folder.path(),
            if by_gdb { HangCore::Live } else { hang_core },
        );
    });
    let core = find_core(folder.path());
    let failed = match (done.hung, by_gdb) {
        (false, true) => core.is_some(),
        _ => done.hung || !done.status.success(),
    };
    if !failed {
        return Ok(None);
    }
    if let Some(otherwise) = differs(&facts.failure, &done, by_gdb) {
        return Err(format!("{}: {otherwise}", binary.display()));
    }
    let core = core.ok_or_else(|| {
        format!(
            "{}: {} left no core: is the hard limit on cores 0?",
            binary.display(),
            done.how()
        )
    })?;
    Ok(Some(Failed {
        core,
        stderr: done.stderr,
        _folder: folder,
    }))
}

/// Whether the kernel leaves cores in the folder of the process, instead of handing them to somebody.
#[must_use]
pub fn kernel_writes_cores_here() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    !pattern.starts_with(['|', '/'])
}

/// Tests may be run in the background of a shell, which ignores SIGINT and SIGQUIT for them and for what they start.
fn with_cores(binary: &Path) -> Command {
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT,QUIT", "sh"])
        .args(["-c", "ulimit -c unlimited && exec \"$0\" \"$@\""])
        .arg(binary);
    command
}

fn under_gdb(binary: &Path) -> Command {
    let mut command = Command::new("gdb");
    command
        .args([
            "-nx",
            "-batch",
            "-ex",
            "run",
            "-ex",
            "generate-core-file core",
            "--args",
        ])
        .arg(binary);
    command
}

fn take_core(pid: u32, folder: &Path, how: HangCore) {
    // A program that is run by gdb is gdb's child.
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pid = children
        .split_whitespace()
        .next()
        .map_or_else(|| pid.to_string(), str::to_owned);
    match how {
        HangCore::Live => {
            let mut gcore = Command::new("gcore");
            let _ = process::tool(gcore.args(["-o", "core", &pid]), folder);
        }
        HangCore::Quit => {
            let _ = process::tool(Command::new("kill").args(["-QUIT", &pid]), folder);
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(30) && is_alive(&pid) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Whether a process has not ended; one that was not waited for yet has.
fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The core in a folder.
#[must_use]
pub fn find_core(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut cores = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("core"));
    cores.next().map(|entry| entry.path())
}

/// What is not as the facts say.
fn differs(facts: &FailureFacts, done: &Finished, by_gdb: bool) -> Option<String> {
    let hangs = facts.kind == Kind::Hang;
    if done.hung || hangs {
        return (done.hung != hangs).then(|| format!("{}, not {}", done.how(), facts.kind.name()));
    }
    let expected = facts.signal.as_deref().unwrap_or("SIGABRT");
    if !by_gdb && done.how() != expected {
        return Some(format!("{}, not {expected}", done.how()));
    }
    let message = facts.message.as_deref().unwrap_or_default();
    let stderr = done.stderr.trim();
    (!stderr.contains(message)).then(|| format!("it says {stderr:?}, not {message:?}"))
}
