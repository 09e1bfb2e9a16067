//! Who somebody is, with what he may do.

use std::convert::Infallible;
use std::fmt::{self, Write as _};

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::Extensions;
use http::request::Parts;
use tonic::Status;

use super::gate;
use super::pattern::Pattern;
use crate::config::Role;
use crate::store::model::Owner;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Roles {
    /// Report what programs did.
    pub agent: bool,
    /// Read bugs and sketches.
    pub read: bool,
    /// Have bugs treated differently.
    pub steer: bool,
}

impl Roles {
    /// These.
    #[must_use]
    pub fn new(roles: &[Role]) -> Self {
        Self {
            agent: roles.contains(&Role::Agent),
            read: roles.contains(&Role::Read),
            steer: roles.contains(&Role::Steer),
        }
    }

    fn has(self, role: Role) -> bool {
        match role {
            Role::Agent => self.agent,
            Role::Read => self.read,
            Role::Steer => self.steer,
        }
    }
}

/// Which programs somebody has to do with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs(Vec<Pattern>);

impl Programs {
    /// Those with these names; `*` stands for any characters.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into_iter().map(Pattern::new).collect())
    }

    /// Those that were written down with [`ToString`].
    #[must_use]
    pub fn written(text: &str) -> Self {
        Self(text.lines().map(Pattern::new).collect())
    }

    /// Whether a program is one of them.
    #[must_use]
    pub fn contain(&self, program: &str) -> bool {
        self.0.iter().any(|pattern| pattern.fits(program))
    }
}

/// One a line: no program has a name of several lines.
impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Pattern::text).collect();
        f.write_str(&names.join("\n"))
    }
}

/// Which part of the configuration knows somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A process of this host, which needs no credential.
    Local,
    /// A token's name.
    Token(String),
    /// The common name in an entry.
    Certificate(String),
    /// The name in an entry.
    Person(String),
}

impl Named {
    fn setting(&self) -> String {
        match self {
            Self::Local => "`trust_loopback`".into(),
            Self::Token(name) => format!("the `[[token]]` with `name = {name:?}`"),
            Self::Certificate(name) => format!("the `[[certificate]]` with `common_name = {name:?}`"),
            Self::Person(name) => format!("the `[[proxy.person]]` with `name = {name:?}`"),
        }
    }
}

/// Somebody who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What logs and the audit call him.
    pub name: String,
    /// What he may do.
    pub roles: Roles,
    /// With which programs.
    pub programs: Programs,
    named: Named,
}

impl Identity {
    pub(super) fn new(name: &str, roles: Roles, programs: Programs, named: Named) -> Self {
        Self {
            name: name.to_owned(),
            roles,
            programs,
            named,
        }
    }

    /// A process of this host, where these are trusted: it may do everything.
    #[must_use]
    pub fn local() -> Self {
        let all = Roles {
            agent: true,
            read: true,
            steer: true,
        };
        Self::new("local", all, Programs::new(&["*".into()]), Named::Local)
    }

    /// What the store knows him by. The name itself counts and not the entry that it fits: `web-*` is many hosts.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let kind = match &self.named {
            Named::Local => return Owner("local".to_owned()),
            Named::Token(_) => "token",
            Named::Certificate(_) => "certificate",
            Named::Person(_) => "person",
        };
        Owner(format!("{kind} {}", self.name))
    }

    /// Whether a proxy said who he is, so that his address is the proxy's.
    pub(super) fn is_behind_proxy(&self) -> bool {
        matches!(self.named, Named::Person(_))
    }

    /// Who makes a request. Fails if nobody asked him who he is.
    pub fn of<T>(request: &tonic::Request<T>) -> Result<&Self, Status> {
        request.extensions().get().ok_or_else(unknown)
    }

    /// The same, from the extensions of any request.
    pub fn of_extensions(extensions: &Extensions) -> Result<&Self, Status> {
        extensions.get().ok_or_else(unknown)
    }

    /// Whether he may report what a program did.
    pub fn may_report(&self, program: &str) -> Result<(), Status> {
        self.may(Role::Agent, "report on", program)
    }

    /// Whether he may read a program's bugs.
    pub fn may_read(&self, program: &str) -> Result<(), Status> {
        self.may(Role::Read, "read bugs of", program)
    }

    /// Whether he may have a program's bugs treated differently.
    pub fn may_steer(&self, program: &str) -> Result<(), Status> {
        self.may(Role::Steer, "steer bugs of", program)
    }

    /// Whether he may report at all: for what is not about a program yet.
    pub fn may_report_something(&self) -> Result<(), Status> {
        self.has(Role::Agent, "report")
    }

    /// Whether he may read at all: what he reads has to be asked for one by one.
    pub fn may_read_something(&self) -> Result<(), Status> {
        self.has(Role::Read, "read")
    }

    fn may(&self, role: Role, does: &str, program: &str) -> Result<(), Status> {
        self.has(role, &format!("{does} {}", shown(program)))?;
        if self.programs.contain(program) {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "{} may not {does} {}: `programs` of {} would have to have it",
            shown(&self.name),
            shown(program),
            self.named.setting()
        )))
    }

    fn has(&self, role: Role, does: &str) -> Result<(), Status> {
        if self.roles.has(role) {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "{} may not {does}: `roles` of {} would have to have {:?}",
            shown(&self.name),
            self.named.setting(),
            role.name()
        )))
    }
}

fn unknown() -> Status {
    Status::unauthenticated("nobody asked who makes this request, so nothing is done about it")
}

/// A name from outside, in quotes: short, and without characters that mean something to whoever prints it.
pub(crate) fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    let mut text = String::from("\"");
    for char in name.chars().take(LONGEST) {
        _ = match char.is_ascii_graphic() || char == ' ' || char.is_alphanumeric() {
            true if char != '"' && char != '\\' => write!(text, "{char}"),
            _ => write!(text, "{}", char.escape_default()),
        };
    }
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text.push('"');
    text
}

/// Why a page is not shown: as HTTP says it.
#[derive(Debug)]
pub struct Refused(pub Status);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        gate::page(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Self::of_extensions(&parts.extensions).cloned().map_err(Refused)
    }
}

impl From<Infallible> for Refused {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
