//! Which processes there are to follow.

use std::fs;
use std::path::{Path, PathBuf};

use tracee::Pid;
use tracee::process::Process;

use crate::config::Followed;

/// A process, told from others that had its number before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) pid: Pid,
    /// When it was started, in the kernel's ticks.
    started: u64,
    /// What it runs: one that a script started may run the script's shell first.
    executable: PathBuf,
}

/// The processes of this kind.
pub(super) fn processes(followed: &Followed) -> Vec<Found> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
    let mut found: Vec<Found> = pids
        .filter(|pid| *pid != Pid::this() && belongs(*pid, followed))
        .filter_map(|pid| {
            let started = started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            let executable = Process::new(pid).executable().ok()?;
            Some(Found {
                pid,
                started,
                executable,
            })
        })
        .collect();
    found.sort();
    found
}

fn belongs(pid: Pid, followed: &Followed) -> bool {
    let process = Process::new(pid);
    match followed {
        Followed::Executable(path) => process.executable().is_ok_and(|exe| undeleted(&exe) == *path),
        Followed::Unit(unit) => in_group(pid, |group| group.split('/').any(|part| part == unit)),
        Followed::Cgroup(wanted) => in_group(pid, |group| {
            let rest = group.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }),
    }
}

/// The path of a file that was replaced while it ran, as upgrades do, is the same.
fn undeleted(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    text.strip_suffix(" (deleted)")
        .map_or_else(|| path.to_owned(), PathBuf::from)
}

fn in_group(pid: Pid, is_it: impl Fn(&str) -> bool) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups(&text).any(is_it)
}

/// The control groups of a process: one, or one of each hierarchy.
fn groups(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .map(|path| path.trim_start_matches('/'))
}

fn started(stat: &str) -> Option<u64> {
    // The name, in brackets, may have anything in it; the 22nd field of all, of which the state is the third.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_kinds_are_read() {
        let old =
            "12:memory:/docker/abc\n1:name=systemd:/system.slice/app.service\n0::/system.slice/app.service\n";
        let found: Vec<&str> = groups(old).collect();
        assert_eq!(
            found,
            [
                "docker/abc",
                "system.slice/app.service",
                "system.slice/app.service"
            ]
        );
        assert_eq!(groups("0::/\n").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn a_name_with_brackets_is_no_trouble() {
        let stat = "7 (a) (b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1000 2 3";
        assert_eq!(started(stat), Some(4711));
    }

    #[test]
    fn an_upgraded_program_has_its_old_path() {
        assert_eq!(
            undeleted(Path::new("/usr/bin/app (deleted)")),
            Path::new("/usr/bin/app")
        );
        assert_eq!(undeleted(Path::new("/usr/bin/app")), Path::new("/usr/bin/app"));
    }
}
