//! The agent against a real server on a real socket, with real processes.

mod built;
mod courier;
mod launched;
mod link;
mod server;
