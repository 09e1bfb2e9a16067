//! Agents that may report and mean harm, against whole servers: what they can take, and what the others notice of it.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod hosts;
mod place;
mod uploads;
mod watchers;
