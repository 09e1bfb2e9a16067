//! Unwinding: from a thread's registers to its frames.

use std::collections::HashSet;

use program::RunAddr;

use super::bytes::u64_at;
use super::cfi::{Caller, NoCaller, Place};
use super::joined::Image;
use super::registers::{FrameRegisters, RBP, RSP, Registers};
use super::return_address::{is_return_address, is_seen_return_address, is_signal_trampoline};
use crate::report::{FrameOrigin, Position};

/// One frame, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwound {
    pub(super) registers: FrameRegisters,
    pub(super) position: Position,
    pub(super) origin: FrameOrigin,
}

/// Why a stack ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At the thread's first function.
    Outermost,
    /// More frames than wanted.
    Limit,
    /// The work for this process is used up.
    Effort,
    /// The word at this address is needed, and not to be had.
    Unreadable(u64),
    /// The return address is this, which is no code.
    NoCode(u64),
    /// The frames lead back to where they were.
    Circular,
    /// No call-frame information, and nothing else that could be relied on.
    NoInformation(u64),
    /// The call-frame information for this address cannot be followed.
    BadInformation(u64),
}

/// Unwinds stacks of one process within a common budget of work, so that no core can make it take forever.
pub(super) struct Unwinder<'i, 'r> {
    image: &'i Image<'r>,
    effort: u64,
    /// The thread has not executed its first instruction.
    is_new: bool,
}

type Step = Result<Unwound, End>;

impl<'i, 'r> Unwinder<'i, 'r> {
    pub(super) fn new(image: &'i Image<'r>) -> Self {
        /// Bytes of call-frame information to interpret and words to look at: some seconds of work. A frame
        /// takes about a hundred.
        const EFFORT: u64 = 1 << 28;
        Self {
            image,
            effort: EFFORT,
            is_new: false,
        }
    }

    /// The frames of a thread, at least the innermost, at most `limit`.
    pub(super) fn stack(&mut self, registers: &Registers, limit: usize) -> (Vec<Unwound>, End) {
        self.is_new = is_new_thread(registers);
        let mut frames = vec![Unwound {
            registers: FrameRegisters::of_thread(registers),
            position: Position::Exact,
            origin: FrameOrigin::Context,
        }];
        let mut jumps = HashSet::new();
        loop {
            let Some(current) = frames.last().copied() else {
                return (frames, End::Outermost);
            };
            let next = match self.caller(&current) {
                Ok(next) => next,
                Err(end) => return (frames, end),
            };
            if !self.moves_on(&current, &next, &mut jumps) {
                return (frames, End::Circular);
            }
            if frames.len() >= limit {
                return (frames, End::Limit);
            }
            frames.push(next);
        }
    }

    /// Whether the stack pointer moves on as it does from callee to caller. Signal handlers, coroutines and
    /// compilers that grow their stack run on stacks anywhere, so going down is right when it leads to
    /// another mapping or out of a handler; but never twice to the same place.
    fn moves_on(&self, from: &Unwound, to: &Unwound, jumps: &mut HashSet<(u64, u64)>) -> bool {
        let (Some(old), Some(new)) = (from.registers.rsp(), to.registers.rsp()) else {
            return false;
        };
        if new > old {
            return true;
        }
        let mapping = |addr| {
            self.image
                .process
                .region_at(addr)
                .map(|region| region.range.start)
        };
        let other_stack = to.origin == FrameOrigin::SignalFrame || mapping(old) != mapping(new);
        other_stack && jumps.insert((to.registers.rip, new))
    }

    fn caller(&mut self, frame: &Unwound) -> Step {
        if self.effort == 0 {
            return Err(End::Effort);
        }
        self.effort = self.effort.saturating_sub(16);
        let next = self.caller_unchecked(frame)?;
        let rip = next.registers.rip;
        if next.origin == FrameOrigin::SignalFrame || self.image.is_code(rip) {
            return Ok(next);
        }
        Err(End::NoCode(rip))
    }

    fn caller_unchecked(&mut self, frame: &Unwound) -> Step {
        let image = self.image;
        let rip = frame.registers.rip;
        let read = |addr: u64| u64_at(&image.read(RunAddr(addr), 8)?, 0);
        if is_signal_trampoline(image, rip) {
            let context = frame.registers.rsp().ok_or(End::BadInformation(rip))?;
            let registers = FrameRegisters::of_signal_frame(context, read).ok_or(End::Unreadable(context))?;
            return Ok(Unwound {
                registers,
                position: Position::Exact,
                origin: FrameOrigin::SignalFrame,
            });
        }
        if !image.is_code(rip) {
            return self.caller_of_nowhere(frame);
        }
        // A return address may already belong to the next function when the call does not return.
        let lookup = if frame.position == Position::Return {
            rip.wrapping_sub(1)
        } else {
            rip
        };
        let module = image.loaded_at(lookup);
        let covered = module
            .zip(module.and_then(|module| module.bias))
            .and_then(|(module, bias)| {
                let link = lookup.wrapping_sub(bias);
                let place = Place {
                    registers: &frame.registers,
                    link,
                    bias,
                    read: &read,
                };
                module.cfi().step(&place, &mut self.effort)
            });
        match covered {
            Some(Ok(Caller {
                registers,
                interrupted: true,
            })) => Ok(Unwound {
                registers,
                position: Position::Exact,
                origin: FrameOrigin::SignalFrame,
            }),
            Some(Ok(Caller { registers, .. })) => Ok(returning(registers, FrameOrigin::Cfi, image)),
            Some(Err(NoCaller::Outermost)) => Err(End::Outermost),
            Some(Err(NoCaller::Unreadable(addr))) => Err(End::Unreadable(addr)),
            Some(Err(NoCaller::Unusable)) => Err(End::BadInformation(rip)),
            None => self.caller_without_information(frame),
        }
    }

