//! Code is read: blocks, and the chains that they make.

use super::blocks::{BlockId, Blocks, End, Hot, Kind, Rest, UNKNOWN, read};
use super::length::{self, Class, Insn};
use super::opcodes::simple_length;
use crate::packet::ExecMode;

/// Blocks end here at the latest, so that code entered at many places is not read to its end for each of them.
const BORDER: u64 = 1024;

/// Chains up to this length are kept as lists.
const LISTED: usize = 16;

impl Blocks<'_> {
    /// Reads the block at an address, and its chain.
    #[cold]
    pub(super) fn build(&mut self, start: u64) -> u32 {
        let first = self.rest.len() as u32;
        let mut next = start;
        let (end, joined) = loop {
            let id = self.read_block(next);
            let rest = &self.rest[id as usize];
            if let Some(end) = ends_chain(rest.kind) {
                if id == first {
                    self.list_alone(id, end);
                    self.split_loop(id);
                    return id;
                }
                break (end, UNKNOWN);
            }
            next = next.wrapping_add(rest.size.into());
            next = next.wrapping_add_signed(rest.displacement.into());
            let known = self.index.get(next, &self.starts);
            if known == UNKNOWN {
                self.rest[id as usize].tail = id + 1;
            } else if known < first {
                self.rest[id as usize].tail = known;
                break (self.hot[known as usize].end, known);
            } else {
                // One of the blocks that are being read: the chain bites its own tail.
                break (End::Endless, UNKNOWN);
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
        let mut calls = joined != UNKNOWN && self.hot[joined as usize].calls;
        let listed_from = (last + shared).saturating_sub(LISTED).max(first);
        if listable {
            (listed_from..last).for_each(|id| self.lists.push(BlockId(id as u32)));
            for index in 0..shared {
                let id = self.chain(joined)[index];
                self.lists.push(id);
            }
        }
        for id in (first..last).rev() {
            calls |= self.is_remembered(id as u32);
            let hot = &mut self.hot[id];
            hot.calls = calls;
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
        if rest.kind == Kind::Cond && (to_last..to_start).contains(&back) {
            let target = self.end_of(id).wrapping_add_signed(-back);
            if self.index.get(target, &self.starts) == UNKNOWN {
                self.split(id, target);
            }
        }
    }

    #[cold]
    fn split(&mut self, id: u32, target: u64) {
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
            let id = self.push(target, rest);
            self.list_alone(id, End::Cond);
        }
    }

    /// A block that is a whole chain.
    #[inline]
    fn list_alone(&mut self, id: u32, end: End) {
        let calls = self.is_remembered(id);
        let hot = &mut self.hot[id as usize];
        hot.list = self.lists.end() as u32;
        hot.listed = 1;
        hot.end = end;
        hot.calls = calls;
        self.lists.push(BlockId(id));
    }

    #[inline]
    fn push(&mut self, start: u64, rest: Rest) -> u32 {
        let id = self.rest.len() as u32;
        self.rest.push(rest);
        self.starts.push(start);
        self.hot.push(Hot {
            next: [UNKNOWN; 2],
            after: UNKNOWN,
            list: 0,
            listed: 0,
            end: End::Endless,
            calls: false,
        });
        self.index.insert(start, id, &self.starts);
        id
    }

    /// Reads the instructions of one block.
    #[inline]
    fn read_block(&mut self, start: u64) -> u32 {
        let bytes = self.image.from(start, &mut self.hint);
        // Blocks that begin here or behind are others.
        let border = (BORDER - start % BORDER) as usize;
        let (mut offset, mut last, mut count) = (0, 0, 0);
        let mut writes_cr3 = false;
        let long = self.mode == ExecMode::Bits64;
        let (kind, displacement) = loop {
            let window = bytes.get(offset..).and_then(<[u8]>::first_chunk);
            if long && let Some(length) = window.and_then(simple_length) {
                count += 1;
                last = offset;
                offset += usize::from(length);
                if offset >= border {
                    break (Kind::Falls, 0);
                }
                continue;
            }
            let insn = match window.and_then(|window| length::decode_window(window, self.mode)) {
                Some(insn) => insn,
                None => match self.read_at_border(start.wrapping_add(offset as u64)) {
                    Ok(insn) => insn,
                    Err(kind) => break (kind, 0),
                },
            };
            count += 1;
            last = offset;
            offset += usize::from(insn.length);
            if insn.class != Class::Other {
                if let Some(kind) = kind_of(insn.class) {
                    break (kind, insn.displacement);
                }
                writes_cr3 = true;
            }
            if offset >= border {
                break (Kind::Falls, 0);
            }
        };
        self.writes_cr3 |= writes_cr3;
        // At most the distance to the border and one instruction.
        let rest = Rest {
            displacement,
            tail: UNKNOWN,
            instructions: count,
            last: last as u16,
            size: offset as u16,
            kind,
            writes_cr3,
        };
        self.push(start, rest)
    }

    /// One instruction close to the end of its piece, or the reason why there is none.
    #[cold]
    fn read_at_border(&mut self, at: u64) -> Result<Insn, Kind> {
        read(self.image, self.mode, at, &mut self.hint).ok_or_else(|| {
            if self.image.from(at, &mut self.hint).is_empty() {
                Kind::NoCode
            } else {
                Kind::NotAnInstruction
            }
        })
    }
}

fn kind_of(class: Class) -> Option<Kind> {
    Some(match class {
        Class::Other | Class::MovCr3 => return None,
        Class::Jump => Kind::Jump,
        Class::Call => Kind::Call,
        Class::Cond => Kind::Cond,
        Class::IndirectJump => Kind::IndirectJump,
        Class::IndirectCall => Kind::IndirectCall,
        Class::Return => Kind::Return,
        Class::Far => Kind::Far,
    })
}

/// How a chain ends that ends with such a block. One that does not goes on at the block's end plus its displacement.
fn ends_chain(kind: Kind) -> Option<End> {
    match kind {
        Kind::Jump | Kind::Call | Kind::Falls => None,
        Kind::Cond => Some(End::Cond),
        Kind::Return => Some(End::Return),
        Kind::IndirectJump | Kind::IndirectCall | Kind::Far => Some(End::Indirect),
        Kind::NoCode => Some(End::NoCode),
        Kind::NotAnInstruction => Some(End::NotAnInstruction),
    }
}
