//! Which programs an agent is about, and what it does with them.

use std::path::PathBuf;

use watchpoint::Mode;

use super::settings::{FollowSettings, Settings};
use super::{ConfigError, quoted};

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Runs a command again and again.
    Launch(LaunchJob),
    /// Watches a process that runs.
    Attach(u32),
    /// Watches the processes that there are of a kind, and those that come.
    Follow(Followed),
}

/// A command that is run again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchJob {
    /// The command.
    pub command: Vec<String>,
    /// How often at most.
    pub runs: Option<u64>,
    /// How memory is watched.
    pub mode: Mode,
}

/// Which processes to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Those that run this file.
    Executable(PathBuf),
    /// Those of this systemd unit.
    Unit(String),
    /// Those in this control group, below `/sys/fs/cgroup`.
    Cgroup(String),
}

pub(super) fn job(settings: &Settings) -> Result<Job, ConfigError> {
    const INSTEAD: &str = "one of [launch] command = [\"PROGRAM\", …], [attach] pid = …, and [follow] executable, unit or cgroup = …";
    let (launch, attach, follow) = (&settings.launch, &settings.attach, &settings.follow);
    match (launch, attach, follow) {
        (Some(launch), None, None) => {
            const COMMAND: &str = "a program and its arguments, such as [\"/usr/bin/app\", \"--once\"]";
            let command = launch.command.clone().unwrap_or_default();
            if command.first().is_none_or(String::is_empty) {
                return Err(ConfigError::wrong("launch.command", "empty", COMMAND));
            }
            let mode = match launch.mode.as_deref() {
                None | Some("exact") => Mode::Exact,
                Some("observe") => Mode::Observe,
                Some(other) => {
                    let instead = "\"exact\" or \"observe\"";
                    return Err(ConfigError::wrong("launch.mode", quoted(other), instead));
                }
            };
            let runs = launch.runs;
            Ok(Job::Launch(LaunchJob { command, runs, mode }))
        }
        (None, Some(attach), None) => match attach.pid {
            Some(pid) if pid > 0 => Ok(Job::Attach(pid)),
            other => {
                let value = other.map_or("empty".to_owned(), |pid| pid.to_string());
                Err(ConfigError::wrong("attach.pid", value, "the number of a process"))
            }
        },
        (None, None, Some(follow)) => followed(follow).map(Job::Follow),
        (None, None, None) => Err(ConfigError::Missing {
            key: "what to do",
            instead: INSTEAD,
        }),
        _ => Err(ConfigError::wrong("what to do", "several things", INSTEAD)),
    }
}

fn followed(follow: &FollowSettings) -> Result<Followed, ConfigError> {
    const INSTEAD: &str = "one of executable = \"/PATH\", unit = \"NAME.service\" and cgroup = \"PATH\"";
    match (&follow.executable, &follow.unit, &follow.cgroup) {
        (Some(executable), None, None) if executable.is_absolute() => {
            Ok(Followed::Executable(executable.clone()))
        }
        (Some(executable), None, None) => Err(ConfigError::wrong(
            "follow.executable",
            quoted(&executable.display().to_string()),
            "the whole path, from /",
        )),
        (None, Some(unit), None) if !unit.contains('/') && !unit.is_empty() => {
            // As systemctl has it.
            let has_type = unit.contains('.');
            let unit = if has_type {
                unit.clone()
            } else {
                format!("{unit}.service")
            };
            Ok(Followed::Unit(unit))
        }
        (None, Some(unit), None) => Err(ConfigError::wrong(
            "follow.unit",
            quoted(unit),
            "its name, such as \"nginx.service\"",
        )),
        (None, None, Some(cgroup)) => {
            let inside = cgroup.strip_prefix("/sys/fs/cgroup").unwrap_or(cgroup);
            Ok(Followed::Cgroup(inside.trim_matches('/').to_owned()))
        }
        (None, None, None) => Err(ConfigError::wrong("follow", "empty", INSTEAD)),
        _ => Err(ConfigError::wrong("follow", "several things", INSTEAD)),
    }
}
