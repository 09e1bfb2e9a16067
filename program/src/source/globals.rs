//! Variables with a fixed address: the table of one unit, and of all.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::location::Context;
use super::paths;
use super::units::{Die, Reader, Unit};
use super::{Sources, VarLocation, Variable, VariableKind};
use crate::addr::LinkAddr;
use crate::code::demangle_path;
use crate::files::Reading;
use crate::scoped;

/// Symbols of one plain name that are looked up one by one; each costs a search of the debug information.
const MOST_SYMBOLS: usize = 16;

/// The variables with a fixed address of one unit, or of all.
#[derive(Default)]
pub(super) struct Globals<'a> {
    /// By address.
    pub placed: Vec<(LinkAddr, Die)>,
    /// By name, thread-local ones as well.
    named: Vec<(Reader<'a>, Die)>,
    /// Those that another unit defines, with their symbol.
    pub declared: Vec<(Reader<'a>, Die)>,
}

impl<'a> Sources<'a> {
    /// The variables of a name: `counter`, `ns::counter`, or `file.c:counter` for the one of a file.
    ///
    /// The first question looks at all units.
    #[must_use]
    pub fn global_named(&self, name: &str) -> Vec<Variable> {
        let (file, name) = match name.rsplit_once(':') {
            Some((file, plain)) if !file.ends_with(':') => (Some(file), plain),
            _ => (None, name),
        };
        let found = self.globals_named(file, name);
        found.into_iter().map(|(variable, _)| variable).collect()
    }

    /// The variables of a name, of one file if given, each with the file of its unit.
    #[must_use]
    pub fn globals_named(&self, file: Option<&str>, name: &str) -> Vec<(Variable, String)> {
        let last = scoped::last(name);
        // A variable template is called like all its variables; which of them it is, only the symbol says.
        let template = last.split_once('<').map(|(template, _)| template.trim_end());
        let template = template.filter(|template| !template.is_empty());
        let is_meant = |variable: &Variable, die| match template {
            Some(_) => self.symbol_of(die).is_some_and(|symbol| {
                let symbol = String::from_utf8_lossy(symbol.slice());
                scoped::is_meant(&demangle_path(&symbol), name)
            }),
            None => scoped::is_meant(&variable.name, name),
        };
        let variables = self
            .dies_named(template.unwrap_or(last))
            .into_iter()
            .filter_map(|die| {
                let path = self.unit(die.unit)?.gimli.name;
                let path = path.map_or(String::new(), |path| path.to_string_lossy().into_owned());
                if file.is_some_and(|file| !paths::ends_with(&path, file)) {
                    return None;
                }
                let variable = self.global(die)?;
                is_meant(&variable, die).then_some((variable, path))
            });
        let mut variables: Vec<_> = variables.collect();
        variables.dedup_by(|(one, _), (other, _)| one == other);
        variables
    }

    /// The entries of variables with a plain name.
    fn dies_named(&self, name: &str) -> Vec<Die> {
        let of = |named: &[(Reader<'a>, Die)]| {
            let same = named.iter().filter(|(known, _)| known.slice() == name.as_bytes());
            same.map(|(_, die)| *die).collect::<Vec<_>>()
        };
        // The symbols tell which units to read; without a symbol (stripped, thread-local) all are.
        let symbols = self.data_symbols().iter();
        let symbols: Vec<_> = symbols
            .filter(|symbol| may_name(symbol.name, name))
            .take(MOST_SYMBOLS + 1)
            .collect();
        let mut found = Vec::new();
        if symbols.len() <= MOST_SYMBOLS {
            let units = symbols
                .iter()
                .flat_map(|symbol| self.units_mentioning(symbol.addr));
            let units: BTreeSet<usize> = units.collect();
            let units = units.into_iter().filter_map(|index| self.code_unit(index));
            found.extend(units.flat_map(|unit| of(&self.globals_of(unit).named)));
        }
        if found.is_empty() {
            found = of(&self.globals().named);
        }
        found
    }

    /// The variable of an entry with a location.
    pub(super) fn global(&self, die: Die) -> Option<Variable> {
        let (_, location) = self.inherited(die, |unit, entry| self.location(entry, &Context::fixed(unit)))?;
        self.global_with(die, location)
    }

    pub(super) fn global_with(&self, die: Die, location: VarLocation) -> Option<Variable> {
        let mut at = die;
        let (_, name) = self.inherited(die, |unit, entry| {
            at = Die {
                unit: unit.id,
                offset: entry.offset(),
            };
            self.text(unit, entry.attr_value(gimli::DW_AT_name)?)
        })?;
        let name = self.qualified(at, &name).into();
        Some(Variable {
            name,
            kind: VariableKind::Static,
            ty: self.type_of(die),
            location,
            frame: 0,
        })
    }

    pub(super) fn globals(&self) -> &Globals<'a> {
        self.globals.get_or_init(|| {
            let units = self.main_offsets().into_par_iter();
            let units: Vec<_> = units
                .filter_map(|index| Some(self.globals_of(self.code_unit(index)?)))
                .collect();
            let mut all = Globals::default();
            for unit in units {
                all.placed.extend_from_slice(&unit.placed);
                all.named.extend_from_slice(&unit.named);
            }
            all.placed.sort_unstable();
            all.named.sort_unstable_by_key(|(name, die)| (name.slice(), *die));
            all
        })
    }

    pub(super) fn globals_of<'s>(&'s self, unit: &'s Unit<'a>) -> &'s Globals<'a> {
        unit.globals.get_or_init(|| {
            let mut globals = Globals::default();
            self.files.expect(self.bytes_of(unit), Reading::Through);
            // What cannot be read was said by whoever read the functions.
            let _ = self.find_globals(unit, &mut globals);
            globals.placed.sort_unstable();
            globals
                .declared
                .sort_unstable_by_key(|(symbol, die)| (symbol.slice(), *die));
            globals
        })
    }

    fn find_globals(&self, unit: &Unit<'a>, globals: &mut Globals<'a>) -> gimli::Result<()> {
        let mut entries = unit.gimli.entries_raw(None)?;
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let attributes = abbreviation.attributes();
            let has = |name| attributes.iter().any(|attribute| attribute.name() == name);
            if abbreviation.tag() == gimli::DW_TAG_variable {
                if has(gimli::DW_AT_location) {
                    self.add_global(unit, offset, globals);
                } else if has(gimli::DW_AT_declaration) && has(gimli::DW_AT_external) {
                    let die = Die {
                        unit: unit.id,
                        offset,
                    };
                    globals
                        .declared
                        .extend(self.symbol_of(die).map(|symbol| (symbol, die)));
                }
            }
            entries.skip_attributes(attributes)?;
        }
        Ok(())
    }

    fn add_global(&self, unit: &Unit<'a>, offset: gimli::UnitOffset, globals: &mut Globals<'a>) {
        let Some(entry) = unit.entry(offset) else { return };
        let die = Die {
            unit: unit.id,
            offset,
        };
        match self.location(&entry, &Context::fixed(unit)) {
            Some(VarLocation::Address(addr)) => globals.placed.push((addr, die)),
            Some(VarLocation::Tls(_)) => {}
            _ => return,
        }
        let name = self.inherited(die, |unit, entry| {
            let name = entry.attr_value(gimli::DW_AT_name)?;
            self.dwarf_of(unit).attr_string(&unit.gimli, name).ok()
        });
        globals.named.extend(name.map(|(_, name)| (name, die)));
    }

    /// The linker's name of a variable.
    fn symbol_of(&self, die: Die) -> Option<Reader<'a>> {
        let (_, symbol) = self.inherited(die, |unit, entry| {
            let name = entry
                .attr_value(gimli::DW_AT_linkage_name)
                .or_else(|| entry.attr_value(gimli::DW_AT_name))?;
            self.dwarf_of(unit).attr_string(&unit.gimli, name).ok()
        })?;
        Some(symbol)
    }
}

/// Whether a symbol may be that of a variable with a plain name: the name itself, a function's own variable
/// (`calls.0`), or a mangled one that has the name in it.
fn may_name(symbol: &str, name: &str) -> bool {
    match symbol.strip_prefix(name) {
        Some(rest) if rest.is_empty() || rest.starts_with('.') => true,
        _ => (symbol.starts_with("_Z") || symbol.starts_with("_R")) && symbol.contains(name),
    }
}
