//! Threads: who starts them, with which routine, and who waits for them.

pub mod names;

pub use names::{CreationKind, JoinKind};
