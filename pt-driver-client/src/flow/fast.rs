//! The packets that traces are made of: outcomes of branches, targets, tracing on and off.

use super::consumer::{Consumer, Event, Why};
use super::decoder::{Known, State};
use super::memo::{Made, NONE_LEFT, Outcomes, POP};
use super::returns::DEPTH;
use crate::code::BlockId;
use crate::code::blocks::{End, UNKNOWN};

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
    /// Decodes up to a packet that is not one of the frequent ones, or to the end.
    #[inline(never)]
    pub fn fast<C: Consumer>(&mut self, state: &mut State<'_>, consumer: &mut C) -> Result<(), Why> {
        if !state.begun || !state.pending.is_empty() {
            return Ok(());
        }
        let trace = state.trace;
        let mut position = state.position;
        let mut block = if state.enabled { self.here(state) } else { UNKNOWN };
        let result = loop {
            // The last few bytes are read with more care.
            let Some(word) = trace.get(position..).and_then(<[u8]>::first_chunk) else {
                break Ok(());
            };
            let word = u64::from_le_bytes(*word);
            if word == 0 {
                position += zeros(&trace[position..]);
                continue;
            }
            // Whether there are PADs before a packet is hard to foresee: there always are, if only none.
            let pads = word.trailing_zeros() & !7;
            position += (pads / 8) as usize;
            let header = (word >> pads) as u8;
            if header & 1 == 0 {
                if header == 2 {
                    break Ok(());
                }
                if block == UNKNOWN {
                    break Err(Why::UnexpectedPacket);
                }
                let end = position + 1;
                match self.outcomes(state, block, u32::from(header >> 1), end, consumer) {
                    Ok((next, after)) => (block, position) = (next, after),
                    Err(why) => break Err(why),
                }
                continue;
            }
            let kind = header & 0x1f;
            if !matches!(kind, 0x0d | 0x11 | 0x01) {
                break Ok(());
            }
            let Some((ip, size)) = address(&trace[position..], header, state.last_ip) else {
                break Ok(());
            };
            match kind {
                0x0d => {
                    if block == UNKNOWN {
                        break Err(Why::UnexpectedPacket);
                    }
                    if let Err(why) = self.leave_indirect(state, block, consumer) {
                        break Err(why);
                    }
                    block = self.blocks.at(ip);
                }
                0x11 => {
                    if block != UNKNOWN {
                        break Err(Why::UnexpectedPacket);
                    }
                    block = self.blocks.at(ip);
                    self.event(Event::Enabled(ip), consumer);
                }
                _ => {
                    if block == UNKNOWN {
                        break Err(Why::UnexpectedPacket);
                    }
                    if let Err(why) = self.leave_disabled(state, block, Some(ip), consumer) {
                        break Err(why);
                    }
                    block = UNKNOWN;
                    self.event(Event::Disabled(Some(ip)), consumer);
                }
            }
            state.last_ip = ip;
            position += size;
        };
        state.position = position;
        state.enabled = block != UNKNOWN;
        state.block = block;
        if let Some(&ip) = self.blocks.starts().get(block as usize) {
            state.ip = ip;
        }
        result
    }

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
                for call in self.memo.calls(&step) {
                    state.returns.push(call.0);
                }
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
        let (mut block, mut rest) = (first, outcomes);
        let mut depth = 0;
        let mut problem = None;
        let mut deferred = false;
        let mut pop = false;
        while rest != NONE_LEFT {
            let hot = &self.blocks.hot[block as usize];
            let end = hot.end;
            if end == End::Cond && hot.calls == 0 && hot.is_listed() {
                // Most chains are like this.
                let (blocks, listed) = self.blocks.chain_and_more(block);
                self.batch.extend(blocks, listed);
                let count = rest.ilog2() - 1;
                block = self.blocks.after_branch(block, rest >> count & 1 != 0);
                rest = rest & ((1 << count) - 1) | 1 << count;
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
            let count = rest.ilog2() - 1;
            let taken = rest >> count & 1 != 0;
            rest = rest & ((1 << count) - 1) | 1 << count;
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
        for &call in &self.calls {
            state.returns.push(call);
        }
        if let Some(why) = problem {
            return Err(why);
        }
        if !deferred && is_short {
            let made = Made {
                blocks: self.batch.from(mark),
                count: self.batch.mark() - mark,
                calls: &self.calls,
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
        self.calls.push(call);
        *depth = (*depth).max(self.calls.len());
        state.returns.keep(DEPTH.saturating_sub(self.calls.len()));
        if self.calls.len() > DEPTH {
            self.calls.remove(0);
        }
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
            return self.leave(state, head, consumer);
        }
        state.block = head;
        state.ip = self.blocks.start(BlockId(head));
        match to {
            Some(to) => self.walk_to(state, to, consumer).map(drop),
            None => self.walk_to_cr3(state, consumer),
        }
    }
}

/// How many zero bytes there are at the start.
#[inline]
fn zeros(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let mut count = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        count += (word.trailing_zeros() / 8) as usize;
        if word != 0 {
            return count;
        }
    }
    let rest = bytes.get(count..).unwrap_or_default();
    count + rest.iter().take_while(|&&byte| byte == 0).count()
}

/// The address of a TIP packet and the packet's length; `None` when it has none, or is too close to the end. Which
/// compression comes next is hard to foresee: it is looked up, not branched on.
#[inline]
fn address(bytes: &[u8], header: u8, last: u64) -> Option<(u64, usize)> {
    let raw = u64::from_le_bytes(*bytes.get(1..)?.first_chunk()?);
    let Payload { told, size, sign } = PAYLOADS[usize::from(header >> 5)];
    let ip = last & !told | raw & told;
    (size > 0).then_some((
        (ip << sign).cast_signed().wrapping_shr(sign).cast_unsigned(),
        size,
    ))
}

/// How a compressed address is written.
#[derive(Clone, Copy)]
struct Payload {
    /// The bits that are told; the others are those of the last address.
    told: u64,
    /// The size of the packet; none for what has no address.
    size: usize,
    /// How many bits are copies of the highest one that is told.
    sign: u32,
}

const PAYLOADS: [Payload; 8] = {
    const fn payload(told: u64, size: usize, sign: u32) -> Payload {
        Payload { told, size, sign }
    }
    let none = payload(0, 0, 0);
    [
        none,
        payload(0xffff, 3, 0),
        payload(0xffff_ffff, 5, 0),
        payload(0xffff_ffff_ffff, 7, 16),
        payload(0xffff_ffff_ffff, 7, 0),
        none,
        payload(u64::MAX, 9, 0),
        none,
    ]
};
