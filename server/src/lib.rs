//! Bugs, plans, runs and sketches of a fleet.
//!
//! - [`store`]: what is known, on disk
//! - [`desk`]: builds at work: from logs of runs to plans and sketches
//! - [`service`]: what agents and people can ask for, over gRPC; `web`: pages
//! - [`access`]: who may ask; [`limits`]: how much
//! - [`source_places`]: the text of source lines; [`local`]: one page for this machine
//! - [`serve`]: the server as a whole; [`config`]: how it is set up

pub mod access;
mod clock;
pub mod config;
pub mod desk;
pub mod limits;
pub mod local;
mod metrics;
pub mod serve;
pub mod service;
pub mod source_places;
pub mod store;
mod web;

use bytes::Bytes;
use serde::Serialize;

/// A value of ours as JSON. None of them has anything that cannot be written.
fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
