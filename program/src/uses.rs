//! Who uses a function or a variable: calls, taken addresses, reads and writes.
//!
//! The code of a whole program is searched only for what all of it can name.

use std::sync::Arc;

use iced_x86::{Instruction, OpKind, Register};

use crate::addr::{LinkAddr, LinkRange};
use crate::code::{AddressTaken, CallSite, FunctionId, Operand, Reference, Search, accesses};
use crate::module::{Module, is_executable};

/// Code that is searched for stores, in bytes: more takes longer than anybody waits.
const MOST_CODE: u64 = 32 << 20;
/// The widest store.
const WIDEST: i64 = 64;

impl<'a> Module<'a> {
    /// Direct calls and tail calls of a function, by address.
    #[must_use]
    pub fn callers_of(&self, function: FunctionId) -> Vec<CallSite> {
        if self.is_start(function) {
            return Vec::new();
        }
        let around = self.code_around(function);
        self.search(around.as_deref()).callers_of(function)
    }

    /// Where the address of a function is taken: by instructions, and by pointers in data.
    #[must_use]
    pub fn address_taken(&self, function: FunctionId) -> Vec<AddressTaken> {
        let entry = self.code().functions().get(function).map(|known| known.entry);
        let Some(entry) = entry.filter(|_| !self.is_start(function)) else {
            return Vec::new();
        };
        let around = self.code_around(function);
        self.search(around.as_deref()).address_taken(entry)
    }

    /// Instructions that refer to a global variable, or part of it, by address, in address order. `user` is
    /// code that does.
    #[must_use]
    pub fn references_to(&self, variable: &LinkRange, user: LinkAddr) -> Vec<Reference> {
        let private = || self.sources().code_around_private_variable(variable.start, user);
        let around = self.is_local_object(variable.start).then(private).flatten();
        self.search(around.as_deref()).references_to(variable)
    }

    /// Instructions that refer to a table in which the address of `function` stands.
    #[must_use]
    pub fn references_to_table(&self, table: &LinkRange, function: FunctionId) -> Vec<Reference> {
        // Only the function's own compilation can have made the table.
        let around = self
            .code_around(function)
            .filter(|_| self.is_local_object(table.start));
        self.search(around.as_deref()).references_to(table)
    }

    /// Where the address of a table is taken in which the address of `function` stands.
    #[must_use]
    pub fn table_taken(&self, table: LinkAddr, function: FunctionId) -> Vec<AddressTaken> {
        let around = self.code_around(function).filter(|_| self.is_local_object(table));
        self.search(around.as_deref()).address_taken(table)
    }

    /// Instructions that write bytes at an offset from a register, and perhaps those around them, by address: the stores to a member
    /// of structures, among others. The stack pointer is no such register.
    #[must_use]
    pub fn stores_at(&self, offset: i64, width: u32) -> Vec<LinkAddr> {
        let ranges = self.elf().code_ranges();
        let code: u64 = ranges.iter().map(|range| range.end.0 - range.start.0).sum();
        if code > MOST_CODE {
            return Vec::new();
        }
        let may = |instruction: &Instruction| {
            let from = instruction.memory_displacement64().cast_signed();
            instruction.op0_kind() == OpKind::Memory
                && !matches!(
                    instruction.memory_base(),
                    Register::None | Register::RSP | Register::RIP
                )
                && (0..WIDEST).contains(&offset.wrapping_sub(from))
        };
        let does = |instruction: &Instruction| {
            accesses(instruction).any(|access| {
                let end = access.disp.saturating_add(access.width.into());
                access.kind.writes()
                    && access.operand != Operand::Stack
                    && access.segment.is_none()
                    && access.disp <= offset
                    && offset.saturating_add(width.into()) <= end
            })
        };
        let code = self.code();
        let functions = code.functions();
        let listed = functions.ids().flat_map(|function| code.listing(function));
        let stores = listed.filter(|instruction| may(instruction) && does(instruction));
        let mut found: Vec<LinkAddr> = stores.map(|instruction| LinkAddr(instruction.ip())).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether a function is where the system starts the program: its entry point, or `main`, which the entry
    /// point hands to the C library. Nothing else of the program calls these.
    #[must_use]
    pub fn is_start(&self, function: FunctionId) -> bool {
        let known = self.code().functions().get(function);
        let known = known.filter(|_| is_executable(self.elf()));
        known.is_some_and(|known| known.symbol == Some("main") || known.entry == self.elf().entry())
    }

    fn code_around(&self, function: FunctionId) -> Option<Arc<[LinkRange]>> {
        let functions = self.code().functions();
        let known = functions.get(function).filter(|_| functions.is_local(function))?;
        self.sources().code_around_private_function(known.entry)
    }

    fn search<'c>(&'c self, within: Option<&'c [LinkRange]>) -> Search<'c, 'a> {
        within.map_or_else(|| self.code().everywhere(), |ranges| self.code().within(ranges))
    }
}
