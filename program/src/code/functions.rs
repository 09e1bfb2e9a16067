//! Where functions begin and end, and what they are called.
//!
//! Symbols say most of it. Code that no symbol covers is cut into functions by the unwind table; only the
//! entries of such gaps are read. Parts that the compiler moved away (`foo.cold`) belong to their function.

use object::LittleEndian as LE;
use object::elf;

use super::cold;
use super::names;
use super::unwind::UnwindTable;
use crate::addr::{LinkAddr, LinkRange};
use crate::elf::symbols::{binding_of, kind_of};
use crate::elf::{Binding, Elf, SymbolKind, SymbolTable};

/// A function, by its place in address order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its place in the index.
    pub id: FunctionId,
    /// Its first instruction.
    pub entry: LinkAddr,
    /// Its bytes, without parts that the compiler moved away ([`Functions::parts`]).
    pub range: LinkRange,
    /// Its symbol, mangled; `None` in stripped files.
    pub symbol: Option<&'a str>,
    /// Whether it only chooses, at load time, the function to use under its name.
    pub resolver: bool,
}

/// Which table a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameTable {
    Full,
    Dynamic,
    None,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub start: u64,
    /// Zero while unknown.
    pub end: u64,
    pub name: u32,
    /// Position in the symbol table, for finding the file that a local symbol belongs to.
    pub index: u32,
    pub table: NameTable,
    pub binding: Binding,
    pub kind: SymbolKind,
}

/// All functions of a file, by address.
#[derive(Debug)]
pub struct Functions<'a> {
    symtab: SymbolTable<'a>,
    dynsym: SymbolTable<'a>,
    entries: Vec<Entry>,
    /// Moved-away parts by address, with the function that they belong to.
    parts: Vec<(u64, u64, u32)>,
    /// The same by function.
    parts_by_owner: Vec<(u32, u64, u64)>,
}

impl<'a> Functions<'a> {
    /// Builds the index.
    #[must_use]
    pub fn new(elf: &Elf<'a>) -> Self {
        let code = elf.code_ranges();
        let (symtab, dynsym) = (elf.symtab(), elf.dynsym());
        let mut entries = Vec::with_capacity(symtab.raw().len().max(64) / 2);
        collect(symtab, NameTable::Full, &code, &mut entries);
        if entries.is_empty() {
            collect(dynsym, NameTable::Dynamic, &code, &mut entries);
        }
        let cold = cold::take_cold(symtab, &mut entries);
        merge_aliases(&mut entries);
        let entry = elf.entry().0;
        add_unnamed(elf, &code, &cold, entry, &mut entries);
        settle_ends(&code, &cold, &mut entries);
        let parts = cold::assign(symtab, cold, &entries);
        let mut parts_by_owner: Vec<_> = parts
            .iter()
            .map(|(start, end, owner)| (*owner, *start, *end))
            .collect();
        parts_by_owner.sort_unstable();
        Self {
            symtab,
            dynsym,
            entries,
            parts,
            parts_by_owner,
        }
    }

