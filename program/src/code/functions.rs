//! Where functions begin and end, and what they are called.
//!
//! Symbols say most of it. Code that no symbol covers is cut into functions by the unwind table; only the
//! entries of such gaps are read. Parts that the compiler moved away (`foo.cold`) belong to their function.

use std::sync::{Arc, OnceLock};

use object::LittleEndian as LE;
use object::elf::Sym64;

use super::cold;
use super::index::{Index, Packed, is_code};
use super::names;
use super::unwind::UnwindTable;
use crate::addr::{LinkAddr, LinkRange};
use crate::elf::symbols::{binding_of, kind_of};
use crate::elf::{Binding, Elf, SymbolKind, SymbolTable};
use crate::files::{Files, Provider, Reading};

/// A function, by how far behind the first code of its file it begins. So they are in address order, and one is
/// known without knowing the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// A number whose low bits differ between functions, though most begin at multiples of sixteen.
    pub(super) fn mixed(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b1) >> 16) as usize
    }
}

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

/// Where the symbols are that were taken out of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Removed<'a> {
    /// In its separate debug file.
    Separate(SymbolTable<'a>),
    /// In the file itself, perhaps: packed, so that they are looked at only if they are needed.
    Packed,
    /// Nowhere.
    Lost,
}

/// The functions of a file, by address. They are found when they are asked for.
#[derive(Debug)]
pub struct Functions<'a> {
    elf: Arc<Elf<'a>>,
    removed: Removed<'a>,
    provider: Provider<'a>,
    index: OnceLock<Index<'a>>,
    moved: OnceLock<Moved>,
}

/// Parts that the compiler moved away.
#[derive(Debug)]
struct Moved {
    /// By address, with the function that they belong to.
    parts: Vec<(u64, u64, u32)>,
    /// The same by function.
    by_owner: Vec<(u32, u64, u64)>,
}

impl Moved {
    fn new(index: &Index<'_>) -> Self {
        let parts = cold::assign(index.table, &index.all_parts(), &index.ground);
        let by_owner = parts.iter().map(|(start, end, owner)| (*owner, *start, *end));
        let mut by_owner: Vec<_> = by_owner.collect();
        by_owner.sort_unstable();
        Self { parts, by_owner }
    }
}

impl<'a> Functions<'a> {
    /// Prepares to find the functions of a file.
    #[must_use]
    pub fn new(elf: &Arc<Elf<'a>>) -> Self {
        Self::of(elf, Removed::Lost, Provider::default())
    }

    /// The same, with the symbols that were taken out of the file, telling `files` which symbols are going to be
    /// looked at, and which are done with.
    pub(super) fn passing(elf: &Arc<Elf<'a>>, removed: Removed<'a>, files: &'a dyn Files) -> Self {
        Self::of(elf, removed, Provider::of(files))
    }

    fn of(elf: &Arc<Elf<'a>>, removed: Removed<'a>, provider: Provider<'a>) -> Self {
        Self {
            elf: Arc::clone(elf),
            removed,
            provider,
            index: OnceLock::new(),
            moved: OnceLock::new(),
        }
    }

