//! What a function is called and where it is declared.

use std::sync::Arc;

use gimli::AttributeValue;

use super::Sources;
use super::units::{Die, Entry, Unit, UnitId};
use crate::code::demangle_path;
use crate::scoped::ANONYMOUS;

/// An out-of-line instance refers to its abstract one, that to its declaration: two hops in practice.
const LONGEST_CHAIN: usize = 16;
/// Namespaces and types around a name.
const DEEPEST_SCOPE: usize = 64;
/// Template names can be long; what a hostile file unfolds must end somewhere.
const LONGEST_NAME: usize = 64 * 1024;

/// The names and the declaration of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming {
    pub name: Option<Arc<str>>,
    pub linkage_name: Option<Arc<str>>,
    pub decl_file: Option<Arc<str>>,
    pub decl_line: u32,
    pub noreturn: bool,
    /// Nobody wrote it.
    pub implicit: bool,
}

impl<'a> Sources<'a> {
    /// Visits an entry and the ones it stands for (`DW_AT_abstract_origin`, `DW_AT_specification`), until
    /// the visitor has what it looks for.
    pub(super) fn inherited<T>(
        &self,
        mut die: Die,
        mut visit: impl FnMut(&Unit<'a>, &Entry<'a>) -> Option<T>,
    ) -> Option<(UnitId, T)> {
        for _ in 0..LONGEST_CHAIN {
            let (unit, entry) = self.entry(die)?;
            if let Some(found) = visit(unit, &entry) {
                return Some((unit.id, found));
            }
            die = self.origin(unit, &entry)?;
        }
        None
    }

    pub(super) fn origin(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Option<Die> {
        let value = entry
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
        self.follow(unit.id, &value)
    }

    pub(super) fn naming(&self, die: Die) -> Naming {
        let mut naming = Naming::default();
        let mut plain = None;
        let mut artificial = false;
        let mut at = die;
        self.inherited(die, |unit, entry| -> Option<()> {
            at = Die {
                unit: unit.id,
                offset: entry.offset(),
            };
            for attr in entry.attrs() {
                match attr.name() {
                    gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name
                        if naming.linkage_name.is_none() =>
                    {
                        naming.linkage_name = self.text(unit, attr.value()).map(Into::into);
                    }
                    gimli::DW_AT_name if plain.is_none() => plain = self.text(unit, attr.value()),
                    gimli::DW_AT_decl_file if naming.decl_file.is_none() => {
                        if let AttributeValue::FileIndex(file) = attr.value() {
                            naming.decl_file = self.file_path(unit, file);
                        }
                    }
                    gimli::DW_AT_decl_line if naming.decl_line == 0 => {
                        let line = attr.udata_value().and_then(|line| u32::try_from(line).ok());
                        naming.decl_line = line.unwrap_or(0);
                    }
                    gimli::DW_AT_artificial => artificial |= attr.value() == AttributeValue::Flag(true),
                    gimli::DW_AT_noreturn => naming.noreturn |= attr.value() == AttributeValue::Flag(true),
                    _ => {}
                }
            }
            None
        });
        // Only what every class has is nowhere in the source: the code of a lambda is.
        naming.implicit = artificial && plain.as_deref().is_some_and(is_special);
        naming.name = naming.linkage_name.as_deref().and_then(demangled).or_else(|| {
            let plain = plain?;
            Some(self.qualified(at, &plain).into())
        });
        naming
    }

    /// A name with the namespaces and types around its entry.
    pub(super) fn qualified(&self, die: Die, name: &str) -> String {
        let Some(unit) = self.unit(die.unit).filter(|unit| !unit.is_c) else {
            return name.to_owned();
        };
        let scopes = self.index_of(unit).scopes_around(die.offset).take(DEEPEST_SCOPE);
        let mut parts = vec![name.to_owned()];
        let mut length = name.len();
        for offset in scopes {
            let Some(entry) = unit.entry(offset) else { continue };
            let written = entry
                .attr_value(gimli::DW_AT_name)
                .and_then(|value| self.text(unit, value));
            let part = match written {
                Some(name) => name.into_owned(),
                None if entry.tag() == gimli::DW_TAG_namespace => ANONYMOUS.to_owned(),
                None => continue,
            };
            length += part.len();
            if length > LONGEST_NAME {
                break;
            }
            parts.push(part);
        }
        parts.reverse();
        parts.join("::")
    }
}

/// Whether a member function of this name is a destructor, an assignment, or, as operators and conversions have names of their own and the
/// compiler makes no others, a constructor.
fn is_special(name: &str) -> bool {
    name == "operator=" || !name.starts_with("operator")
}

/// The readable form of a C++ or Rust symbol; `None` for a plain name.
fn demangled(linkage: &str) -> Option<Arc<str>> {
    let path = demangle_path(linkage);
    (path != linkage).then(|| path.into())
}
