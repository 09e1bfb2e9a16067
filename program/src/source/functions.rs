//! The functions of a unit, and the scopes that give its entries their full names.

use std::sync::{Arc, OnceLock};

use gimli::UnitOffset;

use super::body::Body;
use super::names::Naming;
use super::ranges::RangeMap;
use super::units::{Die, Unit, UnitId};
use super::{Parameter, Sources, SubprogramInfo, TypeId};
use crate::addr::{LinkAddr, LinkRange};
use crate::files::Reading;

/// What one walk over a unit's entries finds.
#[derive(Default)]
pub(super) struct UnitIndex {
    pub functions: Vec<Function>,
    by_addr: RangeMap,
    scopes: Vec<Scope>,
}

/// A function with machine code. Few of a unit's are asked for more than their ranges.
pub(super) struct Function {
    pub die: UnitOffset,
    pub ranges: Vec<LinkRange>,
    pub naming: OnceLock<Box<Naming>>,
    pub body: OnceLock<Box<Body>>,
}

/// A namespace or type: entries between its offset and its end are inside it.
struct Scope {
    start: UnitOffset,
    end: UnitOffset,
    parent: Option<u32>,
}

impl UnitIndex {
    fn function_at(&self, addr: LinkAddr) -> Option<&Function> {
        let index = self.by_addr.at(addr).next()?;
        self.functions.get(usize::try_from(index).ok()?)
    }

    /// The scopes around an entry, innermost first.
    pub fn scopes_around(&self, offset: UnitOffset) -> impl Iterator<Item = UnitOffset> {
        let after = self.scopes.partition_point(|scope| scope.start.0 < offset.0);
        let get = |index: u32| self.scopes.get(usize::try_from(index).ok()?);
        let mut current = after.checked_sub(1).and_then(|last| self.scopes.get(last));
        std::iter::from_fn(move || {
            loop {
                let scope = current?;
                current = scope.parent.and_then(get);
                if scope.end.0 > offset.0 {
                    return Some(scope.start);
                }
            }
        })
    }
}

fn opens_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
    )
}

