//! Code is read: blocks, and the chains that they make.

use std::hint::select_unpredictable;

use super::block::{BlockId, End, Hot, Kind, MANY_CALLS, Rest, UNKNOWN};
use super::blocks::{Blocks, read};
use super::index::Free;
use super::length::{self, Class, Insn};
use super::lists::MAX_LISTED;
use super::quick::Quick;
use crate::packet::ExecMode;
use tracee::prefetch;

/// Blocks end here at the latest, so that code entered at many places is not read to its end for each of them.
const BORDER: u64 = 1024;

/// Bytes that are enough for any instruction.
const WINDOW: usize = 16;

const CACHE_LINE: isize = 64;

/// Lines of code that are asked for with each block.
const LINES_AHEAD: isize = 3;

impl Blocks<'_> {
    /// Reads the block at an address, and its chain.
    #[cold]
    pub(super) fn build(&mut self, start: u64, free: Free) -> u32 {
        let first = self.rest.len() as u32;
        let (mut next, mut free) = (start, free);
        loop {
            let rest = self.read_block(next);
            let id = self.push(next, free, rest);
            if let Some(end) = ENDS[rest.kind as usize] {
                self.link(first, end, UNKNOWN);
                self.split_loop(id);
                return first;
            }
            next = next.wrapping_add(rest.size.into());
            next = next.wrapping_add_signed(rest.displacement.into());
            let (tail, end) = match self.index.find(next, &self.starts) {
                Err(slot) => {
                    self.rest[id as usize].tail = id + 1;
                    free = slot;
                    continue;
                }
                Ok(known) if known < first => (known, self.hot[known as usize].end),
                // One of the blocks that are being read: the chain bites its own tail.
                Ok(_) => (UNKNOWN, End::Endless),
            };
            self.rest[id as usize].tail = tail;
            self.link(first, end, tail);
            return first;
        }
    }

    /// Gives the blocks from `first` on, one chain that may go on with a known one, its end and its list.
    #[inline(always)]
    fn link(&mut self, first: u32, end: End, joined: u32) {
        let last = self.rest.len();
        let (mut calls, mut call, mut listed) = (0, UNKNOWN, 0);
        let mut is_listable = end != End::Endless;
        if let Some(after) = self.hot.get(joined as usize) {
            (calls, call, listed) = (after.calls, after.call, after.listed.into());
            is_listable &= after.is_listed();
            self.lists.repeat(after.list as usize, listed);
        }
        for id in (first as usize..last).rev() {
            let (rest, hot) = (&self.rest[id], &mut self.hot[id]);
            let is_call = rest.is_remembered();
            call = select_unpredictable(is_call, id as u32, call);
            calls = (calls + u8::from(is_call)).min(MANY_CALLS);
            listed += 1;
            hot.listed = if is_listable & (listed <= MAX_LISTED) {
                listed as u8
            } else {
                0
            };
            hot.is_simple = (end == End::Cond) & (calls == 0) & (hot.listed > 0);
            (hot.end, hot.calls, hot.call) = (end, calls, call);
        }
    }

    /// A loop's head in the middle of the block that was just read is a block of its own, and is known by now.
    #[inline]
    fn split_loop(&mut self, id: u32) {
        let rest = &self.rest[id as usize];
        // From the start to the target. What has no target has its end there, and a start is a block already.
        let target = u32::from(rest.size).wrapping_add_signed(rest.displacement);
        // One condition and not three: together they are easy to foresee.
        if target.wrapping_sub(1) < u32::from(rest.last) {
            let target = self.starts[id as usize].wrapping_add(target.into());
            if let Err(free) = self.index.find(target, &self.starts) {
                self.split(id, target, free);
            }
        }
    }

    #[cold]
    fn split(&mut self, id: u32, target: u64, free: Free) {
        let whole = self.rest[id as usize];
        let start = self.starts[id as usize];
        let before = self
            .addresses(start, whole.instructions.into())
            .position(|at| at == target);
        if let Some(before) = before {
            let skipped = (target - start) as u16;
            let rest = Rest {
                instructions: whole.instructions - before as u16,
                last: whole.last - skipped,
                size: whole.size - skipped,
                ..whole
            };
            let id = self.push(target, free, rest);
            self.link(id, End::Cond, UNKNOWN);
        }
    }

    /// Adds a block, the next one of a list; what is known of its chain is for [`Self::link`] to say.
    #[inline(always)]
    fn push(&mut self, start: u64, free: Free, rest: Rest) -> u32 {
        let id = self.rest.len() as u32;
        self.rest.push(rest);
        self.starts.push(start);
        self.hot.push(Hot {
            list: self.lists.end() as u32,
            ..Hot::UNKNOWN
        });
        self.lists.push(BlockId(id));
        self.index.insert(start, free, id, &self.starts);
        id
    }

    /// Reads the instructions of one block.
    #[inline]
    fn read_block(&mut self, start: u64) -> Rest {
        let bytes = self.image.from(start, &mut self.hint);
        // Code that runs for the first time is seldom near, and nothing can be read ahead of where branches lead: what
        // is likely to be next, the code behind and where a branch goes, is asked for as early as it is known.
        (1..=LINES_AHEAD).for_each(|line| prefetch(bytes, line * CACHE_LINE));
        // Blocks that begin here or behind are others.
        let border = (BORDER - start % BORDER) as usize;
        // Where a whole window is left, the border is not reached: one look tells of both.
        let quickly = match self.mode {
            ExecMode::Bits64 => bytes.get(..border + WINDOW - 1).unwrap_or(bytes),
            _ => &[],
        };
        let (mut offset, mut length, mut count) = (0, 0, 0);
        let mut writes_cr3 = false;
        let (kind, displacement) = loop {
            let mut ahead = quickly.get(offset..).unwrap_or_default();
            offset += ahead.len();
            let quick = loop {
                let Some(window) = ahead.first_chunk() else {
                    break None;
                };
                let quick = Quick::of(length::first_word(window));
                if !quick.is_plain() {
                    break Some(quick);
                }
                let Some(behind) = ahead.get(quick.length..) else {
                    break None;
                };
                // Nothing but the length is waited for.
                (ahead, length) = (behind, quick.length);
                count += 1;
            };
            offset -= ahead.len();
            if let Some(quick) = quick {
                let kind = KINDS[quick.class() as usize];
                if kind != Kind::Falls {
                    // The next block waits for this: most end here.
                    count += 1;
                    length = quick.length;
                    offset += length;
                    break (kind, quick.displacement());
                }
            }
            let insn = match quick.and_then(|quick| quick.behind_prefix().insn()) {
                Some(insn) => insn,
                None if offset >= border => break (Kind::Falls, 0),
                None => match self.read_with_care(start.wrapping_add(offset as u64)) {
                    Ok(insn) => insn,
                    Err(kind) => break (kind, 0),
                },
            };
            count += 1;
            length = usize::from(insn.length);
            offset += length;
            writes_cr3 |= insn.class == Class::MovCr3;
            let kind = KINDS[insn.class as usize];
            if kind != Kind::Falls || offset >= border {
                break (kind, insn.displacement);
            }
        };
        // Of a block that leads nowhere in particular this is the code behind it: nothing is lost, and nothing foreseen.
        let target = offset as isize + displacement as isize;
        prefetch(bytes, target);
        prefetch(bytes, target + CACHE_LINE);
        self.writes_cr3 |= writes_cr3;
        // At most the distance to the border and one instruction.
        Rest {
            displacement,
            tail: UNKNOWN,
            instructions: count,
            last: (offset - length) as u16,
            size: offset as u16,
            kind,
            writes_cr3,
        }
    }

    /// One instruction of another kind than most, or close to the end of its piece; or the reason why there is none.
    #[cold]
    fn read_with_care(&mut self, at: u64) -> Result<Insn, Kind> {
        read(self.image, self.mode, at, &mut self.hint).ok_or_else(|| {
            if self.image.from(at, &mut self.hint).is_empty() {
                Kind::NoCode
            } else {
                Kind::NotAnInstruction
            }
        })
    }
}

