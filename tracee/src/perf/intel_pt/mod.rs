//! Intel PT: the processor writes down which way branches went.
//!
//! - [`PtPmu`]: what sysfs says of the tracing unit
//! - [`PtEvent`]: the trace of one thread
//! - [`AuxCursor`], [`AuxTrace`]: what is where in the buffer, and where it has holes

mod aux;
mod event;
mod pmu;

pub use aux::{AuxCursor, AuxFlags, AuxMode, AuxRecord, AuxTrace, Readable};
pub use event::{PtEvent, PtTrace};
pub use pmu::PtPmu;
