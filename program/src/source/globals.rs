//! Variables with a fixed address, found by address or by name.

use rayon::prelude::*;

use super::location::Context;
use super::paths;
use super::units::{Die, Reader, Unit};
use super::{Sources, VarLocation, Variable, VariableKind};
use crate::addr::LinkAddr;

/// The variables with a fixed address of one unit, or of all.
#[derive(Default)]
pub(super) struct Globals<'a> {
    /// By address.
    placed: Vec<(LinkAddr, Die)>,
    /// By name, thread-local ones as well.
    named: Vec<(Reader<'a>, Die)>,
}

impl<'a> Sources<'a> {
    /// The variable that holds an address, and how far into it the address is.
    ///
    /// `user` is code that refers to it, if known: its unit is looked at first, which usually saves
    /// looking at all the others.
    #[must_use]
    pub fn global_at(&self, addr: LinkAddr, user: Option<LinkAddr>) -> Option<(Variable, u64)> {
        let near = user.and_then(|user| {
            let (unit, _) = self.find_function(user)?;
            self.holding(&self.globals_of(unit).placed, addr)
        });
        near.or_else(|| self.holding(&self.globals().placed, addr))
    }

    /// The variables of a name: `counter`, `ns::counter`, or `file.c:counter` for the one of a file.
    #[must_use]
    pub fn global_named(&self, name: &str) -> Vec<Variable> {
        let (file, name) = match name.rsplit_once(':') {
            Some((file, plain)) if !file.ends_with(':') && !plain.contains("::") => (Some(file), plain),
            _ => (None, name),
        };
        let last = name.rsplit("::").next().unwrap_or(name);
        let named = &self.globals().named;
        let first = named.partition_point(|(known, _)| known.slice() < last.as_bytes());
        let same = named
            .iter()
            .skip(first)
            .take_while(|(known, _)| known.slice() == last.as_bytes());
        let variables = same.filter_map(|(_, die)| {
            if let Some(file) = file {
                let path = self.unit(die.unit)?.gimli.name?.to_string_lossy();
                if !paths::ends_with(&path, file) {
                    return None;
                }
            }
            let variable = self.global(*die)?;
            let whole: &str = &variable.name;
            let fits = whole == name || whole.strip_suffix(name).is_some_and(|rest| rest.ends_with("::"));
            fits.then_some(variable)
        });
        let mut variables: Vec<_> = variables.collect();
        variables.dedup();
        variables
    }

    fn holding(&self, placed: &[(LinkAddr, Die)], addr: LinkAddr) -> Option<(Variable, u64)> {
        let after = placed.partition_point(|(start, _)| *start <= addr);
        let (start, _) = placed.get(after.checked_sub(1)?)?;
        let same = placed
            .get(..after)?
            .iter()
            .rev()
            .take_while(|(other, _)| other == start);
        // Several entries for one variable: the last in order is as good, one with a size is better.
        let mut sized = same.filter_map(|(start, die)| {
            let offset = addr.0.checked_sub(start.0)?;
            let size = self.type_of(*die).and_then(|ty| self.ty(ty).size());
            (offset < size.unwrap_or(1)).then_some((die, offset))
        });
        let (die, offset) = sized.next()?;
        Some((self.global(*die)?, offset))
    }

    fn global(&self, die: Die) -> Option<Variable> {
        let location = self.inherited(die, |unit, entry| {
            self.location(
                entry,
                &Context {
                    unit,
                    function: None,
                    addr: None,
                },
            )
        });
        let (_, location) = location?;
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

    fn globals(&self) -> &Globals<'a> {
        self.globals.get_or_init(|| {
            let count = u32::try_from(self.main_units().headers.len()).unwrap_or(u32::MAX);
            let units: Vec<_> = (0..count)
                .into_par_iter()
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

    fn globals_of<'s>(&'s self, unit: &'s Unit<'a>) -> &'s Globals<'a> {
        unit.globals.get_or_init(|| {
            let mut globals = Globals::default();
            // What cannot be read was said by whoever read the functions.
            let _ = self.find_globals(unit, &mut globals);
            globals.placed.sort_unstable();
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
            if abbreviation.tag() == gimli::DW_TAG_variable
                && attributes
                    .iter()
                    .any(|attribute| attribute.name() == gimli::DW_AT_location)
                && let Some(entry) = unit.entry(offset)
                && let Some(location) = self.location(
                    &entry,
                    &Context {
                        unit,
                        function: None,
                        addr: None,
                    },
                )
            {
                let die = Die {
                    unit: unit.id,
                    offset,
                };
                if let VarLocation::Address(addr) = location {
                    globals.placed.push((addr, die));
                }
                if matches!(location, VarLocation::Address(_) | VarLocation::Tls(_))
                    && let Some((_, name)) = self.inherited(die, |unit, entry| {
                        let name = entry.attr_value(gimli::DW_AT_name)?;
                        self.dwarf_of(unit).attr_string(&unit.gimli, name).ok()
                    })
                {
                    globals.named.push((name, die));
                }
            }
            entries.skip_attributes(attributes)?;
        }
        Ok(())
    }
}
