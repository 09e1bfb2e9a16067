//! One host: runs programs under a plan and tells what they did.
//!
//! - [`tracked`]: one run of a program that we start, with its accesses and its outcome
//! - `allocations`: where the memory comes from that they touch
//! - `results`: what the calls return that handed on the pointer of a crash
//! - `stacks`: whose threads they are, and on whose behalf a library touches watched memory
//! - [`daemon`]: runs or watches programs as the server says, and reports
//! - [`link`]: the connection to the server
//! - [`config`]: what an agent is to do, from a file and flags
//! - [`privacy`]: which values leave this host
//! - [`spool`]: what waits on disk to be sent; [`courier`] takes it to the server

mod allocations;
pub mod config;
pub mod courier;
pub mod daemon;
mod durable;
pub mod link;
pub mod privacy;
mod results;
mod snapshot;
pub mod spool;
mod stacks;
pub mod tracked;

pub use tracked::{FlowTracking, TrackError, Tracked, Tracking};

/// An error with all its causes, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
