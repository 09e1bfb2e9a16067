//! The packets that traces are made of: outcomes of branches, targets, tracing on and off.

use super::consumer::{Consumer, Event, Why};
use super::decoder::{Known, State};
use super::tip::address;
use crate::code::block::UNKNOWN;

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
}

/// How many zero bytes there are at the start: PADs.
#[inline]
pub(super) fn zeros(bytes: &[u8]) -> usize {
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
