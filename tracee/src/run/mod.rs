//! One execution, from its first instruction to its outcome.
//!
//! [`run`] launches a program and follows it to its end. A fatal signal is seen before it is delivered: all
//! threads are stopped, their stacks unwound, and then the program dies as it would have. What is a failure
//! is for [`failure::FailOn`] to say. Trackers ([`Tracker`]) ride along in the same loop.
//!
//! [`Guard`] does the same for a process that was there before us, without changing anything about it; [`Standstill`] sees whether such a
//! process gets on.
//!
//! A run belongs to the thread that calls [`run`]; any number of them may go on in as many threads.

mod capture;
mod caught;
mod end;
mod fatal;
mod follow;
mod guard;
mod options;
mod outcome;
mod panics;
mod stacks;
mod standstill;
mod stuck;
mod subject;
mod tracker;
mod verdict;

pub use follow::{RunError, run};
pub use guard::{Guard, Look, Seen};
pub use options::{Cancel, Output, RunOptions};
pub use outcome::{Captured, Ended, Outcome, Verdict};
pub use standstill::{Blocked, Progress, Standstill};
pub use subject::Subject;
pub use tracker::{Handled, TrackError, Tracker};
