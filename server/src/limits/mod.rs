//! How much somebody may ask for.
//!
//! - [`budget`]: memory of messages that are being received or worked on
//! - [`rate`]: requests in time
//! - [`hosts`]: both, for each host and in total
//! - [`turns`]: what takes long
//! - [`body`]: what of a request is received: how large, how slowly
//! - [`run()`], [`report()`]: what a record has to be like before anybody works on it
//! - `predictors`: how many predictors a record can have; `traces`: how many branches
//! - `refusal`: why not, with the field that it is about

pub mod body;
pub mod budget;
pub mod hosts;
mod predictors;
pub mod rate;
mod refusal;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod traces;
pub mod turns;

use std::time::Duration;

use tonic::Status;
use tonic::metadata::MetadataValue;

pub use budget::{Budget, Guard};
pub use hosts::{Host, Hosts};
pub use refusal::Refusal;
pub use report::report;
pub use run::{HITS, PREDICTORS, TRACES, WATCHED, run};
pub use turns::{Turn, Turns};

/// Where gRPC clients look when to try again, in milliseconds.
pub const RETRY: &str = "grpc-retry-pushback-ms";

/// Not now.
fn later(why: String, after: Duration) -> Status {
    let mut status = Status::resource_exhausted(why);
    let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1);
    status.metadata_mut().insert(RETRY, MetadataValue::from(millis));
    status
}

/// When to try again, if that is of use.
#[must_use]
pub fn retry_after(status: &Status) -> Option<Duration> {
    let millis = status.metadata().get(RETRY)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_millis(millis))
}
