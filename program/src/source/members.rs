//! The parts of structures, unions and arrays, and which of them an offset falls into.

use std::sync::Arc;

use gimli::AttributeValue;

use super::TypeId;
use super::children::Children;
use super::types::{Type, TypeKind};
use super::units::{Entry, Unit};

/// A type that contains itself, or a union of unions of unions, ends here.
const DEEPEST_PATH: usize = 32;
const MOST_PATHS: usize = 32;
const MOST_STEPS: usize = 4096;

/// A direct part of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; anonymous structures and unions and base classes have none.
    pub name: Option<Arc<str>>,
    /// Its type.
    pub ty: TypeId,
    /// Where it starts in the whole.
    pub offset: u64,
    /// For a bit-field: its bits in the whole.
    pub bits: Option<(u64, u64)>,
}

/// A part of a type that an offset falls into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPath {
    /// How it is written behind a `.` (or behind the name, when it starts with `[`): `a.b[2].c`. Empty for
    /// the type itself.
    pub path: String,
    /// The type of the part.
    pub ty: TypeId,
    /// The rest of the offset, inside the part.
    pub offset: u64,
}

impl<'s, 'a> Type<'s, 'a> {
    /// The direct parts of a structure or union (after [`Type::stripped`]), in order. The variants of a
    /// Rust enumeration count as parts that overlap.
    #[must_use]
    pub fn members(self) -> Vec<Member> {
        let ty = self.stripped();
        ty.read_members().unwrap_or_default()
    }

    fn read_members(&self) -> Option<Vec<Member>> {
        let (unit, entry) = self.read()?;
        let mut members = Vec::new();
        let mut children = Children::of(unit, entry.offset())?;
        while let Some((depth, child)) = children.next() {
            let part = match child.tag() {
                gimli::DW_TAG_member | gimli::DW_TAG_inheritance => true,
                // A Rust enumeration: variant part, variants, one member in each.
                gimli::DW_TAG_variant_part | gimli::DW_TAG_variant => {
                    children.enter(depth);
                    false
                }
                _ => false,
            };
            if part && let Some(member) = self.member(unit, &child) {
                members.push(member);
            }
        }
        Some(members)
    }

    fn member(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Option<Member> {
        // A static member has no place in the object.
        if entry.has_attr(gimli::DW_AT_external) || entry.has_attr(gimli::DW_AT_declaration) {
            return None;
        }
        let ty = self.inner(unit, entry)?.id;
        let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
        let name = entry
            .attr_value(gimli::DW_AT_name)
            .and_then(|value| self.sources.text(unit, value));
        let name = name
            .filter(|_| entry.tag() == gimli::DW_TAG_member)
            .map(Into::into);
        if let (Some(start), Some(length)) = (
            number(gimli::DW_AT_data_bit_offset),
            number(gimli::DW_AT_bit_size),
        ) {
            return Some(Member {
                name,
                ty,
                offset: start / 8,
                bits: Some((start, length)),
            });
        }
        let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
            // All parts of a union start at 0.
            None => 0,
            // A virtual base: where it is depends on the object.
            Some(AttributeValue::Exprloc(_)) => return None,
            Some(value) => value.udata_value()?,
        };
        Some(Member {
            name,
            ty,
            offset,
            bits: None,
        })
    }

    /// The innermost parts that hold all of `size` bytes at an offset. More than one for a union (or the
    /// variants of a Rust enumeration): which of them is meant, the type does not say.
    #[must_use]
    pub fn member_at(self, offset: u64, size: u64) -> Vec<MemberPath> {
        let mut search = Search {
            size: size.max(1),
            steps: 0,
            found: Vec::new(),
        };
        search.descend(self, offset, String::new(), DEEPEST_PATH);
        search.found
    }
}

struct Search {
    size: u64,
    steps: usize,
    found: Vec<MemberPath>,
}

impl Search {
    fn descend(&mut self, ty: Type<'_, '_>, offset: u64, path: String, depth: usize) {
        self.steps += 1;
        if self.found.len() >= MOST_PATHS || self.steps > MOST_STEPS {
            return;
        }
        let parts = match depth.checked_sub(1) {
            Some(depth) => self.parts(ty, offset, &path, depth),
            None => 0,
        };
        if parts == 0 {
            self.found.push(MemberPath {
                path,
                ty: ty.id(),
                offset,
            });
        }
    }

    /// Goes on in every part that holds the bytes; says how many there were.
    fn parts(&mut self, ty: Type<'_, '_>, offset: u64, path: &str, depth: usize) -> usize {
        match ty.stripped().kind() {
            TypeKind::Struct | TypeKind::Union => {
                let members = ty.members();
                self.steps += members.len();
                let holding = members.iter().filter(|member| self.holds(ty, member, offset));
                let holding: Vec<_> = holding.collect();
                for member in &holding {
                    let path = match &member.name {
                        None => path.to_owned(),
                        Some(name) if path.is_empty() => name.to_string(),
                        Some(name) => format!("{path}.{name}"),
                    };
                    self.descend(ty.sources.ty(member.ty), offset - member.offset, path, depth);
                }
                holding.len()
            }
            TypeKind::Array { .. } => self.element(ty, offset, path, depth).map_or(0, |()| 1),
            _ => 0,
        }
    }

    fn holds(&self, whole: Type<'_, '_>, member: &Member, offset: u64) -> bool {
        if let Some((start, length)) = member.bits {
            let inside = |start: u64| {
                let (first, last) = (
                    offset.checked_mul(8)?,
                    offset.checked_add(self.size)?.checked_mul(8)?,
                );
                Some(start <= first && last <= start.checked_add(length)?)
            };
            return inside(start).unwrap_or(false);
        }
        let ty = whole.sources.ty(member.ty);
        // The tag of a Rust enumeration has no name to show.
        if member.name.is_none() && !matches!(ty.stripped().kind(), TypeKind::Struct | TypeKind::Union) {
            return false;
        }
        let Some(inside) = offset.checked_sub(member.offset) else {
            return false;
        };
        let open_ended = ty
            .dimensions()
            .first()
            .is_some_and(|length| matches!(length, None | Some(0)));
        let end = inside.checked_add(self.size);
        open_ended || ty.size().zip(end).is_some_and(|(size, end)| end <= size)
    }

    fn element(&mut self, array: Type<'_, '_>, offset: u64, path: &str, depth: usize) -> Option<()> {
        let element = array.element()?;
        let size = element.size().filter(|size| *size > 0)?;
        let (index, rest) = (offset / size, offset % size);
        if rest.checked_add(self.size)? > size {
            return None;
        }
        let mut lengths = array.dimensions();
        let outermost = lengths.first().copied().flatten();
        let mut indices = Vec::new();
        let mut index = index;
        // The last dimension runs fastest.
        while let Some(length) = lengths.pop() {
            match length.filter(|length| *length > 0) {
                Some(length) if !lengths.is_empty() => {
                    indices.push(index % length);
                    index /= length;
                }
                _ if lengths.is_empty() => indices.push(index),
                _ => return None,
            }
        }
        if outermost.is_some_and(|length| length > 0 && index >= length) {
            return None;
        }
        let subscripts: String = indices.iter().rev().map(|index| format!("[{index}]")).collect();
        self.descend(element, rest, format!("{path}{subscripts}"), depth);
        Some(())
    }
}
