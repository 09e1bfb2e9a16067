//! What the symbol tables add to the debug information.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Sources;
use super::names::Naming;
use crate::addr::LinkAddr;
use crate::code::{Functions, demangle_path};
use crate::elf::{Elf, Symbol, SymbolKind, SymbolTable};

/// Questions about functions before their symbols get sorted.
const FUNCTION_QUESTIONS: u32 = 64;

/// A symbol with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed<'a> {
    pub addr: LinkAddr,
    pub size: u64,
    pub name: &'a str,
}

impl<'a> Sources<'a> {
    pub(super) fn data_symbols(&self) -> &[Placed<'a>] {
        self.data_symbols
            .get_or_init(|| self.symbols(|symbol| symbol.kind == SymbolKind::Data))
    }

    /// Lets the symbols of functions be found by the index that the code is read with.
    #[must_use]
    pub(crate) fn with_functions(self, functions: Arc<Functions<'a>>) -> Self {
        Self {
            functions: Some(functions),
            ..self
        }
    }

    /// The symbols that were taken out of the file together with the debug information.
    pub(crate) fn separate_symbols(&self) -> SymbolTable<'a> {
        let separate = self.images.get(1).and_then(|bytes| Elf::parse(bytes).ok());
        separate.map_or_else(SymbolTable::default, |elf| elf.symtab())
    }

    /// The names of the functions at an address, where the index of functions tells.
    fn indexed_symbols_at(&self, entry: LinkAddr) -> Option<Vec<&'a str>> {
        let image = *self.images.first()?;
        let mut names = self.functions.as_ref()?.names_at(entry);
        names.extend(Elf::parse(image).ok()?.dynsym().functions_at(entry));
        names.sort_unstable();
        names.dedup();
        Some(names)
    }

    /// The names of the functions at an address. One slice asks for a handful: their symbols are picked out of
    /// the tables as they are, which costs a fraction of sorting them.
    fn function_symbols_at(&self, entry: LinkAddr) -> Vec<&'a str> {
        if let Some(names) = self.indexed_symbols_at(entry) {
            return names;
        }
        if self.function_questions.fetch_add(1, Ordering::Relaxed) >= FUNCTION_QUESTIONS {
            let sorted = self
                .function_symbols
                .get_or_init(|| self.symbols(|symbol| symbol.kind == SymbolKind::Function));
            let first = sorted.partition_point(|symbol| symbol.addr < entry);
            let here = sorted
                .iter()
                .skip(first)
                .take_while(|symbol| symbol.addr == entry);
            return here.map(|symbol| symbol.name).collect();
        }
        let elves = self.images.iter().filter_map(|bytes| Elf::parse(bytes).ok());
        let mut names: Vec<&'a str> = elves
            .flat_map(|elf| [elf.symtab(), elf.dynsym()])
            .flat_map(|table| table.functions_at(entry))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// By address, from the program and its separate debug file.
    fn symbols(&self, wanted: impl Fn(&Symbol<'a>) -> bool) -> Vec<Placed<'a>> {
        let mut symbols = Vec::new();
        for elf in self.images.iter().filter_map(|bytes| Elf::parse(bytes).ok()) {
            let tables = elf.symtab().defined().chain(elf.dynsym().defined());
            let placed = tables.filter(&wanted).map(|symbol| Placed {
                addr: symbol.addr,
                size: symbol.size,
                name: symbol.name,
            });
            symbols.extend(placed);
        }
        symbols.sort_unstable();
        symbols.dedup();
        symbols
    }

    /// Line tables alone (`-gline-tables-only`, Rust's `debug = 1`) have no symbols and bare names: `push`
    /// instead of `jobs::Queue::push`. The symbol at the function's entry has the rest, if it is of the same
    /// name: identical functions may have been folded into one.
    pub(super) fn complete(&self, naming: &mut Naming, entry: LinkAddr) {
        if naming.linkage_name.is_some() {
            return;
        }
        // Every program asks for `main`, which has nothing to complete: do not read the table for it.
        let bare = naming.name.as_deref().filter(|name| *name != "main");
        let Some(bare) = bare.filter(|name| !name.contains("::") || name.contains('<')) else {
            return;
        };
        let symbols = self.function_symbols_at(entry).into_iter();
        let full = symbols.filter(|symbol| *symbol != bare).find_map(|symbol| {
            let path = demangle_path(symbol);
            (path != symbol && same_function(&path, bare)).then_some((symbol, path))
        });
        if let Some((symbol, path)) = full {
            naming.linkage_name = Some(symbol.into());
            naming.name = Some(path.into());
        }
    }
}

/// Whether a path ends in a bare name, whatever their generic arguments.
fn same_function(path: &str, bare: &str) -> bool {
    let (last, bare) = (last_component(path), last_component(bare));
    last == bare || (bare.starts_with("{closure") && last.contains("{closure"))
}

/// The last component that is a name, without generic arguments.
fn last_component(path: &str) -> &str {
    let mut depth = 0usize;
    let mut component = (0, path.len());
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            b'<' => {
                if depth == 0 && component.0 < at {
                    component.1 = component.1.min(at);
                }
                depth += 1;
            }
            b'>' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && !path.get(at + 1..).unwrap_or_default().starts_with(['<', ':']) => {
                component = (at + 1, path.len());
            }
            _ => {}
        }
    }
    let last = path.get(component.0..component.1).unwrap_or(path);
    last.trim_end_matches("::")
}

#[cfg(test)]
mod tests {
    use super::same_function;

    #[test]
    fn generic_arguments_do_not_tell_functions_apart() {
        assert!(same_function(
            "core::ptr::drop_in_place<alloc::string::String>",
            "drop_in_place<alloc::string::String>"
        ));
        assert!(same_function(
            "<a::Vector as a::Demangle<W>>::demangle",
            "demangle<b::Bounded>"
        ));
        assert!(same_function("jobs::run::<u32>", "run<u32>"));
        assert!(same_function("jobs::run::{{closure}}", "{closure#0}"));
        assert!(same_function("ns::Queue<int>::pop", "pop"));
        assert!(!same_function("ns::Queue<int>::push", "pop"));
    }
}
