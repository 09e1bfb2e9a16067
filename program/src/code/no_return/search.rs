//! The search for a way out of a function.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::super::context::Context;
use super::super::flow::Target;
use super::super::functions::FunctionId;
use crate::addr::LinkAddr;

/// Larger functions are taken to return: the ones that do not are small wrappers.
const MAX_SIZE: usize = 4096;

/// So are functions that call so many others on the way: to know of them all would be to know most of the program.
const MAX_CALLS: u32 = 16;

/// Whether no path of a function leads to a return, given which of the functions that it calls never return.
/// `is_never` is asked for every function of this file that is called on the way to the first return found.
pub(super) fn has_no_way_out(
    context: Context<'_, '_>,
    id: FunctionId,
    is_never: impl FnMut(FunctionId) -> bool,
) -> bool {
    let Some(entry) = context.functions.entry(id) else {
        return false;
    };
    let size = entry.end.saturating_sub(entry.start);
    if entry.resolver || size == 0 || size >= MAX_SIZE as u64 {
        return false;
    }
    let Some(bytes) = context.elf.bytes_at(LinkAddr(entry.start), size) else {
        return false;
    };
    let mut search = Search {
        context,
        start: entry.start,
        bytes,
        seen: Offsets::default(),
        open: Offsets::default(),
        calls: 0,
        is_never,
    };
    !search.finds_return()
}

/// Some offsets into a function, without allocation: most searches are over after a few instructions.
struct Offsets([u64; MAX_SIZE / 64]);

impl Default for Offsets {
    fn default() -> Self {
        Self([0; MAX_SIZE / 64])
    }
}

impl Offsets {
    /// False when it was there already, or is no offset into such a function.
    fn insert(&mut self, at: usize) -> bool {
        let Some(word) = self.0.get_mut(at / 64) else {
            return false;
        };
        let bit = 1 << (at % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn pop(&mut self) -> Option<usize> {
        let (at, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(at * 64 + bit)
    }
}

/// A jump into one of the function's moved-away parts counts as a way out: there is no need to be exact about
/// functions that large.
struct Search<'c, 'a, F> {
    context: Context<'c, 'a>,
    start: u64,
    bytes: &'a [u8],
    seen: Offsets,
    open: Offsets,
    /// Calls of functions of this file so far.
    calls: u32,
    is_never: F,
}

enum Step {
    Next,
    End,
    Leaves,
}

impl<F: FnMut(FunctionId) -> bool> Search<'_, '_, F> {
    fn finds_return(&mut self) -> bool {
        self.open.insert(0);
        while let Some(mut at) = self.open.pop() {
            let Some(code) = self.bytes.get(at..) else {
                continue;
            };
            let mut decoder = Decoder::with_ip(64, code, self.start + at as u64, DecoderOptions::NONE);
            let mut instruction = Instruction::default();
            while at < self.bytes.len() && self.seen.insert(at) {
                decoder.decode_out(&mut instruction);
                if instruction.is_invalid() {
                    break;
                }
                at += instruction.len();
                match self.step(&instruction) {
                    _ if self.calls > MAX_CALLS => return true,
                    Step::Next => {}
                    Step::End => break,
                    Step::Leaves => return true,
                }
            }
        }
        false
    }

    fn step(&mut self, instruction: &Instruction) -> Step {
        match instruction.flow_control() {
            FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => Step::End,
            FlowControl::Next | FlowControl::XbeginXabortXend => Step::Next,
            FlowControl::ConditionalBranch => match self.jump(instruction.near_branch_target()) {
                Step::Leaves => Step::Leaves,
                _ => Step::Next,
            },
            FlowControl::UnconditionalBranch => self.jump(instruction.near_branch_target()),
            FlowControl::IndirectBranch => match self.context.slot_target(instruction) {
                Some(target) if self.never_returns(target) => Step::End,
                _ => Step::Leaves,
            },
            FlowControl::Call if !instruction.is_call_near() => Step::Next,
            FlowControl::Call | FlowControl::IndirectCall => {
                let last = instruction.next_ip() >= self.start + self.bytes.len() as u64;
                if last || self.never_returns(self.context.call_target(instruction)) {
                    Step::End
                } else {
                    Step::Next
                }
            }
            FlowControl::Return => Step::Leaves,
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Step::Next,
            FlowControl::Interrupt | FlowControl::Exception => Step::End,
        }
    }

    fn jump(&mut self, target: u64) -> Step {
        let inside = target
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok());
        match inside.filter(|at| *at < self.bytes.len()) {
            Some(at) => {
                self.open.insert(at);
                Step::End
            }
            None if self.never_returns(self.context.target(target)) => Step::End,
            None => Step::Leaves,
        }
    }

    fn never_returns(&mut self, target: Target) -> bool {
        match target {
            Target::Function(function) => {
                self.calls += 1;
                self.calls <= MAX_CALLS && (self.is_never)(function)
            }
            Target::Import(import) => self.context.no_return.import(self.context.elf, import),
            Target::Unknown(_) | Target::Indirect => false,
        }
    }
}
