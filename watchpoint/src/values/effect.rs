//! What an instruction does to its memory operand, in numbers.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use program::code::AccessKind;

use super::flags::{agree_with, agree_with_comparison, cut};
use super::sources::{accumulator, before, other_operand};
use super::{Bytes, Moment, Update};
use crate::access::{Accessor, Touch};
use crate::hit::Provenance;
use crate::registers::{CF, ZF, holds, read};

/// What happened to the bytes of an operand.
pub(super) enum Effect {
    /// They were read, and were this.
    Read(Option<Bytes>),
    /// They were written.
    Change {
        before: Option<Bytes>,
        after: Option<Bytes>,
    },
    /// They were read; only memory can tell what they were.
    ReadSomething,
    /// They were written; only memory can tell what they are.
    WroteSomething,
    /// Memory has another value by now, and nothing else tells.
    Contradicted,
}

fn exact(bits: u128) -> Option<Bytes> {
    Some(Bytes {
        bits,
        from: Provenance::Register,
    })
}

fn computed(bits: u128) -> Option<Bytes> {
    Some(Bytes {
        bits,
        from: Provenance::Computed,
    })
}

fn remembered(bits: u128) -> Option<Bytes> {
    Some(Bytes {
        bits,
        from: Provenance::Memory,
    })
}

/// What an instruction that has run did to an operand that it touched; `memory` is what the operand's bytes
/// were when the hit was reported.
pub(super) fn of(accessor: &Accessor, touch: &Touch, moment: &Moment<'_>, memory: Option<u128>) -> Effect {
    let work = Work {
        accessor,
        instruction: &accessor.instruction,
        moment,
        width: touch.len,
        memory,
    };
    let known = if touch.on_stack {
        work.stack()
    } else {
        match touch.access.kind {
            AccessKind::Read => work.read(),
            AccessKind::Write => work.write(),
            AccessKind::ReadWrite => work.modify(),
        }
    };
    known.unwrap_or(if touch.access.kind == AccessKind::Read {
        Effect::ReadSomething
    } else {
        Effect::WroteSomething
    })
}

/// How an instruction changes its operand, as a function of what was there.
pub(super) fn update(accessor: &Accessor, touch: &Touch, moment: &Moment<'_>) -> Option<Update> {
    if touch.access.kind != AccessKind::ReadWrite || touch.len > 8 || touch.on_stack {
        return None;
    }
    let instruction = &accessor.instruction;
    let other = || {
        let other = other_operand(instruction, 1, touch.len, moment.registers)?;
        u64::try_from(other).ok()
    };
    Some(match instruction.mnemonic() {
        Mnemonic::Add => Update::Add(other()?),
        Mnemonic::Sub => Update::Add(other()?.wrapping_neg()),
        Mnemonic::Inc => Update::Add(1),
        Mnemonic::Dec => Update::Add(u64::MAX),
        Mnemonic::And => Update::And(other()?),
        Mnemonic::Or => Update::Or(other()?),
        Mnemonic::Xor => Update::Xor(other()?),
        Mnemonic::Not => Update::Xor(u64::MAX),
        Mnemonic::Neg => Update::Negate,
        _ => return None,
    })
}

struct Work<'w> {
    accessor: &'w Accessor,
    instruction: &'w Instruction,
    moment: &'w Moment<'w>,
    width: u32,
    memory: Option<u128>,
}