impl<'a> Sources<'a> {
    pub(super) fn index_of<'s>(&'s self, unit: &'s Unit<'a>) -> &'s UnitIndex {
        unit.index.get_or_init(|| {
            let mut index = UnitIndex::default();
            self.files.expect(self.bytes_of(unit), Reading::Through);
            if let Err(error) = self.walk(unit, &mut index) {
                let offset = unit.gimli.header.offset().0;
                self.problem(format!(
                    "the entries of the unit at {offset:#x} were read in part: {error}"
                ));
            }
            let ranges = (0..).zip(&index.functions);
            index.by_addr = RangeMap::new(ranges.flat_map(|(number, function)| {
                function.ranges.iter().map(move |range| (range.clone(), number))
            }));
            index
        })
    }

    fn walk(&self, unit: &Unit<'a>, index: &mut UnitIndex) -> gimli::Result<()> {
        let mut entries = unit.gimli.entries_raw(None)?;
        let mut open: Vec<(isize, u32)> = Vec::new();
        let result = loop {
            if entries.is_empty() {
                break Ok(());
            }
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            close(&mut open, &mut index.scopes, depth, offset);
            let abbreviation = match entries.read_abbreviation() {
                Ok(Some(abbreviation)) => abbreviation,
                Ok(None) => continue,
                Err(error) => break Err(error),
            };
            let tag = abbreviation.tag();
            if opens_scope(tag) && abbreviation.has_children() {
                let number = u32::try_from(index.scopes.len()).unwrap_or(u32::MAX);
                let parent = open.last().map(|(_, scope)| *scope);
                index.scopes.push(Scope {
                    start: offset,
                    end: offset,
                    parent,
                });
                open.push((depth, number));
            } else if tag == gimli::DW_TAG_subprogram {
                let has_code = abbreviation
                    .attributes()
                    .iter()
                    .any(|attribute| matches!(attribute.name(), gimli::DW_AT_low_pc | gimli::DW_AT_ranges));
                if has_code && let Some(entry) = unit.entry(offset) {
                    let ranges = self.ranges_of(unit, &entry);
                    if !ranges.is_empty() {
                        index.functions.push(Function {
                            die: offset,
                            ranges,
                            naming: OnceLock::new(),
                            body: OnceLock::new(),
                        });
                    }
                }
            }
            if let Err(error) = entries.skip_attributes(abbreviation.attributes()) {
                break Err(error);
            }
        };
        close(&mut open, &mut index.scopes, isize::MIN, entries.next_offset());
        result
    }

    /// The unit that describes the code of a main unit: itself, or the split unit it stands for.
    pub(super) fn code_unit(&self, index: usize) -> Option<&Unit<'a>> {
        self.split_unit(index).or_else(|| self.unit(UnitId::Main(index)))
    }

    /// The function that covers an address, and its unit.
    pub(super) fn find_function(&self, addr: LinkAddr) -> Option<(&Unit<'a>, &Function)> {
        let in_unit = |index: usize| {
            let unit = self.code_unit(index)?;
            Some((unit, self.index_of(unit).function_at(addr)?))
        };
        self.near_units(addr)
            .find_map(in_unit)
            .or_else(|| self.units_at(addr).into_iter().find_map(in_unit))
    }

    /// The out-of-line function that covers an address.
    #[must_use]
    pub fn function_at(&self, addr: LinkAddr) -> Option<SubprogramInfo> {
        let (unit, function) = self.find_function(addr)?;
        let naming = self.naming_of(unit, function);
        let body = self.body_of(unit, function);
        let parameters = body.parameters().map(|offset| {
            let die = Die {
                unit: unit.id,
                offset,
            };
            Parameter {
                name: self.plain_name(die),
                ty: self.type_of(die),
            }
        });
        Some(SubprogramInfo {
            name: naming.name.clone(),
            linkage_name: naming.linkage_name.clone(),
            ranges: function.ranges.clone(),
            decl_file: naming.decl_file.clone(),
            decl_line: naming.decl_line,
            noreturn: naming.noreturn,
            prologue_end: self.prologue_end(unit, function),
            return_type: self.type_of(Die {
                unit: unit.id,
                offset: function.die,
            }),
            parameters: parameters.collect(),
        })
    }

    pub(super) fn naming_of<'s>(&'s self, unit: &Unit<'a>, function: &'s Function) -> &'s Naming {
        function.naming.get_or_init(|| {
            let mut naming = self.naming(Die {
                unit: unit.id,
                offset: function.die,
            });
            if let Some(entry) = function.ranges.first().filter(|_| !unit.is_c) {
                self.complete(&mut naming, entry.start);
            }
            Box::new(naming)
        })
    }

    /// Where the body starts: the row flagged so, else the second row of the function, as gdb decides. The
    /// function's first row is where its name is declared; the second is its first statement.
    fn prologue_end(&self, unit: &Unit<'a>, function: &Function) -> Option<LinkAddr> {
        let entry = function.ranges.first()?;
        let (_, table) = self.lines_of(unit)?;
        let mut second = None;
        for (range, row, _) in table.rows_in(entry.clone()) {
            if range.start < entry.start {
                continue;
            }
            if row.prologue_end {
                return Some(range.start);
            }
            if second.is_none() && row.line != 0 && range.start > entry.start {
                second = Some(range.start);
            }
        }
        second
    }

    /// The type that an entry (or what it stands for) names.
    pub(super) fn type_of(&self, die: Die) -> Option<TypeId> {
        self.inherited(die, |_, entry| entry.attr_value(gimli::DW_AT_type))
            .and_then(|(unit, value)| self.follow(unit, &value).map(TypeId))
    }

    pub(super) fn plain_name(&self, die: Die) -> Option<Arc<str>> {
        self.inherited(die, |unit, entry| {
            self.text(unit, entry.attr_value(gimli::DW_AT_name)?)
        })
        .map(|(_, name)| name.into())
    }
}

fn close(open: &mut Vec<(isize, u32)>, scopes: &mut [Scope], depth: isize, end: UnitOffset) {
    while let Some(&(level, number)) = open.last() {
        if level < depth {
            break;
        }
        open.pop();
        if let Ok(number) = usize::try_from(number)
            && let Some(scope) = scopes.get_mut(number)
        {
            scope.end = end;
        }
    }
}
