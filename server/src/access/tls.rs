//! TLS as the configuration says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::config::Tls;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read {what} from {path}: {source}")]
    Unreadable {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file without a certificate.
    #[error("there is no certificate in {0}")]
    Empty(PathBuf),
    /// The key is not the certificate's, or nobody can use one of them.
    #[error("{certificate} and {key} cannot be used: {source}")]
    Unusable {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// An authority that cannot be one.
    #[error("{path} is no authority for client certificates: {source}")]
    NoAuthority {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Makes connections secure. Client certificates are asked for if there is an authority for them; whoever has none is let
/// through to show a token.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let certificates = certificates(&tls.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|source| TlsError::Unreadable {
        what: "a private key",
        path: tls.key.clone(),
        source,
    })?;
    let provider = Arc::new(default_provider());
    let unusable = |source| TlsError::Unusable {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        source,
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authority(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .allow_unauthenticated()
                .build()
                .map_err(|source: VerifierBuilderError| no_authority(path, source))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn authority(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|source| no_authority(path, source))?;
    }
    Ok(roots)
}

fn no_authority(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> TlsError {
    TlsError::NoAuthority {
        path: path.to_owned(),
        source: Box::new(source),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::Unreadable {
        what: "certificates",
        path: path.to_owned(),
        source,
    };
    let all = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(unreadable)?;
    match all.is_empty() {
        true => Err(TlsError::Empty(path.to_owned())),
        false => Ok(all),
    }
}
