//! The agent against a real server on a real socket, with real processes.

mod courier;
mod link;
mod server;
