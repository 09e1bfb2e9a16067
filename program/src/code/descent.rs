//! Recursive descent: from a function's entry along every jump, to blocks and edges.

use iced_x86::{Code as Op, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::context::Context;
use super::flow::{Exit, FlowGraph};
use super::functions::FunctionId;
use super::layout;
use super::switches::Effort;
use crate::addr::LinkAddr;

/// No function of a real program comes near; what a damaged file claims beyond is left out.
const MAX_INSTRUCTIONS: usize = 4 << 20;
const MAX_BYTES: u64 = 32 << 20;

const LEADER: u32 = 1 << 31;

/// A contiguous piece of the function being read.
pub(super) struct Piece<'a> {
    pub start: u64,
    pub bytes: &'a [u8],
    /// Where its marks begin.
    base: usize,
}

impl Piece<'_> {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// A function being read.
pub(super) struct Descent<'c, 'a> {
    pub(super) context: Context<'c, 'a>,
    pub(super) function: FunctionId,
    pub(super) pieces: Vec<Piece<'a>>,
    /// For every byte: the instruction that begins there (its index plus one), and whether a block does.
    marks: Vec<u32>,
    /// In the order of discovery.
    pub(super) instructions: Vec<Instruction>,
    /// Ends of blocks other than by falling through: instruction's address, exit.
    pub(super) exits: Vec<(u64, Exit)>,
    /// Targets of resolved tables: the jump's address, its targets.
    pub(super) switches: Vec<(u64, Vec<u64>)>,
    /// Jumps inside the function: target, source.
    pub(super) jumps: Vec<(u64, u64)>,
    /// Addresses that the function's bytes load, sorted; made when first needed.
    pub(super) references: Option<Vec<u64>>,
    /// Addresses that are loaded into registers: register, instruction, address. Sorted in each round.
    pub(super) constants: Vec<(u8, u64, u64)>,
    pub(super) pending: Vec<u64>,
    pub(super) effort: Effort,
    stack: Vec<u64>,
    pub(super) truncated: bool,
}

/// The control flow of one function.
pub(super) fn flow(context: Context<'_, '_>, function: FunctionId) -> FlowGraph {
    let mut reader = Reader::new(context);
    reader.read(function);
    reader.graph
}

/// Reads functions one after the other, each in the memory of the one before.
pub(super) struct Reader<'c, 'a> {
    descent: Descent<'c, 'a>,
    graph: FlowGraph,
}

impl<'c, 'a> Reader<'c, 'a> {
    pub(super) fn new(context: Context<'c, 'a>) -> Self {
        Self {
            descent: Descent::new(context),
            graph: FlowGraph::default(),
        }
    }

    /// The control flow of one function.
    pub(super) fn read(&mut self, function: FunctionId) -> &FlowGraph {
        let descent = &mut self.descent;
        descent.begin(function);
        let entry = descent.context.functions.entry(function);
        let entry = entry.map_or(0, |entry| entry.start);
        descent.follow(entry);
        descent.resolve_tables();
        // Whatever is marked from here on is not reached from the entry.
        let reached = descent.instructions.len();
        descent.follow_exceptions();
        layout::build(descent, entry, reached, &mut self.graph);
        &self.graph
    }
}

impl<'c, 'a> Descent<'c, 'a> {
    fn new(context: Context<'c, 'a>) -> Self {
        Self {
            context,
            function: FunctionId(0),
            pieces: Vec::new(),
            marks: Vec::new(),
            instructions: Vec::new(),
            exits: Vec::new(),
            switches: Vec::new(),
            jumps: Vec::new(),
            references: None,
            constants: Vec::new(),
            pending: Vec::new(),
            effort: Effort::default(),
            stack: Vec::new(),
            truncated: false,
        }
    }

    /// Forgets the function before, and takes the bytes of this one.
    fn begin(&mut self, function: FunctionId) {
        self.function = function;
        self.pieces.clear();
        self.instructions.clear();
        self.exits.clear();
        self.switches.clear();
        self.jumps.clear();
        self.references = None;
        self.constants.clear();
        self.pending.clear();
        self.effort = Effort::default();
        self.stack.clear();
        self.truncated = false;
        let mut base = 0;
        for range in self.context.functions.parts(function) {
            let len = (range.end.0 - range.start.0).min(MAX_BYTES.saturating_sub(base as u64));
            self.truncated |= len < range.end.0 - range.start.0;
            if let Some(bytes) = self
                .context
                .elf
                .bytes_at(range.start, len)
                .filter(|bytes| !bytes.is_empty())
            {
                self.pieces.push(Piece {
                    start: range.start.0,
                    bytes,
                    base,
                });
                base += bytes.len();
            }
        }
        self.marks.clear();
        self.marks.resize(base, 0);
        self.instructions.reserve(base / 4);
    }

