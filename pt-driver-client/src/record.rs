//! What one thread did, in order: blocks, branches, times and gaps.

use crate::code::{BlockId, Blocks, Exit};
use crate::flow::{Consumer, Event, Gap, Part};

/// What one thread did, as far as its trace tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// In the order in which it happened.
    pub items: Vec<Item>,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Instructions ran, one after the other.
    Ran {
        /// The first one.
        start: u64,
        /// The last one.
        last: u64,
        /// How many.
        instructions: u32,
        /// The branch at the end; `None` when something cut the block short.
        exit: Option<Exit>,
    },
    /// Something came between.
    Event(Event),
    /// Nothing is known here.
    Gap(Gap),
}

/// A branch, and where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The branch instruction.
    pub at: u64,
    /// What it is.
    pub exit: Exit,
    /// The instruction that ran after it; `None` when the trace does not tell.
    pub to: Option<u64>,
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

impl Record {
    /// The branches, in order.
    pub fn branches(&self) -> impl Iterator<Item = Branch> + '_ {
        self.items.iter().enumerate().filter_map(|(index, item)| {
            let &Item::Ran {
                last,
                exit: Some(exit),
                ..
            } = item
            else {
                return None;
            };
            if matches!(exit, Exit::Falls | Exit::NoCode | Exit::NotAnInstruction) {
                return None;
            }
            Some(Branch {
                at: last,
                exit,
                to: self.after(index),
            })
        })
    }

    /// The address that the program was at after an item.
    fn after(&self, index: usize) -> Option<u64> {
        let following = self.items.get(index + 1..)?;
        following.iter().find_map(|item| match *item {
            Item::Ran { start, .. } => Some(Some(start)),
            Item::Event(Event::Disabled(to)) => Some(to),
            Item::Event(Event::Interrupted { from, .. }) => Some(Some(from)),
            Item::Event(Event::Time(_)) => None,
            Item::Event(Event::Enabled(_)) | Item::Gap(_) => Some(None),
        })?
    }
}

impl Consumer for Record {
    const EVENTS: bool = true;

    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        self.items.extend(blocks.iter().filter_map(|&id| {
            let block = code.block(id);
            (block.instructions > 0).then_some(Item::Ran {
                start: block.start,
                last: block.last,
                instructions: block.instructions,
                exit: Some(block.exit),
            })
        }));
    }

    fn part(&mut self, code: &Blocks<'_>, part: Part) {
        let last = code.addresses(part.start, part.instructions).last();
        self.items.push(Item::Ran {
            start: part.start,
            last: last.unwrap_or(part.start),
            instructions: part.instructions,
            exit: None,
        });
    }

    fn event(&mut self, event: Event) {
        self.items.push(Item::Event(event));
    }

    fn gap(&mut self, gap: Gap) {
        self.items.push(Item::Gap(gap));
    }
}
