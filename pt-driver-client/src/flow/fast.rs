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
    pub fn fast<C: Consumer>(&mut self, state: &mut State<'_>, consumer: &mut C) -> Result<(), Why> {
        if !state.begun || !state.pending.is_empty() {
            return Ok(());
        }
        let trace = state.trace;
        let mut position = state.position;
        let mut block = if state.enabled { self.here(state) } else { UNKNOWN };
        let result = loop {
            let Some(&header) = trace.get(position) else {
                break Ok(());
            };
            if header & 1 == 0 {
                if header <= 2 {
                    if header == 2 {
                        break Ok(());
                    }
                    position += zeros(&trace[position..]);
                    continue;
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
    #[inline]
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
                self.batch.extend(self.memo.padded(&step), step.blocks());
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
                    self.leave(state, block, consumer)?;
                    let Some((ip, after)) = self.deferred_tip(state, end, consumer)? else {
                        return Ok((UNKNOWN, state.trace.len()));
                    };
                    block = self.blocks.at(ip);
                    end = after;
                }
            }
            if outcomes == NONE_LEFT {
                return Ok((block, end));
            }
        }
    }

    fn after_return(&mut self, state: &mut State<'_>) -> Result<u32, Why> {
        let caller = state.returns.pop().ok_or(Why::NoCall)?;
        Ok(self.blocks.after_call(caller))
    }

    /// Follows outcomes one by one, up to a return to a call before the first of them, and remembers the way.
    fn step<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        first: u32,
        outcomes: Outcomes,
        consumer: &mut C,
    ) -> Result<Stepped, Why> {
        self.run.clear();
        self.calls.clear();
        let (mut block, mut rest) = (first, outcomes);
        let mut depth = 0;
        let mut problem = None;
        let mut deferred = false;
        let mut pop = false;
        while rest != NONE_LEFT {
            let end = self.blocks.hot[block as usize].end;
            if end == End::Indirect {
                deferred = true;
                break;
            }
            self.pass(state, block, &mut depth)?;
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
        self.batch.extend_slice(&self.run, &self.blocks, consumer);
        for &call in &self.calls {
            state.returns.push(call);
        }
        if let Some(why) = problem {
            return Err(why);
        }
        if !deferred {
            let made = Made {
                blocks: &self.run,
                calls: &self.calls,
                depth,
                next: if pop { POP } else { block },
                rest,
            };
            self.memo.insert(self.blocks.len(), first, outcomes, &made);
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

    /// Adds a chain to the run, and its calls to the calls of this step. When there are more calls than the processor
    /// remembers, older ones are forgotten first: those of the steps before.
    fn pass(&mut self, state: &mut State<'_>, head: u32, depth: &mut usize) -> Result<(), Why> {
        let hot = self.blocks.hot[head as usize];
        let chain = self.blocks.chain(head);
        if !chain.is_empty() && !hot.calls {
            self.run.extend_from_slice(chain);
            return Ok(());
        }
        let is_listed = !chain.is_empty();
        let mut next = Some(head);
        while let Some(id) = next {
            if !is_listed {
                state.spend_block()?;
            }
            self.run.push(BlockId(id));
            if self.blocks.is_remembered(id) {
                self.calls.push(id);
                *depth = (*depth).max(self.calls.len());
                state.returns.keep(DEPTH.saturating_sub(self.calls.len()));
                if self.calls.len() > DEPTH {
                    self.calls.remove(0);
                }
            }
            next = self.blocks.tail(id);
        }
        Ok(())
    }

    /// Everything up to the end of a chain ran.
    #[inline]
    pub fn leave<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        head: u32,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let chain = self.blocks.chain(head);
        if chain.is_empty() {
            let mut next = Some(head);
            while let Some(id) = next {
                state.spend_block()?;
                let id = BlockId(id);
                self.batch.extend_slice(&[id], &self.blocks, consumer);
                if self.blocks.is_remembered(id.0) {
                    state.returns.push(id.0);
                }
                next = self.blocks.tail(id.0);
            }
            return Ok(());
        }
        self.batch.extend_slice(chain, &self.blocks, consumer);
        if self.blocks.hot[head as usize].calls {
            for &id in chain {
                if self.blocks.is_remembered(id.0) {
                    state.returns.push(id.0);
                }
            }
        }
        Ok(())
    }

    /// Leaves a chain for where a TIP says.
    #[inline]
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
    #[inline]
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
                None => !self.blocks.writes_cr3(),
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

/// The address of a TIP packet and the packet's length; `None` when it has none, or is too close to the end.
#[inline]
fn address(bytes: &[u8], header: u8, last: u64) -> Option<(u64, usize)> {
    let raw = u64::from_le_bytes(*bytes.get(1..)?.first_chunk()?);
    Some(match header >> 5 {
        1 => (last & !0xffff | raw & 0xffff, 3),
        2 => (last & !0xffff_ffff | raw & 0xffff_ffff, 5),
        3 => (((raw << 16).cast_signed() >> 16).cast_unsigned(), 7),
        4 => (last & !0xffff_ffff_ffff | raw & 0xffff_ffff_ffff, 7),
        6 => (raw, 9),
        _ => return None,
    })
}
