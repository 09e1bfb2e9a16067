//! What a person writes to mean a piece of memory: `counter`, `log.state`, `*head`, `jobs[2]->next`,
//! `queue.c:limit`.
//!
//! - `parse`: the text as a variable and the steps from it;
//! - `place`: the steps as offsets and pointers to follow, from the types;
//! - `similar`: what a name that does not exist may have been meant to be;
//! - `value`: bytes of memory as a number, a pointer or text, by their type.

mod parse;
mod place;
mod similar;
mod value;

pub use parse::{Expression, ParseError, Step};
pub use place::{Place, PlaceError};
pub use value::{Reading, Shape};
