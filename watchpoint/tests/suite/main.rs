//! Watchpoints on compiled code and on real processes.

mod arming;
mod counters;
mod forms;
mod libraries;
mod riding;
mod scenarios;
mod support;
mod unaware;
mod watched;
