//! Secrets that people and agents send along.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq as _;
use tonic::Status;

use super::identity::{Identity, Named, Programs, Roles};
use crate::config::{Sha256, Token};

/// What a secret begins with, so that scanners for secrets in repositories can know it.
const PREFIX: &str = "fsk_";

/// A secret as its owner has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

impl Secret {
    /// A new one: 256 random bits.
    pub fn new() -> Result<Self, NoRandom> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Self(format!("{PREFIX}{}", hex::encode(bytes))))
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What the configuration has of it.
    #[must_use]
    pub fn hash(&self) -> Sha256 {
        hash(&self.0)
    }
}

fn hash(text: &str) -> Sha256 {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    Sha256(bytes)
}

/// Everybody who is known by a token.
#[derive(Debug)]
pub(super) struct Tokens(Vec<(Sha256, Identity)>);

impl Tokens {
    pub(super) fn new(tokens: &[Token]) -> Self {
        let known = tokens.iter().map(|token| {
            let (roles, programs) = (Roles::new(&token.roles), Programs::new(&token.programs));
            let named = Named::Token(token.name.clone());
            (token.sha256, Identity::new(&token.name, roles, programs, named))
        });
        Self(known.collect())
    }

    /// Who sent this. All are compared, each in the same time, so that how long it takes tells nothing.
    pub(super) fn identify(&self, authorization: &HeaderValue) -> Result<Identity, Status> {
        let Some(secret) = secret(authorization) else {
            return Err(Status::unauthenticated(
                "`authorization` has no token in it: send `Bearer TOKEN`, or as a browser does, with the token as the password",
            ));
        };
        let presented = hash(&secret);
        let mut found = None;
        for (known, identity) in &self.0 {
            if bool::from(known.0.ct_eq(&presented.0)) {
                found = Some(identity);
            }
        }
        found
            .cloned()
            .ok_or_else(|| Status::unauthenticated("the token is not known here, or not any more"))
    }
}

fn secret(authorization: &HeaderValue) -> Option<String> {
    let (scheme, rest) = authorization.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
    let (_, password) = text.split_once(':')?;
    Some(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_do_not_show() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.text().len(), PREFIX.len() + 64);
        assert!(!format!("{one:?}").contains(&one.text()[4..12]));
    }

    #[test]
    fn the_hash_is_the_one_that_sha256sum_prints() {
        let hash = String::from(hash("abc"));
        assert_eq!(
            hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn browsers_send_the_token_as_a_password() {
        let read = |text: &str| secret(&HeaderValue::from_str(text).unwrap());
        assert_eq!(read("Bearer x").as_deref(), Some("x"));
        assert_eq!(read("bearer  x ").as_deref(), Some("x"));
        let basic = format!("Basic {}", BASE64_STANDARD.encode("me:x:y"));
        assert_eq!(read(&basic).as_deref(), Some("x:y"));
        assert_eq!(read("Basic ???"), None);
        assert_eq!(read("Digest x"), None);
        assert_eq!(read("x"), None);
    }
}
