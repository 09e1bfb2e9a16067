//! The contract between agents, servers and clients: gRPC services and their messages.
//!
//! What a run did, what a plan asks for and what a failure looked like are the JSON of `diagnosis` and `failure`, carried as
//! bytes: their fields may be added to without a new protocol.
//!
//! # Compatibility
//! - A field or method may be added, never renumbered, renamed or given another meaning. What is dropped stays reserved.
//! - Whoever reads leaves alone what it does not know. A field that is not there has its default, and the default means what
//!   everybody did before the field existed.
//! - An enumeration may grow: a value that is not known is treated as its zero value.
//! - Both sides say their [`PROTOCOL`]. A server serves every agent of its own package (`failsketch.v1`); what an older
//!   server does not offer (`UNIMPLEMENTED`), a newer agent does without.
//! - What cannot be said this way gets a package of its own (`failsketch.v2`), served beside the old one.

/// The messages and services of version 1.
#[allow(
    missing_docs,
    clippy::all,
    unused_qualifications,
    reason = "generated; the protocol file has the documentation"
)]
pub mod v1 {
    tonic::include_proto!("failsketch.v1");
}

impl v1::bug::State {
    /// The state in a word, for people. Of bugs about which nothing more is to be learnt, some are explained, and with others it was no
    /// use; who does not know which says neither.
    #[must_use]
    pub fn word(self, explained: Option<bool>) -> &'static str {
        match (self, explained) {
            (Self::Tracking, _) => "tracking",
            (Self::Stable, Some(true)) => "explained",
            (Self::Stable, Some(false)) => "unclear",
            (Self::Stable, None) => "stable",
            (Self::Stopped, _) => "stopped",
            (Self::Fixed, _) => "fixed",
            (Self::Regressed, _) => "regressed",
        }
    }
}

/// Counts additions to the protocol, for people who look at logs.
pub const PROTOCOL: u32 = 4;

/// The protocol as reflection describes it.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Runs in one report at most.
pub const MOST_RUNS: usize = 256;
/// Bytes of one message at most: a run with all its accesses and traces.
pub const MOST_MESSAGE: usize = 16 << 20;
/// Bytes of a module that go in one piece.
pub const CHUNK: usize = 1 << 20;
