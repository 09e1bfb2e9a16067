//! What somebody wrote, each part of it optional.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;

/// A file's content, or the flags of a command line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The server's address.
    pub server: Option<String>,
    /// The file with our token.
    pub token: Option<PathBuf>,
    /// The file with the certificate of who signed the server's.
    pub ca: Option<PathBuf>,
    /// The file with our certificate.
    pub certificate: Option<PathBuf>,
    /// The file with its key.
    pub key: Option<PathBuf>,
    /// Goes to other machines without encryption.
    pub insecure: Option<bool>,
    /// The file with this host's name, made if it is not there.
    pub host_id: Option<PathBuf>,
    /// How long one observation of a process that goes on is.
    pub window_seconds: Option<u64>,
    /// What tracking may cost of a program's time.
    pub ceiling_percent: Option<f64>,
    /// Which values leave this host.
    pub privacy: Option<String>,
    /// Debug registers that may be used.
    pub registers: Option<u32>,
    /// How control flow is recorded.
    pub control_flow: Option<String>,
    /// What counts as a failure.
    pub fail_on: Option<String>,
    /// How long a launched program may take, and a thread of another one wait for a lock.
    pub timeout_seconds: Option<f64>,
    /// Where things wait to be sent.
    pub spool: Option<SpoolSettings>,
    /// Run a command again and again.
    pub launch: Option<LaunchSettings>,
    /// Watch a process.
    pub attach: Option<AttachSettings>,
    /// Watch processes as they come and go.
    pub follow: Option<FollowSettings>,
}

/// Where things wait to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolSettings {
    /// The folder.
    pub path: Option<PathBuf>,
    /// How much of it may be used.
    pub megabytes: Option<u64>,
}

/// A command to run again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchSettings {
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// How often at most.
    pub runs: Option<u64>,
    /// How memory is watched.
    pub mode: Option<String>,
}

/// A process to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttachSettings {
    /// Its number.
    pub pid: Option<u32>,
}

/// Processes to watch as they come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FollowSettings {
    /// The file that they run.
    pub executable: Option<PathBuf>,
    /// Their systemd unit.
    pub unit: Option<String>,
    /// Their control group.
    pub cgroup: Option<String>,
}

impl Settings {
    /// What a file says.
    ///
    /// # Errors
    /// When it cannot be read, or is not what it is to be.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let wrong = |wrong: String| ConfigError::File {
            path: path.to_owned(),
            wrong,
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| wrong(explained(&error, &text)))
    }

    /// These, and what `base` says where they say nothing. What to do is one thing: whoever says it, says all of it.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let has_job = self.launch.is_some() || self.attach.is_some() || self.follow.is_some();
        let own = SpoolSettings::default;
        let (spool, base_spool) = (self.spool.unwrap_or_else(own), base.spool.unwrap_or_else(own));
        let spool = SpoolSettings {
            path: spool.path.or(base_spool.path),
            megabytes: spool.megabytes.or(base_spool.megabytes),
        };
        Self {
            server: self.server.or(base.server),
            token: self.token.or(base.token),
            ca: self.ca.or(base.ca),
            certificate: self.certificate.or(base.certificate),
            key: self.key.or(base.key),
            insecure: self.insecure.or(base.insecure),
            host_id: self.host_id.or(base.host_id),
            window_seconds: self.window_seconds.or(base.window_seconds),
            ceiling_percent: self.ceiling_percent.or(base.ceiling_percent),
            privacy: self.privacy.or(base.privacy),
            registers: self.registers.or(base.registers),
            control_flow: self.control_flow.or(base.control_flow),
            fail_on: self.fail_on.or(base.fail_on),
            timeout_seconds: self.timeout_seconds.or(base.timeout_seconds),
            spool: Some(spool),
            launch: self.launch.or(base.launch.filter(|_| !has_job)),
            attach: self.attach.or(base.attach.filter(|_| !has_job)),
            follow: self.follow.or(base.follow.filter(|_| !has_job)),
        }
    }
}

/// The line, what is written there, and what is wrong with it.
fn explained(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message.to_owned();
    };
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number}, `{line}`: {message}")
}