    /// How many functions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no function was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every function, in address order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = FunctionId> + use<'a> {
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).map(FunctionId)
    }

    /// Every function, in address order.
    pub fn iter(&self) -> impl Iterator<Item = Function<'a>> {
        self.ids().filter_map(|id| self.get(id))
    }

    /// A function; `None` for an id of another index.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> Option<Function<'a>> {
        let entry = self.entry(id)?;
        Some(Function {
            id,
            entry: LinkAddr(entry.start),
            range: LinkAddr(entry.start)..LinkAddr(entry.end),
            symbol: self.name(entry),
            resolver: entry.kind == SymbolKind::IndirectFunction,
        })
    }

    /// A function's range and the ranges of its moved-away parts, in address order.
    #[must_use]
    pub fn parts(&self, id: FunctionId) -> Vec<LinkRange> {
        let Some(entry) = self.entry(id) else {
            return Vec::new();
        };
        let mut ranges = vec![LinkAddr(entry.start)..LinkAddr(entry.end)];
        let from = self.parts_by_owner.partition_point(|(owner, _, _)| *owner < id.0);
        let own = self.parts_by_owner.get(from..).unwrap_or_default().iter();
        let own = own.take_while(|(owner, _, _)| *owner == id.0);
        ranges.extend(own.map(|(_, start, end)| LinkAddr(*start)..LinkAddr(*end)));
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// The function that an address belongs to.
    #[must_use]
    pub fn at(&self, addr: LinkAddr) -> Option<FunctionId> {
        let after = self.entries.partition_point(|entry| entry.start <= addr.0);
        let found = after
            .checked_sub(1)
            .filter(|at| self.entries.get(*at).is_some_and(|e| addr.0 < e.end));
        if let Some(at) = found {
            return u32::try_from(at).ok().map(FunctionId);
        }
        let after = self.parts.partition_point(|(start, _, _)| *start <= addr.0);
        let (_, end, owner) = self.parts.get(after.checked_sub(1)?)?;
        (addr.0 < *end).then_some(FunctionId(*owner))
    }

    /// The function that begins at an address.
    #[must_use]
    pub fn starting_at(&self, addr: LinkAddr) -> Option<FunctionId> {
        let at = self
            .entries
            .binary_search_by_key(&addr.0, |entry| entry.start)
            .ok()?;
        u32::try_from(at).ok().map(FunctionId)
    }

    /// The functions with a symbol that contains a text. Names are searched as one block, not one by one.
    #[must_use]
    pub fn with_symbol_part(&self, part: &str) -> Vec<FunctionId> {
        let mut found = Vec::new();
        for table in [self.symtab, self.dynsym] {
            let holders = names::NamesWith::new(table.names(), part.as_bytes());
            if holders.is_empty() {
                continue;
            }
            let symbols = table.raw().iter().filter(|symbol| is_code(symbol));
            let holding = symbols.filter(|symbol| holders.may_hold(symbol.st_name.get(LE)));
            found.extend(holding.filter_map(|symbol| self.at(LinkAddr(symbol.st_value.get(LE)))));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The functions of a name: as in the symbol table, or as people write it, with or without parameters.
    /// Aliases count.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<FunctionId> {
        let mut found = Vec::new();
        for table in [self.symtab, self.dynsym] {
            let needle = names::last_identifier(name);
            if needle.is_empty() {
                continue;
            }
            let holders = names::NamesWith::new(table.names(), needle.as_bytes());
            for symbol in table.raw() {
                let offset = symbol.st_name.get(LE);
                if !is_code(symbol) || !holders.may_hold(offset) {
                    continue;
                }
                let matches = table.name_at(offset).is_some_and(|raw| {
                    raw == name
                        || (raw.starts_with('_')
                            && (names::demangle(raw) == name || names::demangle_path(raw) == name))
                });
                if matches {
                    found.extend(self.at(LinkAddr(symbol.st_value.get(LE))));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The name to show for a function: demangled, or `fn_1a2b` after its address.
    #[must_use]
    pub fn display_name(&self, id: FunctionId) -> String {
        match self.get(id) {
            Some(Function {
                symbol: Some(symbol), ..
            }) => names::demangle(symbol),
            Some(function) => format!("fn_{:x}", function.entry.0),
            None => String::from("?"),
        }
    }

    /// Whether only the function's own compilation can name it, as far as the symbol table tells. Link-time
    /// optimisation gives such functions new names when it makes them known to others.
    #[must_use]
    pub fn is_local(&self, id: FunctionId) -> bool {
        let local = self.entry(id).filter(|entry| entry.binding == Binding::Local);
        local
            .and_then(|entry| self.name(entry))
            .is_some_and(|name| !names::is_promoted(name))
    }

    pub(super) fn entry(&self, id: FunctionId) -> Option<&Entry> {
        self.entries.get(usize::try_from(id.0).ok()?)
    }

    fn name(&self, entry: &Entry) -> Option<&'a str> {
        match entry.table {
            NameTable::Full => self.symtab.name_at(entry.name),
            NameTable::Dynamic => self.dynsym.name_at(entry.name),
            NameTable::None => None,
        }
    }
}

fn is_code(symbol: &elf::Sym64<LE>) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
        && matches!(
            kind_of(symbol),
            Some(SymbolKind::Function | SymbolKind::IndirectFunction | SymbolKind::Untyped)
        )
}

fn covers(ranges: &[LinkRange], addr: u64) -> Option<&LinkRange> {
    let after = ranges.partition_point(|range| range.start.0 <= addr);
    ranges
        .get(after.checked_sub(1)?)
        .filter(|range| addr < range.end.0)
}

fn collect(table: SymbolTable<'_>, from: NameTable, code: &[LinkRange], entries: &mut Vec<Entry>) {
    for (index, symbol) in table.raw().iter().enumerate() {
        if !is_code(symbol) {
            continue;
        }
        let Some(kind) = kind_of(symbol) else { continue };
        let binding = binding_of(symbol);
        // Local labels of assembly are places inside functions, not functions.
        if kind == SymbolKind::Untyped && (binding == Binding::Local || symbol.st_name.get(LE) == 0) {
            continue;
        }
        let start = symbol.st_value.get(LE);
        let Some(range) = covers(code, start) else {
            continue;
        };
        let end = match symbol.st_size.get(LE) {
            0 => 0,
            size => start.saturating_add(size).min(range.end.0),
        };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        entries.push(Entry {
            start,
            end,
            name: symbol.st_name.get(LE),
            index,
            table: from,
            binding,
            kind,
        });
    }
}

/// One function for each address: the most visible name wins, then the first in the table; the longest size
/// counts.
fn merge_aliases(entries: &mut Vec<Entry>) {
    entries.sort_unstable_by_key(|e| (e.start, e.kind == SymbolKind::Untyped, e.binding, e.index));
    entries.dedup_by(|next, kept| {
        let same = next.start == kept.start;
        if same {
            kept.end = kept.end.max(next.end);
        }
        same
    });
}

/// Adds functions where no symbol covers code: from the unwind table, and the entry point.
fn add_unnamed(elf: &Elf<'_>, code: &[LinkRange], cold: &[Entry], start: u64, entries: &mut Vec<Entry>) {
    let gaps = gaps(elf, code, cold, entries);
    let mut found: Vec<(u64, u64)> = Vec::new();
    if !gaps.is_empty() {
        let table = UnwindTable::new(elf);
        gaps.iter().for_each(|gap| table.functions_in(gap, &mut found));
    }
    if covers(code, start).is_some() && entries.binary_search_by_key(&start, |e| e.start).is_err() {
        found.push((start, 0));
    }
    if found.is_empty() {
        return;
    }
    entries.extend(found.into_iter().map(|(start, end)| Entry {
        start,
        end,
        name: 0,
        index: u32::MAX,
        table: NameTable::None,
        binding: Binding::Local,
        kind: SymbolKind::Function,
    }));
    merge_aliases(entries);
}

/// What is longer than any alignment padding and covered by no sized symbol.
const MIN_GAP: u64 = 64;

fn gaps(elf: &Elf<'_>, code: &[LinkRange], cold: &[Entry], entries: &[Entry]) -> Vec<LinkRange> {
    let mut covered = cold.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>();
    covered.sort_unstable();
    let mut gaps = Vec::new();
    for range in code.iter().filter(|range| !elf.is_stub(range.start)) {
        let (mut at, end) = (range.start.0, range.end.0);
        let from_entries = entries.partition_point(|e| e.start < at);
        let from_cold = covered.partition_point(|part| part.0 < at);
        let mut own = entries
            .get(from_entries..)
            .unwrap_or_default()
            .iter()
            .map(|e| (e.start, e.end))
            .peekable();
        let mut moved = covered
            .get(from_cold..)
            .unwrap_or_default()
            .iter()
            .copied()
            .peekable();
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
fn settle_ends(code: &[LinkRange], cold: &[Entry], entries: &mut [Entry]) {
    let mut cold_starts: Vec<u64> = cold.iter().map(|part| part.start).collect();
    cold_starts.sort_unstable();
    let mut reach = 0;
    for at in 0..entries.len() {
        let next = entries.get(at + 1).map_or(u64::MAX, |next| next.start);
        let Some(entry) = entries.get_mut(at) else { break };
        let limit = covers(code, entry.start)
            .map_or(entry.start, |range| range.end.0)
            .min(next);
        if entry.end <= entry.start {
            let next_cold = cold_starts.partition_point(|start| *start <= entry.start);
            entry.end = limit
                .min(cold_starts.get(next_cold).copied().unwrap_or(u64::MAX))
                .max(reach.min(limit));
        }
        reach = reach.max(entry.end);
        entry.end = reach.min(limit);
        if reach <= next {
            reach = 0;
        }
    }
}
