//! From the tables of switches to the blocks that they lead to.

use iced_x86::{Instruction, Mnemonic};

use super::descent::Descent;
use super::flow::{Exit, Target};
use super::jump_table::{self, Found, Table};
use crate::addr::LinkAddr;

/// No switch of a real program comes near.
const MAX_TABLE: u64 = 64 << 10;

/// Switches inside cases of switches, so deep.
const MAX_ROUNDS: usize = 64;

impl Descent<'_, '_> {
    /// Finds the targets of indirect jumps and reads on from them, until no new jump turns up.
    pub(super) fn resolve_tables(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let pending = std::mem::take(&mut self.pending);
            if pending.is_empty() {
                return;
            }
            self.jumps.sort_unstable();
            self.references = None;
            self.collect_constants();
            let found: Vec<_> = pending
                .into_iter()
                .map(|ip| (ip, jump_table::find(self, ip)))
                .collect();
            for (ip, found) in found {
                let exit = self.resolve(ip, &found);
                self.exits.push((ip, exit));
            }
        }
        let unread = std::mem::take(&mut self.pending);
        self.exits
            .extend(unread.into_iter().map(|ip| (ip, Exit::Unresolved)));
    }

    fn collect_constants(&mut self) {
        let loads = self
            .instructions
            .iter()
            .filter(|i| i.mnemonic() == Mnemonic::Lea && i.is_ip_rel_memory_operand());
        let loads = loads.filter(|i| i.op0_register().is_gpr64());
        self.constants.clear();
        self.constants
            .extend(loads.map(|i| (i.op0_register().number() as u8, i.ip(), i.ip_rel_memory_address())));
        self.constants.sort_unstable();
    }

    /// An address that is loaded into a register: by the nearest instruction before `ip`, or the `skip`-th
    /// before that; where there is none before, the `skip`-th after. Only while tables are resolved.
    pub(super) fn constant_in(&self, register: usize, ip: u64, skip: usize) -> Option<u64> {
        let key = (u8::try_from(register).ok()?, ip, 0);
        let after = self.constants.partition_point(|constant| *constant < key);
        let (before, after) = self.constants.split_at_checked(after)?;
        let own = |(number, _, _): &&(u8, u64, u64)| *number == key.0;
        let mut candidates = before
            .iter()
            .rev()
            .take_while(own)
            .chain(after.iter().take_while(own));
        candidates.nth(skip).map(|(_, _, addr)| *addr)
    }

    fn resolve(&mut self, ip: u64, found: &Found) -> Exit {
        let Found::Tables(tables) = found else {
            return Exit::TailCall(Target::Indirect);
        };
        for table in tables {
            let targets = self.read_table(table);
            if targets.is_empty() {
                continue;
            }
            for target in &targets {
                self.follow(*target);
            }
            self.switches.push((ip, targets));
            return Exit::Switch;
        }
        // A table of functions is called, not jumped into.
        let functions = tables.iter().any(|table| table.stride == 8);
        if functions {
            Exit::TailCall(Target::Indirect)
        } else {
            Exit::Unresolved
        }
    }

    /// The distinct targets of a table, sorted. An entry outside the function ends a table without bound, and
    /// is left out of one with a bound.
    fn read_table(&mut self, table: &Table) -> Vec<u64> {
        let mut targets = Vec::new();
        let limit = match table.count {
            Some(count) => count.min(MAX_TABLE),
            None => self.entries_before_next_table(table).min(MAX_TABLE),
        };
        for index in 0..limit {
            let Some(slot) = index
                .checked_mul(table.stride)
                .and_then(|at| table.base.checked_add(at))
            else {
                break;
            };
            let target = self
                .table_entry(table, slot)
                .filter(|target| self.mark_index(*target).is_some());
            match target {
                Some(target) => targets.push(target),
                None if !table.certain && table.count.is_some() => return Vec::new(),
                None if table.count.is_none() => break,
                None => {}
            }
        }
        targets.sort_unstable();
        targets.dedup();
        if table.certain || targets.len() > 1 {
            targets
        } else {
            Vec::new()
        }
    }

    fn table_entry(&self, table: &Table, slot: u64) -> Option<u64> {
        if table.stride == 8 {
            return self.context.elf.pointer_at(LinkAddr(slot)).map(|target| target.0);
        }
        let bytes = self.context.elf.bytes_at(LinkAddr(slot), 4)?;
        let entry = i32::from_le_bytes(bytes.try_into().ok()?);
        Some(match table.anchor {
            Some(anchor) => anchor.wrapping_add_signed(i64::from(entry)),
            None => u64::from(entry.cast_unsigned()),
        })
    }

    fn entries_before_next_table(&mut self, table: &Table) -> u64 {
        let references = self.references.get_or_insert_with(|| {
            let relative = self.instructions.iter().filter(|i| i.is_ip_rel_memory_operand());
            let mut addrs: Vec<u64> = relative.map(Instruction::ip_rel_memory_address).collect();
            addrs.sort_unstable();
            addrs
        });
        let next = references.get(references.partition_point(|addr| *addr <= table.base));
        next.map_or(u64::MAX, |next| (next - table.base) / table.stride.max(1))
    }
}
