//! What a certificate says of its owner. Whether it is genuine, TLS has checked.

use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The common name, if there is exactly one.
pub(super) fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    names.next().is_none().then(|| name.to_owned())
}
