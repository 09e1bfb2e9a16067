//! The index of functions: made of the symbol table and the unwind table in a few passes over little memory.
//!
//! A large program has half a million functions, and every question about one needs the index. So a function is
//! twelve bytes here; its name and whatever else stands in the symbol table is read there when asked for.

use object::LittleEndian as LE;
use object::elf::{self, Sym64};

use super::cold;
use super::names::NamesWith;
use super::unwind::UnwindTable;
use crate::addr::{LinkAddr, LinkRange};
use crate::elf::symbols::{binding_of, kind_of};
use crate::elf::{Binding, Elf, SymbolKind, SymbolTable};

/// About as many functions as this are sorted together.
const GROUP: usize = 2;

/// What is longer than any alignment padding and covered by no sized symbol.
const MIN_GAP: u64 = 64;

/// A function as the index keeps it. Addresses are distances from the first code, 32 bits of them: more than
/// calls can reach across.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed {
    pub start: u32,
    /// Equal to the start while unknown.
    pub end: u32,
    /// From the highest bit: whether the symbol has no type, how visible it is, whether it is a resolver,
    /// whether there are others at the same address, and its position in the table.
    symbol: u32,
}

const UNTYPED: u32 = 1 << 31;
const BINDING: u32 = 29;
const RESOLVER: u32 = 1 << 28;
const ALIASED: u32 = 1 << 27;
const POSITION: u32 = ALIASED - 1;

impl Packed {
    fn unnamed(start: u32, end: u32) -> Self {
        Self {
            start,
            end,
            symbol: !(RESOLVER | ALIASED),
        }
    }

    /// Its position in the symbol table.
    pub(super) fn symbol(self) -> Option<usize> {
        Some((self.symbol & POSITION) as usize).filter(|at| *at != POSITION as usize)
    }

    pub(super) fn is_resolver(self) -> bool {
        self.symbol & RESOLVER != 0
    }

    fn rank(self) -> u32 {
        self.symbol & !(RESOLVER | ALIASED)
    }

    /// Whether more symbols than the one are at its address.
    pub(super) fn is_aliased(self) -> bool {
        self.symbol & ALIASED != 0
    }

    /// One function for each address: the most visible name wins, then the first in the table; the longest
    /// size counts.
    fn merge(&mut self, alias: Self) {
        self.end = self.end.max(alias.end);
        let others = (self.symbol | alias.symbol) & ALIASED;
        let both = alias.symbol().is_some() && self.symbol().is_some();
        if alias.rank() < self.rank() {
            self.symbol = alias.symbol;
        }
        self.symbol |= others | if both { ALIASED } else { 0 };
    }
}

/// A part of a function that the compiler moved away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub start: u64,
    pub end: u64,
    /// The offset of its name.
    pub name: u32,
    /// Position in the symbol table, for finding the file that a local symbol belongs to.
    pub index: u32,
}

/// Code ranges, and distances in them.
pub(super) struct Ground {
    pub base: u64,
    code: Vec<LinkRange>,
}

impl Ground {
    fn new(elf: &Elf<'_>) -> Self {
        let code = elf.code_ranges();
        let base = code.first().map_or(0, |range| range.start.0);
        Self { base, code }
    }

    fn distance(&self, addr: u64) -> Option<u32> {
        u32::try_from(addr.checked_sub(self.base)?).ok()
    }

    fn covering(&self, addr: u64) -> Option<&LinkRange> {
        let after = self.code.partition_point(|range| range.start.0 <= addr);
        self.code
            .get(after.checked_sub(1)?)
            .filter(|range| addr < range.end.0)
    }

    /// Where the code around a distance ends.
    fn limit(&self, distance: u32) -> u32 {
        let addr = self.base.saturating_add(u64::from(distance));
        let end = self.covering(addr).map_or(addr, |range| range.end.0);
        self.distance(end).unwrap_or(u32::MAX)
    }
}

