//! What a program did, according to a trace: our own decoder, made for speed.
//!
//! - [`consumer`]: who is told
//! - [`decoder`]: from a trace to the consumer: synchronises, and again after an error
//! - [`thread`]: what one thread did, in order: the blocks and branches that were asked for, and the gaps
//! - [`time`]: when that was, from the timing packets
//! - `fast`: the packets that traces are made of: TNT, TIP, tracing on and off; `tip`: their addresses
//! - `steps`: from chain to chain by outcomes; `leave`: to the end of a chain
//! - `slow`: every other packet, and what they bind to; `pending`: what they announce; `psb`: where decoding begins;
//!   `overflow`: what comes after lost packets
//! - `walk`: through code without packets, to an address
//! - `batch`: blocks on their way to the consumer
//! - `memo`: what several outcomes lead to, remembered; `returns`: calls to come back from
//! - [`parallel`]: the pieces of a long trace on several processors

mod batch;
pub mod consumer;
pub mod decoder;
mod fast;
mod leave;
mod memo;
mod overflow;
pub mod parallel;
mod pending;
mod psb;
mod returns;
mod slow;
mod steps;
pub mod thread;
pub mod time;
mod tip;
mod walk;

pub use consumer::{Consumer, Event, Gap, Part, Why};
pub use decoder::Decoder;
pub use thread::{Branch, FlowEvent, Interest, ThreadFlow};
pub use time::Time;
