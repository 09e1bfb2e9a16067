//! Threads: who starts them, with which routine, and who waits for them.
//!
//! - [`names`]: creating and awaiting calls, and library code, by symbol;
//! - [`model`]: the places that create threads; `candidates`: which of them a question can be about;
//! - `tables`: routines behind vtables (C++, Rust); `constants`: routines behind pointers; `own`: from what
//!   a library starts to the first code of the program itself;
//! - `argument`: where a thread takes what it is given;
//! - `frames`: what of a function's frame other threads may use;
//! - `joins`: which calls wait for which thread; `empty`: which tests skip them where there is none;
//! - `look`: functions with the values of their registers.

mod all;
mod argument;
mod candidates;
mod constants;
mod empty;
mod frames;
mod joins;
pub(crate) mod look;
pub mod model;
pub mod names;
mod own;
mod tables;

pub use frames::SharedFrame;
pub use joins::Joins;
pub use model::{CreationSite, ThreadModel};
pub use names::{CreationKind, JoinKind};
