//! From a piece of memory to the innermost part of it that holds some bytes.

use std::cell::Cell;
use std::rc::Rc;

use super::path::{PointerKind, Step, Subscript};
use super::wrappers::{self, Handle};
use crate::source::{Member, Type, TypeKind};

/// A type that contains itself ends here.
const DEEPEST: usize = 32;

/// A varying part of an address: so many bytes for each step of an index.
#[derive(Clone, Debug)]
pub(super) struct Varying {
    pub stride: i64,
    /// The index as the source has it, if it has a name.
    pub name: Option<String>,
    /// Whether it can be several indices in one: compilers turn `grid[i][j]` into one running number.
    pub mixed: bool,
}

/// The bytes that are asked for, relative to where the piece of memory starts.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub offset: i64,
    pub width: u64,
    pub varying: Vec<Varying>,
    /// Members that may still be looked at for this name: unions of unions of unions have an end.
    pub members: Rc<Cell<usize>>,
}

struct Index {
    subscript: Subscript,
    mixed: bool,
}

/// A way from a piece of memory to a part of it.
#[derive(Clone)]
pub(super) struct Part<'s, 'a> {
    pub steps: Vec<Step>,
    pub ty: Type<'s, 'a>,
    /// The outermost standard type that stands for what its pointer points to, and the steps before it.
    pub handle: Option<(usize, Handle)>,
    /// The steps to the outermost enumeration whose tag the bytes are: what they tell is which variant it has.
    pub tag_of: Option<usize>,
}

impl Wanted {
    /// Other bytes of another piece of memory, for the same name.
    pub fn others(&self, offset: i64, width: u64) -> Self {
        Self {
            offset,
            width,
            varying: Vec::new(),
            members: Rc::clone(&self.members),
        }
    }

    fn spend(&self, members: usize) -> Option<()> {
        self.members.set(self.members.get().checked_sub(members + 1)?);
        Some(())
    }

    /// Takes the indices that go in steps of `stride` bytes; the subscript they make, if there are any.
    fn take_index(&mut self, stride: u64) -> Option<Index> {
        let fits = |varying: &Varying| u64::try_from(varying.stride) == Ok(stride);
        let (taken, rest): (Vec<_>, Vec<_>) = self.varying.drain(..).partition(fits);
        self.varying = rest;
        let mixed = taken.iter().any(|varying| varying.mixed);
        let subscript = match taken.as_slice() {
            [] => return None,
            [Varying { name: Some(name), .. }] => Subscript::Name(name.clone()),
            _ => Subscript::Unknown,
        };
        Some(Index { subscript, mixed })
    }
}

/// The innermost part of an object of type `ty` that holds the wanted bytes.
pub(super) fn part<'s, 'a>(ty: Type<'s, 'a>, wanted: Wanted) -> Option<Part<'s, 'a>> {
    let whole = Part {
        steps: Vec::new(),
        ty,
        handle: None,
        tag_of: None,
    };
    descend(whole, wanted, DEEPEST)
}

/// The part of what a pointer points to. `handle` says that the pointer is inside of a standard type.
pub(super) fn pointed<'s, 'a>(
    pointer: Type<'s, 'a>,
    handle: Option<Handle>,
    mut wanted: Wanted,
) -> Option<Part<'s, 'a>> {
    let target = pointer.pointee()?;
    let kind = match handle {
        Some(Handle::One(kind)) => kind,
        _ => wrappers::pointer_kind(pointer)?,
    };
    let mut steps = vec![Step::Deref(kind)];
    // A reference refers to one object; only slices and vectors have more behind theirs.
    let one = kind == PointerKind::Alias || kind == PointerKind::Auto && handle.is_none();
    let size = target.size().filter(|&size| size > 0);
    if let Some(size) = size
        && !one
    {
        let signed = i64::try_from(size).ok()?;
        let (number, rest) = (wanted.offset.div_euclid(signed), wanted.offset.rem_euclid(signed));
        // A pointer to numbers or pointers may be one to several; one to a structure only if it is indexed.
        let several = handle == Some(Handle::Many) || is_scalar(target) && number != 0;
        if let Some(index) = wanted.take_index(size) {
            let exact = Some(index.subscript).filter(|_| number == 0);
            steps = vec![Step::Element(exact.unwrap_or(Subscript::Unknown))];
            wanted.offset = rest;
        } else if several && wanted.varying.is_empty() {
            steps = vec![Step::Element(Subscript::Number(u64::try_from(number).ok()?))];
            wanted.offset = rest;
        }
    }
    let part = Part {
        steps,
        ty: target,
        handle: None,
        tag_of: None,
    };
    descend(part, wanted, DEEPEST)
}

