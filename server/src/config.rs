//! What the server is told in its file.
//!
//! Without a file it listens on loopback only and asks nobody who he is. Anything else has to be written down, and what is
//! dangerous has to be written down in so many words: an error says which ones.

mod settings;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use settings::{
    Certificate, Limits, Log, LogFormat, Person, Proxy, Retention, Role, Sha256, SourceMap, Sources, Tls,
    Token, WrongSha256,
};

pub use crate::store::objects::place::{ObjectsAt, S3};

/// The port, where none is said.
pub const PORT: u16 = 7070;

/// All settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to listen: an address and a port.
    pub listen: SocketAddr,
    /// Anybody on the network may read along and change what is sent. Needed to listen off loopback without TLS.
    pub insecure: bool,
    /// Whoever connects from this host may do everything without a credential. As long as nothing is said: if `listen` is
    /// loopback and there are no credentials below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_loopback: Option<bool>,
    /// The database: `sqlite:FILE` or `postgres://…`.
    pub store: String,
    /// Traces and modules: a folder, or `s3://BUCKET/PREFIX`.
    pub objects: ObjectsAt,
    /// How that is reached.
    pub s3: S3,
    /// Certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Who is known by a token.
    #[serde(rename = "token")]
    pub tokens: Vec<Token>,
    /// Who is known by a client certificate.
    #[serde(rename = "certificate")]
    pub certificates: Vec<Certificate>,
    /// Who says who people are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// What one may ask for, and how much.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Retention,
    /// Where the text of source lines is.
    pub sources: Sources,
    /// What is said about it all.
    pub log: Log,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            insecure: false,
            trust_loopback: None,
            store: "sqlite:failsketch.db".into(),
            objects: ObjectsAt::Folder("objects".into()),
            s3: S3::default(),
            tls: None,
            tokens: Vec::new(),
            certificates: Vec::new(),
            proxy: None,
            limits: Limits::default(),
            retention: Retention::default(),
            sources: Sources::default(),
            log: Log::default(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{path}: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where, and what was expected.
        source: toml::de::Error,
    },
    /// Everything would go over the network in the clear.
    #[error(
        "{listen} is not loopback, and there is no TLS: everybody on the way could read and change what is sent. Make \
         certificates with `failsketch serve --init DIR`, write `[tls]` with `certificate = \"server.pem\"` and \
         `key = \"server.key\"`, or, if the network is to be trusted, `insecure = true` at the top of the file"
    )]
    InTheClear {
        /// Where it was to listen.
        listen: SocketAddr,
    },
    /// Nobody could be told from anybody else.
    #[error(
        "{listen} is not loopback, and nobody could ever be let in: add a `[[token]]` or a `[[certificate]]` (`failsketch serve \
         --init DIR` makes both), or a `[proxy]`"
    )]
    NobodyKnown {
        /// Where it was to listen.
        listen: SocketAddr,
    },
    /// What comes through the proxy would be taken for a trusted process of this host.
    #[error(
        "`trust_loopback = true` and `[proxy]` do not go together: what comes through a proxy on this host comes from loopback, \
         and everybody could do everything. Write `trust_loopback = false`"
    )]
    ProxyTrusted,
    /// Client certificates that nobody can check.
    #[error(
        "there is a `[[certificate]]`, but no `client_ca = \"ca.pem\"` in `[tls]` that would tell true ones from false ones"
    )]
    NoClientCa,
    /// A person is not told by whom he is known.
    #[error("`[proxy]` trusts nobody: write the proxy's address, `trusted = [\"127.0.0.1/32\"]`")]
    ProxyFromNowhere,
    /// A name for several.
    #[error("{what} {name:?} is there twice: audit and limits go by names, give each its own")]
    Twice {
        /// What.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// A limit below what works.
    #[error("`limits.{name} = {is}` is too little: at least {least}")]
    TooLittle {
        /// Which one.
        name: &'static str,
        /// What it is.
        is: u64,
        /// What it has to be.
        least: u64,
    },
}

impl Config {
    /// Reads a file. What is relative in it is relative to the file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut config: Self = toml::from_str(&text).map_err(|source| ConfigError::Malformed {
            path: path.to_owned(),
            source,
        })?;
        config.be_relative_to(path.parent().unwrap_or(Path::new("")));
        config.check()?;
        Ok(config)
    }

    fn be_relative_to(&mut self, folder: &Path) {
        let put = |path: &mut PathBuf| *path = folder.join(&path);
        self.objects.be_relative_to(folder);
        put(&mut self.s3.cache);
        self.s3.secret_access_key_file.iter_mut().for_each(put);
        if let Some(tls) = &mut self.tls {
            put(&mut tls.certificate);
            put(&mut tls.key);
            tls.client_ca.iter_mut().for_each(put);
        }
        if let Some(file) = self.store.strip_prefix("sqlite:")
            && !file.starts_with([':', '/'])
        {
            self.store = format!("sqlite:{}", folder.join(file).display());
        }
    }

    /// Whether it can be used. Whoever made it otherwise than by [`Config::load`] has to ask.
    pub fn check(&self) -> Result<(), ConfigError> {
        let listen = self.listen;
        let is_loopback = listen.ip().is_loopback();
        if !is_loopback && self.tls.is_none() && !self.insecure {
            return Err(ConfigError::InTheClear { listen });
        }
        if !is_loopback && !self.has_credentials() && self.trust_loopback != Some(true) {
            return Err(ConfigError::NobodyKnown { listen });
        }
        if self.trust_loopback == Some(true) && self.proxy.is_some() {
            return Err(ConfigError::ProxyTrusted);
        }
        let client_ca = self.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
        if !self.certificates.is_empty() && client_ca.is_none() {
            return Err(ConfigError::NoClientCa);
        }
        if self.proxy.as_ref().is_some_and(|proxy| proxy.trusted.is_empty()) {
            return Err(ConfigError::ProxyFromNowhere);
        }
        once("token", self.tokens.iter().map(|token| &token.name))?;
        let names = self
            .certificates
            .iter()
            .map(|certificate| &certificate.common_name);
        once("certificate", names)?;
        self.limits.check()
    }

    fn has_credentials(&self) -> bool {
        !self.tokens.is_empty() || !self.certificates.is_empty() || self.proxy.is_some()
    }

    /// Whether whoever comes from loopback needs no credential.
    #[must_use]
    pub fn trusts_loopback(&self) -> bool {
        self.trust_loopback
            .unwrap_or(self.listen.ip().is_loopback() && !self.has_credentials())
    }
}

fn once<'a>(what: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), ConfigError> {
    let mut names: Vec<&String> = names.collect();
    names.sort();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    match twice {
        Some(pair) => Err(ConfigError::Twice {
            what,
            name: pair[0].clone(),
        }),
        None => Ok(()),
    }
}
