//! Where a register's content was loaded from, by looking back along the instructions.
//!
//! Value numbers forget that a pointer went through the slot of a variable; the instructions remember.

use iced_x86::{Mnemonic, OpAccess, OpKind};

use super::Namer;
use super::address::whole;
use crate::code::InstrIx;
use crate::values::{Base, Gpr};

/// So far back and no further.
const MOST_INSTRUCTIONS: usize = 64;

/// A load of a whole register or of a number that was widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub at: InstrIx,
    pub width: u64,
}

impl Namer<'_, '_> {
    /// The instruction that loaded what a register holds before `at`, when it is not far back and nothing
    /// but copies came in between.
    pub(super) fn loaded_by(&self, at: InstrIx, gpr: Gpr) -> Option<Load> {
        let (mut at, mut gpr) = (at, gpr);
        for _ in 0..MOST_INSTRUCTIONS {
            at = self.before(at)?;
            let instr = self.flow.instruction(at)?;
            if self.is_call(at) && !gpr.survives_calls() {
                return None;
            }
            if !self.writes(at, gpr) {
                continue;
            }
            if let Some(load) = self.load(at) {
                return Some(load);
            }
            let copies = instr.mnemonic() == Mnemonic::Mov
                && instr.op0_kind() == OpKind::Register
                && instr.op1_kind() == OpKind::Register;
            whole(instr.op0_register()).filter(|_| copies)?;
            gpr = whole(instr.op1_register())?;
        }
        None
    }

    /// An instruction as a load.
    pub(super) fn load(&self, at: InstrIx) -> Option<Load> {
        let instr = self.flow.instruction(at)?;
        let loads = matches!(
            instr.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Movsx | Mnemonic::Movzx
        ) && instr.op0_kind() == OpKind::Register
            && instr.op1_kind() == OpKind::Memory;
        let width = u64::try_from(instr.memory_size().size()).ok()?;
        let widens = instr.op0_register().size() >= 4;
        (loads && widens && width > 0).then_some(Load { at, width })
    }

    /// The load that made a value.
    pub(super) fn load_of(&self, base: Base) -> Option<Load> {
        match base {
            Base::Made(at, _) => self.load(at),
            _ => None,
        }
    }

    /// The register that a widening made a value from.
    pub(super) fn widened(&self, base: Base) -> Option<(InstrIx, Gpr)> {
        let Base::Made(at, _) = base else { return None };
        let instr = self.flow.instruction(at)?;
        match instr.mnemonic() {
            Mnemonic::Cdqe => Some((at, Gpr::RAX)),
            Mnemonic::Movsxd | Mnemonic::Movsx | Mnemonic::Movzx | Mnemonic::Mov
                if instr.op1_kind() == OpKind::Register && instr.op0_register().size() >= 4 =>
            {
                Some((at, Gpr::of(instr.op1_register())?))
            }
            _ => None,
        }
    }

    /// Whether a value can be a sum of several: paths met, or 64-bit arithmetic made it.
    pub(super) fn may_be_sum(&self, base: Base) -> bool {
        match base {
            Base::Entry(_) => false,
            Base::Joined(..) => true,
            Base::Made(at, _) => self.flow.instruction(at).is_none_or(|instr| {
                let arithmetic = matches!(
                    instr.mnemonic(),
                    Mnemonic::Add | Mnemonic::Sub | Mnemonic::Lea | Mnemonic::Imul | Mnemonic::Shl
                );
                arithmetic && instr.op0_kind() == OpKind::Register && instr.op0_register().size() == 8
            }),
        }
    }

    /// The instruction that runs before another one on every way.
    pub(super) fn before(&self, at: InstrIx) -> Option<InstrIx> {
        let id = self.flow.block_of(at)?;
        let block = self.flow.block(id)?;
        if block.instrs.start < at.0 {
            return Some(InstrIx(at.0 - 1));
        }
        match *block.preds {
            [only] if only != id && !block.exceptional && self.flow.entry != Some(id) => {
                Some(self.flow.block(only)?.last())
            }
            _ => None,
        }
    }

    /// Whether an instruction leaves for another function.
    pub(super) fn is_call(&self, at: InstrIx) -> bool {
        let block = self.flow.block_of(at).and_then(|id| self.flow.block(id));
        block.is_some_and(|block| block.last() == at && block.exit.target().is_some())
    }

    fn writes(&self, at: InstrIx, gpr: Gpr) -> bool {
        let Some(instr) = self.flow.instruction(at) else {
            return true;
        };
        let mut factory = self.factory.borrow_mut();
        let info = factory.info(instr);
        info.used_registers().iter().any(|used| {
            let written = !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            written && Gpr::of(used.register()) == Some(gpr)
        })
    }
}
