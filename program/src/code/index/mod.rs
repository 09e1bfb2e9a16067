//! The index of functions: found where they are asked for, at the price of their neighbourhood.
//!
//! A large program has half a million functions, and one failure is about a few hundred of them. [`shelves`]
//! sorts symbols roughly, which is the only time that all of them are looked at; [`complete`] makes functions of the
//! symbols and the unwind table around one address. [`whole`] does the same for all code at once.

mod complete;
mod ground;
mod packed;
mod shelves;
mod whole;

use std::sync::{Arc, OnceLock};

use object::LittleEndian as LE;
use object::elf::Sym64;

use super::cold;
use super::unwind::UnwindTable;
use crate::elf::{Elf, SymbolTable};
use crate::objects::is_variable;

use complete::Stretch;
pub(super) use ground::Ground;
use packed::{POSITION, merge_aliases};
pub(super) use packed::{Packed, is_code};
use shelves::Shelves;
pub(super) use whole::Whole;

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

/// The functions of shelves that stand side by side.
type Row = Box<[OnceLock<Box<[Packed]>>]>;

/// How many those are: few enough that there is little to a row of which one is asked for, and so many that there
/// is little to those of which none is.
const ROW: usize = 64;

/// The functions of a file.
#[derive(Debug)]
pub(super) struct Index<'a> {
    elf: Arc<Elf<'a>>,
    pub ground: Ground,
    /// The table that the symbols of functions are in.
    pub table: SymbolTable<'a>,
    /// The table of all symbols, of the file or of its separate debug file.
    pub full: SymbolTable<'a>,
    /// The symbols of variables in the full table, met on the way.
    pub variables: Vec<Sym64<LE>>,
    shelves: Shelves,
    /// The functions of the shelves that were asked for, [`ROW`] shelves in each.
    known: Vec<OnceLock<Row>>,
    whole: OnceLock<Whole>,
    unwind: OnceLock<UnwindTable<'a>>,
}

