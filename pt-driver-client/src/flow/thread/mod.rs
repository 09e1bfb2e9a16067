//! What one thread did, in order: the blocks that ran, where their branches went, and the gaps.
//!
//! This is the form in which everything above the decoder gets a trace. It knows addresses, not programs: whoever asks
//! says which addresses are of [`Interest`] (the plan's ranges) and finds the statements of what comes back.
//!
//! ```
//! # use pt_driver_client::code::Image;
//! # use pt_driver_client::flow::{Decoder, FlowEvent, Interest};
//! # let (image, trace) = (Image::new([]), Vec::new());
//! let interest = Interest::ranges([0x40_1000..0x40_1200]);
//! let flow = Decoder::new(&image).thread_flow(&trace, &interest);
//! for event in &flow.events {
//!     match event {
//!         FlowEvent::Block { start, end, .. } => { /* every instruction in start..end ran */ }
//!         FlowEvent::Branch(branch) => { /* branch.pc went to branch.to; branch.taken() for conditional ones */ }
//!         FlowEvent::Gap { gap, .. } => { /* bytes gap.from..gap.to of the trace told nothing */ }
//!         _ => {}
//!     }
//! }
//! ```
//!
//! A block here begins where the program came from a branch and ends with the next branch: a block of the program's
//! control-flow graph may begin in the middle of it. A [`Branch`] stands right behind the block that it ends.
//!
//! Times are those of the packets that tell of a block: it ran before the packet was written, and up to six outcomes
//! wait for one packet. So a time is late by at most the time that the packet's outcomes took.

mod interest;
mod watch;

pub use self::interest::Interest;
use self::watch::Watch;
use super::consumer::Gap;
use super::decoder::Decoder;
use super::time::Time;
use crate::code::Exit;

/// What one thread did, as far as its trace tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFlow {
    /// In the order in which it happened.
    pub events: Vec<FlowEvent>,
    /// How many more events there were before these, above the limit of [`Interest::at_most`].
    pub left_out: u64,
}

/// One thing that happened, and when, if the trace tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEvent {
    /// Instructions ran, one after the other.
    Block {
        /// The first one.
        start: u64,
        /// The address after the last one.
        end: u64,
        /// When.
        time: Option<Time>,
    },
    /// The branch at the end of a block went somewhere.
    Branch(Branch),
    /// The program was interrupted before an instruction and went on at another: a signal, or with the kernel traced
    /// an interrupt.
    Interrupted {
        /// Where it was.
        from: u64,
        /// Where it went.
        to: u64,
        /// When.
        time: Option<Time>,
    },
    /// Tracing begins, or is known to be on. What ran since it was last on is not known.
    On {
        /// What runs next.
        at: u64,
        /// When.
        time: Option<Time>,
    },
    /// Tracing ends: the program left what is traced, for instance by a system call.
    Off {
        /// Where it went, if that is told.
        to: Option<u64>,
        /// When.
        time: Option<Time>,
    },
    /// From here on nothing is known, until tracing is on again.
    Gap {
        /// Which bytes of the trace, and why.
        gap: Gap,
        /// The last time that is known before.
        time: Option<Time>,
    },
}

/// A branch, and where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The branch instruction.
    pub pc: u64,
    /// What it is.
    pub exit: Exit,
    /// The instruction that was to run after it; `None` when the trace does not tell.
    pub to: Option<u64>,
    /// When.
    pub time: Option<Time>,
}

impl Branch {
    /// Whether a conditional branch was taken.
    #[must_use]
    pub fn taken(&self) -> Option<bool> {
        match (self.exit, self.to) {
            (Exit::Cond(target), Some(to)) => Some(to == target),
            _ => None,
        }
    }
}

impl ThreadFlow {
    /// The branches, in order.
    pub fn branches(&self) -> impl Iterator<Item = &Branch> + '_ {
        self.events.iter().filter_map(|event| match event {
            FlowEvent::Branch(branch) => Some(branch),
            _ => None,
        })
    }

    /// The gaps, in order.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> + '_ {
        self.events.iter().filter_map(|event| match event {
            FlowEvent::Gap { gap, .. } => Some(gap),
            _ => None,
        })
    }
}

impl Decoder<'_> {
    /// What one thread did according to its trace.
    #[must_use]
    pub fn thread_flow(&mut self, trace: &[u8], interest: &Interest) -> ThreadFlow {
        let mut watch = Watch::new(interest);
        self.decode(trace, &mut watch);
        watch.finish()
    }
}
