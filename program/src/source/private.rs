//! What only one compilation can name: `static` functions and variables, and the code that can use them.
//!
//! Who calls a function, or writes a variable, is a question about all code of a program. Most functions and
//! variables of a program, though, cannot be named outside of the compilation that made them, and that is a
//! thousandth of a large program.

use std::sync::Arc;

use gimli::{AttributeValue, DW_AT_abstract_origin, DW_FORM_GNU_ref_alt, DW_FORM_ref_addr};

use super::Sources;
use super::units::{Die, Unit, UnitId};
use crate::addr::{LinkAddr, LinkRange};

/// Ranges that are so near to one another are searched as one: padding between functions.
const NEAR: u64 = 64;

/// A crate is compiled in at most so many units that follow one another.
const MOST_UNITS: usize = 512;

impl<'a> Sources<'a> {
    /// The code that can name the function that begins at `entry`, in order, if that is not all code.
    #[must_use]
    pub fn code_around_private_function(&self, entry: LinkAddr) -> Option<Arc<[LinkRange]>> {
        let (unit, function) = self.find_function(entry)?;
        let begins = function.ranges.iter().any(|range| range.start == entry);
        let die = Die {
            unit: unit.id,
            offset: function.die,
        };
        (begins && self.is_private(die)).then(|| self.code_with(unit))?
    }

    /// The code that can name the variable around `addr`, in order, if that is not all code. `user` is code
    /// that refers to it.
    #[must_use]
    pub fn code_around_private_variable(&self, addr: LinkAddr, user: LinkAddr) -> Option<Arc<[LinkRange]>> {
        let (unit, _) = self.find_function(user)?;
        let placed = &self.globals_of(unit).placed;
        let after = placed.partition_point(|(start, _)| *start <= addr);
        let (start, die) = *placed.get(after.checked_sub(1)?)?;
        let size = self.type_of(die).and_then(|ty| self.ty(ty).size()).unwrap_or(1);
        (addr.0.checked_sub(start.0)? < size && self.is_private(die)).then(|| self.code_with(unit))?
    }

    fn is_private(&self, die: Die) -> bool {
        let external = self.inherited(die, |_, entry| entry.attr_value(gimli::DW_AT_external));
        !matches!(external, Some((_, AttributeValue::Flag(true))))
    }

    /// The code that was compiled together with a unit.
    fn code_with(&self, unit: &Unit<'a>) -> Option<Arc<[LinkRange]>> {
        unit.code.get_or_init(|| self.find_code_with(unit)).clone()
    }

    fn find_code_with(&self, unit: &Unit<'a>) -> Option<Arc<[LinkRange]>> {
        let (UnitId::Main(index) | UnitId::Split(index)) = unit.id else {
            return None;
        };
        if self.is_inlined_across_units(unit) {
            return None;
        }
        let mut indices = vec![index];
        // What is private in Rust is private to a crate, and a crate is several units in a row.
        if let Some(of) = self.crate_of(index) {
            let units = self.main_offsets();
            let alike = |at: &usize| self.crate_of(*at).as_ref() == Some(&of);
            let (before, behind) = units.split_at(units.partition_point(|at| *at < index));
            let before = before.iter().copied().rev().take_while(alike);
            let behind = behind.iter().copied().skip(1).take_while(alike);
            indices.extend(before.take(MOST_UNITS).chain(behind.take(MOST_UNITS)));
        }
        let mut ranges: Vec<LinkRange> = Vec::new();
        for index in indices {
            ranges.extend(self.ranges_of_unit(index));
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<LinkRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start.0 <= last.end.0.saturating_add(NEAR) => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        (!joined.is_empty()).then(|| joined.into())
    }

    /// Whether link-time optimisation may have put the unit's code into other units: then what is private
    /// to it in the source is used from anywhere.
    fn is_inlined_across_units(&self, unit: &Unit<'a>) -> bool {
        let across = (1..)
            .map_while(|code| unit.gimli.abbreviations.get(code))
            .flat_map(|abbreviation| abbreviation.attributes())
            .filter(|attribute| attribute.name() == DW_AT_abstract_origin)
            .any(|attribute| [DW_FORM_ref_addr, DW_FORM_GNU_ref_alt].contains(&attribute.form()));
        let root = unit.entry(unit.gimli.header.root_offset());
        let producer = root.and_then(|root| self.text(unit, root.attr_value(gimli::DW_AT_producer)?));
        across || producer.is_some_and(|producer| producer.contains("-flto"))
    }

    /// What the units of one Rust crate share of their names: `src/main.rs/@/main.4a1b2c3d-cgu.0`.
    fn crate_of(&self, at: usize) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let unit = self.root_unit(&self.main_header(at)?)?;
        let name = unit.gimli.name?.slice();
        let at = memchr::memmem::find(name, b"/@/")?;
        let folder = unit.gimli.comp_dir.map(|folder| folder.slice().to_vec());
        Some((name.get(..at)?.to_vec(), folder))
    }
}
