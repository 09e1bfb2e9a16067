//! From an address to the variable there, without looking at every unit.

use std::collections::BTreeSet;

use gimli::{DebugInfoOffset, Section as _};
use memchr::memmem;
use rayon::prelude::*;

use super::units::Die;
use super::{Sources, VarLocation, Variable};
use crate::addr::LinkAddr;
use crate::files::Reading;

impl Sources<'_> {
    /// The variable that holds an address, and how far into it the address is.
    ///
    /// `user` is code that refers to it, if known: a look at its unit is usually enough. Otherwise the
    /// symbol table tells where the variable starts, and only units that mention this address are read.
    #[must_use]
    pub fn global_at(&self, addr: LinkAddr, user: Option<LinkAddr>) -> Option<(Variable, u64)> {
        let user = user
            .and_then(|user| self.find_function(user))
            .map(|(unit, _)| self.globals_of(unit));
        if let Some(found) = user.and_then(|globals| self.holding(&globals.placed, addr)) {
            return Some(found);
        }
        let symbols = self.data_symbols();
        if symbols.is_empty() {
            return self.holding(&self.globals().placed, addr);
        }
        let after = symbols.partition_point(|symbol| symbol.addr <= addr);
        let symbol = symbols.get(after.checked_sub(1)?)?;
        let offset = addr.0.checked_sub(symbol.addr.0)?;
        if offset >= symbol.size.max(1) {
            return None;
        }
        if let Some(globals) = user {
            let named = |(known, _): &(_, Die)| gimli::EndianSlice::slice(known) < symbol.name.as_bytes();
            let first = globals.declared.partition_point(named);
            if let Some((name, die)) = globals.declared.get(first)
                && name.slice() == symbol.name.as_bytes()
            {
                let variable = self.global_with(*die, VarLocation::Address(symbol.addr))?;
                return Some((variable, offset));
            }
        }
        self.units_mentioning(symbol.addr).into_iter().find_map(|index| {
            let globals = self.globals_of(self.code_unit(index)?);
            self.holding(&globals.placed, addr)
        })
    }

    fn holding(&self, placed: &[(LinkAddr, Die)], addr: LinkAddr) -> Option<(Variable, u64)> {
        let after = placed.partition_point(|(start, _)| *start <= addr);
        let (start, _) = placed.get(after.checked_sub(1)?)?;
        let same = placed
            .get(..after)?
            .iter()
            .rev()
            .take_while(|(other, _)| other == start);
        let offset = addr.0.checked_sub(start.0)?;
        same.filter_map(|(_, die)| {
            let size = self.type_of(*die).and_then(|ty| self.ty(ty).size());
            (offset < size.unwrap_or(1)).then(|| self.global(*die))?
        })
        .next()
        .map(|variable| (variable, offset))
    }

    /// The main units that have an address as the operand of `DW_OP_addr`, or in their part of
    /// `.debug_addr`. Searching bytes is a hundred times as fast as reading entries.
    pub(super) fn units_mentioning(&self, addr: LinkAddr) -> BTreeSet<usize> {
        let operand = addr.0.to_le_bytes();
        let mut expression = vec![gimli::DW_OP_addr.0];
        expression.extend_from_slice(&operand);
        let info = self.dwarf.debug_info.reader().slice();
        self.files.expect(info, Reading::Through);
        let in_entries = memmem::find_iter(info, &expression);
        let units = in_entries.filter_map(|offset| Some(self.main_around(DebugInfoOffset(offset))?.0));
        let mut units: BTreeSet<usize> = units.collect();
        let table = self.dwarf.debug_addr.reader().slice();
        for offset in memmem::find_iter(table, &operand) {
            let bases = self.address_bases();
            let after = bases.partition_point(|(base, _)| *base <= offset);
            units.extend(
                after
                    .checked_sub(1)
                    .and_then(|last| bases.get(last))
                    .map(|(_, unit)| *unit),
            );
        }
        units
    }

    /// Where each unit's part of `.debug_addr` starts.
    fn address_bases(&self) -> &[(usize, usize)] {
        self.address_bases.get_or_init(|| {
            let headers = self.main_units().par_iter().with_min_len(64);
            let units = headers.filter_map(|header| {
                let unit = self.root_unit(header)?.gimli;
                // A split unit of version 4 may start at 0; other units without a base have no part.
                let has_part = unit.addr_base.0 != 0 || unit.dwo_id.is_some();
                has_part.then_some((unit.addr_base.0, header.offset().0))
            });
            let mut bases: Vec<_> = units.collect();
            bases.sort_unstable();
            bases
        })
    }
}
