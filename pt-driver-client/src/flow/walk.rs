//! Through code without packets.

use super::consumer::{Consumer, Part, Why};
use super::decoder::{Known, State};
use crate::code::block::UNKNOWN;
use crate::code::{Block, BlockId, Blocks, Exit};

/// What is behind the branch that a walk ends at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Code that is traced.
    Inside,
    /// Code that is not: a call that leads there is not remembered, for nobody sees its return.
    Outside,
}

/// Where a walk through a block ended.
enum Walked {
    /// At what was looked for.
    There,
    /// At its last instruction, and goes on in another block.
    On(u64),
    /// At a branch that only the trace can decide.
    Branch,
}

impl Known<'_> {
    /// The block that runs next.
    pub fn here(&mut self, state: &mut State<'_>) -> u32 {
        if state.block == UNKNOWN {
            state.block = self.blocks.at(state.ip);
        }
        state.block
    }

    /// Whether an address comes before the next branch that needs a packet, and within a few blocks.
    pub fn reaches(&mut self, state: &mut State<'_>, ip: u64) -> bool {
        self.ahead(state, |_, at| at == ip).is_some()
    }

    /// The next PTWRITE, if it comes before a branch that needs a packet, and within a few blocks.
    pub fn next_ptwrite(&mut self, state: &mut State<'_>) -> Option<u64> {
        self.ahead(state, |blocks, at| blocks.is_ptwrite(at))
    }

    /// The first instruction that is looked for.
    fn ahead(&mut self, state: &mut State<'_>, is_it: impl Fn(&Blocks<'_>, u64) -> bool) -> Option<u64> {
        const FEW: usize = 256;
        let mut id = self.here(state);
        for _ in 0..FEW {
            let block = self.blocks.block(BlockId(id));
            // Whoever looks at instructions pays for them, but less than for blocks that are told.
            for _ in 0..=block.instructions / 16 {
                state.spend_block().ok()?;
            }
            let mut addresses = self.blocks.addresses(block.start, block.instructions);
            if let Some(at) = addresses.find(|&at| is_it(&self.blocks, at)) {
                return Some(at);
            }
            drop(addresses);
            id = match block.exit {
                Exit::Jump(to) | Exit::Call(to) => self.blocks.at(to),
                Exit::Falls => self.blocks.at(block.end),
                _ => return None,
            };
        }
        None
    }

    /// Runs up to an address, which comes before the next branch that needs a packet.
    pub fn arrive<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        ip: u64,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let is_there = self.walk_to(state, ip, consumer)?;
        is_there.then_some(()).ok_or(Why::Mismatch)
    }

    /// Runs a PTWRITE, if that is what is there: what tells of one is written when it ran.
    pub fn pass_ptwrite<C: Consumer>(&mut self, state: &mut State<'_>, at: u64, consumer: &mut C) {
        if self.blocks.is_ptwrite(at) {
            let end = self.blocks.addresses(at, 2).last().unwrap_or(at);
            self.flush(consumer);
            let part = Part {
                start: at,
                end,
                instructions: 1,
            };
            consumer.part(&self.blocks, part);
            state.go(end);
        }
    }

    /// Runs up to an address. Whether it was reached: a branch that needs a packet can come first.
    pub fn walk_to<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        ip: u64,
        consumer: &mut C,
    ) -> Result<bool, Why> {
        self.walk(state, consumer, Ends::Inside, |blocks, id| place(blocks, id, ip))
    }

    /// Runs up to an address where nothing is traced any more, or to a branch that needs a packet. A call that led there is
    /// not remembered: nobody sees its return.
    pub fn walk_out<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        ip: u64,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let stop = |blocks: &Blocks<'_>, id: BlockId| {
            let Block {
                exit,
                instructions,
                end,
                ..
            } = blocks.block(id);
            let leads_out = exit == Exit::Call(ip);
            place(blocks, id, ip).or_else(|| leads_out.then_some((instructions as usize, end)))
        };
        self.walk(state, consumer, Ends::Outside, stop).map(drop)
    }

    /// Runs to the branch where tracing ended, or past an instruction that writes CR3.
    pub fn walk_to_cr3<C: Consumer>(&mut self, state: &mut State<'_>, consumer: &mut C) -> Result<(), Why> {
        // SKL014: a jump or call out of the filtered ranges should tell where it goes, and does not.
        let filter = state.filter_that_hides();
        self.walk(state, consumer, Ends::Outside, |blocks, id| {
            if let Exit::Jump(to) | Exit::Call(to) = blocks.block(id).exit
                && filter.is_some_and(|filter| !filter.contains(to))
                && blocks.cr3_write(id).is_none()
            {
                let block = blocks.block(id);
                return Some((block.instructions as usize, block.end));
            }
            let index = blocks.cr3_write(id)?;
            let block = blocks.block(id);
            let mut after = blocks.addresses(block.start, block.instructions).skip(index + 1);
            Some((index + 1, after.next().unwrap_or(block.end)))
        })
        .map(drop)
    }

    /// Runs until `stop` says that the way ends in a block: after how many instructions, and before which address.
    fn walk<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        consumer: &mut C,
        ends: Ends,
        stop: impl Fn(&Blocks<'_>, BlockId) -> Option<(usize, u64)>,
    ) -> Result<bool, Why> {
        let mut id = self.here(state);
        // A block that comes again makes a circle. Which one is looked for changes less and less often, so that a
        // circle of any length is found; what is told before that does not depend on what is known of other code.
        let (mut steps, mut marked) = (0_u64, UNKNOWN);
        while id != marked {
            steps += 1;
            if steps.is_power_of_two() {
                marked = id;
            }
            state.spend_block()?;
            let block = self.blocks.block(BlockId(id));
            let walked = match stop(&self.blocks, BlockId(id)) {
                Some((0, _)) => {
                    state.block = id;
                    state.ip = block.start;
                    Walked::There
                }
                Some((count, ip)) => {
                    let part = Part {
                        start: block.start,
                        end: ip,
                        instructions: u32::try_from(count).unwrap_or(u32::MAX),
                    };
                    self.flush(consumer);
                    consumer.part(&self.blocks, part);
                    state.go(ip);
                    Walked::There
                }
                None => self.run_block(state, id, &block, ends, consumer)?,
            };
            match walked {
                Walked::There => return Ok(true),
                Walked::Branch => return Ok(false),
                Walked::On(next) => id = self.blocks.at(next),
            }
        }
        Err(Why::Endless)
    }

    fn run_block<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        id: u32,
        block: &Block,
        ends: Ends,
        consumer: &mut C,
    ) -> Result<Walked, Why> {
        self.batch.extend_slice(&[BlockId(id)], &self.blocks, consumer);
        let leads_out = ends == Ends::Outside && block.exit == Exit::IndirectCall;
        if self.blocks.is_remembered(id) && !leads_out {
            state.returns.push(id);
        }
        Ok(match block.exit {
            Exit::Jump(to) | Exit::Call(to) => Walked::On(to),
            Exit::Falls => Walked::On(block.end),
            Exit::Cond(_) | Exit::IndirectJump | Exit::IndirectCall | Exit::Return | Exit::Far => {
                Walked::Branch
            }
            Exit::NoCode => return Err(Why::NoCode),
            Exit::NotAnInstruction => return Err(Why::NotAnInstruction),
        })
    }

    /// The trace has ended: what certainly ran still did.
    pub fn finish<C: Consumer>(&mut self, state: &mut State<'_>, consumer: &mut C) {
        if state.enabled {
            let head = self.here(state);
            // Too long a way: the rest is not told, and nothing comes after it.
            let _ = self.leave(state, head, consumer);
        }
    }
}

/// Where in a block an address is: after how many instructions.
fn place(blocks: &Blocks<'_>, id: BlockId, ip: u64) -> Option<(usize, u64)> {
    let block = blocks.block(id);
    if block.start < ip && ip <= block.last {
        let before = blocks.addresses(block.start, block.instructions);
        return before
            .take_while(|&at| at <= ip)
            .enumerate()
            .last()
            .filter(|&(_, at)| at == ip);
    }
    // Code that is not known can still be where the program was interrupted: by the fault of a page that is not there yet.
    let leads_nowhere = matches!(block.exit, Exit::NoCode | Exit::NotAnInstruction);
    if leads_nowhere && block.end == ip {
        return Some((block.instructions as usize, ip));
    }
    (block.start == ip).then_some((0, ip))
}