    /// The caller when the program jumped to where there is no code: a call through a null or wild pointer
    /// pushed its return address and did nothing else.
    fn caller_of_nowhere(&self, frame: &Unwound) -> Step {
        let rip = frame.registers.rip;
        let rsp = frame.registers.rsp().ok_or(End::NoCode(rip))?;
        let caller = self.word(rsp).ok_or(End::Unreadable(rsp))?;
        if !is_return_address(self.image, caller) && !is_signal_trampoline(self.image, caller) {
            return Err(End::NoCode(rip));
        }
        let mut registers = frame.registers;
        registers.rip = caller;
        registers.set(RSP, Some(rsp.wrapping_add(8)));
        Ok(returning(registers, FrameOrigin::Context, self.image))
    }

    fn caller_without_information(&mut self, frame: &Unwound) -> Step {
        let rip = frame.registers.rip;
        // The ABI has rbp zero in the outermost frame.
        if frame.position == Position::Return && frame.registers.rbp() == Some(0) {
            return Err(End::Outermost);
        }
        // C libraries have no information for the few instructions between the kernel and a thread's start.
        if self.is_new && frame.origin == FrameOrigin::Context {
            return Err(End::Outermost);
        }
        if let Some(found) = self.by_frame_pointer(frame).or_else(|| self.by_scan(frame)) {
            return Ok(found);
        }
        Err(End::NoInformation(rip))
    }

    fn by_frame_pointer(&self, frame: &Unwound) -> Option<Unwound> {
        const LARGEST_FRAME: u64 = 1 << 20;
        let (rsp, rbp) = (frame.registers.rsp()?, frame.registers.rbp()?);
        let size = rbp.checked_sub(rsp)?;
        if size > LARGEST_FRAME || !rbp.is_multiple_of(8) {
            return None;
        }
        let caller = self.word(rbp.checked_add(8)?)?;
        if !is_return_address(self.image, caller) {
            return None;
        }
        let mut registers = frame.registers.caller_default();
        registers.rip = caller;
        registers.set(RBP, Some(self.word(rbp)?));
        registers.set(RSP, Some(rbp.checked_add(16)?));
        Some(Unwound {
            registers,
            position: Position::Return,
            origin: FrameOrigin::FramePointer,
        })
    }

    /// The first word on the stack that a call must have pushed. It may be left over from an earlier call,
    /// which is why the frame says where it comes from.
    fn by_scan(&mut self, frame: &Unwound) -> Option<Unwound> {
        const WORDS: u64 = 512;
        let rsp = frame.registers.rsp()?.checked_next_multiple_of(8)?;
        for index in 0..WORDS {
            self.effort = self.effort.saturating_sub(8);
            let slot = rsp.checked_add(index * 8)?;
            let word = self.word(slot)?;
            if is_seen_return_address(self.image, word) {
                let mut registers = frame.registers.caller_default();
                registers.rip = word;
                registers.set(RSP, Some(slot.checked_add(8)?));
                return Some(Unwound {
                    registers,
                    position: Position::Return,
                    origin: FrameOrigin::Scan,
                });
            }
        }
        None
    }

    fn word(&self, addr: u64) -> Option<u64> {
        self.image.process.word(addr)
    }
}

/// Whether the thread comes straight from the system call that created it, in which its parent's registers
/// were copied.
fn is_new_thread(registers: &Registers) -> bool {
    const CLONE: u64 = 56;
    const CLONE3: u64 = 435;
    registers.rax == 0 && matches!(registers.orig_rax, CLONE | CLONE3)
}

/// A frame that is to return to these registers' address. The kernel's trampoline is entered by a return
/// without ever having called, so its address is not one after a call.
fn returning(registers: FrameRegisters, origin: FrameOrigin, image: &Image<'_>) -> Unwound {
    let trampoline = is_signal_trampoline(image, registers.rip);
    let position = if trampoline {
        Position::Exact
    } else {
        Position::Return
    };
    Unwound {
        registers,
        position,
        origin,
    }
}
