//! Which variable or table an address belongs to, by the symbols.
//!
//! A large program has tens of thousands of variables, and a slice asks for a handful. So symbols are only put
//! in groups by address; what a group holds is looked at when an address in it is asked for.

use object::LittleEndian as LE;
use object::elf::Sym64;

use crate::addr::{LinkAddr, group_shift};
use crate::code::names::is_promoted;
use crate::elf::symbols::{binding_of, kind_of};
use crate::elf::{Binding, SymbolKind, SymbolTable};

/// How many symbols may name parts of one object.
const NESTED: usize = 8;

/// About as many symbols as this are in one group.
const GROUP: usize = 4;

/// A variable or table that has a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    pub start: LinkAddr,
    pub end: LinkAddr,
    /// All its names are local; false sorts first, so that one name that is not decides.
    pub local: bool,
}

impl Object {
    fn new(symbol: &Sym64<LE>, table: SymbolTable<'_>) -> Self {
        let start = symbol.st_value.get(LE);
        let is_own = || {
            table
                .name_at(symbol.st_name.get(LE))
                .is_some_and(|name| !is_promoted(name))
        };
        Self {
            start: LinkAddr(start),
            end: LinkAddr(start.saturating_add(symbol.st_size.get(LE))),
            local: binding_of(symbol) == Binding::Local && is_own(),
        }
    }
}

/// The variables of a file that have symbols.
pub(crate) struct Objects<'a> {
    symtab: SymbolTable<'a>,
    dynsym: SymbolTable<'a>,
    first: u64,
    shift: u32,
    /// Where each group begins among the symbols, and the end.
    groups: Vec<u32>,
    /// Group by group: positions among the own symbols, or with `true` in `.dynsym`.
    symbols: Vec<(u32, bool)>,
}

impl<'a> Objects<'a> {
    /// `own` are the symbols of variables in `.symtab`.
    pub(crate) fn new(own: &[Sym64<LE>], symtab: SymbolTable<'a>, dynsym: SymbolTable<'a>) -> Self {
        let all = || {
            let dynamic = (0..).zip(dynsym.raw()).filter(|(_, symbol)| is_variable(symbol));
            let dynamic = dynamic.map(|(position, symbol)| (symbol.st_value.get(LE), position, true));
            let own = (0..)
                .zip(own)
                .map(|(at, symbol)| (symbol.st_value.get(LE), at, false));
            own.chain(dynamic)
        };
        let count = all().count();
        let first = all().map(|(start, ..)| start).min().unwrap_or(0);
        let span = all().map(|(start, ..)| start).max().unwrap_or(0) - first;
        let shift = group_shift(span, count / GROUP);
        let group = |start: u64| ((start - first) >> shift) as usize;
        let mut groups = vec![0u32; (span >> shift) as usize + 2];
        for (start, ..) in all() {
            groups[group(start) + 1] += 1;
        }
        for at in 1..groups.len() {
            groups[at] += groups[at - 1];
        }
        let mut next = groups.clone();
        let mut symbols = vec![(0, false); count];
        for (start, position, dynamic) in all() {
            let place = &mut next[group(start)];
            symbols[*place as usize] = (position, dynamic);
            *place += 1;
        }
        Self {
            symtab,
            dynsym,
            first,
            shift,
            groups,
            symbols,
        }
    }

    /// The object around an address. Aliases and members overlap: of those that start at or before the address,
    /// the nearest that has it.
    /// `own` are the symbols that this was made of: not looked up in the table, of which each would bring in a page.
    pub(crate) fn at(&self, own: &[Sym64<LE>], addr: LinkAddr) -> Option<Object> {
        let group = addr.0.checked_sub(self.first)? >> self.shift;
        let last = self.groups.len().checked_sub(2)?;
        let mut near: Vec<Object> = Vec::new();
        for group in (0..=last.min(usize::try_from(group).unwrap_or(last))).rev() {
            let before = near.len();
            near.extend(self.group(own, group).filter(|object| object.start <= addr));
            if let Some(new) = near.get_mut(before..) {
                new.sort_unstable_by(|one, next| next.cmp(one));
            }
            // Of objects in the same place, the last one is the one that not all names are local for.
            near.dedup_by(|next, kept| {
                let same = (next.start, next.end) == (kept.start, kept.end);
                kept.local &= !same || next.local;
                same
            });
            let nearest = near.iter().take(NESTED);
            let found = nearest.copied().find(|object| addr < object.end);
            if found.is_some() || near.len() >= NESTED {
                return found;
            }
        }
        None
    }

    fn group(&self, own: &[Sym64<LE>], group: usize) -> impl Iterator<Item = Object> {
        let bounds = self.groups.get(group).zip(self.groups.get(group + 1));
        let range = bounds.map_or(0..0, |(from, to)| *from as usize..*to as usize);
        let symbols = self.symbols.get(range).unwrap_or_default().iter();
        symbols.filter_map(move |(position, dynamic)| {
            let (symbols, table) = match dynamic {
                true => (self.dynsym.raw(), self.dynsym),
                false => (own, self.symtab),
            };
            Some(Object::new(symbols.get(*position as usize)?, table))
        })
    }
}

/// Whether a symbol is that of a variable in this file.
pub(crate) fn is_variable(symbol: &Sym64<LE>) -> bool {
    kind_of(symbol) == Some(SymbolKind::Data) && symbol.st_shndx.get(LE) != object::elf::SHN_UNDEF
}

#[cfg(test)]
mod tests {
    use object::elf::{self, SymbolInfo};
    use object::{U16, U32, U64};

    use super::*;

    fn variable(start: u64, size: u64, global: bool) -> Sym64<LE> {
        Sym64 {
            st_name: U32::new(LE, 1),
            st_info: SymbolInfo::new(
                if global { elf::STB_GLOBAL } else { elf::STB_LOCAL },
                elf::STT_OBJECT,
            ),
            st_other: elf::SymbolOther(0),
            st_shndx: U16::new(LE, elf::SymbolSection(1)),
            st_value: U64::new(LE, start),
            st_size: U64::new(LE, size),
        }
    }

    #[test]
    fn groups_show_what_a_sorted_list_shows() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for (count, span) in [
            (0, 1),
            (1, 1),
            (3, 1 << 40),
            (3, 1 << 63),
            (300, 500),
            (300, 1 << 20),
        ] {
            let symbols: Vec<_> = (0..count)
                .map(|_| variable(1000 + next(span), next(40), next(2) == 0))
                .collect();
            let table = SymbolTable::new(&symbols, b"\0name\0");
            let objects = Objects::new(&symbols, table, SymbolTable::default());
            let mut sorted: Vec<Object> = symbols.iter().map(|symbol| Object::new(symbol, table)).collect();
            sorted.sort_unstable();
            sorted.dedup_by_key(|object| (object.start, object.end));
            let asked = symbols.iter().map(|symbol| symbol.st_value.get(LE));
            for addr in asked
                .flat_map(|start| [start - 1, start, start + 9])
                .chain([0, u64::MAX])
            {
                let addr = LinkAddr(addr);
                let after = sorted.partition_point(|object| object.start <= addr);
                let nearest = sorted[..after].iter().rev().take(NESTED);
                let expected = nearest.copied().find(|object| addr < object.end);
                assert_eq!(objects.at(&symbols, addr), expected, "{addr:?}");
            }
        }
    }
}
