//! Who the server is, and who we are to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

/// How long a connection may take to be there.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A connection that says nothing for so long is asked whether it is still there: a server that lost its power does not
/// say so, and the stream of plans would wait for it for ever.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How to reach the server, and what to show to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Its address: `https://host:port`, or `http://` on the same machine.
    pub server: String,
    /// Who must have signed its certificate; the system's authorities otherwise.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The file with our token.
    pub token: Option<PathBuf>,
    /// A token may be sent, and values may go, without encryption to other machines.
    pub insecure: bool,
}

/// Why there is no way to the server.
#[derive(Debug, Error)]
pub enum AccessError {
    /// It is no address.
    #[error(
        "`{url}` is no server's address: write https://HOST:PORT, or http://127.0.0.1:PORT on the same machine"
    )]
    Address {
        /// What was given.
        url: String,
    },
    /// Encryption is off and the server is elsewhere.
    #[error(
        "`{0}` is another machine and not encrypted: use https:// (see `failsketch serve --init`), or say `insecure = true`"
    )]
    NotEncrypted(String),
    /// A file cannot be read.
    #[error("cannot read {what} {path}")]
    File {
        /// What it is.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The token cannot be sent.
    #[error("{0} has no token that can be sent: it must be one line of printable characters")]
    Token(PathBuf),
    /// The certificates are of no use.
    #[error("cannot use the certificates")]
    Tls(#[source] tonic::transport::Error),
}

impl Access {
    /// A channel that connects when it is first used, and again when the connection is lost.
    ///
    /// # Errors
    /// When the address, a certificate or the token is of no use.
    pub fn channel(&self) -> Result<(Channel, Bearer), AccessError> {
        let wrong = || AccessError::Address {
            url: self.server.clone(),
        };
        let endpoint = Endpoint::from_shared(self.server.clone()).map_err(|_| wrong())?;
        let (scheme, host) = match (endpoint.uri().scheme_str(), endpoint.uri().host()) {
            (Some(scheme @ ("http" | "https")), Some(host)) => (scheme, host),
            _ => return Err(wrong()),
        };
        let encrypted = scheme == "https";
        if !encrypted && !self.insecure && !is_this_machine(host) {
            return Err(AccessError::NotEncrypted(self.server.clone()));
        }
        let mut endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(ASK_AFTER)
            .keep_alive_timeout(ANSWER_WITHIN)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        if encrypted {
            endpoint = endpoint.tls_config(self.tls()?).map_err(AccessError::Tls)?;
        }
        Ok((endpoint.connect_lazy(), self.bearer()?))
    }

    fn tls(&self) -> Result<ClientTlsConfig, AccessError> {
        let mut tls = match &self.ca {
            Some(ca) => {
                let pem = read("the authority's certificate", ca)?;
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
            }
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            let certificate = read("the certificate", certificate)?;
            tls = tls.identity(Identity::from_pem(certificate, read("the key", key)?));
        }
        Ok(tls)
    }

    fn bearer(&self) -> Result<Bearer, AccessError> {
        let Some(path) = &self.token else {
            return Ok(Bearer(None));
        };
        let bytes = read("the token", path)?;
        let value = String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.trim().is_empty())
            .and_then(|text| format!("Bearer {}", text.trim()).parse().ok());
        let mut value: MetadataValue<Ascii> = value.ok_or_else(|| AccessError::Token(path.clone()))?;
        // Kept out of whatever prints requests.
        value.set_sensitive(true);
        Ok(Bearer(Some(value)))
    }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, AccessError> {
    fs::read(path).map_err(|source| AccessError::File {
        what,
        path: path.to_owned(),
        source,
    })
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Shows the token with every request.
#[derive(Clone, Debug)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(server: &str) -> String {
        let access = Access {
            server: server.to_owned(),
            ..Access::default()
        };
        access.channel().map(|_| ()).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn addresses_that_are_none_are_told() {
        for wrong in ["", "localhost:9000", "ftp://host:1", "https://"] {
            assert!(refusal(wrong).contains("write https://HOST:PORT"), "{wrong}");
        }
    }

    #[tokio::test]
    async fn other_machines_are_reached_with_encryption_alone() {
        assert!(refusal("http://failures.example:9000").contains("not encrypted"));
        for here in [
            "http://127.0.0.1:9000",
            "http://[::1]:9000",
            "http://localhost:9000",
        ] {
            let access = Access {
                server: here.to_owned(),
                ..Access::default()
            };
            assert!(access.channel().is_ok(), "{here}");
        }
    }

    #[tokio::test]
    async fn a_token_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let access = Access {
            server: "http://127.0.0.1:9000".to_owned(),
            token: Some(path.clone()),
            ..Access::default()
        };
        assert!(matches!(access.channel(), Err(AccessError::File { .. })));
        for wrong in ["", "\n", "two\nlines"] {
            fs::write(&path, wrong).unwrap();
            assert!(
                matches!(access.channel(), Err(AccessError::Token(_))),
                "{wrong:?}"
            );
        }
        fs::write(&path, "s3cret\n").unwrap();
        let (_, mut bearer) = access.channel().unwrap();
        let shown = bearer.call(Request::new(())).unwrap();
        assert_eq!(shown.metadata().get("authorization").unwrap(), "Bearer s3cret");
        assert!(!format!("{bearer:?}").contains("s3cret"));
    }
}
