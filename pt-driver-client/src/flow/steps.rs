//! From chain to chain by the outcomes of branches, and remembered.

use super::consumer::{Consumer, Why};
use super::decoder::{Known, State};
use super::memo::{Made, NONE_LEFT, Outcomes, POP};
use super::returns::DEPTH;
use crate::code::BlockId;
use crate::code::block::{End, UNKNOWN};

/// What a step over outcomes came to.
struct Stepped {
    /// The block that runs next.
    block: u32,
    /// The outcomes that are left.
    rest: Outcomes,
    /// The next branch goes where a TIP says, although outcomes are left: the processor deferred the TIP until the
    /// packet with the outcomes was full.
    deferred: bool,
}

impl Known<'_> {
    /// Follows outcomes from a block: the block after them, and the offset of the next packet, which is `end` unless
    /// deferred TIPs came after. No block when the trace ends before such a TIP.
    #[inline(always)]
    pub fn outcomes<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        mut block: u32,
        mut outcomes: Outcomes,
        mut end: usize,
        consumer: &mut C,
    ) -> Result<(u32, usize), Why> {
        loop {
            if let Some(step) = self.memo.get(block, outcomes) {
                self.batch.extend(self.memo.from(&step), step.blocks());
                if self.batch.is_full() {
                    self.flush(consumer);
                }
                // The processor forgets the oldest calls when it remembers new ones, and so did the step.
                state.returns.keep(DEPTH - step.depth());
                state.returns.extend(self.memo.calls(&step), step.calls());
                block = match step.next {
                    POP => self.after_return(state)?,
                    next => next,
                };
                outcomes = step.rest();
            } else {
                let stepped = self.step(state, block, outcomes, consumer)?;
                (block, outcomes) = (stepped.block, stepped.rest);
                if stepped.deferred {
                    (block, end) = self.after_deferred(state, block, end, consumer)?;
                    if block == UNKNOWN {
                        return Ok((block, end));
                    }
                }
            }
            if outcomes == NONE_LEFT {
                return Ok((block, end));
            }
        }
    }

    /// Leaves a chain for where a deferred TIP says: the block there, and the offset after the TIP. No block when the
    /// trace ends before.
    #[cold]
    fn after_deferred<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        end: usize,
        consumer: &mut C,
    ) -> Result<(u32, usize), Why> {
        self.leave(state, head, consumer)?;
        Ok(match self.deferred_tip(state, end, consumer)? {
            Some((ip, after)) => (self.blocks.at(ip), after),
            None => (UNKNOWN, state.trace.len()),
        })
    }

    #[inline]
    fn after_return(&mut self, state: &mut State<'_>) -> Result<u32, Why> {
        let caller = state.returns.pop().ok_or(Why::NoCall)?;
        Ok(self.blocks.after_call(caller))
    }

    /// Follows outcomes one by one, up to a return to a call before the first of them, and remembers the way.
    #[inline(never)]
    fn step<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        first: u32,
        outcomes: Outcomes,
        consumer: &mut C,
    ) -> Result<Stepped, Why> {
        let mark = self.batch.mark();
        self.calls.clear();
        let mut is_short = true;
        let mut block = first;
        // How many outcomes are left.
        let mut left = outcomes.ilog2();
        let mut depth = 0;
        let mut problem = None;
        let mut deferred = false;
        let mut pop = false;
        while left > 0 {
            let hot = &self.blocks.hot[block as usize];
            let end = hot.end;
            let taken = outcomes >> (left - 1) & 1 != 0;
            if hot.is_simple {
                // Most chains are like this.
                let (blocks, listed) = self.blocks.chain_and_more(block);
                self.batch.extend(blocks, listed);
                block = self.blocks.after_branch(block, taken);
                left -= 1;
                continue;
            }
            if end == End::Indirect {
                deferred = true;
                break;
            }
            is_short &= self.pass(state, block, &mut depth, consumer)?;
            problem = match end {
                End::Cond | End::Return | End::Indirect => None,
                End::NoCode => Some(Why::NoCode),
                End::NotAnInstruction => Some(Why::NotAnInstruction),
                End::Endless => Some(Why::Endless),
            };
            if problem.is_some() {
                break;
            }
            left -= 1;
            if end == End::Cond {
                block = self.blocks.after_branch(block, taken);
            } else if !taken {
                problem = Some(Why::ReturnNotTaken);
                break;
            } else if let Some(caller) = self.calls.pop() {
                block = self.blocks.after_call(caller);
            } else {
                pop = true;
                break;
            }
        }
        let rest = outcomes & ((1 << left) - 1) | 1 << left;
        let (calls, call_count) = self.calls.and_more();
        state.returns.extend(calls, call_count);
        if let Some(why) = problem {
            return Err(why);
        }
        if !deferred && is_short {
            let made = Made {
                blocks: self.batch.from(mark),
                count: self.batch.mark() - mark,
                calls,
                call_count,
                depth,
                next: if pop { POP } else { block },
                rest,
            };
            self.memo.insert(self.blocks.len(), first, outcomes, &made);
        }
        if self.batch.is_full() {
            self.flush(consumer);
        }
        if pop {
            block = self.after_return(state)?;
        }
        Ok(Stepped {
            block,
            rest,
            deferred,
        })
    }

    /// A chain ran, and its calls are calls of this step. When there are more calls than the processor remembers,
    /// older ones are forgotten first: those of the steps before. Whether the chain was short enough to be listed:
    /// then it is still in the batch.
    #[inline]
    fn pass<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        depth: &mut usize,
        consumer: &mut C,
    ) -> Result<bool, Why> {
        let (blocks, count) = self.blocks.chain_and_more(head);
        let is_listed = count > 0;
        if is_listed {
            // A step has at most six chains: there is room for all of them.
            self.batch.extend(blocks, count);
            let hot = &self.blocks.hot[head as usize];
            match hot.calls {
                0 => return Ok(true),
                1 => {
                    let call = hot.call;
                    self.remember(state, call, depth);
                    return Ok(true);
                }
                _ => {}
            }
        }
        self.pass_calls(state, head, depth, consumer, is_listed)?;
        Ok(is_listed)
    }

    /// One more call of this step.
    #[inline]
    fn remember(&mut self, state: &mut State<'_>, call: u32, depth: &mut usize) {
        let count = self.calls.push(call);
        *depth = (*depth).max(count);
        state.returns.keep(DEPTH.saturating_sub(count));
    }

    fn pass_calls<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        depth: &mut usize,
        consumer: &mut C,
        is_listed: bool,
    ) -> Result<(), Why> {
        let mut next = Some(head);
        while let Some(id) = next {
            if !is_listed {
                state.spend_block()?;
                self.batch.extend_slice(&[BlockId(id)], &self.blocks, consumer);
            }
            if self.blocks.is_remembered(id) {
                self.remember(state, id, depth);
            }
            next = self.blocks.tail(id);
        }
        Ok(())
    }
}
