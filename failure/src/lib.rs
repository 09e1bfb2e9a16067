//! What failed.
//!
//! A stopped process, a core dump or the text of a stack trace becomes a [`Report`]: the kind of failure and a stack for each
//! thread, as reported. Matching it with the binaries is a later step ([`resolve`](mod@resolve)), so that a
//! report can be read without them. Bytes and text in, values out; nothing panics on what they contain.

pub mod core_dump;
pub mod fail_on;
pub mod frames;
pub mod image;
pub mod likeness;
pub mod report;
pub mod resolve;
pub mod signature;
pub mod text;

pub use fail_on::{FailOn, FailOnError};
pub use likeness::Likeness;
pub use report::{
    Frame, FrameOrigin, InCode, Kind, Location, ModuleRef, Position, Report, Signal, Source, SymbolRef,
    Thread,
};
pub use resolve::{Failure, ResolveError, ResolvedFrame, ResolvedThread, resolve};
pub use signature::Signature;
