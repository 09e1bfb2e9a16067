//! The control flow of one function.

use std::fmt;
use std::ops::{Deref, Range};

use iced_x86::Instruction;

use super::functions::FunctionId;
use crate::addr::LinkAddr;
use crate::elf::ImportId;

/// An instruction, by its place in [`FlowGraph::instructions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstrIx(pub u32);

/// A block, by its place in [`FlowGraph::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockId(pub u32);

/// Where a call or tail call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A function of this file.
    Function(FunctionId),
    /// A function of another file; [`crate::elf::Elf::import_name`] names it.
    Import(ImportId),
    /// An address at which no known function begins.
    Unknown(LinkAddr),
    /// Through a register or memory.
    Indirect,
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// The next instruction is somebody's target.
    FallThrough,
    /// An unconditional jump inside the function.
    Jump,
    /// A conditional jump inside the function: [`Block::succs`] has the fall-through first, then the target.
    /// Both may be the same block, which is then there once.
    Branch,
    /// A jump through a table.
    Switch,
    /// A call that comes back to the next block.
    Call(Target),
    /// A call that does not come back.
    NoReturnCall(Target),
    /// A jump to another function.
    TailCall(Target),
    /// A conditional jump to another function; otherwise on to the next block.
    ConditionalTailCall(Target),
    /// Back to the caller.
    Return,
    /// `ud2`, `hlt`, `int3`, or bytes that are no instruction.
    Stop,
    /// An indirect jump whose targets are not known.
    Unresolved,
}

impl Exit {
    /// The target of a call or tail call.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        match self {
            Self::Call(target)
            | Self::NoReturnCall(target)
            | Self::TailCall(target)
            | Self::ConditionalTailCall(target) => Some(*target),
            _ => None,
        }
    }

    /// Whether control may go back to the caller from here, directly or through a tail call.
    #[must_use]
    pub fn leaves(&self) -> bool {
        matches!(
            self,
            Self::Return | Self::TailCall(_) | Self::ConditionalTailCall(_)
        )
    }
}

/// The neighbours of a block: a slice, without allocation for the usual two.
#[derive(Clone)]
pub struct Edges(Inner);

#[derive(Clone)]
enum Inner {
    Few([BlockId; 2], u8),
    Many(Vec<BlockId>),
}

impl Default for Edges {
    fn default() -> Self {
        Self(Inner::Few([BlockId(0); 2], 0))
    }
}

impl Edges {
    pub(super) fn push(&mut self, block: BlockId) {
        match &mut self.0 {
            Inner::Few(blocks, len) => match blocks.get_mut(usize::from(*len)) {
                Some(place) => {
                    *place = block;
                    *len += 1;
                }
                None => self.0 = Inner::Many(vec![blocks[0], blocks[1], block]),
            },
            Inner::Many(blocks) => blocks.push(block),
        }
    }
}

impl Deref for Edges {
    type Target = [BlockId];

    fn deref(&self) -> &[BlockId] {
        match &self.0 {
            Inner::Few(blocks, len) => blocks.get(..usize::from(*len)).unwrap_or_default(),
            Inner::Many(blocks) => blocks,
        }
    }
}

impl fmt::Debug for Edges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'e> IntoIterator for &'e Edges {
    type Item = &'e BlockId;
    type IntoIter = std::slice::Iter<'e, BlockId>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Instructions that run one after the other.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its instructions, as places in [`FlowGraph::instructions`]; never empty.
    pub instrs: Range<u32>,
    /// Address of the first instruction.
    pub start: LinkAddr,
    /// Address after the last instruction.
    pub end: LinkAddr,
    /// Where control may go next inside the function, each block once.
    pub succs: Edges,
    /// From where control may come inside the function, each block once.
    pub preds: Edges,
    /// How it ends.
    pub exit: Exit,
    /// Reached only by exceptions, or by nothing that is known.
    pub exceptional: bool,
}

impl Block {
    /// The block's last instruction.
    #[must_use]
    pub fn last(&self) -> InstrIx {
        InstrIx(self.instrs.end.saturating_sub(1))
    }

    /// The block's instructions.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = InstrIx> + use<> {
        self.instrs.clone().map(InstrIx)
    }
}

