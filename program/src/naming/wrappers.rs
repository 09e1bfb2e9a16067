//! What is known of the standard libraries' types, whose insides no programmer writes.
//!
//! `std::atomic<int>` keeps its number in `_M_i`, a `Box` its pointer three structures down, an `Arc` its
//! content behind two counters. The source names the outside, so these steps are left out of a path.

use super::path::PointerKind;
use crate::source::{Member, Type, TypeKind};

/// A type that stands for what its pointer points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handle {
    /// To one object, written with this operator.
    One(PointerKind),
    /// To the first of several elements.
    Many,
}

const LIBRARIES: [&str; 4] = ["std::", "core::", "alloc::", "__gnu_cxx::"];

const HANDLES: [(&str, Handle); 14] = [
    ("std::unique_ptr<", Handle::One(PointerKind::Arrow)),
    ("std::shared_ptr<", Handle::One(PointerKind::Arrow)),
    ("std::__shared_ptr<", Handle::One(PointerKind::Arrow)),
    ("std::vector<", Handle::Many),
    ("std::reference_wrapper<", Handle::One(PointerKind::Alias)),
    ("alloc::boxed::Box<[", Handle::Many),
    ("alloc::boxed::Box<", Handle::One(PointerKind::Auto)),
    ("alloc::sync::Arc<", Handle::One(PointerKind::Auto)),
    ("alloc::rc::Rc<", Handle::One(PointerKind::Auto)),
    ("core::pin::Pin<", Handle::One(PointerKind::Auto)),
    ("core::ptr::non_null::NonNull<", Handle::One(PointerKind::Raw)),
    ("alloc::vec::Vec<", Handle::Many),
    ("&[", Handle::Many),
    ("&mut [", Handle::Many),
];

/// Structures that put counters before the one member that the source can name.
const BOXED: [(&str, &str); 3] = [
    ("alloc::sync::ArcInner<", "data"),
    ("alloc::rc::RcInner<", "value"),
    ("alloc::rc::RcBox<", "value"),
];

/// Whether a type stands for what the pointer at an offset in it points to.
pub(super) fn handle(ty: Type<'_, '_>, offset: i64) -> Option<Handle> {
    let name = ty.name();
    // The content's pointer comes first (in a shared_ptr the counters', in a vector the end's come after
    // it); Rust orders members as it likes, and a Vec has but one pointer.
    let is_content = offset == 0 || name.starts_with("alloc::vec::Vec<");
    HANDLES
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .filter(|_| is_content)
        .map(|(_, handle)| *handle)
}

/// Whether the source leaves out this member of a structure.
pub(super) fn is_left_out(whole: Type<'_, '_>, member: &Member, part: Type<'_, '_>) -> bool {
    let name = whole.name();
    if let Some((_, content)) = BOXED.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return member.name.as_deref() == Some(content);
    }
    LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
        && member.offset == 0
        && part.size().is_some()
        && part.size() == whole.size()
}

/// Whether a library's type keeps this member to itself. C++ reserves names that begin so for what no program writes; of Rust's types the
/// ranges alone have members that programs name.
pub(super) fn is_kept_inside(whole: Type<'_, '_>, member: &str) -> bool {
    let name = whole.name();
    let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match whole.is_rust() {
        true => of(&["std::", "core::", "alloc::", "hashbrown::"]) && !of(&["core::ops::range::"]),
        false => of(&["std::", "__gnu_cxx::"]) && member.starts_with('_'),
    }
}

/// How what a pointer of this type points to is written; `None` for what is no pointer.
pub(super) fn pointer_kind(ty: Type<'_, '_>) -> Option<PointerKind> {
    match ty.stripped().kind() {
        TypeKind::Reference => Some(PointerKind::Alias),
        TypeKind::Pointer => {
            // Pointers have no name in C and C++; Rust writes `&mut T`, `*const T`, `alloc::boxed::Box<T>`.
            let name = ty.stripped().name();
            Some(match name.as_bytes() {
                [.., b'*'] => PointerKind::Arrow,
                [b'*', ..] => PointerKind::Raw,
                _ => PointerKind::Auto,
            })
        }
        _ => None,
    }
}
