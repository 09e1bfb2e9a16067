//! Data flow: who reads and writes a few bytes of memory, seen through the debug registers.
//!
//! What is pure takes values and returns values:
//! - [`location`]: bytes to watch as debug-register slots
//! - [`rotation`]: which locations a run takes when there are more than registers
//! - [`arm`]: where in the code the addresses of a plan become known
//! - [`access`]: from the place where a trap was reported back to the accessing instruction
//! - [`values`]: what an access read or wrote, and how that is known
//! - [`order`]: hits of several threads in an order that their values allow
//! - [`hit`]: what comes out
//!
//! What touches a process sits behind [`watcher::Watcher`]:
//! - [`exact`]: each hit a stop of its thread (and compat, for kernels without such events)
//! - [`keeper`]: the same for processes that run already, in a process of its own
//! - [`observe`]: hits go to a ring, no thread stops
//!
//! [`session::Session`] puts it all together.

pub mod access;
pub mod arm;
mod arms;
pub mod code;
mod error;
pub mod exact;
pub mod hit;
pub mod keeper;
pub mod location;
pub mod observe;
pub mod order;
mod pointers;
mod registers;
pub mod rotation;
pub mod session;
mod table;
pub mod values;
pub mod watcher;

pub use error::WatchError;
pub use hit::{Access, Content, Hit, Mode, Provenance, Summary, Value, WatchedSpan};
pub use location::{Location, LocationError, Slot, Trigger};
pub use pointers::registers_for;
pub use watcher::{Address, Event, ModeRequest, Pointed, Probe, RawHit, Target, WatchSpec, Watcher};