/// The control flow of one function, moved-away parts included.
#[derive(Clone, Debug, Default)]
pub struct FlowGraph {
    /// The function.
    pub function: FunctionId,
    /// The block that the function begins with; not always the first, as moved-away parts may lie before.
    /// `None` when the function's first bytes are no instruction.
    pub entry: Option<BlockId>,
    /// By address.
    pub instructions: Vec<Instruction>,
    /// By address.
    pub blocks: Vec<Block>,
    /// The function is larger than the limits of the analysis, and the rest is missing.
    pub truncated: bool,
}

impl FlowGraph {
    /// A block. Ids come from this graph; an id of another gives `None`.
    #[must_use]
    pub fn block(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(id.0 as usize)
    }

    /// An instruction.
    #[must_use]
    pub fn instruction(&self, ix: InstrIx) -> Option<&Instruction> {
        self.instructions.get(ix.0 as usize)
    }

    /// The address of an instruction.
    #[must_use]
    pub fn addr(&self, ix: InstrIx) -> Option<LinkAddr> {
        self.instruction(ix).map(|instruction| LinkAddr(instruction.ip()))
    }

    /// The instruction that begins at an address.
    #[must_use]
    pub fn at(&self, addr: LinkAddr) -> Option<InstrIx> {
        let found = self
            .instructions
            .binary_search_by_key(&addr.0, Instruction::ip)
            .ok()?;
        u32::try_from(found).ok().map(InstrIx)
    }

    /// The instruction whose bytes contain an address.
    #[must_use]
    pub fn containing(&self, addr: LinkAddr) -> Option<InstrIx> {
        let after = self
            .instructions
            .partition_point(|instruction| instruction.ip() <= addr.0);
        let at = after.checked_sub(1)?;
        let instruction = self.instructions.get(at)?;
        (addr.0 < instruction.next_ip()).then_some(())?;
        u32::try_from(at).ok().map(InstrIx)
    }

    /// The instruction before this one in the stream: the one that ends where this one begins.
    #[must_use]
    pub fn previous(&self, ix: InstrIx) -> Option<InstrIx> {
        let before = InstrIx(ix.0.checked_sub(1)?);
        (self.instruction(before)?.next_ip() == self.instruction(ix)?.ip()).then_some(before)
    }

    /// The block that an instruction belongs to.
    #[must_use]
    pub fn block_of(&self, ix: InstrIx) -> Option<BlockId> {
        let after = self.blocks.partition_point(|block| block.instrs.start <= ix.0);
        let at = after.checked_sub(1)?;
        self.blocks.get(at).filter(|block| block.instrs.contains(&ix.0))?;
        u32::try_from(at).ok().map(BlockId)
    }

    /// The block that begins at an address.
    #[must_use]
    pub fn block_at(&self, addr: LinkAddr) -> Option<BlockId> {
        let at = self
            .blocks
            .binary_search_by_key(&addr, |block| block.start)
            .ok()?;
        u32::try_from(at).ok().map(BlockId)
    }

    /// Where a block's conditional jump leads: when it is not taken, and when it is.
    #[must_use]
    pub fn branch(&self, block: &Block) -> Option<(Option<BlockId>, Option<BlockId>)> {
        if !matches!(block.exit, Exit::Branch | Exit::ConditionalTailCall(_)) {
            return None;
        }
        let taken = LinkAddr(self.instruction(block.last())?.near_branch_target());
        Some((self.block_at(block.end), self.block_at(taken)))
    }

    /// The instructions of a block.
    #[must_use]
    pub fn instructions_of(&self, block: &Block) -> &[Instruction] {
        self.instructions
            .get(block.instrs.start as usize..block.instrs.end as usize)
            .unwrap_or_default()
    }

    /// Every block with its id.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = BlockId> + use<> {
        (0..u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)).map(BlockId)
    }

    /// Calls and tail calls: the instruction, where it goes, and how.
    pub fn calls(&self) -> impl Iterator<Item = (InstrIx, Target, Exit)> + '_ {
        self.blocks
            .iter()
            .filter_map(|block| Some((block.last(), block.exit.target()?, block.exit)))
    }
}
