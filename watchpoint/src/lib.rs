//! Data flow: who reads and writes a few bytes of memory, seen through the debug registers.
//!
//! What is pure takes values and returns values:
//! - [`location`]: bytes to watch as debug-register slots
//! - [`rotation`]: which locations a run takes when there are more than registers
//! - [`access`]: from the place where a trap was reported back to the accessing instruction
//! - [`values`]: what an access read or wrote, and how that is known
//! - [`order`]: hits of several threads in an order that their values allow
//! - [`hit`]: what comes out
//!
//! What touches a process sits behind [`watcher::Watcher`].

pub mod access;
pub mod hit;
pub mod location;
pub mod order;
mod registers;
pub mod rotation;
pub mod values;
pub mod watcher;

pub use hit::{Access, Hit, Mode, Provenance, Summary, Value, WatchedSpan};
pub use location::{Location, LocationError, Slot, Trigger};
pub use watcher::{Address, Event, ModeRequest, RawHit, Target, WatchError, WatchSpec, Watcher};
