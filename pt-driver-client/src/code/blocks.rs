//! Code as blocks that lead to one another, each read once.
//!
//! A block is instructions one after the other up to the first branch of any kind. From each block a *chain* of
//! blocks follows that needs no packet: over direct jumps and calls to the first branch that the trace has to
//! decide. The decoder moves from chain to chain; which chain comes after a branch's outcome is found once and
//! then one index away.

use super::image::Image;
use super::index::Index;
use super::length::{self, Class, Insn};
use super::lists::Lists;
use super::opcodes::simple_length;
use crate::packet::ExecMode;

/// A block, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(crate) u32);

/// Instructions one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first instruction.
    pub start: u64,
    /// The last instruction.
    pub last: u64,
    /// Where an instruction after the last one would be.
    pub end: u64,
    /// How many there are. None when there is no code.
    pub instructions: u32,
    /// How it ends.
    pub exit: Exit,
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With a conditional branch: to there or to the block's end.
    Cond(u64),
    /// With a jump.
    Jump(u64),
    /// With a call; a call of the next instruction, which only reads its own address, is not remembered.
    Call(u64),
    /// With nothing: the next block follows.
    Falls,
    /// With an indirect jump.
    IndirectJump,
    /// With an indirect call.
    IndirectCall,
    /// With a return.
    Return,
    /// With a far transfer: a system call, an interrupt, a return from one.
    Far,
    /// There is no code behind it.
    NoCode,
    /// The bytes behind it are no instruction.
    NotAnInstruction,
}

/// How a chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Cond,
    Return,
    /// Anything else that a TIP decides.
    Indirect,
    NoCode,
    NotAnInstruction,
    /// Never: jumps that lead to one another.
    Endless,
}

/// The length of VMLAUNCH and of VMRESUME.
pub(crate) const VM_ENTRY_SIZE: u64 = 3;

/// No block yet.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Blocks end here at the latest, so that code entered at many places is not read to its end for each of them.
const BORDER: u64 = 1024;

/// Room for the blocks of a small trace.
const RESERVED: usize = 4096;

/// Chains up to this length are kept as lists.
const LISTED: usize = 16;

/// What following a trace needs of a block, small and together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hot {
    /// The blocks after the branch that ends the chain, not taken and taken.
    pub next: [u32; 2],
    /// For a block that ends with a call: the block after the call.
    pub after: u32,
    /// Where the chain is listed.
    list: u32,
    listed: u8,
    pub end: End,
    /// There are calls in the chain.
    pub calls: bool,
}

/// The rest of a block, packed: how much memory the first decode touches is a large part of its time.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// Where a direct branch goes, from the end.
    displacement: i32,
    /// The block that follows in the chain.
    tail: u32,
    instructions: u16,
    /// From the start to the last instruction.
    last: u16,
    /// From the start to the end.
    size: u16,
    kind: Kind,
    /// One of its instructions writes CR3.
    writes_cr3: bool,
}

/// [`Exit`] without addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cond,
    Jump,
    Call,
    Falls,
    IndirectJump,
    IndirectCall,
    Return,
    Far,
    NoCode,
    NotAnInstruction,
}

/// The blocks of an image, for one width of code.
#[derive(Debug)]
pub struct Blocks<'a> {
    image: &'a Image<'a>,
    mode: ExecMode,
    hint: usize,
    pub(crate) hot: Vec<Hot>,
    starts: Vec<u64>,
    rest: Vec<Rest>,
    lists: Lists,
    index: Index,
    writes_cr3: bool,
}

impl<'a> Blocks<'a> {
    /// No blocks yet.
    #[must_use]
    pub fn new(image: &'a Image<'a>, mode: ExecMode) -> Self {
        Self {
            image,
            mode,
            hint: 0,
            hot: Vec::with_capacity(RESERVED),
            starts: Vec::with_capacity(RESERVED),
            rest: Vec::with_capacity(RESERVED),
            lists: Lists::default(),
            index: Index::default(),
            writes_cr3: false,
        }
    }

    /// The width of the code.
    pub(crate) fn mode(&self) -> ExecMode {
        self.mode
    }

    /// A block.
    #[must_use]
    #[inline]
    pub fn block(&self, id: BlockId) -> Block {
        let start = self.starts[id.0 as usize];
        let rest = &self.rest[id.0 as usize];
        let end = start.wrapping_add(rest.size.into());
        let target = end.wrapping_add_signed(rest.displacement.into());
        Block {
            start,
            last: start.wrapping_add(rest.last.into()),
            end,
            instructions: rest.instructions.into(),
            exit: match rest.kind {
                Kind::Cond => Exit::Cond(target),
                Kind::Jump => Exit::Jump(target),
                Kind::Call => Exit::Call(target),
                Kind::Falls => Exit::Falls,
                Kind::IndirectJump => Exit::IndirectJump,
                Kind::IndirectCall => Exit::IndirectCall,
                Kind::Return => Exit::Return,
                Kind::Far => Exit::Far,
                Kind::NoCode => Exit::NoCode,
                Kind::NotAnInstruction => Exit::NotAnInstruction,
            },
        }
    }

