//! Bugs, plans, runs and sketches of a fleet.

pub mod access;
pub mod config;
pub mod limits;
pub mod store;
