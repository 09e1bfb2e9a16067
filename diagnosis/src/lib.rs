//! From tracked runs to a failure sketch. Pure: runs in, evidence, ranking and sketch out.
//!
//! - [`inquiry`]: a bug from its first failure to its sketch
//! - [`tracking`]: what runs are to track; `fixed`: where failing runs had what was found too late;
//!   `supplied`: who writes, in successful runs, what failing ones find missing
//! - [`conditions`]: how the next runs are made, where a failure does not recur or nothing else happens any more
//! - [`record`]: a run as a host reports it; [`reading`]: what that is as evidence
//! - [`run`]: one execution as evidence: who executed and accessed what, in which order, as far as that is known
//! - [`predictor`]: what can separate failing from successful runs, and which of it held in a run
//! - [`evidence`]: what all runs say together; [`statistics`]: the figures that follow
//! - [`rank`]: which predictor is the root cause
//! - [`adapt`]: how much of the slice the next runs track
//! - [`assemble`]: the sketch of a failing run; [`subject`]: what it is of
//! - [`sketch`]: what a person reads
//! - [`accuracy`]: how near a sketch is to an ideal one

pub mod accuracy;
pub mod adapt;
pub mod assemble;
pub mod conditions;
pub mod evidence;
mod fixed;
pub mod inquiry;
pub mod predictor;
pub mod rank;
pub mod reading;
pub mod record;
pub mod run;
pub mod sketch;
pub mod statistics;
pub mod subject;
mod supplied;
#[cfg(test)]
mod testkit;
pub mod tracking;
