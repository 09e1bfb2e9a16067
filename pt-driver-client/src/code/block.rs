//! One block: what others are told of it, and what is kept of it.
//!
//! What is kept is in two parts: [`Hot`] is all that following a trace needs as long as the code is known.

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

/// No block yet.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// What following a trace needs of a block, small and together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hot {
    /// The blocks after the branch that ends the chain, not taken and taken.
    pub next: [u32; 2],
    /// For a block that ends with a call: the block after the call.
    pub after: u32,
    /// Where the chain is listed.
    pub(super) list: u32,
    pub(super) listed: u8,
    pub end: End,
    /// A listed chain without a call, to a conditional branch: most are like this.
    pub is_simple: bool,
    /// How many calls there are in the chain: none, one, or [`MANY_CALLS`].
    pub calls: u8,
    /// The block that ends with the first of them.
    pub call: u32,
}

/// More than one call in a chain.
pub(crate) const MANY_CALLS: u8 = 2;

/// The rest of a block, packed: how much memory the first decode touches is a large part of its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// Where a direct branch goes, from the end.
    pub(super) displacement: i32,
    /// The block that follows in the chain.
    pub(super) tail: u32,
    pub(super) instructions: u16,
    /// From the start to the last instruction.
    pub(super) last: u16,
    /// From the start to the end.
    pub(super) size: u16,
    pub(super) kind: Kind,
    /// One of its instructions writes CR3.
    pub(super) writes_cr3: bool,
}

impl Hot {
    /// Nothing is known of its chain yet.
    pub(super) const UNKNOWN: Self = Self {
        next: [UNKNOWN; 2],
        after: UNKNOWN,
        list: 0,
        listed: 0,
        end: End::Endless,
        is_simple: false,
        calls: 0,
        call: UNKNOWN,
    };

    /// Its chain is short enough to be listed.
    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        self.listed > 0
    }
}

impl Rest {
    /// The block, which starts there.
    #[inline]
    pub(super) fn block(&self, start: u64) -> Block {
        let end = start.wrapping_add(self.size.into());
        let target = end.wrapping_add_signed(self.displacement.into());
        Block {
            start,
            last: start.wrapping_add(self.last.into()),
            end,
            instructions: self.instructions.into(),
            exit: match self.kind {
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

    /// Whether a return can come back behind it: a call of the next instruction only reads its own address. Which kind it is is hard to foresee: nothing branches on it.
    #[inline]
    pub(super) fn is_remembered(&self) -> bool {
        (self.kind == Kind::IndirectCall) | (self.kind == Kind::Call) & (self.displacement != 0)
    }
}

/// [`Exit`] without addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