impl Work<'_> {
    fn flags(&self) -> u64 {
        self.moment.registers.eflags
    }

    fn register(&self, register: Register) -> Option<u128> {
        read(self.moment.registers, register).map(u128::from)
    }

    fn other(&self, operand: u32) -> Option<u128> {
        other_operand(self.instruction, operand, self.width, self.moment.registers)
    }

    /// What `call`, `push`, `pop`, `ret` and `leave` move to and from the stack.
    fn stack(&self) -> Option<Effect> {
        let pc = u128::from(self.moment.registers.rip);
        Some(match self.instruction.mnemonic() {
            Mnemonic::Ret => Effect::Read(exact(pc)),
            Mnemonic::Leave => Effect::Read(exact(self.register(Register::RBP)?)),
            Mnemonic::Pop if self.instruction.op0_kind() == OpKind::Register => {
                Effect::Read(exact(self.register(self.instruction.op0_register())?))
            }
            Mnemonic::Call | Mnemonic::Push => Effect::Change {
                before: None,
                after: exact(u128::from(self.moment.stack_top?)),
            },
            _ => return None,
        })
    }

    fn read(&self) -> Option<Effect> {
        let instruction = self.instruction;
        Some(match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd
                if instruction.op0_kind() == OpKind::Register =>
            {
                let loaded = self.register(instruction.op0_register())?;
                Effect::Read(exact(cut(loaded, self.width)))
            }
            Mnemonic::Movbe => {
                let loaded = self.register(instruction.op0_register())?;
                Effect::Read(exact(self.swapped(loaded)))
            }
            Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => {
                Effect::Read(exact(self.register(accumulator(instruction)?)?))
            }
            // The thread is where the operand said.
            Mnemonic::Call | Mnemonic::Jmp => Effect::Read(exact(u128::from(self.moment.registers.rip))),
            Mnemonic::Push => {
                let pushed = u128::from(self.moment.stack_top?);
                Effect::Read(exact(cut(pushed, self.width)))
            }
            // One that did not exchange has loaded what it found.
            Mnemonic::Cmpxchg => Effect::Read(exact(self.register(self.accumulator_of_width()?)?)),
            Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => {
                Effect::Read(exact(self.pair(Register::RDX, Register::RAX)?))
            }
            Mnemonic::Cmp => {
                let on_left = instruction.op0_kind() == OpKind::Memory;
                let other = self.other(u32::from(on_left))?;
                self.compared(other, on_left)
            }
            Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => {
                self.compared(self.register(accumulator(instruction)?)?, false)
            }
            Mnemonic::Test => {
                let other = self.other(1)?;
                let seen = self.memory?;
                if agree_with(self.flags(), seen & other, self.width) {
                    Effect::Read(remembered(seen))
                } else {
                    Effect::Contradicted
                }
            }
            Mnemonic::Bt if instruction.op1_kind() != OpKind::Register => {
                let bit = self.memory? >> self.bit()? & 1;
                if (bit == 1) == (self.flags() & CF != 0) {
                    Effect::Read(remembered(self.memory?))
                } else {
                    Effect::Contradicted
                }
            }
            // `cmovcc` reads always and loads sometimes.
            _ => {
                let loads = holds(instruction.condition_code(), self.flags())?
                    && instruction.op0_kind() == OpKind::Register;
                let loaded = loads
                    .then(|| self.register(instruction.op0_register()))
                    .flatten()?;
                Effect::Read(exact(cut(loaded, self.width)))
            }
        })
    }

    /// A comparison says whether memory was equal; when it was not, whether the memory seen can have been it.
    fn compared(&self, other: u128, on_left: bool) -> Effect {
        let other = cut(other, self.width);
        if self.flags() & ZF != 0 {
            return Effect::Read(computed(other));
        }
        let Some(seen) = self.memory else {
            return Effect::ReadSomething;
        };
        let (left, right) = if on_left { (seen, other) } else { (other, seen) };
        if agree_with_comparison(self.flags(), left, right, self.width) {
            Effect::Read(remembered(seen))
        } else {
            Effect::Contradicted
        }
    }

    fn write(&self) -> Option<Effect> {
        let instruction = self.instruction;
        let after = match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movnti => exact(cut(self.other(1)?, self.width)),
            Mnemonic::Movbe => exact(self.swapped(self.other(1)?)),
            Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => {
                exact(self.register(accumulator(instruction)?)?)
            }
            // `setcc`: no other instruction with a condition writes memory.
            _ => {
                let set = holds(instruction.condition_code(), self.flags())?;
                computed(u128::from(set))
            }
        };
        Some(Effect::Change { before: None, after })
    }

    fn modify(&self) -> Option<Effect> {
        let instruction = self.instruction;
        let (before, after) = match instruction.mnemonic() {
            Mnemonic::Cmpxchg => {
                let found = self.register(self.accumulator_of_width()?)?;
                (exact(found), exact(cut(self.other(1)?, self.width)))
            }
            Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => (
                exact(self.pair(Register::RDX, Register::RAX)?),
                exact(self.pair(Register::RCX, Register::RBX)?),
            ),
            Mnemonic::Xchg => {
                let register = self.register_operand()?;
                let given = before(self.accessor, register, self.moment.registers);
                let after = given.and_then(|given| computed(u128::from(given)));
                (
                    exact(self.register(register)?),
                    after.or(self.memory.and_then(remembered)),
                )
            }
            Mnemonic::Xadd => self.exchange_add()?,
            _ => return self.arithmetic(),
        };
        Some(Effect::Change { before, after })
    }

    fn exchange_add(&self) -> Option<(Option<Bytes>, Option<Bytes>)> {
        let register = self.register_operand()?;
        let found = self.register(register)?;
        let sum = before(self.accessor, register, self.moment.registers)
            .map(|added| cut(found.wrapping_add(u128::from(added)), self.width));
        let seen = self
            .memory
            .filter(|seen| agree_with(self.flags(), *seen, self.width));
        Some((exact(found), sum.and_then(computed).or(seen.and_then(remembered))))
    }

    /// `add`, `or`, `inc`, …: the flags tell whether the memory seen can be the result, and some can be undone.
    fn arithmetic(&self) -> Option<Effect> {
        let mnemonic = self.instruction.mnemonic();
        let other = self.other(1).map(|other| cut(other, self.width));
        let all = cut(u128::MAX, self.width);
        let fixed = match (mnemonic, other) {
            (Mnemonic::And, Some(0)) => Some(0),
            (Mnemonic::Or, Some(ones)) if ones == all => Some(all),
            _ if sets_zero_flag(mnemonic) && self.flags() & ZF != 0 => Some(0),
            _ => None,
        };
        let seen = self.memory;
        if fixed.is_none() && seen.is_some_and(|seen| !self.can_be_result(seen, other)) {
            return Some(Effect::Contradicted);
        }
        let result = fixed.or(seen)?;
        let undone = match (mnemonic, other) {
            (Mnemonic::Add, Some(other)) => Some(result.wrapping_sub(other)),
            (Mnemonic::Sub, Some(other)) => Some(result.wrapping_add(other)),
            (Mnemonic::Xor, Some(other)) => Some(result ^ other),
            (Mnemonic::Inc, _) => Some(result.wrapping_sub(1)),
            (Mnemonic::Dec, _) => Some(result.wrapping_add(1)),
            (Mnemonic::Neg, _) => Some(result.wrapping_neg()),
            (Mnemonic::Not, _) => Some(!result),
            (Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc, _)
                if self.instruction.op1_kind() != OpKind::Register =>
            {
                let bit = 1u128 << self.bit()?;
                let was_set = self.flags() & CF != 0;
                Some(if was_set { result | bit } else { result & !bit })
            }
            _ => None,
        };
        let known = |bits| {
            if fixed.is_some() {
                computed(bits)
            } else {
                remembered(bits)
            }
        };
        Some(Effect::Change {
            before: undone.and_then(|before| known(cut(before, self.width))),
            after: known(result),
        })
    }

    fn can_be_result(&self, seen: u128, other: Option<u128>) -> bool {
        let mnemonic = self.instruction.mnemonic();
        if !sets_zero_flag(mnemonic) {
            return true;
        }
        let carry = match (mnemonic, other) {
            (Mnemonic::Add, Some(other)) => Some(seen < other),
            (Mnemonic::Sub, Some(other)) => Some(cut(seen.wrapping_add(other), self.width) < other),
            _ => None,
        };
        let carries = carry.is_none_or(|carry| carry == (self.flags() & CF != 0));
        carries && agree_with(self.flags(), seen, self.width)
    }

    fn register_operand(&self) -> Option<Register> {
        let at = (0..2).find(|&op| self.instruction.op_kind(op) == OpKind::Register)?;
        Some(self.instruction.op_register(at))
    }

    fn accumulator_of_width(&self) -> Option<Register> {
        match self.width {
            1 => Some(Register::AL),
            2 => Some(Register::AX),
            4 => Some(Register::EAX),
            8 => Some(Register::RAX),
            _ => None,
        }
    }

    /// Two registers as one number: the halves that a double-width exchange works with.
    fn pair(&self, high: Register, low: Register) -> Option<u128> {
        let half = self.width / 2;
        let (high, low) = (cut(self.register(high)?, half), cut(self.register(low)?, half));
        Some(high << (half.min(8) * 8) | low)
    }

    fn bit(&self) -> Option<u32> {
        let bit = u32::from(self.instruction.immediate8());
        Some(bit % self.width.checked_mul(8).filter(|bits| *bits > 0)?)
    }

    fn swapped(&self, value: u128) -> u128 {
        let bytes = self.width.clamp(1, 16);
        cut(value, bytes).swap_bytes() >> ((16 - bytes) * 8)
    }
}

/// Whether an instruction sets the zero and sign flags by its result.
fn sets_zero_flag(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Add
            | Mnemonic::Adc
            | Mnemonic::Sub
            | Mnemonic::Sbb
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Neg
    )
}