/// How a block ends with an instruction, by [`Class`]. Which comes next is hard to foresee: it is looked up, not
/// branched on.
const KINDS: [Kind; 9] = {
    let mut kinds = [Kind::Falls; 9];
    kinds[Class::Jump as usize] = Kind::Jump;
    kinds[Class::Call as usize] = Kind::Call;
    kinds[Class::Cond as usize] = Kind::Cond;
    kinds[Class::IndirectJump as usize] = Kind::IndirectJump;
    kinds[Class::IndirectCall as usize] = Kind::IndirectCall;
    kinds[Class::Return as usize] = Kind::Return;
    kinds[Class::Far as usize] = Kind::Far;
    kinds
};

/// How a chain ends that ends with such a block, by [`Kind`]. One that does not goes on at the block's end plus its
/// displacement.
const ENDS: [Option<End>; 10] = {
    let mut ends = [None; 10];
    ends[Kind::Cond as usize] = Some(End::Cond);
    ends[Kind::Return as usize] = Some(End::Return);
    ends[Kind::IndirectJump as usize] = Some(End::Indirect);
    ends[Kind::IndirectCall as usize] = Some(End::Indirect);
    ends[Kind::Far as usize] = Some(End::Indirect);
    ends[Kind::NoCode as usize] = Some(End::NoCode);
    ends[Kind::NotAnInstruction as usize] = Some(End::NotAnInstruction);
    ends
};
