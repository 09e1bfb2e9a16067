//! Code is read: blocks, and the chains that they make.

use super::blocks::{BlockId, Blocks, End, Hot, Kind, MANY_CALLS, Rest, UNKNOWN, read};
use super::index::Free;
use super::length::{self, Class, Insn};
use super::quick::Quick;
use crate::packet::ExecMode;
use tracee::prefetch;

/// Blocks end here at the latest, so that code entered at many places is not read to its end for each of them.
const BORDER: u64 = 1024;

const CACHE_LINE: isize = 64;

/// Lines of code that are asked for with each block.
const LINES_AHEAD: isize = 3;

/// Chains up to this length are kept as lists.
const LISTED: usize = 16;

impl Blocks<'_> {
    /// Reads the block at an address, and its chain.
    #[cold]
    pub(super) fn build(&mut self, start: u64, free: Free) -> u32 {
        let first = self.rest.len() as u32;
        let (mut next, mut free) = (start, free);
        let (end, joined) = loop {
            let rest = self.read_block(next);
            if let Some(end) = ENDS[rest.kind as usize] {
                if self.rest.len() as u32 == first {
                    let id = self.push_alone(next, free, rest, end);
                    self.split_loop(id);
                    return id;
                }
                self.push(next, free, rest, Hot::UNKNOWN);
                break (end, UNKNOWN);
            }
            let id = self.push(next, free, rest, Hot::UNKNOWN);
            next = next.wrapping_add(rest.size.into());
            next = next.wrapping_add_signed(rest.displacement.into());
            match self.index.find(next, &self.starts) {
                Err(slot) => {
                    self.rest[id as usize].tail = id + 1;
                    free = slot;
                }
                Ok(known) if known < first => {
                    self.rest[id as usize].tail = known;
                    break (self.hot[known as usize].end, known);
                }
                // One of the blocks that are being read: the chain bites its own tail.
                Ok(_) => break (End::Endless, UNKNOWN),
            }
        };
        self.link(first as usize, end, joined);
        first
    }

    /// Gives the blocks from `first` on, one chain, its end and lists.
    fn link(&mut self, first: usize, end: End, joined: u32) {
        let last = self.rest.len();
        let list = self.lists.end();
        let shared = match joined {
            UNKNOWN => 0,
            joined => self.chain(joined).len(),
        };
        let listable = end != End::Endless && (joined == UNKNOWN || shared > 0);
        let after = self.hot.get(joined as usize);
        let (mut calls, mut call) = after.map_or((0, UNKNOWN), |hot| (hot.calls, hot.call));
        let listed_from = (last + shared).saturating_sub(LISTED).max(first);
        if listable {
            (listed_from..last).for_each(|id| self.lists.push(BlockId(id as u32)));
            for index in 0..shared {
                let id = self.chain(joined)[index];
                self.lists.push(id);
            }
        }
        for id in (first..last).rev() {
            if self.is_remembered(id as u32) {
                (calls, call) = ((calls + 1).min(MANY_CALLS), id as u32);
            }
            let hot = &mut self.hot[id];
            (hot.calls, hot.call) = (calls, call);
            hot.end = end;
            if listable && id >= listed_from {
                hot.list = (list + id - listed_from) as u32;
                hot.listed = (last - id + shared) as u8;
            }
        }
    }

    /// A loop's head in the middle of the block that was just read is a block of its own, and is known by now.
    #[inline]
    fn split_loop(&mut self, id: u32) {
        let rest = &self.rest[id as usize];
        let back = -i64::from(rest.displacement);
        let (to_last, to_start) = (i64::from(rest.size - rest.last), i64::from(rest.size));
        // One condition and not three: together they are easy to foresee.
        if (rest.kind == Kind::Cond) & (back >= to_last) & (back < to_start) {
            let target = self.end_of(id).wrapping_add_signed(-back);
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
            self.push_alone(target, free, rest, End::Cond);
        }
    }

    /// Adds a block that is a whole chain.
    #[inline(always)]
    fn push_alone(&mut self, start: u64, free: Free, rest: Rest, end: End) -> u32 {
        let id = self.rest.len() as u32;
        let hot = Hot {
            list: self.lists.end() as u32,
            listed: 1,
            end,
            calls: u8::from(rest.is_remembered()),
            call: id,
            ..Hot::UNKNOWN
        };
        self.lists.push(BlockId(id));
        self.push(start, free, rest, hot)
    }

    #[inline(always)]
    fn push(&mut self, start: u64, free: Free, rest: Rest, hot: Hot) -> u32 {
        let id = self.rest.len() as u32;
        self.rest.push(rest);
        self.starts.push(start);
        self.hot.push(hot);
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
        let (mut offset, mut last, mut count) = (0, 0, 0);
        let mut writes_cr3 = false;
        let quickly = if self.mode == ExecMode::Bits64 { bytes } else { &[] };
        let (kind, displacement) = loop {
            let window = quickly.get(offset..).and_then(<[u8]>::first_chunk);
            let quick = window.map(|window| Quick::of(length::first_word(window)));
            if let Some(quick) = quick
                && quick.is_plain()
            {
                // Nothing but the length is waited for.
                count += 1;
                last = offset;
                offset += usize::from(quick.length);
                if offset >= border {
                    break (Kind::Falls, 0);
                }
                continue;
            }
            let insn = match quick.and_then(|quick| quick.behind_prefix().insn()) {
                Some(insn) => insn,
                None => match self.read_with_care(start.wrapping_add(offset as u64)) {
                    Ok(insn) => insn,
                    Err(kind) => break (kind, 0),
                },
            };
            count += 1;
            last = offset;
            offset += usize::from(insn.length);
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
            last: last as u16,
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
