//! What this host can do, found out by doing it.
//!
//! Settings and capabilities say what should work; containers, security modules and hypervisors have their own
//! opinion. So everything is tried on a process of our own ([`subject`]), and what was tried is what is
//! reported: a name, whether it works, what happened, and the commands that would change it.

mod facts;
mod host;
mod remedy;
mod subject;
mod tracing;
mod tries;
mod watching;

use std::fmt;

use serde::Serialize;

pub use facts::{Facts, Setting};

/// Everything that was found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the host says about itself.
    pub facts: Facts,
    /// What was tried.
    pub capabilities: Vec<Capability>,
}

/// One thing that failsketch can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What it is called; does not change from version to version.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Whether it works.
    pub state: State,
    /// What was tried and what happened.
    pub detail: String,
    /// The commands, or else the steps, that would make it work; none if it works, or if this host cannot.
    pub enable: Vec<String>,
}

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Works,
    /// In part.
    Degraded,
    /// It does not.
    Missing,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Works => "works",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        })
    }
}

/// Tries everything; takes a fraction of a second. Starts two processes, which end with this call.
#[must_use]
pub fn examine() -> Report {
    let facts = Facts::read();
    let capabilities = tries::all(&facts);
    Report { facts, capabilities }
}
