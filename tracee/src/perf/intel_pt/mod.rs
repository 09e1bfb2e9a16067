//! Intel PT: the processor writes down which way branches went.
//!
//! - [`PtPmu`]: what sysfs says of the tracing unit

mod pmu;

pub use pmu::PtPmu;
