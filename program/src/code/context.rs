//! What reading a function needs to know of the rest of the file.

use iced_x86::{Instruction, OpKind};

use super::flow::Target;
use super::functions::Functions;
use super::no_return::NoReturn;
use super::unwind::UnwindTable;
use crate::addr::{LinkAddr, LinkRange};
use crate::elf::{Elf, Linkage};

/// How deep callees are looked into for whether they return.
pub(super) const CALLEE_DEPTH: u8 = 7;

/// The file around a function.
#[derive(Clone, Copy)]
pub(super) struct Context<'c, 'a> {
    pub elf: &'c Elf<'a>,
    pub functions: &'c Functions<'a>,
    pub no_return: &'c NoReturn,
    /// How deep callees may still be looked into.
    pub depth: u8,
}

impl<'c, 'a> Context<'c, 'a> {
    /// Where a direct jump or call to an address outside the function goes.
    pub(super) fn target(self, addr: u64) -> Target {
        let addr = LinkAddr(addr);
        if let Some(function) = self.functions.starting_at(addr) {
            return Target::Function(function);
        }
        self.elf
            .stub_linkage(addr)
            .map_or(Target::Unknown(addr), |linkage| self.linked(linkage))
    }

    /// Where a call instruction goes.
    pub(super) fn call_target(self, instruction: &Instruction) -> Target {
        if instruction.op0_kind() == OpKind::NearBranch64 {
            return self.target(instruction.near_branch_target());
        }
        self.slot_target(instruction).unwrap_or(Target::Indirect)
    }

    /// Where an indirect jump or call through a fixed slot goes, if the slot is filled at start and not
    /// changed later: a GOT slot, not a variable that holds a function pointer.
    pub(super) fn slot_target(self, instruction: &Instruction) -> Option<Target> {
        if instruction.op0_kind() != OpKind::Memory || !instruction.is_ip_rel_memory_operand() {
            return None;
        }
        let slot = LinkAddr(instruction.ip_rel_memory_address());
        self.elf.is_link_slot(slot).then_some(())?;
        Some(self.linked(self.elf.slot_linkage(slot)?))
    }

    fn linked(self, linkage: Linkage) -> Target {
        match linkage {
            Linkage::Import(import) => Target::Import(import),
            Linkage::Local(addr) | Linkage::Resolved(addr) => self
                .functions
                .starting_at(addr)
                .map_or(Target::Unknown(addr), Target::Function),
        }
    }

    /// Whether a call never comes back.
    pub(super) fn never_returns(self, target: Target) -> bool {
        match target {
            Target::Function(function) => self.no_return.function(self, function),
            Target::Import(import) => self.no_return.import(self.elf, import),
            Target::Unknown(_) | Target::Indirect => false,
        }
    }

    /// Where exceptions land that are thrown in the part of a function that begins at `start`: the calls,
    /// and the landing pad for them.
    pub(super) fn landings(self, start: LinkAddr) -> Vec<(LinkRange, LinkAddr)> {
        self.unwind_table().landings(self.elf, start)
    }

    pub(super) fn unwind_table(self) -> &'c UnwindTable<'a> {
        self.functions.unwind_table()
    }
}