/// What [`build`] makes.
pub(super) struct Index<'a> {
    pub base: u64,
    /// The table that the symbols are in.
    pub table: SymbolTable<'a>,
    pub entries: Vec<Packed>,
    pub cold: Vec<Part>,
    /// The symbols of variables in `.symtab`, met on the way.
    pub variables: Vec<Sym64<LE>>,
}

/// Finds all functions of a file, in address order.
pub(super) fn build<'a>(elf: &Elf<'a>) -> Index<'a> {
    let ground = Ground::new(elf);
    let mut table = elf.symtab();
    let mut variables = Vec::new();
    let mut entries = collect(table, &ground, &mut variables);
    if entries.is_empty() {
        table = elf.dynsym();
        entries = collect(table, &ground, &mut Vec::new());
    }
    let cold = take_cold(table, &ground, &mut entries);
    merge_aliases(&mut entries);
    add_unnamed(elf, &ground, &cold, &mut entries);
    settle_ends(&ground, &cold, &mut entries);
    entries.shrink_to_fit();
    Index {
        base: ground.base,
        table,
        entries,
        cold,
        variables,
    }
}

pub(super) fn is_code(symbol: &Sym64<LE>) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
        && matches!(
            kind_of(symbol),
            Some(SymbolKind::Function | SymbolKind::IndirectFunction | SymbolKind::Untyped)
        )
}

fn is_variable(symbol: &Sym64<LE>) -> bool {
    kind_of(symbol) == Some(SymbolKind::Data) && symbol.st_shndx.get(LE) != elf::SHN_UNDEF
}

/// The functions of a symbol table, by start.
///
/// The table is read once: a large one is much of what there is to read for one question. Symbols are in no
/// useful order, so they are put roughly where they belong, by counting, then sorted among few.
fn collect(table: SymbolTable<'_>, ground: &Ground, variables: &mut Vec<Sym64<LE>>) -> Vec<Packed> {
    let mut around = 0..0;
    let mut unsorted = Vec::with_capacity(table.raw().len());
    for (position, symbol) in table.raw().iter().enumerate() {
        if is_variable(symbol) {
            variables.push(*symbol);
        } else if position < POSITION as usize {
            unsorted.extend(packed(position, symbol, ground, &mut around));
        }
    }
    sorted(&unsorted)
}

fn sorted(unsorted: &[Packed]) -> Vec<Packed> {
    let last = unsorted.iter().map(|entry| entry.start).max().unwrap_or(0);
    let mut shift = 0;
    while (last >> shift) as usize > unsorted.len() / GROUP {
        shift += 1;
    }
    let group = |entry: &Packed| (entry.start >> shift) as usize;
    let mut places = vec![0u32; (last >> shift) as usize + 1];
    for entry in unsorted {
        places[group(entry)] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        before += std::mem::replace(place, before);
    }
    let mut entries = vec![Packed::default(); unsorted.len()];
    for entry in unsorted {
        let place = &mut places[group(entry)];
        entries[*place as usize] = *entry;
        *place += 1;
    }
    let mut from = 0;
    for end in places {
        let group = &mut entries[from..end as usize];
        let key = |entry: &Packed| (entry.start, entry.symbol);
        if !group.is_sorted_by_key(key) {
            group.sort_unstable_by_key(key);
        }
        from = end as usize;
    }
    entries
}

