//! What the end-to-end tests stand on: programs with facts about their failures, real failures of them, and
//! the `failsketch` command as a user runs it.
//!
//! Everything here runs real processes. A problem that is the test's to judge is a value; anything that keeps
//! a test from being run at all (no compiler, no disk space) is an error with what to do about it.

pub mod browser;
pub mod command;
pub mod facts;
pub mod failing;
pub mod folder;
pub mod gdb;
pub mod kept;
pub mod postgres;
pub mod process;
pub mod running;
pub mod sample;
pub mod skip;
pub mod target;
pub mod watch;
pub mod zoo;
