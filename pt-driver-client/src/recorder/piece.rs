//! The plan's ranges as pieces of code: instructions that run one after the other.

use iced_x86::{FlowControl, Instruction};
use program::code::{Exit as BlockExit, FlowGraph};
use program::{LinkAddr, ModuleId, Pc, Program};
use slicer::plan::{PcRange, Plan};

use super::outcome::{TargetOperand, target_operand};

/// Instructions that run one after the other: a block, or a part of one between system calls.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Address of the first instruction, as linked.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    pub instructions: Vec<Instruction>,
    pub exit: Exit,
    /// Control may come here from code outside of the ranges.
    pub enterable: bool,
    /// Where else the exit may lead inside the function, as far as that is known.
    pub successors: Vec<u64>,
}

/// How a piece ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With a conditional branch to there, or else to the end of the piece.
    Cond(u64),
    /// With a branch to an address that only the moment tells; `None` where not even that does.
    Indirect(Option<TargetOperand>),
    /// With a jump or a call.
    To(u64),
    /// With nothing: what is behind it follows.
    Falls,
    /// With a system call or the like.
    Far,
    /// Not at all: nothing comes after it.
    Stops,
}

impl Piece {
    pub fn contains(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// The last instruction.
    pub fn last(&self) -> Option<&Instruction> {
        self.instructions.last()
    }

    /// Whether only a run can tell where it leads.
    pub fn decides(&self) -> bool {
        matches!(self.exit, Exit::Cond(_) | Exit::Indirect(_))
    }
}

/// The pieces of one module, ascending, without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    /// The pieces of a module's ranges, and the ranges whose code could not be read.
    pub fn of(program: &Program<'_>, plan: &Plan, module: ModuleId) -> (Self, Vec<PcRange>) {
        let ranges = plan.ranges.iter().filter(|range| range.module == module);
        let mut pieces = Vec::new();
        let mut unread = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let Some((found, end)) = pieces_at(program, plan, module, at) else {
                    unread.push(PcRange { start: at, ..*range });
                    break;
                };
                pieces.extend(found);
                at = end;
            }
        }
        pieces.sort_by_key(|piece: &Piece| piece.start);
        pieces.dedup_by_key(|piece| piece.start);
        (Self(pieces), unread)
    }

    pub fn all(&self) -> &[Piece] {
        &self.0
    }

    /// The piece that an address is in, by its number.
    pub fn at(&self, addr: u64) -> Option<usize> {
        let after = self.0.partition_point(|piece| piece.start <= addr);
        let index = after.checked_sub(1)?;
        self.0.get(index)?.contains(addr).then_some(index)
    }

    pub fn get(&self, index: usize) -> Option<&Piece> {
        self.0.get(index)
    }

    /// Lets control come from outside to wherever a piece may lead.
    pub fn open_successors(&mut self, index: usize) {
        let Some(piece) = self.0.get(index) else { return };
        let mut to = piece.successors.clone();
        if let Exit::Cond(target) = piece.exit {
            to.extend([target, piece.end]);
        }
        for addr in to {
            if let Some(piece) = self.at(addr).and_then(|index| self.0.get_mut(index)) {
                piece.enterable = true;
            }
        }
    }
}

/// The pieces of the block at an address, and where that block ends.
fn pieces_at(
    program: &Program<'_>,
    plan: &Plan,
    module: ModuleId,
    at: LinkAddr,
) -> Option<(Vec<Piece>, LinkAddr)> {
    let pc = Pc { module, addr: at };
    let code = program.module(module)?.code();
    let flow: &FlowGraph = &code.flow(program.function_at(pc)?.function);
    let block = flow.block(flow.block_of(flow.at(at)?)?)?;
    if block.end <= at {
        return None;
    }
    let traced = |addr: LinkAddr| {
        let pc = Pc { module, addr };
        plan.ranges.iter().any(|range| range.contains(pc))
    };
    let is_entry = flow
        .entry
        .and_then(|entry| flow.block(entry))
        .map(|entry| entry.start)
        == Some(block.start);
    let enterable = is_entry
        || block.exceptional
        || block.preds.is_empty()
        || block
            .preds
            .iter()
            .filter_map(|&pred| flow.block(pred))
            .any(|pred| {
                !traced(pred.start) || matches!(pred.exit, BlockExit::Call(_) | BlockExit::Unresolved)
            });
    let successors = block.succs.iter().filter_map(|&next| flow.block(next));
    let successors: Vec<u64> = successors.map(|next| next.start.0).collect();
    let instructions = flow.instructions_of(block).iter();
    let instructions: Vec<Instruction> = instructions.filter(|i| i.ip() >= at.0).copied().collect();
    let mut pieces: Vec<Piece> = Vec::new();
    for part in instructions.split_inclusive(is_far) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else {
            continue;
        };
        pieces.push(Piece {
            start: first.ip(),
            end: last.next_ip(),
            exit: exit(last, block.exit),
            enterable: enterable || !pieces.is_empty(),
            successors: successors.clone(),
            instructions: part.to_vec(),
        });
    }
    Some((pieces, block.end))
}

/// Instructions after which the program is in the kernel.
fn is_far(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic::{Int, Int1, Iret, Iretd, Iretq, Syscall, Sysenter, Sysexit, Sysret};
    matches!(
        instruction.mnemonic(),
        Syscall | Sysenter | Sysexit | Sysret | Int | Int1 | Iret | Iretd | Iretq
    )
}

fn exit(last: &Instruction, block: BlockExit) -> Exit {
    if is_far(last) {
        return Exit::Far;
    }
    match last.flow_control() {
        FlowControl::ConditionalBranch => Exit::Cond(last.near_branch_target()),
        FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return => {
            Exit::Indirect(target_operand(last))
        }
        FlowControl::UnconditionalBranch | FlowControl::Call => Exit::To(last.near_branch_target()),
        FlowControl::Next if block == BlockExit::Stop => Exit::Stops,
        FlowControl::Next => Exit::Falls,
        _ => Exit::Stops,
    }
}
