//! Who is at the other end of a connection, as far as the connection tells.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;

/// The other end of a connection. The listener puts it into the extensions of every request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Its certificates, its own first, if it has presented some that are valid.
    certificates: Option<Arc<[CertificateDer<'static>]>>,
}

impl Peer {
    /// Somebody of whom the address is known.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            certificates: None,
        }
    }

    /// The same, with certificates that have been checked.
    #[must_use]
    pub fn with_certificates(self, certificates: &[CertificateDer<'_>]) -> Self {
        let certificates = certificates
            .iter()
            .map(|certificate| certificate.clone().into_owned());
        Self {
            certificates: Some(certificates.collect()),
            ..self
        }
    }

    /// Its own certificate.
    #[must_use]
    pub fn certificate(&self) -> Option<&[u8]> {
        Some(self.certificates.as_deref()?.first()?.as_ref())
    }
}
