//! What to track for the first statements of a slice.
//!
//! - [`rules`]: which blocks of a function are traced, the rules of the paper on a graph;
//! - [`ranges`]: blocks as the address ranges that a tracer's filters take.

pub mod ranges;
pub mod rules;

pub use ranges::{PcRange, merge};
