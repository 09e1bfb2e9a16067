//! Who somebody is, and what he may do.
//!
//! Every request goes through the [`Gate`], which the [`listener`] puts before everything it serves: it asks [`Access`] who it is
//! and puts the [`Identity`] into the request's extensions. A service takes it from there with [`Identity::of`], which fails if
//! there is none, and asks it before it does anything.
//!
//! - [`identity`]: who, with what he may do; `pattern`: which programs
//! - `token`, `certificate`: what he proves it with
//! - [`peer`]: who is at the other end of a connection
//! - `gate`: the layer
//! - `tls`, [`listener`], `connection`: connections, and what they may take
//! - [`init`]: certificates and tokens to begin with

mod certificate;
mod connection;
pub(crate) mod gate;
pub mod identity;
pub mod init;
pub mod listener;
mod pattern;
pub mod peer;
#[cfg(test)]
mod tests;
mod tls;
mod token;

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Uri};
use tonic::Status;

use crate::config::{self, Config};
pub use gate::Gate;
pub use identity::{Identity, Programs, Roles};
use identity::{Named, shown};
pub use init::init;
pub(crate) use pattern::Pattern;
pub use peer::Peer;
pub use tls::{TlsError, acceptor};
pub use token::Secret;
use token::Tokens;

/// Bytes of a person's name at most.
const LONGEST_NAME: usize = 256;

/// Knows who may come in.
#[derive(Debug)]
pub struct Access {
    tokens: Tokens,
    certificates: Vec<(Pattern, config::Certificate)>,
    proxy: Option<Proxy>,
    trusts_loopback: bool,
}

#[derive(Debug)]
struct Proxy {
    header: HeaderName,
    trusted: Vec<ipnet::IpNet>,
    people: Vec<(Pattern, config::Person)>,
}

/// A header that cannot be one.
#[derive(Debug, thiserror::Error)]
#[error(
    "`proxy.header = {0:?}` is not the name of a header: write for example `header = \"x-forwarded-user\"`"
)]
pub struct NoHeader(String);

impl Access {
    /// As a configuration says.
    pub fn new(config: &Config) -> Result<Self, NoHeader> {
        let proxy = config.proxy.as_ref().map(|proxy| {
            let header = HeaderName::try_from(&proxy.header).map_err(|_| NoHeader(proxy.header.clone()))?;
            let people = proxy.people.iter();
            Ok(Proxy {
                header,
                trusted: proxy.trusted.clone(),
                people: people
                    .map(|person| (Pattern::new(&person.name), person.clone()))
                    .collect(),
            })
        });
        let certificates = config.certificates.iter();
        Ok(Self {
            tokens: Tokens::new(&config.tokens),
            certificates: certificates
                .map(|certificate| (Pattern::new(&certificate.common_name), certificate.clone()))
                .collect(),
            proxy: proxy.transpose()?,
            trusts_loopback: config.trusts_loopback(),
        })
    }

    /// Who somebody is. What he says is not left aside for something else that he may be known by: who presents a wrong
    /// token is refused, whatever certificate he has.
    pub fn identify(&self, uri: &Uri, headers: &HeaderMap, peer: &Peer) -> Result<Identity, Status> {
        if let Some(person) = self.by_proxy(headers, peer)? {
            return Ok(person);
        }
        let mut presented = headers.get_all(AUTHORIZATION).iter();
        if let Some(authorization) = presented.next() {
            if presented.next().is_some() {
                return Err(Status::unauthenticated(
                    "there are two `authorization` headers: send one",
                ));
            }
            return self.tokens.identify(authorization);
        }
        if let Some(certificate) = peer.certificate() {
            return self.by_certificate(certificate);
        }
        if self.trusts_loopback && peer.address.ip().to_canonical().is_loopback() {
            return local(uri, headers);
        }
        Err(Status::unauthenticated(
            "who are you? Send a token (`authorization: Bearer …`), or present a client certificate",
        ))
    }

    fn by_proxy(&self, headers: &HeaderMap, peer: &Peer) -> Result<Option<Identity>, Status> {
        let Some(proxy) = &self.proxy else { return Ok(None) };
        let mut names = headers.get_all(&proxy.header).iter();
        let Some(name) = names.next() else { return Ok(None) };
        let from = peer.address.ip().to_canonical();
        if !proxy.trusted.iter().any(|net| net.contains(&from)) {
            return Err(Status::unauthenticated(format!(
                "`{}` is not believed from {from}: its address is not in `proxy.trusted`",
                proxy.header
            )));
        }
        let name = name.to_str().ok().filter(|name| is_name(name));
        let Some(name) = name.filter(|_| names.next().is_none()) else {
            let header = &proxy.header;
            return Err(Status::unauthenticated(format!(
                "`{header}` has no name in it, or several"
            )));
        };
        let fits = |(pattern, _): &&(Pattern, _)| pattern.fits(name);
        let Some((_, person)) = proxy.people.iter().find(fits) else {
            return Err(Status::permission_denied(format!(
                "{} is not known here: a `[[proxy.person]]` with that name would let him in",
                shown(name)
            )));
        };
        let (roles, programs) = (Roles::new(&person.roles), Programs::new(&person.programs));
        let named = Named::Person(person.name.clone());
        Ok(Some(Identity::new(name, roles, programs, named)))
    }

    fn by_certificate(&self, certificate: &[u8]) -> Result<Identity, Status> {
        let name = certificate::common_name(certificate).filter(|name| is_name(name));
        let Some(name) = name else {
            return Err(Status::unauthenticated(
                "the client certificate has no common name to go by",
            ));
        };
        let fits = |(pattern, _): &&(Pattern, _)| pattern.fits(&name);
        let Some((_, known)) = self.certificates.iter().find(fits) else {
            return Err(Status::permission_denied(format!(
                "the certificate of {} is valid, and nobody said what it is good for: a `[[certificate]]` with that \
                 `common_name` would",
                shown(&name)
            )));
        };
        let (roles, programs) = (Roles::new(&known.roles), Programs::new(&known.programs));
        let named = Named::Certificate(known.common_name.clone());
        Ok(Identity::new(&name, roles, programs, named))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}

/// A process of this host, if it is not a browser that a page of somebody else has brought here: such a page can have a
/// name of its own lead to loopback, or send requests from where it is.
fn local(uri: &Uri, headers: &HeaderMap) -> Result<Identity, Status> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = uri.authority().map(http::uri::Authority::as_str).or(text(HOST));
    let origin = text(ORIGIN).map(|origin| origin.parse::<Uri>().unwrap_or_default());
    let origin = origin.map(|origin| origin.authority().map(ToString::to_string).unwrap_or_default());
    for name in [host.map(ToOwned::to_owned), origin].into_iter().flatten() {
        if !leads_here(&name) {
            return Err(Status::unauthenticated(format!(
                "{} is not a name of loopback: without a credential only `localhost` and loopback addresses are served. Use \
                 one of these, or add a `[[token]]`",
                shown(&name)
            )));
        }
    }
    Ok(Identity::local())
}

/// Whether a name of a server, with or without a port, leads to loopback.
pub(crate) fn leads_here(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<http::uri::Authority>() else {
        return false;
    };
    let host = authority.host();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