fn is_scalar(ty: Type<'_, '_>) -> bool {
    matches!(
        ty.stripped().kind(),
        TypeKind::Base { .. } | TypeKind::Pointer | TypeKind::Enum
    )
}

fn descend<'s, 'a>(mut part: Part<'s, 'a>, wanted: Wanted, depth: usize) -> Option<Part<'s, 'a>> {
    let depth = depth.checked_sub(1)?;
    let named = part.ty;
    let ty = named.stripped();
    let kind = ty.kind();
    if part.handle.is_none() && kind == TypeKind::Struct {
        let here = part.steps.len();
        part.handle = wrappers::handle(ty, wanted.offset).map(|handle| (here, handle));
    }
    let offset = u64::try_from(wanted.offset).ok()?;
    match kind {
        TypeKind::Struct | TypeKind::Union => in_structure(Part { ty, ..part }, named, wanted, offset, depth),
        TypeKind::Array { .. } => in_array(part, ty, wanted, offset, depth),
        TypeKind::Function | TypeKind::Other | TypeKind::Typedef | TypeKind::Qualified => None,
        TypeKind::Base { .. } | TypeKind::Pointer | TypeKind::Reference | TypeKind::Enum => {
            let inside = offset.checked_add(wanted.width)? <= ty.size()?;
            (inside && wanted.varying.is_empty()).then_some(part)
        }
    }
}

fn in_structure<'s, 'a>(
    part: Part<'s, 'a>,
    named: Type<'s, 'a>,
    wanted: Wanted,
    offset: u64,
    depth: usize,
) -> Option<Part<'s, 'a>> {
    let ty = part.ty;
    let members = ty.members();
    wanted.spend(members.len())?;
    let mut part = part;
    let tag = members.iter().find_map(|member| {
        let tag = tag_of(ty, member).filter(|_| member.offset == offset)?;
        (tag.size() == Some(wanted.width)).then_some(tag)
    });
    if tag.is_some() && part.tag_of.is_none() {
        part.tag_of = Some(part.steps.len());
    }
    let mut touched: Vec<&Member> = Vec::new();
    for member in &members {
        if touches(ty, member, offset, &wanted)? {
            touched.push(member);
        }
    }
    let holding = touched
        .iter()
        .filter(|member| holds(ty, member, offset, wanted.width));
    let mut found: Vec<Part<'s, 'a>> = Vec::new();
    for member in holding {
        let inner = ty.sources().ty(member.ty);
        let mut next = Part {
            ty: inner,
            ..part.clone()
        };
        if let Some(name) = &member.name
            && !wrappers::is_left_out(ty, member, inner)
        {
            next.steps.push(match wrappers::is_kept_inside(ty, name) {
                true => Step::Inner(name.clone()),
                false => Step::Member(name.clone()),
            });
        }
        let mut wanted = wanted.clone();
        wanted.offset = i64::try_from(offset.checked_sub(member.offset)?).ok()?;
        if member.bits.is_some() {
            found.push(next);
        } else if let Some(inside) = descend(next, wanted, depth) {
            found.push(inside);
        }
    }
    let whole = || {
        let all = offset == 0 && ty.size() == Some(wanted.width);
        let shared = found.len() > 1 || ty.kind() == TypeKind::Union;
        let inside = offset.checked_add(wanted.width)? <= ty.size()?;
        let mut part = part.clone();
        part.ty = named;
        (wanted.varying.is_empty() && inside && (all || shared)).then_some(part)
    };
    match found.as_slice() {
        // Bytes of which a part belongs to somebody else have no one name.
        [one] if touched.len() == 1 || ty.kind() == TypeKind::Union && found.len() == touched.len() => {
            Some(one.clone())
        }
        [one, rest @ ..]
            if rest.iter().all(|other| other.steps == one.steps) && found.len() == touched.len() =>
        {
            Some(one.clone())
        }
        _ => whole().or_else(|| {
            let ty = tag?;
            Some(Part { ty, ..part.clone() })
        }),
    }
}

