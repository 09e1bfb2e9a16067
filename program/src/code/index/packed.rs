//! A function in twelve bytes.

use object::LittleEndian as LE;
use object::elf::{self, Sym64};

use super::ground::Ground;
use crate::elf::symbols::{binding_of, kind_of};
use crate::elf::{Binding, SymbolKind};

/// A function as the index keeps it. Addresses are distances from the first code, 32 bits of them: more than
/// calls can reach across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Packed {
    pub start: u32,
    /// Equal to the start while unknown.
    pub end: u32,
    /// From the highest bit: whether the symbol has no type, how visible it is, whether it is a resolver, and
    /// its position in the table.
    pub(in super::super) symbol: u32,
}

const UNTYPED: u32 = 1 << 31;
const BINDING: u32 = 29;
const RESOLVER: u32 = 1 << 28;
pub(super) const POSITION: u32 = RESOLVER - 1;

impl Packed {
    /// A function that only the unwind table or the file's entry tells of.
    pub(super) fn unnamed(start: u32, end: u32) -> Self {
        Self {
            start,
            end,
            symbol: !RESOLVER,
        }
    }

    /// The function that a symbol names. `around` is the code that the symbol before was in: most often the
    /// right one again.
    pub(super) fn of_symbol(
        position: usize,
        symbol: &Sym64<LE>,
        ground: &Ground,
        around: &mut std::ops::Range<u64>,
    ) -> Option<Self> {
        if !is_code(symbol) || position >= POSITION as usize {
            return None;
        }
        let kind = kind_of(symbol)?;
        let binding = binding_of(symbol);
        // Local labels of assembly are places inside functions, not functions.
        let untyped = kind == SymbolKind::Untyped;
        if untyped && (binding == Binding::Local || symbol.st_name.get(LE) == 0) {
            return None;
        }
        let addr = symbol.st_value.get(LE);
        if !around.contains(&addr) {
            let code = ground.covering(addr)?;
            *around = code.start.0..code.end.0;
        }
        let start = ground.distance(addr)?;
        let end = addr.saturating_add(symbol.st_size.get(LE)).min(around.end);
        let flag = |holds: bool, bit: u32| if holds { bit } else { 0 };
        Some(Self {
            start,
            end: ground.distance(end).unwrap_or(u32::MAX),
            symbol: flag(untyped, UNTYPED)
                | (binding as u32) << BINDING
                | flag(kind == SymbolKind::IndirectFunction, RESOLVER)
                | u32::try_from(position).ok()?,
        })
    }

    /// Its position in the symbol table.
    pub(in super::super) fn symbol(self) -> Option<usize> {
        Some((self.symbol & POSITION) as usize).filter(|at| *at != POSITION as usize)
    }

    pub(in super::super) fn is_resolver(self) -> bool {
        self.symbol & RESOLVER != 0
    }

    fn rank(self) -> u32 {
        self.symbol & !RESOLVER
    }

    /// One function for each address: the most visible name wins, then the first in the table; the longest
    /// size counts.
    fn merge(&mut self, alias: Self) {
        self.end = self.end.max(alias.end);
        if alias.rank() < self.rank() {
            self.symbol = alias.symbol;
        }
    }
}

/// Whether a symbol is one of code, as far as its type tells.
pub(in super::super) fn is_code(symbol: &Sym64<LE>) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
        && matches!(
            kind_of(symbol),
            Some(SymbolKind::Function | SymbolKind::IndirectFunction | SymbolKind::Untyped)
        )
}

/// Makes one function of those that begin at the same address; they are sorted by start.
pub(super) fn merge_aliases(entries: &mut Vec<Packed>) {
    entries.dedup_by(|next, kept| {
        let same = next.start == kept.start;
        if same {
            kept.merge(*next);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_visible_name_wins_and_the_longest_size_counts() {
        let named = |symbol, end| Packed {
            start: 8,
            end,
            symbol,
        };
        let local = (Binding::Local as u32) << BINDING;
        let mut entries = vec![
            named(local | 3, 40),
            named(UNTYPED | 4, 8),
            named(RESOLVER | 7, 20),
            named(9, 16),
        ];
        entries.push(Packed::unnamed(8, 30));
        merge_aliases(&mut entries);
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].symbol(), entries[0].end), (Some(7), 40));
        assert!(entries[0].is_resolver());
        assert_eq!(Packed::unnamed(8, 30).symbol(), None);
    }
}
