//! Code as blocks that lead to one another, each read once.
//!
//! A block is instructions one after the other up to the first branch of any kind. From each block a *chain* of
//! blocks follows that needs no packet: over direct jumps and calls to the first branch that the trace has to
//! decide. The decoder moves from chain to chain; which chain comes after a branch's outcome is found once and
//! then one index away.

use super::block::{Block, BlockId, Hot, Rest, UNKNOWN};
use super::image::Image;
use super::index::Index;
use super::length::{self, Class, Insn};
use super::lists::Lists;
use crate::packet::ExecMode;

/// The length of VMLAUNCH and of VMRESUME.
pub(crate) const VM_ENTRY_SIZE: u64 = 3;

/// Room for the blocks of a small trace.
const RESERVED: usize = 4096;

/// The blocks of an image, for one width of code.
#[derive(Debug)]
pub struct Blocks<'a> {
    pub(super) image: &'a Image<'a>,
    pub(super) mode: ExecMode,
    pub(super) hint: usize,
    pub(crate) hot: Vec<Hot>,
    pub(super) starts: Vec<u64>,
    pub(super) rest: Vec<Rest>,
    pub(super) lists: Lists,
    pub(super) index: Index,
    pub(super) writes_cr3: bool,
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
        self.rest[id.0 as usize].block(self.starts[id.0 as usize])
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
        self.rest[id as usize].is_remembered()
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

    /// Whether the instruction at an address is PTWRITE.
    pub(crate) fn is_ptwrite(&self, at: u64) -> bool {
        let (bytes, count) = self.image.across(at);
        let bytes = bytes.get(..count).unwrap_or_default();
        let is_prefix = |byte: u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3);
        let opcode = bytes.iter().position(|&byte| !is_prefix(byte)).unwrap_or(0);
        let (prefixes, rest) = bytes.split_at(opcode);
        let rest = match rest {
            [0x40..=0x4f, rest @ ..] if self.mode == ExecMode::Bits64 => rest,
            rest => rest,
        };
        let repeats = prefixes.iter().rev().find(|&&byte| byte >= 0xf2);
        repeats == Some(&0xf3) && matches!(rest, [0x0f, 0xae, modrm, ..] if modrm >> 3 & 7 == 4)
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
        match self.index.find(start, &self.starts) {
            Ok(id) => id,
            Err(free) => self.build(start, free),
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
        let displacement = rest.displacement & -i32::from(taken);
        let target = self.end_of(last).wrapping_add_signed(displacement.into());
        let next = self.at(target);
        self.hot[last as usize].next[usize::from(taken)] = next;
        self.hot[head as usize].next[usize::from(taken)] = next;
        next
    }

    #[inline]
    pub(super) fn end_of(&self, id: u32) -> u64 {
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
}

/// One instruction, wherever its bytes are.
pub(super) fn read(image: &Image<'_>, mode: ExecMode, at: u64, hint: &mut usize) -> Option<Insn> {
    if let Some(insn) = length::decode(image.from(at, hint), mode) {
        return Some(insn);
    }
    let (bytes, count) = image.across(at);
    length::decode(bytes.get(..count)?, mode)
}