    fn piece_of(&self, addr: u64) -> Option<&Piece<'a>> {
        self.pieces
            .iter()
            .find(|piece| piece.start <= addr && addr < piece.end())
    }

    pub(super) fn mark_index(&self, addr: u64) -> Option<usize> {
        let piece = self.piece_of(addr)?;
        Some(piece.base + usize::try_from(addr - piece.start).ok()?)
    }

    fn is_decoded(&self, addr: u64) -> bool {
        self.mark_index(addr)
            .is_some_and(|at| self.marks[at] & !LEADER != 0)
    }

    /// The decoded instruction at an address.
    pub(super) fn instruction_at(&self, addr: u64) -> Option<&Instruction> {
        let index = (self.marks.get(self.mark_index(addr)?)? & !LEADER).checked_sub(1)?;
        self.instructions.get(index as usize)
    }

    /// The decoded instruction that falls through to an address.
    pub(super) fn falls_to(&self, addr: u64) -> Option<&Instruction> {
        (1..=15u64).find_map(|back| {
            let instruction = self.instruction_at(addr.checked_sub(back)?)?;
            (instruction.next_ip() == addr && self.continues(instruction)).then_some(instruction)
        })
    }

    /// The addresses of jumps that lead to `addr`. Only while tables are resolved, when jumps are sorted.
    pub(super) fn jumps_to(&self, addr: u64) -> impl Iterator<Item = u64> {
        let at = self.jumps.partition_point(|(target, _)| *target < addr);
        let own = self.jumps.get(at..).unwrap_or_default().iter();
        own.take_while(move |(target, _)| *target == addr)
            .map(|(_, source)| *source)
    }

    fn continues(&self, instruction: &Instruction) -> bool {
        !matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        )
    }

    /// Reads from an address along every path.
    pub(super) fn follow(&mut self, addr: u64) {
        self.push(addr);
        while let Some(addr) = self.stack.pop() {
            self.read_from(addr);
        }
    }

    /// Notes that a block begins at an address, to be read if it was not yet. False outside the function.
    fn push(&mut self, addr: u64) -> bool {
        let Some(at) = self.mark_index(addr) else {
            return false;
        };
        self.marks[at] |= LEADER;
        if self.marks[at] == LEADER {
            self.stack.push(addr);
        }
        true
    }

    fn read_from(&mut self, addr: u64) {
        let Some(piece) = self.piece_of(addr) else { return };
        let (start, base, bytes) = (piece.start, piece.base, piece.bytes);
        let Ok(mut at) = usize::try_from(addr - start) else {
            return;
        };
        let Some(code) = bytes.get(at..) else { return };
        let mut decoder = Decoder::with_ip(64, code, addr, DecoderOptions::NONE);
        while at < bytes.len() {
            if self.marks[base + at] & !LEADER != 0 {
                return;
            }
            if self.instructions.len() >= MAX_INSTRUCTIONS {
                self.truncated = true;
                return;
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return;
            }
            self.instructions.push(instruction);
            self.marks[base + at] |= self.instructions.len() as u32;
            if !self.step(&instruction) {
                return;
            }
            at += instruction.len();
        }
    }

    /// Notes where an instruction leads. True when reading goes on with the next one.
    fn step(&mut self, instruction: &Instruction) -> bool {
        let ip = instruction.ip();
        match instruction.flow_control() {
            FlowControl::Next => {
                if instruction.mnemonic() == Mnemonic::Hlt {
                    self.exits.push((ip, Exit::Stop));
                    return false;
                }
                true
            }
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                if !instruction.is_jcc_short_or_near() && !has_target(instruction) {
                    return true;
                }
                let target = instruction.near_branch_target();
                if self.push(target) {
                    self.jumps.push((target, ip));
                    self.exits.push((ip, Exit::Branch));
                } else {
                    self.exits
                        .push((ip, Exit::ConditionalTailCall(self.context.target(target))));
                }
                self.begin_block(instruction.next_ip());
                true
            }
            FlowControl::UnconditionalBranch => {
                let target = instruction.near_branch_target();
                if self.push(target) {
                    self.jumps.push((target, ip));
                    self.exits.push((ip, Exit::Jump));
                } else {
                    self.exits.push((ip, Exit::TailCall(self.context.target(target))));
                }
                false
            }
            FlowControl::IndirectBranch => {
                match self.context.slot_target(instruction) {
                    Some(target) => self.exits.push((ip, Exit::TailCall(target))),
                    None => self.pending.push(ip),
                }
                false
            }
            FlowControl::Call if !instruction.is_call_near() => true,
            FlowControl::Call | FlowControl::IndirectCall => self.step_call(instruction),
            FlowControl::Return => {
                self.exits.push((ip, Exit::Return));
                false
            }
            FlowControl::Interrupt => {
                let stops = instruction.mnemonic() != Mnemonic::Int;
                if stops {
                    self.exits.push((ip, Exit::Stop));
                }
                !stops
            }
            FlowControl::Exception => {
                self.exits.push((ip, Exit::Stop));
                false
            }
        }
    }

    fn step_call(&mut self, instruction: &Instruction) -> bool {
        let target = self.context.call_target(instruction);
        let next = instruction.next_ip();
        let returns =
            !self.context.never_returns(target) && !self.traps_at(next) && !self.only_padding_from(next);
        let exit = if returns {
            Exit::Call(target)
        } else {
            Exit::NoReturnCall(target)
        };
        self.exits.push((instruction.ip(), exit));
        if returns {
            self.begin_block(next);
        }
        returns
    }

    /// Notes that a block begins at an address.
    pub(super) fn begin_block(&mut self, addr: u64) {
        if let Some(at) = self.mark_index(addr) {
            self.marks[at] |= LEADER;
        }
    }

    /// Whether `ud2` stands at an address: behind a call, it says that the call does not return.
    fn traps_at(&self, addr: u64) -> bool {
        let bytes = self.piece_of(addr).and_then(|piece| {
            let at = usize::try_from(addr - piece.start).ok()?;
            piece.bytes.get(at..at + 2)
        });
        bytes == Some(&[0x0f, 0x0b])
    }

    /// Whether nothing but padding follows in this piece: a call there has nowhere to return to.
    fn only_padding_from(&self, addr: u64) -> bool {
        let Some(piece) = self.piece_of(addr) else {
            return true;
        };
        let rest = usize::try_from(addr - piece.start)
            .ok()
            .and_then(|at| piece.bytes.get(at..));
        rest.is_none_or(|rest| rest.len() < 16 && padding_len(rest, addr) == rest.len())
    }

    /// Reads landing pads, and then whatever bytes nothing reached.
    fn follow_exceptions(&mut self) {
        if self.next_unread(0).is_none() {
            return;
        }
        let starts: Vec<u64> = self.pieces.iter().map(|piece| piece.start).collect();
        for start in starts {
            let mut pads: Vec<LinkAddr> = self
                .context
                .landings(LinkAddr(start))
                .into_iter()
                .map(|(_, pad)| pad)
                .collect();
            pads.sort_unstable();
            pads.dedup();
            for pad in pads {
                if !self.is_decoded(pad.0) {
                    self.follow(pad.0);
                }
            }
        }
        self.resolve_tables();
        let mut from = 0;
        while let Some((at, addr)) = self.next_unread(from) {
            self.follow(addr);
            // Bytes that are no instruction must not be tried again.
            from = if self.is_decoded(addr) { at } else { at + 1 };
        }
        self.resolve_tables();
    }

    /// The first byte from a mark on that no instruction covers and that is not padding.
    fn next_unread(&self, from: usize) -> Option<(usize, u64)> {
        for piece in self
            .pieces
            .iter()
            .filter(|piece| from < piece.base + piece.bytes.len())
        {
            let mut at = from.saturating_sub(piece.base);
            while let Some(rest) = piece.bytes.get(at..).filter(|rest| !rest.is_empty()) {
                let addr = piece.start + at as u64;
                if let Some(instruction) = self.instruction_at(addr) {
                    at += instruction.len().max(1);
                    continue;
                }
                match padding_len(rest.get(..16).unwrap_or(rest), addr) {
                    0 => return Some((piece.base + at, addr)),
                    padding => at += padding,
                }
            }
        }
        None
    }

    /// The instructions in address order, with the order in which they were found, and whether a block
    /// begins at each.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (u32, &Instruction, bool)> {
        self.marks.iter().filter_map(|mark| {
            let found = (mark & !LEADER).checked_sub(1)?;
            Some((found, self.instructions.get(found as usize)?, mark & LEADER != 0))
        })
    }
}

fn has_target(instruction: &Instruction) -> bool {
    instruction.is_loop()
        || instruction.is_loopcc()
        || instruction.is_jcx_short()
        || matches!(instruction.code(), Op::Xbegin_rel16 | Op::Xbegin_rel32)
}

/// How many bytes of `nop`s, traps and zeros a piece of code begins with, up to 16.
fn padding_len(bytes: &[u8], addr: u64) -> usize {
    let mut decoder = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE);
    let mut len = 0;
    while let Some(first) = bytes.get(len) {
        if *first == 0xcc
            || bytes
                .get(len..)
                .is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
        {
            len += 1;
            if decoder.set_position(len).is_err() {
                break;
            }
            continue;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() || !is_padding(&instruction) {
            break;
        }
        len += instruction.len();
    }
    len
}

fn is_padding(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        // Compilers put `ud2` behind calls that do not return.
        Mnemonic::Nop | Mnemonic::Ud2 => true,
        // `xchg %ax,%ax` and the like are decoded as nops; `lea 0(%rsi),%rsi` is an older form.
        Mnemonic::Lea => {
            instruction.memory_displacement64() == 0
                && instruction.op0_register() == instruction.memory_base()
        }
        _ => false,
    }
}
