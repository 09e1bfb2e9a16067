//! Which instruction can have run just before a given one.

use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use program::code::{Code, FlowGraph, FunctionId, InstrIx, Target};
use program::{LinkAddr, RunAddr};

use super::{CodeMap, Trap};

/// The longest instruction of the architecture.
const LONGEST: u64 = 15;

/// Where an instruction stands.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Added to link-time addresses.
    pub(crate) bias: u64,
    /// Its function and place, if it was found in one.
    pub(crate) place: Option<(Arc<FlowGraph>, InstrIx)>,
}

type Candidate = (Instruction, Origin);

/// What runs into the reported place: the instruction before it in the function, the `rep` instruction that
/// stands there itself, jumps through memory, the `ret` of the function that was called before it, and for a
/// function's first instruction the call.
pub(super) fn near<'a>(trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Vec<Candidate> {
    let pc = trap.pc();
    let mut found = Vec::new();
    let Some((file, bias)) = code.code_at(pc) else {
        return calls(trap, code);
    };
    let here = Place::at(file, bias, pc);
    if let Some(previous) = Place::ending_at(file, bias, pc) {
        match previous
            .instruction()
            .map(|instruction| instruction.flow_control())
        {
            Some(FlowControl::Next) => found.extend(previous.candidate()),
            Some(FlowControl::Call | FlowControl::IndirectCall) => {
                found.extend(returns(file, bias, &previous));
            }
            _ => {}
        }
    }
    if let Some(here) = &here {
        found.extend(here.candidate().filter(|(instruction, _)| repeats(instruction)));
        found.extend(here.jumps_here());
    }
    found.extend(calls(trap, code));
    found
}

/// What is tried when nothing near explains the trap: jumps through a watched table of functions, or of places in the
/// function itself (`goto *next`, an interpreter's instructions), and code that no symbol and no unwind table speaks of.
pub(super) fn far<'a>(trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Vec<Candidate> {
    let mut found = tail_jumps(trap, code);
    if let Some((file, bias)) = code.code_at(trap.pc())
        && let Some(function) = file.functions().at(LinkAddr(trap.pc().0.wrapping_sub(bias)))
    {
        // A call to a place in the middle of a function has left its return address.
        let call = caller(trap, code).and_then(|call| call.candidate());
        found.extend(call.filter(|(call, _)| call.op0_kind() == OpKind::Memory));
        found.extend(last_instructions(file, bias, function, jumps_through_memory));
    }
    if found.is_empty()
        && let Some((file, bias)) = code.code_at(trap.pc())
        && Place::at(file, bias, trap.pc()).is_none()
    {
        found = by_bytes(file, bias, trap.pc());
    }
    found
}

/// The instruction at an address.
pub(super) fn at<'a>(pc: RunAddr, code: &dyn CodeMap<'a>) -> Option<Candidate> {
    let (file, bias) = code.code_at(pc)?;
    Place::at(file, bias, pc)?.candidate()
}

/// An instruction of a known function.
struct Place {
    flow: Arc<FlowGraph>,
    ix: InstrIx,
    bias: u64,
}

impl Place {
    fn at(file: &Code<'_>, bias: u64, pc: RunAddr) -> Option<Self> {
        let addr = LinkAddr(pc.0.wrapping_sub(bias));
        let flow = file.flow(file.functions().at(addr)?);
        let ix = flow.at(addr)?;
        Some(Self { flow, ix, bias })
    }

    /// The instruction that ends where `pc` begins. It may be the last of another function: assembler code
    /// has labels in the middle that look like functions.
    fn ending_at(file: &Code<'_>, bias: u64, pc: RunAddr) -> Option<Self> {
        let next = LinkAddr(pc.0.wrapping_sub(bias));
        let last = next.offset(-1);
        let flow = file.flow(file.functions().at(last)?);
        let ix = flow.containing(last)?;
        (flow.instruction(ix)?.next_ip() == next.0).then_some(Self { flow, ix, bias })
    }

    fn instruction(&self) -> Option<&Instruction> {
        self.flow.instruction(self.ix)
    }

    fn candidate(&self) -> Option<Candidate> {
        let origin = Origin {
            bias: self.bias,
            place: Some((Arc::clone(&self.flow), self.ix)),
        };
        Some((*self.instruction()?, origin))
    }

    /// Jumps through memory (`jmp *table(,%rax,8)`) that lead here.
    fn jumps_here(&self) -> Vec<Candidate> {
        let addr = self.flow.addr(self.ix);
        let block = addr
            .and_then(|addr| self.flow.block_at(addr))
            .and_then(|block| self.flow.block(block));
        let before = block.into_iter().flat_map(|block| block.preds.iter());
        before
            .filter_map(|&before| {
                let jump = Self {
                    flow: Arc::clone(&self.flow),
                    ix: self.flow.block(before)?.last(),
                    bias: self.bias,
                };
                jump.candidate()
                    .filter(|(instruction, _)| jumps_through_memory(instruction))
            })
            .collect()
    }
}

