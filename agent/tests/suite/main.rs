//! The agent against a real server on a real socket, with real processes.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod attached;
mod built;
mod courier;
mod groups;
mod launched;
mod link;
mod server;
