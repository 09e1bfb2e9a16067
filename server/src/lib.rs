//! Bugs, plans, runs and sketches of a fleet.

pub mod store;