/// The call that led to a function's first instruction: its return address is on the stack.
fn calls<'a>(trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Vec<Candidate> {
    let Some(call) = caller(trap, code) else {
        return Vec::new();
    };
    let direct = call
        .instruction()
        .filter(|call| call.is_call_near())
        .map(|instruction| instruction.near_branch_target().wrapping_add(call.bias));
    let leads_here = match direct {
        Some(target) => target == trap.pc().0,
        // A target without a name (a stripped library, generated code) may be a function too.
        None => code.code_at(trap.pc()).is_none_or(|(file, bias)| {
            let addr = LinkAddr(trap.pc().0.wrapping_sub(bias));
            file.functions().starting_at(addr).is_some() || file.functions().at(addr).is_none()
        }),
    };
    call.candidate().filter(|_| leads_here).into_iter().collect()
}

/// The call whose return address is on top of the stack.
fn caller<'a>(trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Option<Place> {
    let back = RunAddr(trap.stack_top?);
    let (file, bias) = code.code_at(back)?;
    let call = Place::ending_at(file, bias, back)?;
    let is_call = matches!(
        call.instruction()?.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    is_call.then_some(call)
}

/// The `ret`s of the function that a call went to, for a trap right behind the call.
fn returns(file: &Code<'_>, bias: u64, call: &Place) -> Vec<Candidate> {
    let target = call.flow.calls().find(|(ix, ..)| *ix == call.ix);
    let Some((_, Target::Function(function), _)) = target else {
        return Vec::new();
    };
    last_instructions(file, bias, function, |instruction| {
        instruction.flow_control() == FlowControl::Return
    })
}

/// `jmp *mem` as a function's last deed: the function was called from where the stack says.
fn tail_jumps<'a>(trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Vec<Candidate> {
    let through_caller = || {
        let back = RunAddr(trap.stack_top?);
        let (file, bias) = code.code_at(back)?;
        let call = caller(trap, code)?;
        let (_, target, _) = call.flow.calls().find(|(ix, ..)| *ix == call.ix)?;
        let Target::Function(function) = target else {
            return None;
        };
        Some(last_instructions(file, bias, function, jumps_through_memory))
    };
    let found = through_caller().unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    match code.code_at(trap.watched) {
        Some((file, bias)) => jumps_through(file, bias, trap.watched),
        None => found,
    }
}

/// Every `jmp *slot(%rip)` of a file: its linkage table, and the last deeds of functions.
fn jumps_through(file: &Code<'_>, bias: u64, slot: RunAddr) -> Vec<Candidate> {
    const JUMP: [u8; 2] = [0xff, 0x25];
    let slot = slot.0.wrapping_sub(bias);
    let mut found = Vec::new();
    for range in file.elf().code_ranges() {
        let bytes = file.elf().bytes_at(range.start, range.end.0 - range.start.0);
        let jumps = bytes.unwrap_or_default().windows(6).zip(range.start.0..);
        let jumps = jumps.filter(|(bytes, _)| bytes.starts_with(&JUMP));
        for (bytes, start) in jumps {
            let instruction = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).decode();
            let target = instruction.ip_rel_memory_address();
            if !instruction.is_invalid() && (target..target.saturating_add(8)).contains(&slot) {
                found.push((instruction, Origin { bias, place: None }));
            }
        }
    }
    found
}

fn last_instructions(
    file: &Code<'_>,
    bias: u64,
    function: FunctionId,
    wanted: impl Fn(&Instruction) -> bool,
) -> Vec<Candidate> {
    let flow = file.flow(function);
    let lasts = flow.blocks.iter().map(|block| Place {
        flow: Arc::clone(&flow),
        ix: block.last(),
        bias,
    });
    lasts
        .filter_map(|place| place.candidate())
        .filter(|(instruction, _)| wanted(instruction))
        .collect()
}

/// Every instruction that could end where `pc` begins. Several lengths often decode; the address that each
/// would have accessed tells them apart.
fn by_bytes(file: &Code<'_>, bias: u64, pc: RunAddr) -> Vec<Candidate> {
    let next = pc.0.wrapping_sub(bias);
    let lengths = (1..=LONGEST).rev();
    lengths
        .filter_map(|len| {
            let start = next.checked_sub(len)?;
            let bytes = file.elf().bytes_at(LinkAddr(start), len)?;
            let instruction = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).decode();
            let fits = !instruction.is_invalid()
                && instruction.next_ip() == next
                && instruction.flow_control() == FlowControl::Next;
            fits.then_some((instruction, Origin { bias, place: None }))
        })
        .collect()
}

fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn jumps_through_memory(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::IndirectBranch && instruction.op0_kind() == OpKind::Memory
}
