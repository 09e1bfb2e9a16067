//! What an agent is to do: from a file, and from flags, which win.
//!
//! - `job`: which programs it is about
//! - `settings`: what somebody wrote, each part of it optional
//! - `host`: the name of this host, made once and kept

mod host;
mod job;
mod settings;

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use failure::FailOn;
use pt_driver_client::recorder::ControlFlow;
use thiserror::Error;

pub use host::{HostError, host_id};
use job::job;
pub use job::{Followed, Job, LaunchJob};
pub use settings::{AttachSettings, FollowSettings, LaunchSettings, Settings, SpoolSettings};

use crate::link::Access;
use crate::privacy::Privacy;

/// Debug registers of a processor.
const REGISTERS: u32 = 4;
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);
const DEFAULT_CEILING: f64 = 1.0;
const DEFAULT_MEGABYTES: u64 = 256;
/// Where daemons keep what must outlive them.
const STATE: &str = "/var/lib/failsketch";

/// What is wrong with what somebody wrote.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file is none.
    #[error("{path}: {wrong}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Where, and what.
        wrong: String,
    },
    /// A key is missing.
    #[error("`{key}` is missing: write {instead}")]
    Missing {
        /// Which key.
        key: &'static str,
        /// What to write.
        instead: &'static str,
    },
    /// A key has a value that it cannot have.
    #[error("`{key}` cannot be {value}: write {instead}")]
    Wrong {
        /// Which key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What to write.
        instead: &'static str,
    },
}

impl ConfigError {
    fn wrong(key: &'static str, value: impl ToString, instead: &'static str) -> Self {
        Self::Wrong {
            key,
            value: value.to_string(),
            instead,
        }
    }
}

/// A share of a program's time, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ceiling(pub u32);

/// All that an agent has to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The way to the server.
    pub access: Access,
    /// What to do.
    pub job: Job,
    /// The file with this host's name.
    pub host_id: PathBuf,
    /// How long a process that goes on is watched for one observation.
    pub window: Duration,
    /// What tracking may cost.
    pub ceiling: Ceiling,
    /// Which values leave this host.
    pub privacy: Privacy,
    /// Debug registers that may be used.
    pub registers: u32,
    /// How control flow is recorded, of programs that are launched.
    pub control_flow: ControlFlow,
    /// What counts as a failure.
    pub fail_on: FailOn,
    /// A launched program that takes longer hangs, and so does one that is watched if a thread waits longer for a lock.
    pub timeout: Option<Duration>,
    /// Where things wait to be sent.
    pub spool: PathBuf,
    /// How many bytes may.
    pub spool_bytes: u64,
}

impl TryFrom<Settings> for Config {
    type Error = ConfigError;

    fn try_from(settings: Settings) -> Result<Self, ConfigError> {
        let job = job(&settings)?;
        let access = access(&settings)?;
        let state = state_folder();
        let spool = settings.spool.unwrap_or_default();
        Ok(Self {
            access,
            job,
            host_id: settings.host_id.unwrap_or_else(|| state.join("host-id")),
            window: window(settings.window_seconds)?,
            ceiling: ceiling(settings.ceiling_percent)?,
            privacy: settings.privacy.map_or(Ok(Privacy::Full), |name| {
                name.parse().map_err(|()| {
                    ConfigError::wrong("privacy", quoted(&name), "\"full\", \"scalars\" or \"none\"")
                })
            })?,
            registers: registers(settings.registers)?,
            control_flow: settings.control_flow.map_or(Ok(ControlFlow::Auto), |name| {
                name.parse().map_err(|_| {
                    let instead = "\"auto\", \"intel-pt\", \"software-pt\" or \"none\"";
                    ConfigError::wrong("control_flow", quoted(&name), instead)
                })
            })?,
            fail_on: settings.fail_on.map_or(Ok(FailOn::default()), |text| {
                text.parse().map_err(|_| {
                    let instead = "terms such as \"signal,hang,exit!=0\"";
                    ConfigError::wrong("fail_on", quoted(&text), instead)
                })
            })?,
            timeout: settings.timeout_seconds.map(timeout).transpose()?,
            spool: spool.path.unwrap_or_else(|| state.join("spool")),
            spool_bytes: megabytes(spool.megabytes)?,
        })
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn access(settings: &Settings) -> Result<Access, ConfigError> {
    let server = settings.server.clone().ok_or(ConfigError::Missing {
        key: "server",
        instead: "server = \"https://HOST:PORT\", or --server",
    })?;
    let identity = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        (Some(_), None) => {
            return Err(ConfigError::Missing {
                key: "key",
                instead: "the file with the certificate's key, in PEM",
            });
        }
        (None, Some(_)) => {
            return Err(ConfigError::Missing {
                key: "certificate",
                instead: "the file with the key's certificate, in PEM",
            });
        }
    };
    Ok(Access {
        server,
        ca: settings.ca.clone(),
        identity,
        token: settings.token.clone(),
        insecure: settings.insecure.unwrap_or(false),
    })
}

fn window(seconds: Option<u64>) -> Result<Duration, ConfigError> {
    const A_DAY: u64 = 24 * 60 * 60;
    match seconds {
        None => Ok(DEFAULT_WINDOW),
        Some(seconds @ 1..=A_DAY) => Ok(Duration::from_secs(seconds)),
        Some(other) => {
            let instead = "a number of seconds from 1 to 86400";
            Err(ConfigError::wrong("window_seconds", other, instead))
        }
    }
}

fn timeout(seconds: f64) -> Result<Duration, ConfigError> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| ConfigError::wrong("timeout_seconds", seconds, "a number of seconds above 0"))
}

fn ceiling(percent: Option<f64>) -> Result<Ceiling, ConfigError> {
    const MILLIONTHS: f64 = 10_000.0;
    let percent = percent.unwrap_or(DEFAULT_CEILING);
    if !(percent > 0.0 && percent <= 100.0) {
        let instead = "a number above 0, up to 100";
        return Err(ConfigError::wrong("ceiling_percent", percent, instead));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and a million"
    )]
    Ok(Ceiling((percent * MILLIONTHS).round().max(1.0) as u32))
}

fn registers(wanted: Option<u32>) -> Result<u32, ConfigError> {
    match wanted.unwrap_or(REGISTERS) {
        registers @ 0..=REGISTERS => Ok(registers),
        other => Err(ConfigError::wrong("registers", other, "a number from 0 to 4")),
    }
}

fn megabytes(wanted: Option<u64>) -> Result<u64, ConfigError> {
    const MOST: u64 = 1 << 20;
    match wanted.unwrap_or(DEFAULT_MEGABYTES) {
        megabytes @ 1..=MOST => Ok(megabytes << 20),
        other => {
            let instead = "a number of megabytes from 1 to 1048576";
            Err(ConfigError::wrong("spool.megabytes", other, instead))
        }
    }
}

/// Root's daemons keep their state with the system's, everybody else's with their owner's.
fn state_folder() -> PathBuf {
    if tracee::process::Process::new(tracee::Pid::this())
        .status()
        .is_ok_and(|status| status.user == 0)
    {
        return PathBuf::from(STATE);
    }
    let own = env::var_os("STATE_DIRECTORY")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&env::var_os("XDG_STATE_HOME")?).join("failsketch")))
        .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/state/failsketch")));
    own.unwrap_or_else(|| PathBuf::from(STATE))
}

#[cfg(test)]
mod tests;
