//! From tracked runs to a failure sketch. Pure: runs in, evidence, ranking and sketch out.
//!
//! - [`record`]: a run as a host reports it
//! - [`reading`]: what that is as evidence
//! - [`run`]: one execution as evidence: who executed and accessed what, in which order, as far as that is known
//! - [`sketch`]: what a person reads

pub mod reading;
pub mod record;
pub mod run;
pub mod sketch;
