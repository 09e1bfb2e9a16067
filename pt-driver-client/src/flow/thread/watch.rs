//! Keeps what was asked for of what the decoder tells.

use super::{Branch, FlowEvent, Interest, ThreadFlow};
use crate::code::{Block, BlockId, Blocks, Exit};
use crate::flow::consumer::{Consumer, Event, Gap, Part};
use crate::flow::time::Time;

/// What is known of a block: whether it was looked at, whether it is asked for, and its branch.
const LOOKED: u8 = 1;
const BLOCK: u8 = 2;
const BRANCH: u8 = 4;

/// Keeps what was asked for. For one decoder alone: it knows blocks by their numbers.
pub(super) struct Watch<'a> {
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
    pub(super) fn new(interest: &'a Interest) -> Self {
        Self {
            interest,
            flow: ThreadFlow::default(),
            time: None,
            open: None,
            inside: false,
            looked: Default::default(),
        }
    }

    pub(super) fn finish(mut self) -> ThreadFlow {
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
