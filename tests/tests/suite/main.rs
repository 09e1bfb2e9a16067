//! The command as a user has it: real programs, real failures, and everything that can be wrong with them.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

#[macro_use]
mod zoo_programs;

mod answer;
mod bad_input;
mod contract;
mod damage;
mod deadlocks;
mod decode_recorded;
mod doctor;
mod fleet;
mod flow_events;
mod frames;
mod hostile;
mod hosts;
mod names;
mod operated;
mod packaging;
mod pages;
mod people;
mod pt_traces;
mod released;
mod run;
mod service;
mod show;
mod source_text;
mod split;
mod standstill;
mod strange;
mod trace_text;
mod upgrade;
mod watch_accesses;
mod watch_children;
mod watch_killed;
mod watch_names;
mod watch_refused;
mod watch_unaware;
mod watching;
mod zoo_flow;
mod zoo_outcome;
mod zoo_slice;
