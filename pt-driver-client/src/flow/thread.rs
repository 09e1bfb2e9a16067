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

use std::ops::Range;

use super::consumer::{Consumer, Event, Gap, Part};
use super::decoder::Decoder;
use super::time::Time;
use crate::code::{Block, BlockId, Blocks, Exit};

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

/// Which addresses are asked for. Gaps are always told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// Sorted, without overlap. First and last address.
    ranges: Vec<(u64, u64)>,
    most: usize,
}

/// About a gigabyte of events.
const MOST: usize = 16 << 20;

impl Interest {
    /// Every address.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            ranges: vec![(0, u64::MAX)],
            most: MOST,
        }
    }

    /// Blocks with an instruction in one of these ranges, and branches in them.
    pub fn ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut sorted: Vec<(u64, u64)> = ranges
            .into_iter()
            .filter(|range| !range.is_empty())
            .map(|range| (range.start, range.end - 1))
            .collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some((_, before)) if first <= before.saturating_add(1) => *before = last.max(*before),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges, most: MOST }
    }

    /// Of more events than this the last ones are kept, so that a long trace cannot take all memory.
    #[must_use]
    pub fn at_most(self, events: usize) -> Self {
        Self { most: events, ..self }
    }

    /// Whether an address from `first` to `last` is asked for.
    fn touches(&self, first: u64, last: u64) -> bool {
        let after = self.ranges.partition_point(|&(start, _)| start <= last);
        let before = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        before.is_some_and(|&(_, end)| first <= end)
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

/// What is known of a block: whether it was looked at, whether it is asked for, and its branch.
const LOOKED: u8 = 1;
const BLOCK: u8 = 2;
const BRANCH: u8 = 4;

/// Keeps what was asked for. For one decoder alone: it knows blocks by their numbers.
struct Watch<'a> {
    interest: &'a Interest,
    flow: ThreadFlow,
    time: Option<Time>,
    /// A branch that was asked for, until it is told where it went.
    open: Option<Branch>,
    /// The last instructions were asked for.
    inside: bool,
    /// By the width of the code and the number of the block.
    looked: [Vec<u8>; 3],
}

impl<'a> Watch<'a> {
    fn new(interest: &'a Interest) -> Self {
        Self {
            interest,
            flow: ThreadFlow::default(),
            time: None,
            open: None,
            inside: false,
            looked: Default::default(),
        }
    }

    fn finish(mut self) -> ThreadFlow {
        self.went(None);
        self.forget(self.interest.most);
        self.flow
    }

    fn push(&mut self, event: FlowEvent) {
        if self.flow.events.len() >= self.interest.most.saturating_mul(2).max(16) {
            self.forget(self.interest.most);
        }
        self.flow.events.push(event);
    }

    /// Keeps the youngest events.
    fn forget(&mut self, keep: usize) {
        let old = self.flow.events.len().saturating_sub(keep);
        self.flow.events.drain(..old);
        self.flow.left_out += old as u64;
    }

    /// The open branch went there.
    fn went(&mut self, to: Option<u64>) {
        if let Some(branch) = self.open.take() {
            self.push(FlowEvent::Branch(Branch { to, ..branch }));
        }
    }

    fn look(&mut self, code: &Blocks<'_>, id: BlockId) -> u8 {
        let looked = &mut self.looked[code.mode() as usize];
        let index = id.0 as usize;
        if let Some(&known) = looked.get(index)
            && known != 0
        {
            return known;
        }
        let block = code.block(id);
        let mut found = LOOKED;
        if block.instructions > 0 && self.interest.touches(block.start, block.last) {
            found |= BLOCK;
            if self.interest.touches(block.last, block.last) && is_branch(&block) {
                found |= BRANCH;
            }
        }
        if looked.len() <= index {
            looked.resize(code.len(), 0);
        }
        looked[index] = found;
        found
    }
}

fn is_branch(block: &Block) -> bool {
    !matches!(block.exit, Exit::Falls | Exit::NoCode | Exit::NotAnInstruction)
}

impl Consumer for Watch<'_> {
    const EVENTS: bool = true;

    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        for &id in blocks {
            let found = self.look(code, id);
            if self.open.is_some() {
                self.went(Some(code.start(id)));
            }
            self.inside = found & BLOCK != 0;
            if !self.inside {
                continue;
            }
            let Block {
                start,
                last,
                end,
                exit,
                ..
            } = code.block(id);
            let time = self.time;
            self.push(FlowEvent::Block { start, end, time });
            if found & BRANCH != 0 {
                self.open = Some(Branch {
                    pc: last,
                    exit,
                    to: None,
                    time,
                });
            }
        }
    }

    fn part(&mut self, _: &Blocks<'_>, part: Part) {
        let Part { start, end, .. } = part;
        self.went(Some(start));
        self.inside = self.interest.touches(start, end.wrapping_sub(1));
        if self.inside {
            let time = self.time;
            self.push(FlowEvent::Block { start, end, time });
        }
    }

    fn event(&mut self, event: Event) {
        let time = self.time;
        match event {
            Event::Time(time) => self.time = Some(time),
            Event::Enabled(at) => {
                self.went(None);
                self.inside = self.interest.touches(at, at);
                if self.inside {
                    self.push(FlowEvent::On { at, time });
                }
            }
            Event::Disabled(to) => {
                self.went(to);
                if std::mem::take(&mut self.inside) {
                    self.push(FlowEvent::Off { to, time });
                }
            }
            Event::Interrupted { from, to } => {
                self.went(Some(from));
                if self.interest.touches(from, from) {
                    self.push(FlowEvent::Interrupted { from, to, time });
                }
            }
        }
    }

    fn gap(&mut self, gap: Gap) {
        self.went(None);
        self.inside = false;
        let time = self.time;
        self.push(FlowEvent::Gap { gap, time });
    }
}
