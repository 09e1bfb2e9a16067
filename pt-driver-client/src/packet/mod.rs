//! The packets of Intel PT (Intel's manual, volume 3, chapter "Intel Processor Trace", section on packet definitions).
//!
//! - [`kinds`]: what packets there are
//! - [`parse`]: bytes to packets
//! - [`encode`]: packets to bytes
//! - [`sync`]: where in the middle of a trace decoding can begin

pub mod encode;
pub mod kinds;
pub mod parse;
pub mod sync;

pub use encode::encode;
pub use kinds::{Compression, ExecMode, IpPayload, Packet, Tnt};
pub use parse::{PacketError, parse};
pub use sync::{PSB, next_psb};
