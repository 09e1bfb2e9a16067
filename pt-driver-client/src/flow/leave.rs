//! The ends of chains: everything up to there ran.

use super::consumer::{Consumer, Why};
use super::decoder::{Known, State};
use crate::code::BlockId;
use crate::code::block::End;

impl Known<'_> {
    /// Everything up to the end of a chain ran.
    #[inline(always)]
    pub fn leave<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let (blocks, count) = self.blocks.chain_and_more(head);
        if count == 0 {
            return self.leave_long(state, head, consumer);
        }
        self.batch.extend(blocks, count);
        if self.batch.is_full() {
            self.flush(consumer);
        }
        let hot = &self.blocks.hot[head as usize];
        match hot.calls {
            0 => {}
            1 => state.returns.push(hot.call),
            _ => {
                let calls = self.blocks.chain(head).iter();
                calls
                    .filter(|id| self.blocks.is_remembered(id.0))
                    .for_each(|id| state.returns.push(id.0));
            }
        }
        Ok(())
    }

    #[cold]
    fn leave_long<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let mut next = Some(head);
        while let Some(id) = next {
            state.spend_block()?;
            self.batch.extend_slice(&[BlockId(id)], &self.blocks, consumer);
            if self.blocks.is_remembered(id) {
                state.returns.push(id);
            }
            next = self.blocks.tail(id);
        }
        Ok(())
    }

    /// Leaves a chain for where a TIP says.
    #[inline(always)]
    pub fn leave_indirect<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        consumer: &mut C,
    ) -> Result<(), Why> {
        self.leave(state, head, consumer)?;
        match self.blocks.hot[head as usize].end {
            End::Return | End::Indirect => Ok(()),
            End::Cond => Err(Why::Mismatch),
            End::NoCode => Err(Why::NoCode),
            End::NotAnInstruction => Err(Why::NotAnInstruction),
            End::Endless => Err(Why::Endless),
        }
    }

    /// Leaves a chain because tracing ends: where it reaches the given address, or at its last branch.
    #[inline(always)]
    pub fn leave_disabled<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        to: Option<u64>,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let hot = self.blocks.hot[head as usize];
        let chain = self.blocks.chain(head);
        let plain = matches!(hot.end, End::Cond | End::Return | End::Indirect)
            && !chain.is_empty()
            && match to {
                Some(to) => chain.iter().all(|&id| {
                    let (start, last) = self.blocks.span(id);
                    to < start || to > last
                }),
                None => !self.blocks.writes_cr3() && state.filter_that_hides().is_none(),
            };
        if plain {
            self.leave_outwards(state, head, consumer);
            return Ok(());
        }
        state.block = head;
        state.ip = self.blocks.start(BlockId(head));
        match to {
            Some(to) => self.walk_out(state, to, consumer),
            None => self.walk_to_cr3(state, consumer),
        }
    }

    /// Leaves a listed chain to where nothing is traced. A call at its end is not remembered, for nobody sees its return;
    /// whether there is one is hard to foresee.
    #[inline(always)]
    fn leave_outwards<C: Consumer>(&mut self, state: &mut State<'_>, head: u32, consumer: &mut C) {
        let (blocks, count) = self.blocks.chain_and_more(head);
        self.batch.extend(blocks, count);
        let before_last = count.saturating_sub(1);
        let last = blocks[before_last];
        let hot = &self.blocks.hot[head as usize];
        match hot.calls {
            0 => {}
            1 => state.returns.push_if(hot.call, hot.call != last.0),
            _ => {
                let calls = self.blocks.chain(head).iter().take(before_last);
                calls
                    .filter(|id| self.blocks.is_remembered(id.0))
                    .for_each(|id| state.returns.push(id.0));
            }
        }
        if self.batch.is_full() {
            self.flush(consumer);
        }
    }
}
