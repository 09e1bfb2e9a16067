//! Intel PT: the processor writes down which way branches went.
//!
//! - [`PtPmu`]: what sysfs says of the tracing unit
//! - [`PtEvent`]: the trace of one thread
//! - [`AuxRecord`]: what the kernel says of new data
//! - [`AuxCursor`], [`AuxTrace`]: what is where in the buffer, and where it has holes
//! - `aux_buffer`: the buffer, mapped

mod aux_buffer;
mod aux_cursor;
mod aux_record;
mod aux_trace;
mod event;
mod pmu;

pub use aux_cursor::{AuxCursor, AuxMode, Readable};
pub use aux_record::{AuxFlags, AuxRecord};
pub use aux_trace::AuxTrace;
pub use event::{PtEvent, PtTrace};
pub use pmu::PtPmu;
