//! Certificates, tokens and a configuration to begin with.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use super::token::{NoRandom, Secret};
use crate::config::PORT;

/// The common name of the certificate that agents get.
const AGENT: &str = "agent";
/// The configuration's file.
pub const CONFIG: &str = "failsketch.toml";
/// The authority's certificate: who connects needs it to know the server.
pub const CA: &str = "ca.pem";

/// For how long an authority and what it signed are valid. Nobody renews them by himself, and a service that ends on
/// some day is worse here than a key that is old: whoever loses one makes a new folder.
const VALID: Duration = Duration::days(3650);
/// Clocks differ.
const BEFORE: Duration = Duration::days(1);

/// Why there is nothing to begin with.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Something is there already.
    #[error("{0} is there already: nothing is written over. Take another folder, or move it away")]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A name that no certificate can have, or a key that cannot be made.
    #[error("cannot make a certificate for {names}: {source}")]
    Certificate {
        /// Whose.
        names: String,
        /// Why.
        source: rcgen::Error,
    },
    /// No secrets can be made.
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// The configuration, for `failsketch serve`.
    pub config: PathBuf,
    /// The authority's certificate, for everybody.
    pub ca: PathBuf,
    /// The agents' certificate and key.
    pub agent: (PathBuf, PathBuf),
    /// The files with tokens: for agents, for readers, and for those who steer.
    pub tokens: Vec<PathBuf>,
}

/// Makes everything that a server needs which others can reach by these names and addresses. Loopback is always one.
pub fn init(folder: &Path, names: &[String]) -> Result<Initialised, InitError> {
    let made = Made::new(names)?;
    let files = made.files();
    // Before anything is written: half a folder is of no use to anybody.
    if let Some((name, ..)) = files.iter().find(|(name, ..)| folder.join(name).exists()) {
        return Err(InitError::Exists(folder.join(name)));
    }
    let unwritable = |path: &Path, source: io::Error| InitError::Unwritable {
        path: path.to_owned(),
        source,
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| unwritable(folder, source))?;
    for (name, secret, content) in &files {
        let path = folder.join(name);
        let mode = if *secret { 0o600 } else { 0o644 };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .map_err(|source| unwritable(&path, source))?;
        file.write_all(content.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|source| unwritable(&path, source))?;
    }
    Ok(Initialised {
        config: folder.join(CONFIG),
        ca: folder.join(CA),
        agent: (folder.join("agent.pem"), folder.join("agent.key")),
        tokens: ["agent.token", "read.token", "steer.token"]
            .map(|name| folder.join(name))
            .to_vec(),
    })
}

/// Everything, before it is written.
struct Made {
    ca: (String, String),
    server: (String, String),
    agent: (String, String),
    tokens: [Secret; 3],
}

impl Made {
    fn new(names: &[String]) -> Result<Self, InitError> {
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(Into::into).to_vec();
        all.extend(
            names
                .iter()
                .filter(|name| !all.contains(name))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let failed = |source| InitError::Certificate {
            names: all.join(", "),
            source,
        };
        let key = KeyPair::generate().map_err(failed)?;
        let params = authority().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let ca = (certificate.pem(), key.serialize_pem());
        let issuer = Issuer::new(params, key);
        let sign = |names: &[String], name: &str, usage| signed(&issuer, names, name, usage).map_err(failed);
        Ok(Self {
            ca,
            server: sign(&all, "failsketch server", ExtendedKeyUsagePurpose::ServerAuth)?,
            agent: sign(&[], AGENT, ExtendedKeyUsagePurpose::ClientAuth)?,
            tokens: [Secret::new()?, Secret::new()?, Secret::new()?],
        })
    }

    /// Names, whether they are secret, and what is in them.
    fn files(&self) -> [(&'static str, bool, String); 10] {
        let [agent, read, steer] = self.tokens.each_ref().map(|token| format!("{}\n", token.text()));
        [
            (CA, false, self.ca.0.clone()),
            ("ca.key", true, self.ca.1.clone()),
            ("server.pem", false, self.server.0.clone()),
            ("server.key", true, self.server.1.clone()),
            ("agent.pem", false, self.agent.0.clone()),
            ("agent.key", true, self.agent.1.clone()),
            ("agent.token", true, agent),
            ("read.token", true, read),
            ("steer.token", true, steer),
            (CONFIG, true, self.config()),
        ]
    }

    fn config(&self) -> String {
        let [agent, read, steer] = self.tokens.each_ref().map(|token| String::from(token.hash()));
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        format!(
            r#"# The configuration of `failsketch serve`. Paths are relative to this file.
listen = "{listen}"
store = "sqlite:failsketch.db"      # or postgres://USER@HOST/DATABASE, for several servers
objects = "objects"                 # or s3://BUCKET/PREFIX, with `[s3]` below or AWS_… in the environment

[tls]
certificate = "server.pem"
key = "server.key"
client_ca = "ca.pem"

# Agents with a certificate of the authority `ca.pem`. Bind them to programs: programs = ["memcached", "web-*"]
[[certificate]]
common_name = "{AGENT}"
roles = ["agent"]
programs = ["*"]

# Tokens are in the files NAME.token; here is what `printf %s TOKEN | sha256sum` prints.
[[token]]
name = "agent"
sha256 = "{agent}"
roles = ["agent"]
programs = ["*"]

[[token]]
name = "read"
sha256 = "{read}"
roles = ["read"]
programs = ["*"]

[[token]]
name = "steer"
sha256 = "{steer}"
roles = ["read", "steer"]
programs = ["*"]
"#
        )
    }
}

fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(&[], "failsketch authority")?;
    // It signs servers and agents, no other authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn signed(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = params(names, name)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(names: &[String], name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BEFORE;
    params.not_after = now + VALID;
    Ok(params)
}
