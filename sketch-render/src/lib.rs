//! A sketch for people and for programs.
//!
//! Plain data in ([`model`]), text out: [`term`] for terminals, JSON through [`serde`]. The same input gives
//! the same bytes; names from binaries and reports are made harmless on the way ([`text`]).

pub mod doctor;
pub mod json;
pub mod model;
pub mod sketch;
pub mod term;
pub mod text;
mod unwatched;
pub mod watch;

pub use model::{
    Failure, FrameLine, NamedAccess, Reason, SliceResult, SliceStatement, StatementRef, StaticSketch,
    ThreadStack,
};
