//! The symbol tables, `.symtab` and `.dynsym`, read in place.

use memchr::memchr;
use object::LittleEndian as LE;
use object::elf::{self, Sym64};
use object::read::elf::SectionHeader;

use super::Elf;
use crate::addr::LinkAddr;

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// Code.
    Function,
    /// Code that chooses, at load time, the function to be used under this name.
    IndirectFunction,
    /// A variable.
    Data,
    /// A variable of which every thread has its own; the address is an offset into the thread's block.
    ThreadLocal,
    /// A label without type, as assembly leaves them.
    Untyped,
}

/// How far a symbol is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binding {
    /// Everywhere.
    Global,
    /// Everywhere, unless somebody else defines it too.
    Weak,
    /// In its own source file.
    Local,
}

/// A defined symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The name as in the table (mangled).
    pub name: &'a str,
    /// Its address (for thread-locals: its offset).
    pub addr: LinkAddr,
    /// Its size in bytes; zero when unknown.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
    /// How far it is visible.
    pub binding: Binding,
}

/// One symbol table with its names.
#[derive(Clone, Copy, Debug, Default)]
pub struct SymbolTable<'a> {
    symbols: &'a [Sym64<LE>],
    names: &'a [u8],
}

impl<'a> SymbolTable<'a> {
    pub(crate) fn new(symbols: &'a [Sym64<LE>], names: &'a [u8]) -> Self {
        Self { symbols, names }
    }

    pub(crate) fn raw(&self) -> &'a [Sym64<LE>] {
        self.symbols
    }

    pub(crate) fn names(&self) -> &'a [u8] {
        self.names
    }

    /// The name at an offset of the string table.
    pub(crate) fn name_at(&self, offset: u32) -> Option<&'a str> {
        std::str::from_utf8(self.name_bytes(offset)?).ok()
    }

    pub(crate) fn name_bytes(&self, offset: u32) -> Option<&'a [u8]> {
        let rest = self.names.get(usize::try_from(offset).ok()?..)?;
        let name = rest.get(..memchr(0, rest)?)?;
        (!name.is_empty()).then_some(name)
    }

    /// The names of the functions that begin at an address, in table order.
    pub(crate) fn functions_at(self, addr: LinkAddr) -> impl Iterator<Item = &'a str> {
        let here = self.symbols.iter().filter(move |symbol| {
            symbol.st_value.get(LE) == addr.0
                && symbol.st_shndx.get(LE) != elf::SHN_UNDEF
                && kind_of(symbol) == Some(SymbolKind::Function)
        });
        here.filter_map(move |symbol| self.name_at(symbol.st_name.get(LE)))
    }

    /// Defined symbols that name code or data, in table order.
    pub fn defined(self) -> impl Iterator<Item = Symbol<'a>> {
        let table = self;
        table.symbols.iter().filter_map(move |symbol| {
            if symbol.st_shndx.get(LE) == elf::SHN_UNDEF {
                return None;
            }
            let kind = kind_of(symbol)?;
            Some(Symbol {
                name: table.name_at(symbol.st_name.get(LE))?,
                addr: LinkAddr(symbol.st_value.get(LE)),
                size: symbol.st_size.get(LE),
                kind,
                binding: binding_of(symbol),
            })
        })
    }
}

pub(crate) fn kind_of(symbol: &Sym64<LE>) -> Option<SymbolKind> {
    Some(match symbol.st_type() {
        elf::STT_FUNC => SymbolKind::Function,
        elf::STT_GNU_IFUNC => SymbolKind::IndirectFunction,
        elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Data,
        elf::STT_TLS => SymbolKind::ThreadLocal,
        elf::STT_NOTYPE => SymbolKind::Untyped,
        _ => return None,
    })
}

pub(crate) fn binding_of(symbol: &Sym64<LE>) -> Binding {
    match symbol.st_bind() {
        elf::STB_LOCAL => Binding::Local,
        elf::STB_WEAK => Binding::Weak,
        _ => Binding::Global,
    }
}

impl<'a> Elf<'a> {
    /// The full symbol table; empty in a stripped file.
    #[must_use]
    pub fn symtab(&self) -> SymbolTable<'a> {
        self.symbol_table(elf::SHT_SYMTAB)
    }

    /// The symbols that the dynamic loader needs.
    #[must_use]
    pub fn dynsym(&self) -> SymbolTable<'a> {
        self.symbol_table(elf::SHT_DYNSYM)
    }

    /// Defined data symbols, thread-locals included, of both tables; names in both tables come twice.
    pub fn data_symbols(&self) -> impl Iterator<Item = Symbol<'a>> {
        let tables = self.symtab().defined().chain(self.dynsym().defined());
        tables.filter(|symbol| matches!(symbol.kind, SymbolKind::Data | SymbolKind::ThreadLocal))
    }

    fn symbol_table(&self, kind: elf::SectionType) -> SymbolTable<'a> {
        let table = self
            .sections()
            .iter()
            .find(|section| section.sh_type(LE) == kind)
            .and_then(|section| {
                let symbols = section.data_as_array::<Sym64<LE>, _>(LE, self.bytes()).ok()?;
                let strings = self.sections().section(section.link(LE)).ok()?;
                let names = strings.data(LE, self.bytes()).ok()?;
                Some(SymbolTable { symbols, names })
            });
        table.unwrap_or_default()
    }
}
