//! Watchpoints on compiled code and on real processes.

mod scenarios;
mod support;
