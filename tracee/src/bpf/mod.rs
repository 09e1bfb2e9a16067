//! BPF: what the kernel is asked to do at the very moment of a hit.
//!
//! The programs are a few dozen instructions of our own, assembled here; no compiler and no object file is
//! needed on the host.
//!
//! - [`HitRing`]: where hits are written to, in one order for all processors, and read from.
//! - [`HitProgram`]: what writes them, at a breakpoint or at a probe.
//! - [`ManyProbes`]: probes on many instructions at once.
//! - [`RawHit`]: a hit: time, thread, registers, and the values of the watched locations.

mod assembler;
mod brief;
mod btf;
mod error;
mod hit;
mod hit_program;
mod hit_ring;
mod many_probes;
mod map;
mod program;
mod ring;
mod syscall;

pub use error::BpfError;
pub use hit::{RawHit, STACK_BYTES, Value};
pub use hit_program::{HitProgram, ProbeRead, Register, STOPPED_BY, Then};
pub use hit_ring::{HitRing, LOCATIONS, Location};
pub use many_probes::ManyProbes;