    /// Made at the first question: what of the symbols is still on the disk when a file is opened comes in
    /// while others are.
    fn index(&self) -> &Index<'a> {
        self.index.get_or_init(|| {
            let over = |part: &[Sym64<LE>]| {
                self.provider
                    .expect(object::pod::bytes_of_slice(part), Reading::Over);
            };
            let separate = match self.removed {
                Removed::Separate(symbols) => symbols,
                Removed::Packed if self.elf.is_stripped() => self.provider.packed_symbols(&self.elf),
                Removed::Packed | Removed::Lost => SymbolTable::default(),
            };
            Index::new(&self.elf, separate, over)
        })
    }

    /// Goes through the symbols, which the first question would wait for otherwise.
    pub fn prepare(&self) {
        self.index();
    }

    /// The symbol tables, names about to be searched from one end to the other.
    fn named_tables(&self) -> [SymbolTable<'a>; 2] {
        let tables = [self.symbols(), self.elf.dynsym()];
        for table in tables {
            self.provider.expect(table.names(), Reading::Through);
        }
        tables
    }

    fn moved(&self) -> &Moved {
        self.moved.get_or_init(|| {
            self.named_tables();
            Moved::new(self.index())
        })
    }

    pub(super) fn unwind_table(&self) -> &UnwindTable<'a> {
        self.index().unwind()
    }

    /// How many functions there are. To know that, all have to be found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index().whole().entries.len()
    }

    /// Whether no function was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every function, in address order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = FunctionId> + '_ {
        let entries = self.index().whole().entries.iter();
        entries.map(|entry| FunctionId(entry.start))
    }

    /// The function at a place among all, in address order.
    pub(super) fn at_place(&self, place: usize) -> Option<FunctionId> {
        self.index().whole().id(place)
    }

    /// The place of a function among all, in address order.
    pub(super) fn place_of(&self, id: FunctionId) -> Option<usize> {
        self.index().whole().place_of(id.0)
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
        let moved = &self.moved().by_owner;
        let from = moved.partition_point(|(owner, _, _)| *owner < id.0);
        let own = moved.get(from..).unwrap_or_default().iter();
        let own = own.take_while(|(owner, _, _)| *owner == id.0);
        ranges.extend(own.map(|(_, start, end)| LinkAddr(*start)..LinkAddr(*end)));
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// The function that an address belongs to.
    #[must_use]
    pub fn at(&self, addr: LinkAddr) -> Option<FunctionId> {
        let distance = self.index().ground.distance(addr.0)?;
        let last = self.index().last_until(distance);
        if let Some(found) = last.filter(|last| distance < last.end) {
            return Some(FunctionId(found.start));
        }
        let parts = &self.moved().parts;
        let after = parts.partition_point(|(start, _, _)| *start <= addr.0);
        let (_, end, owner) = parts.get(after.checked_sub(1)?)?;
        (addr.0 < *end).then_some(FunctionId(*owner))
    }

    /// The function that begins at an address.
    #[must_use]
    pub fn starting_at(&self, addr: LinkAddr) -> Option<FunctionId> {
        let start = self.index().ground.distance(addr.0)?;
        self.index()
            .starting_at(start)
            .map(|found| FunctionId(found.start))
    }

    /// The symbols of functions that begin at an address, in table order.
    pub(crate) fn names_at(&self, addr: LinkAddr) -> Vec<&'a str> {
        let start = self.index().ground.distance(addr.0);
        let symbols = start.map_or_else(Vec::new, |start| self.index().symbols_at(start));
        let functions = symbols
            .into_iter()
            .filter(|symbol| kind_of(symbol) == Some(SymbolKind::Function));
        functions
            .filter_map(|symbol| self.index().table.name_at(symbol.st_name.get(LE)))
            .collect()
    }

    /// The table of all symbols: the file's own, or that of its separate debug file.
    pub(crate) fn symbols(&self) -> SymbolTable<'a> {
        self.index().full
    }

    /// The symbols of variables in that table, in table order: kept, so that the table need not be read again
    /// for them.
    pub(crate) fn variables(&self) -> &[Sym64<LE>] {
        &self.index().variables
    }

    /// The functions with a symbol that contains a text. Names are searched as one block, not one by one.
    #[must_use]
    pub fn with_symbol_part(&self, part: &str) -> Vec<FunctionId> {
        let mut found = Vec::new();
        for table in self.named_tables() {
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
        for table in self.named_tables() {
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
        let packed = self.packed(id)?;
        Some(Entry {
            start: self.index().ground.addr(packed.start),
            end: self.index().ground.addr(packed.end),
            resolver: packed.is_resolver(),
        })
    }

    fn packed(&self, id: FunctionId) -> Option<Packed> {
        self.index().starting_at(id.0)
    }

    fn symbol(&self, id: FunctionId) -> Option<&'a Sym64<LE>> {
        self.index().table.raw().get(self.packed(id)?.symbol()?)
    }

    fn name(&self, id: FunctionId) -> Option<&'a str> {
        self.index().table.name_at(self.symbol(id)?.st_name.get(LE))
    }
}
