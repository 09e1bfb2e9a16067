//! Intel PT: the processor writes down which way branches went.
//!
//! - [`PtPmu`]: what sysfs says of the tracing unit
//! - [`PtEvent`]: the trace of one thread
//! - [`AuxRecord`]: what the kernel says of new data
//! - [`AuxCursor`], [`AuxTrace`]: what is where in the buffer, and where it has holes
//! - `aux_buffer`: the buffer, mapped
//! - [`Absence`]: when the thread did not have the processor
//! - [`can_filter`], [`placed`]: whether a file's code can be traced alone
//! - [`family_and_model`]: which processor it is

mod absence;
mod aux_buffer;
mod aux_cursor;
mod aux_record;
mod aux_trace;
mod event;
mod filter;
mod pmu;
mod processor;

pub use absence::{Absence, TickClock};
pub use aux_cursor::{AuxCursor, AuxMode, Readable};
pub use aux_record::{AuxFlags, AuxRecord};
pub use aux_trace::AuxTrace;
pub use event::{PtEvent, PtTrace};
pub use filter::{can_filter, placed};
pub use pmu::PtPmu;
pub use processor::family_and_model;