/// `around` is the code that the symbol before was in: most often the right one again.
fn packed(
    position: usize,
    symbol: &Sym64<LE>,
    ground: &Ground,
    around: &mut std::ops::Range<u64>,
) -> Option<Packed> {
    if !is_code(symbol) {
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
    Some(Packed {
        start,
        end: ground.distance(end).unwrap_or(u32::MAX),
        symbol: flag(untyped, UNTYPED)
            | (binding as u32) << BINDING
            | flag(kind == SymbolKind::IndirectFunction, RESOLVER)
            | u32::try_from(position).ok()?,
    })
}

fn merge_aliases(entries: &mut Vec<Packed>) {
    entries.dedup_by(|next, kept| {
        let same = next.start == kept.start;
        if same {
            kept.merge(*next);
        }
        same
    });
}

fn take_cold(table: SymbolTable<'_>, ground: &Ground, entries: &mut Vec<Packed>) -> Vec<Part> {
    let marked = NamesWith::new(table.names(), cold::MARK);
    if marked.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    entries.retain(|entry| {
        let symbol = entry.symbol().and_then(|at| table.raw().get(at));
        let name = symbol.map_or(0, |symbol| symbol.st_name.get(LE));
        let is_part = marked.may_hold(name) && cold::is_part(table, name);
        if is_part {
            parts.push(Part {
                start: ground.base.saturating_add(u64::from(entry.start)),
                end: ground.base.saturating_add(u64::from(entry.end)),
                name,
                index: entry.symbol & POSITION,
            });
        }
        !is_part
    });
    parts
}

/// Adds functions where no symbol covers code: from the unwind table, and the entry point.
fn add_unnamed(elf: &Elf<'_>, ground: &Ground, cold: &[Part], entries: &mut Vec<Packed>) {
    let gaps = gaps(elf, ground, cold, entries);
    let mut found: Vec<(u64, u64)> = Vec::new();
    if !gaps.is_empty() {
        let table = UnwindTable::new(elf);
        gaps.iter().for_each(|gap| table.functions_in(gap, &mut found));
    }
    if ground.covering(elf.entry().0).is_some() {
        found.push((elf.entry().0, elf.entry().0));
    }
    let found = found.into_iter().filter_map(|(start, end)| {
        let start = ground.distance(start)?;
        Some(Packed::unnamed(start, ground.distance(end)?.max(start)))
    });
    let is_known = |new: &Packed| {
        let at = entries.binary_search_by_key(&new.start, |entry| entry.start);
        at.is_ok_and(|at| entries.get(at).is_some_and(|entry| entry.end >= new.end))
    };
    let mut found: Vec<Packed> = found.filter(|new| !is_known(new)).collect();
    if !found.is_empty() {
        found.sort_unstable_by_key(|new| (new.start, new.end));
        insert(entries, &found);
        merge_aliases(entries);
    }
}

/// Puts sorted functions among sorted ones, behind those of the same start, from the last to the first: only
/// what lies behind the first new one moves.
fn insert(entries: &mut Vec<Packed>, new: &[Packed]) {
    let mut rest = entries.len();
    entries.resize(rest + new.len(), Packed::default());
    for (missing, new) in new.iter().enumerate().rev() {
        let behind = entries[..rest].partition_point(|entry| entry.start <= new.start);
        entries.copy_within(behind..rest, behind + missing + 1);
        entries[behind + missing] = *new;
        rest = behind;
    }
}

fn gaps(elf: &Elf<'_>, ground: &Ground, cold: &[Part], entries: &[Packed]) -> Vec<LinkRange> {
    let mut covered = cold.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>();
    covered.sort_unstable();
    let addr = |distance: u32| ground.base.saturating_add(u64::from(distance));
    let mut gaps = Vec::new();
    for range in ground.code.iter().filter(|range| !elf.is_stub(range.start)) {
        let (mut at, end) = (range.start.0, range.end.0);
        let from_entries = entries.partition_point(|e| addr(e.start) < at);
        let from_cold = covered.partition_point(|part| part.0 < at);
        let own = entries.get(from_entries..).unwrap_or_default().iter();
        let mut own = own.map(|e| (addr(e.start), addr(e.end))).peekable();
        let moved = covered.get(from_cold..).unwrap_or_default().iter();
        let mut moved = moved.copied().peekable();
        loop {
            let next = match (own.peek(), moved.peek()) {
                (Some(a), Some(b)) if b < a => moved.next(),
                (Some(_), _) => own.next(),
                (None, _) => moved.next(),
            };
            let (start, stop) = next.filter(|(start, _)| *start < end).unwrap_or((end, end));
            if start.saturating_sub(at) >= MIN_GAP {
                gaps.push(LinkAddr(at)..LinkAddr(start));
            }
            at = at.max(stop).max(start);
            if start >= end {
                break;
            }
        }
    }
    gaps
}

/// Makes ranges disjoint: a function ends where the next begins. One that begins inside another (a second
/// entry into the same code) takes over the rest of it.
fn settle_ends(ground: &Ground, cold: &[Part], entries: &mut [Packed]) {
    let mut cold_starts: Vec<u32> = cold
        .iter()
        .filter_map(|part| ground.distance(part.start))
        .collect();
    cold_starts.sort_unstable();
    let mut reach = 0;
    let mut code_end = 0;
    for at in 0..entries.len() {
        let next = entries.get(at + 1).map_or(u32::MAX, |next| next.start);
        let Some(entry) = entries.get_mut(at) else { break };
        if entry.start >= code_end {
            code_end = ground.limit(entry.start);
        }
        let limit = code_end.min(next);
        if entry.end <= entry.start {
            let next_cold = cold_starts.partition_point(|start| *start <= entry.start);
            entry.end = limit
                .min(cold_starts.get(next_cold).copied().unwrap_or(u32::MAX))
                .max(reach.min(limit));
        }
        reach = reach.max(entry.end);
        entry.end = reach.min(limit);
        if reach <= next {
            reach = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_in_the_order_of_addresses_and_as_the_symbols_say() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&file).unwrap();
        let index = build(&elf);
        assert!(index.entries.len() > 1000);
        assert!(
            index
                .entries
                .is_sorted_by(|one, next| one.start < next.start && one.end <= next.start)
        );
        let mut named = 0;
        for entry in &index.entries {
            let symbol = entry.symbol().map(|at| index.table.raw()[at]);
            let Some(symbol) = symbol else { continue };
            assert_eq!(symbol.st_value.get(LE), index.base + u64::from(entry.start));
            named += 1;
        }
        let starts = index
            .table
            .raw()
            .iter()
            .filter(|symbol| symbol.st_type() == elf::STT_FUNC);
        let starts = starts
            .map(|symbol| symbol.st_value.get(LE))
            .filter(|start| *start != 0);
        let starts: std::collections::BTreeSet<u64> = starts.collect();
        assert!(named + index.cold.len() >= starts.len());
    }

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
        assert!(entries[0].is_aliased());
        assert_eq!(Packed::unnamed(8, 30).symbol(), None);
        assert!(!Packed::unnamed(8, 30).is_aliased());
    }

    #[test]
    fn symbols_in_any_order_are_sorted_by_start_then_symbol() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for (count, span) in [(0, 1), (1, 1 << 24), (3, 2), (1000, 300), (1000, 1 << 24)] {
            let unsorted: Vec<Packed> = (0..count)
                .map(|_| Packed {
                    start: next() % span,
                    end: 0,
                    symbol: next(),
                })
                .collect();
            let key = |entry: &Packed| (entry.start, entry.symbol);
            let mut expected: Vec<_> = unsorted.iter().map(key).collect();
            expected.sort_unstable();
            assert_eq!(sorted(&unsorted).iter().map(key).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn new_functions_are_put_behind_those_of_the_same_start() {
        let entry = |(start, end)| Packed {
            start,
            end,
            symbol: 0,
        };
        let run = |of: &[(u32, u32)]| of.iter().copied().map(entry).collect::<Vec<_>>();
        let mut entries = run(&[(2, 4), (6, 8), (9, 9)]);
        insert(&mut entries, &run(&[(0, 1), (6, 9), (7, 8), (12, 13)]));
        let found: Vec<_> = entries.iter().map(|entry| (entry.start, entry.end)).collect();
        assert_eq!(found, [(0, 1), (2, 4), (6, 8), (6, 9), (7, 8), (9, 9), (12, 13)]);
        insert(&mut entries, &[]);
        assert_eq!(entries.len(), 7);
    }
}
