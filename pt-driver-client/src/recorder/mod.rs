//! Recording control flow: which way the branches in a plan's ranges went, for each thread, as packets of Intel PT.
//!
//! There is one format from here on: whoever decodes does not ask who recorded.
//!
//! - [`request`]: which recorder is wanted, and which one there is
//! - [`recording`]: what comes out: bytes, where the code was, and what is missing
//! - `clock`: when what a trace tells of happened
//! - [`software`]: probes on branches, where the processor does not record
//! - [`intel`]: the processor
//! - [`step`]: one instruction at a time, which the others are held against in tests
//! - `piece`, `layout`: the ranges as pieces of code, and which instructions are probed
//! - `outcome`, `suffix`: what a branch is going to do, from registers and memory
//! - `follower`, `writer`: from hits to packets
//! - `place`: modules of the program in a process; [`sideband`]: the same, by what perf tells around a trace

mod clock;
mod follower;
mod hex;
pub mod intel;
mod layout;
mod outcome;
mod piece;
mod place;
pub mod recording;
pub mod request;
pub mod sideband;
pub mod software;
pub mod step;

mod suffix;
mod writer;

pub use clock::Clock;
pub use recording::{Counts, Missing, Placed, Recording, Space, ThreadTrace, Unit, What};
pub use request::{ControlFlow, RecorderError, Source, choose, recorder};
use tracee::run::Tracker;

/// Somebody who records control flow while riding along in a run ([`tracee::run::run`]).
pub trait Recorder: Tracker + Send {
    /// Who records.
    fn source(&self) -> Source;

    /// What was recorded. To be asked after the run; before its first instruction it is nothing.
    fn finish(self: Box<Self>) -> Recording;
}
