//! The traced code.
//!
//! - [`image`]: bytes at addresses
//! - [`length`]: how long an instruction is and where it leads, by the tables of `opcodes`; `quick` knows most,
//!   `careful` all
//! - [`blocks`]: code as blocks that lead to one another, each read once by `chains`; `block` is what is kept of one,
//!   `index` finds the one at an address, `lists` has those that follow one another

pub(crate) mod block;
pub mod blocks;
mod careful;
mod chains;
pub mod image;
mod index;
pub mod length;
pub(crate) mod lists;
mod opcodes;
mod quick;

pub use block::{Block, BlockId, Exit};
pub use blocks::Blocks;
pub use image::{Image, ImageError};
