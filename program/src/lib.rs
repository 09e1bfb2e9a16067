//! The model of a binary.
//!
//! ELF, DWARF and machine code become functions, blocks, memory accesses, statements and variables. Bytes
//! in, values out: no file is opened here ([`Files`] hands the bytes over), nothing is printed, and nothing
//! panics on what a file contains. Whatever is not asked for is not parsed.

pub mod addr;
pub mod code;
pub mod elf;
pub mod expression;
pub mod files;
mod module;
pub mod naming;
mod objects;
mod program;
mod scoped;
pub mod source;
mod statement;
mod uses;
pub mod values;

pub use addr::{BuildId, FileOffset, LinkAddr, LinkRange, ModuleId, Pc, RunAddr};
pub use files::{FileRequest, Files, Reading};
pub use module::Module;
pub use program::{FunctionRef, Program};
pub use statement::{Attribution, Statement, StatementKey, is_library_path};
