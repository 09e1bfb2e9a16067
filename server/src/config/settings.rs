//! The parts of a configuration.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Certificates and their keys, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that agents' certificates come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Report what a program did.
    Agent,
    /// Read bugs and sketches.
    Read,
    /// Have a bug treated differently.
    Steer,
}

impl Role {
    /// As it is written in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Read => "read",
            Self::Steer => "steer",
        }
    }
}

fn every_program() -> Vec<String> {
    vec!["*".into()]
}

/// Somebody who knows a secret. The secret itself is nowhere in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Who.
    pub name: String,
    /// SHA-256 of the secret's text.
    pub sha256: Sha256,
    /// What he may do.
    pub roles: Vec<Role>,
    /// With which programs: names, `*` for any characters.
    #[serde(default = "every_program")]
    pub programs: Vec<String>,
}

/// Somebody with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The common name of the certificate; `*` for any characters. The first entry that fits is taken.
    pub common_name: String,
    /// What he may do.
    pub roles: Vec<Role>,
    /// With which programs.
    #[serde(default = "every_program")]
    pub programs: Vec<String>,
}

/// A reverse proxy that knows people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// The header with a person's name.
    pub header: String,
    /// The addresses and networks that it is believed from.
    pub trusted: Vec<IpNet>,
    /// What people may do.
    #[serde(default, rename = "person")]
    pub people: Vec<Person>,
}

/// Somebody whom the proxy knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// What the proxy calls him; `*` for any characters. The first entry that fits is taken.
    pub name: String,
    /// What he may do.
    pub roles: Vec<Role>,
    /// With which programs.
    #[serde(default = "every_program")]
    pub programs: Vec<String>,
}

/// The hash of a secret, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(pub [u8; 32]);

/// Not a hash.
#[derive(Debug, thiserror::Error)]
#[error("not a SHA-256: 64 hexadecimal digits, as `sha256sum` prints them")]
pub struct WrongSha256;

impl FromStr for Sha256 {
    type Err = WrongSha256;

    fn from_str(text: &str) -> Result<Self, WrongSha256> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| WrongSha256)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Sha256 {
    type Error = WrongSha256;

    fn try_from(text: String) -> Result<Self, WrongSha256> {
        text.parse()
    }
}

impl From<Sha256> for String {
    fn from(hash: Sha256) -> Self {
        hex::encode(hash.0)
    }
}

/// How much of everything. A rate of 0 is no limit; the others have none that is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Runs in one report.
    pub runs: usize,
    /// Bytes of a module.
    pub module_bytes: u64,
    /// Bytes of modules, large runs and reports of new bugs that are kept of what one credential brought.
    pub stored_bytes: u64,
    /// Hosts that one credential speaks for.
    pub hosts: u64,
    /// Bugs of a program in one build that hosts of one credential report.
    pub bugs: u64,
    /// Modules that are being uploaded with one credential.
    pub uploads: usize,
    /// Pages and streams that follow what changes with one credential.
    pub watchers: usize,
    /// Requests a second from one host.
    pub host_requests: u32,
    /// Requests a second from all.
    pub requests: u32,
    /// Bytes of one host's messages that are being received or worked on.
    pub host_bytes: usize,
    /// Bytes of all messages that are being received or worked on.
    pub bytes: usize,
    /// Connections from one address.
    pub host_connections: usize,
    /// Connections.
    pub connections: usize,
    /// Requests of one connection at a time.
    pub streams: u32,
    /// Seconds that a TLS handshake, or the headers of a request, may take.
    pub handshake_seconds: u32,
    /// Seconds that a connection may be open without a request, and a request without its first byte.
    pub idle_seconds: u32,
    /// Bytes a second that a message has to come with once it began.
    pub slowest_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: proto::MOST_MESSAGE,
            runs: proto::MOST_RUNS,
            module_bytes: 4 << 30,
            stored_bytes: 64 << 30,
            hosts: 20_000,
            bugs: 500,
            uploads: 16,
            watchers: 256,
            host_requests: 500,
            requests: 20_000,
            host_bytes: 64 << 20,
            bytes: 512 << 20,
            host_connections: 256,
            connections: 16_384,
            streams: 128,
            handshake_seconds: 10,
            idle_seconds: 300,
            slowest_bytes: 4096,
        }
    }
}

impl Limits {
    /// How long a handshake or headers may take.
    #[must_use]
    pub fn handshake(&self) -> Duration {
        Duration::from_secs(self.handshake_seconds.into())
    }

    /// How long nothing may happen.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds.into())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let least = [
            ("message_bytes", self.message_bytes as u64, 64 << 10),
            ("runs", self.runs as u64, 1),
            ("module_bytes", self.module_bytes, 1),
            ("stored_bytes", self.stored_bytes, 1),
            ("hosts", self.hosts, 1),
            ("bugs", self.bugs, 1),
            ("watchers", self.watchers as u64, 1),
            ("uploads", self.uploads as u64, 1),
            ("host_bytes", self.host_bytes as u64, self.message_bytes as u64),
            ("bytes", self.bytes as u64, self.host_bytes as u64),
            ("host_connections", self.host_connections as u64, 1),
            ("connections", self.connections as u64, 1),
            ("streams", self.streams.into(), 1),
            ("handshake_seconds", self.handshake_seconds.into(), 1),
            ("idle_seconds", self.idle_seconds.into(), 1),
        ];
        match least.into_iter().find(|(_, is, least)| is < least) {
            Some((name, is, least)) => Err(ConfigError::TooLittle { name, is, least }),
            None => Ok(()),
        }
    }
}

/// How long things are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Records of runs that are kept of a bug in one build; what older ones added to a sketch stays in it.
    pub runs: u64,
    /// Days after its last failure that a bug is kept.
    pub bug_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            runs: 100_000,
            bug_days: 365,
        }
    }
}

/// What is said about it all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// For whom.
    pub format: LogFormat,
}

/// For whom lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line.
    Json,
}

/// Where the text of source lines is. Without any of these, sketches have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sources {
    /// debuginfod servers, which know sources by the build: `https://…`.
    pub debuginfod: Vec<String>,
    /// Folders of this host. Whoever writes one here says that it has the revision that was built.
    pub map: Vec<SourceMap>,
}

/// A folder of sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceMap {
    /// How the paths begin that the compiler recorded.
    pub from: String,
    /// The folder where these files are now; nothing outside of it is read.
    pub to: String,
}
