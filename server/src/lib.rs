//! Bugs, plans, runs and sketches of a fleet.

pub mod config;
pub mod store;
