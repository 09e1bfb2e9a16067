//! Every hit a stop of its thread: value, registers and order are exact.
//!
//! - `core`: what is watched, and what stops tell about it, the same for whoever owns the debug registers
//! - `arming`: where locations are, and when that is known
//! - `flight`: who is on the way from an access to its stop
//! - `hold`: who stays stopped until nobody is
//! - `engine`: a loop over the stops of a traced process
//! - `owner`: perf events with `sigtrap`, or registers written through ptrace (compat)
//! - `times`: when accesses happened, as the kernel notes it
//! - `ceiling`, `resting`: how often a location may stop the process, and those that were only polled
//! - `probes`: stops at places in the code, where addresses become known
//! - [`launched`]: the loop on a thread of ours, for processes that we start
//! - [`rider`]: no loop of its own: it rides along in a run
//!
//! For processes that run already the loop is in a process of its own: see [`crate::keeper`].

pub(crate) mod arming;
mod ceiling;
pub(crate) mod core;
pub(crate) mod engine;
mod flight;
mod hold;
pub mod launched;
pub(crate) mod linked;
pub(crate) mod owner;
mod probes;
mod resting;
pub mod rider;
pub(crate) mod times;
