//! Addresses as sums: which registers, times what, plus which number.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::Namer;
use crate::code::InstrIx;
use crate::values::{Base, Gpr, Value};

/// Shifts, multiplications and additions that one address is made of.
const DEEPEST: usize = 10;
const MOST_TERMS: usize = 8;

/// What a register holds at an instruction, times a number. Constants are not part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub at: InstrIx,
    pub gpr: Gpr,
    pub base: Base,
    /// The constant that the register holds beyond `base`; already part of the address' number.
    pub offset: i64,
    pub times: i64,
}

/// Terms plus a number.
#[derive(Clone, Debug, Default)]
pub(super) struct Address {
    pub terms: Vec<Term>,
    pub number: i64,
    /// The number has an address of the module in it, not just an offset.
    pub anchored: bool,
}

impl Address {
    fn add(&mut self, term: Term) -> Option<()> {
        // The same quantity counts once: `lea (%rax,%rax,2)` is three times rax.
        if let Some(same) = self.terms.iter_mut().find(|known| known.base == term.base) {
            same.times = same.times.checked_add(term.times)?;
            same.offset = 0;
            return Some(());
        }
        (self.terms.len() < MOST_TERMS).then(|| self.terms.push(term))
    }

    fn add_number(&mut self, number: i64, times: i64) {
        self.number = self.number.wrapping_add(number.wrapping_mul(times));
    }
}

/// How far an address is taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The registers of the operand.
    Operand,
    /// What these were computed from, down to what a variable holds.
    Origin,
}

impl Namer<'_, '_> {
    /// The address of an instruction's memory operand, without its segment.
    pub(super) fn operand(&self, ix: InstrIx, detail: Detail) -> Option<Address> {
        let instr = self.flow.instruction(ix)?;
        let mut sum = Sum {
            namer: self,
            user: ix,
            detail,
            address: Address::default(),
        };
        sum.operand(instr, ix, 1, DEEPEST)?;
        sum.address.terms.retain(|term| term.times != 0);
        Some(sum.address)
    }
}

impl Namer<'_, '_> {
    /// The address at an offset from what a register holds at an instruction.
    pub(super) fn register_plus(
        &self,
        ix: InstrIx,
        gpr: Gpr,
        offset: i64,
        detail: Detail,
    ) -> Option<Address> {
        let mut sum = Sum {
            namer: self,
            user: ix,
            detail,
            address: Address::default(),
        };
        sum.address.add_number(offset, 1);
        sum.register(ix, gpr, 1, DEEPEST)?;
        sum.address.terms.retain(|term| term.times != 0);
        Some(sum.address)
    }
}

struct Sum<'n, 'm, 'a> {
    namer: &'n Namer<'m, 'a>,
    user: InstrIx,
    detail: Detail,
    address: Address,
}

impl Sum<'_, '_, '_> {
    fn operand(&mut self, instr: &Instruction, at: InstrIx, times: i64, depth: usize) -> Option<()> {
        let displacement = instr.memory_displacement64();
        self.address.add_number(displacement.cast_signed(), times);
        let (base, index) = (instr.memory_base(), instr.memory_index());
        let absolute = base == Register::RIP || self.namer.module.elf().is_fixed();
        self.address.anchored |= absolute && self.namer.is_data(displacement);
        if !matches!(base, Register::None | Register::RIP) {
            self.register(at, whole(base)?, times, depth)?;
        }
        if index != Register::None {
            let scale = i64::from(instr.memory_index_scale());
            self.register(at, whole(index)?, times.checked_mul(scale)?, depth)?;
        }
        Some(())
    }

    fn register(&mut self, at: InstrIx, gpr: Gpr, times: i64, depth: usize) -> Option<()> {
        let state = self.namer.state(at)?;
        let (base, offset) = match state.get(gpr) {
            Value::Unknown => return None,
            Value::Const(number) => {
                self.address.add_number(number.cast_signed(), times);
                self.address.anchored |= times == 1 && self.namer.is_data(number);
                return Some(());
            }
            Value::Sum(base, offset) => (base, offset),
        };
        self.address.add_number(offset, times);
        if self.detail == Detail::Origin
            && let Base::Made(maker, _) = base
            && let Some(depth) = depth.checked_sub(1)
            && !self.namer.is_held(self.user, base)
        {
            let known = self.address.clone();
            match self.made(maker, times, depth) {
                Some(true) => return Some(()),
                Some(false) => {}
                // Too much of it, or a part that is not known: the sum stands for itself.
                None => self.address = known,
            }
        }
        let term = Term {
            at,
            gpr,
            base,
            offset,
            times,
        };
        self.address.add(term)
    }

    /// Adds what an instruction computes instead of its result; `false` if it does not compute a sum.
    fn made(&mut self, maker: InstrIx, times: i64, depth: usize) -> Option<bool> {
        let instr = *self.namer.flow.instruction(maker)?;
        let target = instr.op0_register();
        if instr.op0_kind() != OpKind::Register || target.size() != 8 {
            return Some(false);
        }
        let target = whole(target)?;
        let other = (instr.op_count() > 1 && instr.op1_kind() == OpKind::Register)
            .then(|| whole(instr.op1_register()))
            .flatten();
        match (instr.mnemonic(), other) {
            (Mnemonic::Lea, _) => self.operand(&instr, maker, times, depth)?,
            (Mnemonic::Add, Some(other)) => {
                self.register(maker, target, times, depth)?;
                self.register(maker, other, times, depth)?;
            }
            (Mnemonic::Sub, Some(other)) => {
                self.register(maker, target, times, depth)?;
                self.register(maker, other, times.checked_neg()?, depth)?;
            }
            (Mnemonic::Shl, _) if instr.op1_kind() == OpKind::Immediate8 => {
                let by = 1i64.checked_shl(u32::from(instr.immediate8()))?;
                self.register(maker, target, times.checked_mul(by)?, depth)?;
            }
            (Mnemonic::Imul, Some(other)) if instr.op_count() == 3 => {
                let by = instr.immediate(2).cast_signed();
                self.register(maker, other, times.checked_mul(by)?, depth)?;
            }
            _ => return Some(false),
        }
        Some(true)
    }
}

/// A whole 64-bit general-purpose register.
pub(super) fn whole(register: Register) -> Option<Gpr> {
    Gpr::of(register).filter(|_| register.size() == 8)
}
