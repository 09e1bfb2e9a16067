//! One host: runs programs under a plan and tells what they did.
//!
//! - [`tracked`]: one run of a program that we start, with its accesses and its outcome
//! - `allocations`: where the memory comes from that they touch
//! - `stacks`: whose threads they are, and on whose behalf a library touches watched memory
//! - [`link`]: the connection to the server

mod allocations;
pub mod link;
mod stacks;
pub mod tracked;

pub use tracked::{FlowTracking, TrackError, Tracked, Tracking};