impl<'a> Index<'a> {
    /// `separate` are the symbols that were taken out of the file, `passed` gets each part of the symbol table
    /// that was gone through.
    pub(super) fn new(elf: &Arc<Elf<'a>>, separate: SymbolTable<'a>, passed: impl Fn(&[Sym64<LE>])) -> Self {
        let ground = Ground::new(elf);
        let rows = UnwindTable::rows_at_hand(elf);
        let has_code = |table: &SymbolTable<'a>| {
            let mut around = 0..0;
            let mut symbols = table.raw().iter().enumerate();
            symbols.any(|(at, symbol)| Packed::of_symbol(at, symbol, &ground, &mut around).is_some())
        };
        let mut known = [elf.symtab(), separate].into_iter().filter(has_code);
        let full = known.next();
        let (full, mut table) = (full.unwrap_or_else(|| elf.symtab()), full);
        let mut variables = Vec::new();
        let keep = |symbol: &Sym64<LE>| {
            if is_variable(symbol) {
                variables.push(*symbol);
            }
        };
        let mut shelves = Shelves::new(full.raw(), &ground, rows, keep, passed);
        let table = *table.get_or_insert_with(|| {
            let dynamic = elf.dynsym();
            shelves = Shelves::new(dynamic.raw(), &ground, rows, |_| (), |_| ());
            dynamic
        });
        let known = std::iter::repeat_with(OnceLock::new);
        Self {
            elf: Arc::clone(elf),
            ground,
            table,
            full,
            variables,
            known: known.take(shelves.count().div_ceil(ROW)).collect(),
            shelves,
            whole: OnceLock::new(),
            unwind: OnceLock::new(),
        }
    }

    pub(super) fn unwind(&self) -> &UnwindTable<'a> {
        self.unwind.get_or_init(|| UnwindTable::new(&self.elf))
    }

    /// All functions: takes a while, and makes every later question faster.
    pub(super) fn whole(&self) -> &Whole {
        self.whole.get_or_init(|| Whole::new(self))
    }

    /// The function that begins at a distance.
    pub(super) fn starting_at(&self, start: u32) -> Option<Packed> {
        if let Some(whole) = self.whole.get() {
            return whole.entries.get(whole.place_of(start)?).copied();
        }
        let shelf = self.shelf(self.shelves.of(start));
        let at = shelf.binary_search_by_key(&start, |entry| entry.start).ok()?;
        shelf.get(at).copied()
    }

    /// The last function that begins at or before a distance.
    pub(super) fn last_until(&self, distance: u32) -> Option<Packed> {
        let last = |entries: &[Packed]| {
            let after = entries.partition_point(|entry| entry.start <= distance);
            entries.get(after.checked_sub(1)?).copied()
        };
        match self.whole.get() {
            Some(whole) => last(&whole.entries),
            None => (0..=self.shelves.of(distance))
                .rev()
                .find_map(|shelf| last(self.shelf(shelf))),
        }
    }

    /// The symbols of code that begin at a distance, in table order.
    pub(super) fn symbols_at(&self, start: u32) -> Vec<&'a Sym64<LE>> {
        let here = self
            .entries_on(self.shelves.of(start))
            .filter(|entry| entry.start == start);
        let symbols = here.filter_map(|entry| self.table.raw().get(entry.symbol()?));
        let mut found: Vec<_> = symbols.collect();
        found.reverse();
        found
    }

    /// The functions of a shelf, by start.
    fn shelf(&self, shelf: usize) -> &[Packed] {
        let row = self
            .known
            .get(shelf / ROW)
            .map(|row| row.get_or_init(|| std::iter::repeat_with(OnceLock::new).take(ROW).collect()));
        let known = row.and_then(|row| row.get(shelf % ROW));
        known.map_or(&[], |known| known.get_or_init(|| self.functions_on(shelf).into()))
    }

    fn functions_on(&self, shelf: usize) -> Vec<Packed> {
        let wanted = self.shelves.range(shelf);
        let ends = |shelf| self.entries_on(shelf).map(|entry| entry.end).max();
        let reach = self.shelves.reach(shelf, ends);
        let (mut entries, mut cold) = (Vec::new(), Vec::new());
        let mut from = Some(shelf);
        // A function behind the wanted ones tells where they end, and so does a part of another one if none of them
        // goes further than what was read: there may be nothing but parts for megabytes.
        let is_enough = |entries: &[Packed], cold: &[Part], read: u64| {
            let is_behind = |start: u32| u64::from(start) >= wanted.end;
            let is_read = |end: u32| u64::from(end) <= read;
            let starts = cold.iter().filter_map(|part| self.ground.distance(part.start));
            entries.iter().any(|entry| is_behind(entry.start))
                || starts.max().is_some_and(is_behind)
                    && is_read(reach)
                    && entries.iter().all(|entry| is_read(entry.end))
        };
        let mut read = wanted.start;
        while let Some(at) = from.filter(|_| !is_enough(&entries, &cold, read)) {
            self.read_symbols(at, &mut entries, &mut cold);
            read = self.shelves.range(at).end;
            from = self.shelves.next(at);
        }
        entries.sort_unstable_by_key(|entry| (entry.start, entry.symbol));
        cold.sort_unstable_by_key(|part| (part.start, part.end));
        merge_aliases(&mut entries);
        let stretch = Stretch {
            ground: &self.ground,
            reach,
            cold: &cold,
            wanted: wanted.clone(),
        };
        stretch.complete(|| self.unwind(), &mut entries);
        entries.retain(|entry| wanted.contains(&u64::from(entry.start)));
        entries
    }

    /// What symbols say of a shelf.
    fn entries_on(&self, shelf: usize) -> impl Iterator<Item = Packed> + '_ {
        let mut around = 0..0;
        self.shelves.positions(shelf).filter_map(move |at| {
            let symbol = self.table.raw().get(at)?;
            Packed::of_symbol(at, symbol, &self.ground, &mut around)
        })
    }

    fn read_symbols(&self, shelf: usize, entries: &mut Vec<Packed>, cold: &mut Vec<Part>) {
        for entry in self.entries_on(shelf) {
            match self.part(entry, |_| true) {
                Some(part) => cold.push(part),
                None => entries.push(entry),
            }
        }
    }

    /// The moved-away part that a symbol stands for, if it does. `may_be` is a first look at the offset of its
    /// name.
    fn part(&self, entry: Packed, may_be: impl Fn(u32) -> bool) -> Option<Part> {
        let symbol = self.table.raw().get(entry.symbol()?)?;
        let name = symbol.st_name.get(LE);
        let is_part = may_be(name) && cold::is_part(self.table, name);
        is_part.then_some(Part {
            start: self.ground.addr(entry.start),
            end: self.ground.addr(entry.end),
            name,
            index: entry.symbol & POSITION,
        })
    }

    /// All moved-away parts.
    pub(super) fn all_parts(&self) -> Vec<Part> {
        let marked = super::names::NamesWith::new(self.table.names(), cold::MARK);
        if marked.is_empty() {
            return Vec::new();
        }
        let mut around = 0..0;
        let symbols = self.table.raw().iter().enumerate();
        let marked = symbols.filter(|(_, symbol)| marked.may_hold(symbol.st_name.get(LE)));
        let entries =
            marked.filter_map(|(at, symbol)| Packed::of_symbol(at, symbol, &self.ground, &mut around));
        entries.filter_map(|entry| self.part(entry, |_| true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use object::elf;

    use super::*;

    fn own(check: impl FnOnce(Index<'_>)) {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        check(Index::new(
            &Arc::new(Elf::parse(&file).unwrap()),
            SymbolTable::default(),
            |_| (),
        ));
    }

    #[test]
    fn functions_are_in_the_order_of_addresses_and_as_the_symbols_say() {
        own(|index| {
            let entries = &index.whole().entries;
            assert!(entries.len() > 1000);
            assert!(entries.is_sorted_by(|one, next| one.start < next.start && one.end <= next.start));
            let mut named = 0;
            for entry in entries {
                let symbol = entry.symbol().map(|at| index.table.raw()[at]);
                let Some(symbol) = symbol else { continue };
                assert_eq!(symbol.st_value.get(LE), index.ground.addr(entry.start));
                named += 1;
            }
            let starts = index.table.raw().iter();
            let starts = starts.filter(|symbol| symbol.st_type() == elf::STT_FUNC);
            let starts = starts
                .map(|symbol| symbol.st_value.get(LE))
                .filter(|start| *start != 0);
            let starts: std::collections::BTreeSet<u64> = starts.collect();
            assert!(named + index.all_parts().len() >= starts.len());
        });
    }

    #[test]
    fn a_neighbourhood_shows_what_the_whole_shows() {
        own(|index| {
            let shelves = 0..index.shelves.count();
            let found: Vec<Packed> = shelves.flat_map(|shelf| index.functions_on(shelf)).collect();
            assert_eq!(found, index.whole().entries);
        });
    }

    /// Functions with and without sizes and symbols, then nothing but parts of theirs for many shelves, as a linker leaves
    /// them that puts together what seldom runs, then a function again.
    #[test]
    fn a_neighbourhood_of_moved_away_parts_shows_what_the_whole_shows() {
        let mut text = String::from(".text\n");
        for n in 0..40 {
            let size = if n % 3 == 0 {
                String::new()
            } else {
                format!(".size f{n}, . - f{n}")
            };
            text += &format!(
                ".type f{n}, @function\nf{n}: .cfi_startproc\n.fill 99, 1, 0x90\nret\n.cfi_endproc\n{size}\n"
            );
            if n % 5 == 0 {
                text += ".cfi_startproc\n.fill 150, 1, 0x90\nret\n.cfi_endproc\n";
            }
        }
        for n in 0..400 {
            let of = n % 40;
            text += &format!(".type f{of}.cold.{n}, @function\nf{of}.cold.{n}: .fill 89, 1, 0x90\nret\n");
            text += &format!(".size f{of}.cold.{n}, . - f{of}.cold.{n}\n");
        }
        text += ".type last, @function\nlast: ret\n.size last, 1\n";
        let folder = std::env::temp_dir().join(format!("failsketch-parts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, library) = (folder.join("parts.s"), folder.join("parts.so"));
        std::fs::write(&source, text).unwrap();
        let mut gcc = std::process::Command::new("gcc");
        let gcc = gcc
            .args(["-shared", "-nostdlib", "-o"])
            .arg(&library)
            .arg(&source);
        assert!(gcc.status().unwrap().success());
        let file = std::fs::read(&library).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let elf = Arc::new(Elf::parse(&file).unwrap());
        let index = Index::new(&elf, SymbolTable::default(), |_| ());
        assert!(index.shelves.count() > 30 && index.all_parts().len() == 400);
        let shelves = 0..index.shelves.count();
        let found: Vec<Packed> = shelves.flat_map(|shelf| index.functions_on(shelf)).collect();
        assert_eq!(found, index.whole().entries);
        assert!(found.len() > 48);
    }
}
