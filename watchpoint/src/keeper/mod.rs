//! Exact mode for a process that runs already: a process of its own holds it.
//!
//! Whoever traces a process and dies before it has waited for a stop takes the process along: the stop's SIGTRAP
//! is then delivered. So the tracing is done by a *keeper*: a small process with one thread, in a session of its
//! own, that nobody has a reason to kill. It sends what happens through a pipe, and leaves the process cleanly
//! when nobody reads the other end any more. The front may be killed at any instant.
//!
//! - `bytes`: numbers and strings as bytes, read without trust
//! - `message`: what keeper and front say to each other
//! - `modules`: what a process has mapped
//! - [`serve`]: the keeper
//! - [`client`]: the front's end

mod bytes;
pub mod client;
mod message;
mod modules;
mod serve;

pub use serve::serve;
