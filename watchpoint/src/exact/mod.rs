//! Every hit a stop of its thread: value, registers and order are exact.
//!
//! - `engine`: the loop over a traced process's stops, the same for whoever owns the debug registers
//! - `owner`: perf events with `sigtrap`, or registers written through ptrace (compat)
//! - `probes`: stops at places in the code, where addresses become known
//! - [`launched`]: the loop on a thread of ours, for processes that we start
//!
//! For processes that run already the loop is in a process of its own: see [`crate::keeper`].

pub(crate) mod engine;
pub mod launched;
pub(crate) mod owner;
pub(crate) mod probes;
