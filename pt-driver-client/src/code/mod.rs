//! The traced code.
//!
//! - [`image`]: bytes at addresses
//! - [`length`]: how long an instruction is and where it leads, by the tables of `opcodes`; `quick` knows most
//! - [`blocks`]: code as blocks that lead to one another, each read once by `chains`; `index` finds the one at an
//!   address, `lists` has those that follow one another

pub mod blocks;
mod chains;
pub mod image;
mod index;
pub mod length;
pub(crate) mod lists;
mod opcodes;
mod quick;

pub use blocks::{Block, BlockId, Blocks, Exit};
pub use image::{Image, ImageError};
