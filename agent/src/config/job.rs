//! Which programs an agent is about, and what it does with them.

use std::fs;
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
    /// Those in this control group, in any hierarchy.
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
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            let inside = inside(cgroup, &mounts).trim_matches('/');
            if inside.is_empty() {
                let instead = "a group below the root, such as \"system.slice/nginx.service\"";
                return Err(ConfigError::wrong("follow.cgroup", quoted(cgroup), instead));
            }
            Ok(Followed::Cgroup(inside.to_owned()))
        }
        (None, None, None) => Err(ConfigError::wrong("follow", "empty", INSTEAD)),
        _ => Err(ConfigError::wrong("follow", "several things", INSTEAD)),
    }
}

/// The path of a control group in its hierarchy. Somebody may have given its folder, which is below where the hierarchy is mounted: on newer
/// systems there is one hierarchy, on older ones there are many.
fn inside<'c>(cgroup: &'c str, mounts: &str) -> &'c str {
    let places = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (place, kind) = (fields.nth(1)?, fields.next()?);
        kind.starts_with("cgroup").then_some(place)
    });
    let inside = |place: &str| {
        let rest = cgroup.strip_prefix(place)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let found = places.filter_map(inside).min_by_key(|rest| rest.len());
    found.unwrap_or(cgroup)
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn a_control_group_may_be_given_as_a_folder() {
        let one = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let many = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 \
                    /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        for (given, mounts, expected) in [
            ("/sys/fs/cgroup/app.slice/x", one, "/app.slice/x"),
            ("/sys/fs/cgroup/unified/app", many, "/app"),
            ("/sys/fs/cgroup/memory/a/b", many, "/a/b"),
            ("/sys/fs/cgroup/memory", many, ""),
            ("/sys/fs/cgroup/memory2", many, "/sys/fs/cgroup/memory2"),
            ("system.slice/app.service", many, "system.slice/app.service"),
            ("/docker/abc", one, "/docker/abc"),
        ] {
            assert_eq!(inside(given, mounts), expected, "{given}");
        }
    }
}
