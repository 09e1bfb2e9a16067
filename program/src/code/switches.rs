//! From the tables of switches to the blocks that they lead to.

use std::collections::BTreeMap;

use iced_x86::Mnemonic;

use super::descent::Descent;
use super::flow::{Exit, Target};
use super::jump_table::{self, Found, Table};
use crate::addr::LinkAddr;

/// No switch of a real program comes near.
const MAX_TABLE: u64 = 64 << 10;

/// How far from a function others are asked for their tables.
const NEARBY: u64 = 32 << 10;

/// Switches inside cases of switches, so deep.
const MAX_ROUNDS: usize = 64;

/// What may still be spent on the switches of one function. The largest interpreters use a hundredth;
/// a file made to keep us busy gets no more than this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Looks at indirect jumps.
    looks: u32,
    /// Searches in neighbouring functions.
    searches: u32,
    /// Table entries.
    entries: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            looks: 1 << 14,
            searches: 1 << 10,
            entries: 1 << 20,
        }
    }
}

impl Descent<'_, '_> {
    /// Finds the targets of indirect jumps and reads on from them, until nothing new turns up.
    pub(super) fn resolve_tables(&mut self) {
        let mut open: Vec<u64> = Vec::new();
        let mut known: BTreeMap<u64, (Exit, Vec<u64>)> = BTreeMap::new();
        for _ in 0..MAX_ROUNDS {
            let new = std::mem::take(&mut self.pending);
            let read = self.instructions.len();
            open.extend(new);
            if open.is_empty() {
                break;
            }
            self.jumps.sort_unstable();
            self.collect_constants();
            let looks = usize::try_from(self.effort.looks)
                .unwrap_or(usize::MAX)
                .min(open.len());
            self.effort.looks -= u32::try_from(looks).unwrap_or(0);
            let found: Vec<(u64, Found)> = open
                .iter()
                .take(looks)
                .map(|ip| (*ip, jump_table::find(self, *ip)))
                .collect();
            for ip in open.drain(..).skip(looks) {
                known.entry(ip).or_insert((Exit::Unresolved, Vec::new()));
            }
            for (ip, found) in found {
                let (exit, targets) = self.resolve(&found);
                targets.iter().for_each(|target| self.follow(*target));
                // More of the function may show another way to this jump.
                if found.shared || exit == Exit::Unresolved {
                    open.push(ip);
                }
                known.insert(ip, (exit, targets));
            }
            if self.pending.is_empty() && self.instructions.len() == read {
                break;
            }
        }
        for ip in std::mem::take(&mut self.pending) {
            known.entry(ip).or_insert((Exit::Unresolved, Vec::new()));
        }
        for (ip, (exit, targets)) in known {
            self.exits.push((ip, exit));
            if exit == Exit::Switch {
                self.switches.push((ip, targets));
            }
        }
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

    fn resolve(&mut self, found: &Found) -> (Exit, Vec<u64>) {
        let mut targets = Vec::new();
        let mut functions = false;
        for tables in &found.tables {
            let own = tables
                .iter()
                .map(|table| self.read_table(table))
                .find(|targets| !targets.is_empty());
            targets.extend(own.into_iter().flatten());
            functions |= tables.iter().any(|table| table.stride == 8);
        }
        targets.sort_unstable();
        targets.dedup();
        let exit = if !targets.is_empty() {
            Exit::Switch
        } else if found.tables.is_empty() || functions {
            // A table of functions is called, not jumped into.
            Exit::TailCall(Target::Indirect)
        } else {
            Exit::Unresolved
        };
        (exit, targets)
    }

    /// The distinct targets of a table, sorted. An entry outside the function ends a table without bound, and
    /// is left out of one with a bound.
    fn read_table(&mut self, table: &Table) -> Vec<u64> {
        let mut targets = Vec::new();
        let limit = self.entries_of(table).min(self.effort.entries);
        self.effort.entries -= limit;
        for index in 0..limit {
            let Some(slot) = index
                .checked_mul(table.stride)
                .and_then(|at| table.base.checked_add(at))
            else {
                break;
            };
            let target = self
                .table_entry(table, slot)
                .filter(|target| self.is_target(*target));
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

    /// Whether code may jump to an address: inside the function, and not into an instruction.
    fn is_target(&self, addr: u64) -> bool {
        self.mark_index(addr).is_some()
            && (self.instruction_at(addr).is_some() || !self.is_inside_instruction(addr))
    }

    fn is_inside_instruction(&self, addr: u64) -> bool {
        (1..15u64).any(|back| {
            let before = addr
                .checked_sub(back)
                .and_then(|before| self.instruction_at(before));
            before.is_some_and(|instruction| instruction.next_ip() > addr)
        })
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

    /// How many entries to read: as the comparison says, but not beyond the next thing that code refers to. Matches over all values of a
    /// type have no comparison, and the tables of one function lie side by side: entries of the next one,
    /// taken relative to this one, would lead to places that no code jumps to.
    fn entries_of(&mut self, table: &Table) -> u64 {
        let pieces = &self.pieces;
        let references = self.references.get_or_insert_with(|| {
            let mut addrs: Vec<u64> = pieces
                .iter()
                .flat_map(|piece| loaded_addresses(piece.start, piece.bytes))
                .collect();
            addrs.sort_unstable();
            addrs
        });
        let next = references
            .get(references.partition_point(|addr| *addr <= table.base))
            .copied();
        let room =
            |next: Option<u64>| next.map_or(MAX_TABLE, |next| (next - table.base) / table.stride.max(1));
        let room_here = room(next).min(MAX_TABLE);
        match table.count {
            Some(count) => count.min(room_here),
            None => match self.effort.searches.checked_sub(1) {
                Some(left) => {
                    self.effort.searches = left;
                    room(self.next_reference_nearby(table, room_here)).min(room_here)
                }
                None => 0,
            },
        }
    }

    /// The first address behind a table's base that neighbouring functions load: compilers lay out the tables
    /// of functions in the order of the functions.
    fn next_reference_nearby(&self, table: &Table, room: u64) -> Option<u64> {
        let end = table.base.saturating_add(room.saturating_mul(table.stride));
        let around = self.pieces.iter().flat_map(|piece| {
            let before = piece.start.saturating_sub(NEARBY);
            let after = piece.start + piece.bytes.len() as u64;
            [(before, piece.start - before), (after, NEARBY)]
        });
        let around = around.filter_map(|(start, len)| {
            let bytes = self.context.elf.segments().bytes_from(LinkAddr(start))?;
            let len = usize::try_from(len).ok()?.min(bytes.len());
            Some((start, bytes.get(..len)?))
        });
        let loaded = around.flat_map(|(start, bytes)| loaded_addresses(start, bytes));
        loaded.filter(|addr| table.base < *addr && *addr < end).min()
    }
}

/// The addresses that `lea x(%rip),%reg` loads anywhere in some code, found by its encoding: code that is
/// still to be reached counts too.
fn loaded_addresses(start: u64, code: &[u8]) -> impl Iterator<Item = u64> {
    memchr::memchr_iter(0x8d, code).filter_map(move |opcode| {
        let &[rex, _, operand, ref displacement @ ..] = code.get(opcode.checked_sub(1)?..opcode + 6)? else {
            return None;
        };
        if rex & 0xf8 != 0x48 || operand & 0xc7 != 0x05 {
            return None;
        }
        let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
        Some(
            start
                .wrapping_add(opcode as u64 + 6)
                .wrapping_add_signed(i64::from(displacement)),
        )
    })
}
