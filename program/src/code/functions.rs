//! Where functions begin and end, and what they are called.
//!
//! Symbols say most of it. Code that no symbol covers is cut into functions by the unwind table; only the
//! entries of such gaps are read. Parts that the compiler moved away (`foo.cold`) belong to their function.

use object::LittleEndian as LE;
use object::elf::Sym64;

use super::cold;
use super::index::{self, Packed, is_code};
use super::names;
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

/// Where a function is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub start: u64,
    pub end: u64,
    pub resolver: bool,
}

/// All functions of a file, by address.
#[derive(Debug)]
pub struct Functions<'a> {
    symtab: SymbolTable<'a>,
    dynsym: SymbolTable<'a>,
    /// The one of the two that the entries speak of.
    table: SymbolTable<'a>,
    /// The first code, from which distances are counted.
    base: u64,
    entries: Vec<Packed>,
    variables: Vec<Sym64<LE>>,
    /// Moved-away parts by address, with the function that they belong to.
    parts: Vec<(u64, u64, u32)>,
    /// The same by function.
    parts_by_owner: Vec<(u32, u64, u64)>,
}

impl<'a> Functions<'a> {
    /// Builds the index.
    #[must_use]
    pub fn new(elf: &Elf<'a>) -> Self {
        let index = index::build(elf);
        let mut this = Self {
            symtab: elf.symtab(),
            dynsym: elf.dynsym(),
            table: index.table,
            base: index.base,
            entries: index.entries,
            variables: index.variables,
            parts: Vec::new(),
            parts_by_owner: Vec::new(),
        };
        this.parts = cold::assign(index.table, &index.cold, |start| {
            this.starting_at(LinkAddr(start))
        });
        let by_owner = this
            .parts
            .iter()
            .map(|(start, end, owner)| (*owner, *start, *end));
        this.parts_by_owner = by_owner.collect();
        this.parts_by_owner.sort_unstable();
        this
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
            symbol: self.name(id),
            resolver: entry.resolver,
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
        let distance = u32::try_from(addr.0.checked_sub(self.base)?).ok()?;
        let after = self.entries.partition_point(|entry| entry.start <= distance);
        let found = after
            .checked_sub(1)
            .filter(|at| self.entries.get(*at).is_some_and(|entry| distance < entry.end));
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
        let distance = u32::try_from(addr.0.checked_sub(self.base)?).ok()?;
        let at = self.entries.binary_search_by_key(&distance, |entry| entry.start);
        u32::try_from(at.ok()?).ok().map(FunctionId)
    }

    /// The symbol of the function that begins at an address, where it is the only one in the table.
    pub(crate) fn only_symbol_at(&self, addr: LinkAddr) -> Option<(SymbolKind, &'a str)> {
        let id = self.starting_at(addr)?;
        let packed = self.entries.get(usize::try_from(id.0).ok()?)?;
        let symbol = self.symbol(id).filter(|_| !packed.is_aliased())?;
        Some((kind_of(symbol)?, self.name(id)?))
    }

    /// The symbols of variables in `.symtab`, in table order: kept, so that the table need not be read again
    /// for them.
    pub(crate) fn variables(&self) -> &[Sym64<LE>] {
        &self.variables
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
        let local = self
            .symbol(id)
            .filter(|symbol| binding_of(symbol) == Binding::Local);
        local
            .and_then(|_| self.name(id))
            .is_some_and(|name| !names::is_promoted(name))
    }

    pub(super) fn entry(&self, id: FunctionId) -> Option<Entry> {
        let packed = self.entries.get(usize::try_from(id.0).ok()?)?;
        let addr = |distance: u32| self.base.saturating_add(u64::from(distance));
        Some(Entry {
            start: addr(packed.start),
            end: addr(packed.end),
            resolver: packed.is_resolver(),
        })
    }

    fn symbol(&self, id: FunctionId) -> Option<&'a Sym64<LE>> {
        let packed = self.entries.get(usize::try_from(id.0).ok()?)?;
        self.table.raw().get(packed.symbol()?)
    }

    fn name(&self, id: FunctionId) -> Option<&'a str> {
        self.table.name_at(self.symbol(id)?.st_name.get(LE))
    }
}