    /// The first and the last instruction of a block.
    #[inline]
    pub(crate) fn span(&self, id: BlockId) -> (u64, u64) {
        let start = self.starts[id.0 as usize];
        (start, start.wrapping_add(self.rest[id.0 as usize].last.into()))
    }

    /// Whether a return can come back behind a block. A call of the next instruction only reads its own address.
    #[inline]
    pub(crate) fn is_remembered(&self, id: u32) -> bool {
        let rest = &self.rest[id as usize];
        rest.kind == Kind::IndirectCall || rest.kind == Kind::Call && rest.displacement != 0
    }

    /// The address of a block's first instruction.
    #[must_use]
    #[inline]
    pub fn start(&self, id: BlockId) -> u64 {
        self.starts[id.0 as usize]
    }

    #[inline]
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Whether any block has an instruction that writes CR3.
    #[inline]
    pub(crate) fn writes_cr3(&self) -> bool {
        self.writes_cr3
    }

    /// Which instruction of a block writes CR3.
    pub(crate) fn cr3_write(&self, id: BlockId) -> Option<usize> {
        if !self.rest[id.0 as usize].writes_cr3 {
            return None;
        }
        let block = self.block(id);
        let mut hint = self.hint;
        self.addresses(block.start, block.instructions).position(|at| {
            read(self.image, self.mode, at, &mut hint).is_some_and(|insn| insn.class == Class::MovCr3)
        })
    }

    /// Whether the instruction at an address enters a virtual machine: VMLAUNCH or VMRESUME.
    pub(crate) fn is_vm_entry(&self, at: u64) -> bool {
        let (bytes, count) = self.image.across(at);
        count >= 3 && matches!(bytes, [0x0f, 0x01, 0xc2 | 0xc3, ..])
    }

    /// How many blocks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The addresses of the instructions from one that is known to start one.
    pub fn addresses(&self, start: u64, count: u32) -> impl Iterator<Item = u64> + use<'_, 'a> {
        let mut at = start;
        let mut hint = self.hint;
        (0..count).map(move |_| {
            let here = at;
            let length = read(self.image, self.mode, here, &mut hint).map_or(1, |insn| insn.length);
            at = at.wrapping_add(length.into());
            here
        })
    }

    /// The block that starts at an address.
    #[inline]
    pub(crate) fn at(&mut self, start: u64) -> u32 {
        match self.index.get(start, &self.starts) {
            UNKNOWN => self.build(start),
            id => id,
        }
    }

    /// The blocks of a chain, if it is short enough to be listed.
    #[inline]
    pub(crate) fn chain(&self, head: u32) -> &[BlockId] {
        let (blocks, count) = self.chain_and_more(head);
        &blocks[..count]
    }

    /// The blocks of a chain with whatever comes behind them, and how many are of the chain: none if it is not listed.
    #[inline]
    pub(crate) fn chain_and_more(&self, head: u32) -> (&[BlockId], usize) {
        let hot = &self.hot[head as usize];
        (self.lists.from(hot.list as usize), hot.listed.into())
    }

    /// The block that follows in the chain.
    #[inline]
    pub(crate) fn tail(&self, id: u32) -> Option<u32> {
        match self.rest[id as usize].tail {
            UNKNOWN => None,
            tail => Some(tail),
        }
    }

    /// The last block of a chain.
    pub(crate) fn last(&self, head: u32) -> u32 {
        if let Some(last) = self.chain(head).last() {
            return last.0;
        }
        let mut id = head;
        while let Some(tail) = self.tail(id) {
            id = tail;
        }
        id
    }

    /// The block after the branch that ends a chain.
    #[inline]
    pub(crate) fn after_branch(&mut self, head: u32, taken: bool) -> u32 {
        match self.hot[head as usize].next[usize::from(taken)] {
            UNKNOWN => self.find_after_branch(head, taken),
            next => next,
        }
    }

    /// The branch is conditional: the chain would have no outcome otherwise.
    fn find_after_branch(&mut self, head: u32, taken: bool) -> u32 {
        let last = self.last(head);
        let rest = &self.rest[last as usize];
        let displacement = if taken { rest.displacement } else { 0 };
        let target = self.end_of(last).wrapping_add_signed(displacement.into());
        let next = self.at(target);
        self.hot[last as usize].next[usize::from(taken)] = next;
        self.hot[head as usize].next[usize::from(taken)] = next;
        next
    }

    #[inline]
    fn end_of(&self, id: u32) -> u64 {
        self.starts[id as usize].wrapping_add(self.rest[id as usize].size.into())
    }

    /// The block after a call.
    #[inline]
    pub(crate) fn after_call(&mut self, caller: u32) -> u32 {
        match self.hot[caller as usize].after {
            UNKNOWN => {
                let after = self.at(self.end_of(caller));
                self.hot[caller as usize].after = after;
                after
            }
            after => after,
        }
    }

    /// Reads the block at an address, and its chain.
    #[cold]
    fn build(&mut self, start: u64) -> u32 {
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

/// One instruction, wherever its bytes are.
fn read(image: &Image<'_>, mode: ExecMode, at: u64, hint: &mut usize) -> Option<Insn> {
    if let Some(insn) = length::decode(image.from(at, hint), mode) {
        return Some(insn);
    }
    let (bytes, count) = image.across(at);
    length::decode(bytes.get(..count)?, mode)
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
