//! Who is told what the program did.

use super::time::Time;
use crate::code::{BlockId, Blocks};
use crate::packet::PacketError;

/// Is told, in order, what the program did.
///
/// Blocks come many at a time; what lies between two of them (an interrupt, a gap) comes in its place.
pub trait Consumer {
    /// Whether it wants to know of events. Each ends a batch of blocks, which costs time.
    const EVENTS: bool;

    /// These blocks ran, one after the other.
    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]);

    /// These instructions ran: the beginning of a block that something cut short.
    fn part(&mut self, code: &Blocks<'_>, part: Part);

    /// Something happened.
    fn event(&mut self, event: Event) {
        let _ = event;
    }

    /// From here on nothing is known, until decoding begins anew.
    fn gap(&mut self, gap: Gap);
}

/// Instructions one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The first one.
    pub start: u64,
    /// Where the next one would be: it did not run.
    pub end: u64,
    /// How many.
    pub instructions: u32,
}

/// Something that happened between two instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Tracing begins, or is known to be on, at an address.
    Enabled(u64),
    /// Tracing ends; where the program went, if it is told.
    Disabled(Option<u64>),
    /// The program was interrupted before an instruction and went on at another.
    Interrupted {
        /// Where it was.
        from: u64,
        /// Where it went.
        to: u64,
    },
    /// The time of the packets that follow.
    Time(Time),
}

/// Bytes of a trace that told nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Where in the trace it begins.
    pub from: u64,
    /// Where in the trace decoding goes on.
    pub to: u64,
    /// Why.
    pub why: Why,
}

/// Why there is a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Why {
    /// The trace does not begin with a PSB.
    #[error("nothing can be decoded before a PSB")]
    NotSynchronised,
    /// The processor lost packets.
    #[error("the processor lost packets")]
    Overflow,
    /// An unknown packet.
    #[error("unknown packet")]
    UnknownPacket,
    /// A packet with impossible content.
    #[error("malformed packet")]
    MalformedPacket,
    /// A packet where it cannot be.
    #[error("unexpected packet")]
    UnexpectedPacket,
    /// The trace says something that the code cannot do.
    #[error("the trace does not match the code")]
    Mismatch,
    /// An address is missing.
    #[error("a packet lacks its address")]
    NoAddress,
    /// No code is known at an address that the program went to.
    #[error("no code is known at the address")]
    NoCode,
    /// The bytes are no instruction.
    #[error("not an instruction")]
    NotAnInstruction,
    /// A compressed return without a call.
    #[error("return without a call")]
    NoCall,
    /// A compressed return that was not taken.
    #[error("return not taken")]
    ReturnNotTaken,
    /// What PSB+ says is not what was decoded.
    #[error("the state after PSB is another one")]
    BadStatus,
    /// The code runs in circles without a branch that the trace would decide.
    #[error("endless loop in the code")]
    Endless,
    /// Anything else that libipt says.
    #[error("libipt's error {0}")]
    Other(u32),
}

impl From<PacketError> for Why {
    fn from(error: PacketError) -> Self {
        match error {
            PacketError::Unknown => Self::UnknownPacket,
            // What the end of a trace cut off is no packet either.
            PacketError::Malformed | PacketError::End => Self::MalformedPacket,
        }
    }
}