/// The type of a member that says which variant an enumeration of Rust has. It has no name, and is no structure.
fn tag_of<'s, 'a>(whole: Type<'s, 'a>, member: &Member) -> Option<Type<'s, 'a>> {
    if member.name.is_some() {
        return None;
    }
    let ty = whole.sources().ty(member.ty);
    matches!(ty.stripped().kind(), TypeKind::Base { .. }).then_some(ty)
}

fn in_array<'s, 'a>(
    part: Part<'s, 'a>,
    array: Type<'s, 'a>,
    mut wanted: Wanted,
    offset: u64,
    depth: usize,
) -> Option<Part<'s, 'a>> {
    let element = array.element()?;
    let size = element.size().filter(|&size| size > 0)?;
    let dimensions = array.dimensions();
    let mut inner = part.clone();
    inner.ty = element;
    let mut offset = offset;
    for (place, length) in dimensions.iter().enumerate() {
        let mut stride = size;
        for length in dimensions.get(place + 1..)? {
            stride = stride.checked_mul((*length)?)?;
        }
        let (number, rest) = (offset / stride.max(1), offset % stride.max(1));
        let length = length.filter(|&length| length > 0);
        if place > 0 && length.is_none() {
            return None;
        }
        let subscript = match wanted.take_index(stride) {
            // With an index and a number the address may as well be relative to the neighbour's elements.
            Some(_) if number > 0 || length == Some(1) => return None,
            Some(index) => {
                if index.mixed {
                    forget_outer(&mut inner.steps)?;
                }
                index.subscript
            }
            None if length.is_some_and(|length| number >= length) => return None,
            None => Subscript::Number(number),
        };
        inner.steps.push(Step::Element(subscript));
        offset = rest;
    }
    if offset.checked_add(wanted.width)? <= size {
        wanted.offset = i64::try_from(offset).ok()?;
        return descend(inner, wanted, depth);
    }
    // Several elements of a plain array at once: the array is what can be named.
    let several = wanted.varying.is_empty() && is_scalar(element);
    let start = u64::try_from(wanted.offset).ok()?;
    let inside = start.checked_add(wanted.width)? <= array.size()?;
    (several && inside).then_some(part)
}

/// Whether a member has any of the bytes; `None` when it takes too long to tell.
fn touches(whole: Type<'_, '_>, member: &Member, offset: u64, wanted: &Wanted) -> Option<bool> {
    let ty = whole.sources().ty(member.ty);
    let end = offset.saturating_add(wanted.width);
    if let Some((start, length)) = member.bits {
        let last = start.saturating_add(length.max(1)) - 1;
        return Some(start / 8 < end && offset <= last / 8);
    }
    let after = match ty.size() {
        Some(size) if !is_open(ty) => member.offset.saturating_add(size),
        _ => u64::MAX,
    };
    if member.offset >= end || offset >= after {
        return Some(false);
    }
    // Empty base classes and variants without content take a byte that others use; a tag has no name.
    if !matches!(ty.stripped().kind(), TypeKind::Struct | TypeKind::Union) {
        return Some(member.name.is_some());
    }
    let inner = ty.members().len();
    wanted.spend(inner)?;
    Some(inner > 0)
}

fn holds(whole: Type<'_, '_>, member: &Member, offset: u64, width: u64) -> bool {
    if member.bits.is_some() {
        return true;
    }
    let ty = whole.sources().ty(member.ty);
    let inside = offset.checked_sub(member.offset);
    let end = inside.and_then(|inside| inside.checked_add(width));
    inside.is_some() && is_open(ty) || ty.size().zip(end).is_some_and(|(size, end)| end <= size)
}

/// A running number may count outer elements as well: which one it is in is not known, and behind a pointer
/// not even that the pointer's own object is meant.
fn forget_outer(steps: &mut [Step]) -> Option<()> {
    for step in steps {
        match step {
            Step::Element(subscript) => *subscript = Subscript::Unknown,
            Step::Deref(PointerKind::Alias | PointerKind::Auto) | Step::Member(_) | Step::Inner(_) => {}
            Step::Deref(PointerKind::Arrow | PointerKind::Raw) => return None,
        }
    }
    Some(())
}

/// Whether an array has no end: a flexible member.
fn is_open(ty: Type<'_, '_>) -> bool {
    let first = ty.dimensions().first().copied();
    first.is_some_and(|length| matches!(length, None | Some(0)))
}
