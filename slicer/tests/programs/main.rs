//! The slicer's analyses on small compiled programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod before;
mod checks;
mod common;
mod hangs;
mod icfg;
mod joins;
mod lent;
mod passed;
mod plan;
mod pointer;
mod sites;
mod threads;
