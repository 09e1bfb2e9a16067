//! Names of what is behind a pointer that a call returned, where the call only follows another one.
//!
//! Unoptimised code calls `Deref::deref` for `queue.head` if `queue` is an `Arc` or the guard of a lock, and `operator->` or
//! `operator[]` for C++'s pointers and containers. Whoever reads the source sees the member of what `queue` stands for.

use super::Namer;
use super::locked::is_guard;
use super::memory::Lvalue;
use super::parts::Wanted;
use super::path::{PointerKind, Step, Subscript};
use super::wrappers;
use crate::code::{InstrIx, Target};
use crate::source::SubprogramInfo;
use crate::values::{Base, Gpr};

/// What a call does to the object that it is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// It goes to what the object stands for,
    One,
    /// or to one of the elements in it.
    Element,
}

impl<'m, 'a> Namer<'m, 'a> {
    /// The bytes at an offset from what a call returned, by the object that the call was for.
    pub(super) fn dereferenced(
        &self,
        ix: InstrIx,
        returned: Base,
        wanted: &Wanted,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        let Base::Made(call, Gpr::RAX) = returned else {
            return None;
        };
        let function = self.called_at(call)?;
        let follows = follows(function.name.as_deref()?)?;
        let sources = self.module.sources();
        let result = sources.ty(function.return_type?);
        let object = sources.ty(function.parameters.first()?.ty?).pointee()?;
        if is_guard(object)
            && let Some(content) = result.pointee()
            && let Some(found) = self.locked(call, content, wanted, depth)
        {
            return Some(found);
        }
        let mut owner = self.behind_register(call, Gpr::RDI, 0, object.size()?, depth)?;
        if !owner.guards.iter().all(|guard| self.still(guard, ix, false)) {
            return None;
        }
        if let Some((before, _)) = owner.handle.take() {
            owner.steps.truncate(before);
        }
        let step = match (follows, wrappers::pointer_kind(result)?) {
            (Follows::Element, _) => Step::Element(Subscript::Unknown),
            // `operator*` returns a reference.
            (Follows::One, PointerKind::Alias) => Step::Deref(PointerKind::Arrow),
            (Follows::One, kind) => Step::Deref(kind),
        };
        owner.steps.push(step);
        owner.ty = result.pointee()?;
        owner.is_pointed = true;
        owner.part(wanted.clone())
    }

    pub(super) fn called_at(&self, call: InstrIx) -> Option<SubprogramInfo> {
        let (_, target, _) = self.flow.calls().find(|(at, _, _)| *at == call)?;
        let Target::Function(callee) = target else {
            return None;
        };
        let entry = self.module.code().functions().get(callee)?.entry;
        self.module.sources().function_at(entry)
    }
}

fn follows(function: &str) -> Option<Follows> {
    let name = plain(function);
    match name {
        "deref" | "deref_mut" | "operator->" | "operator*" => Some(Follows::One),
        "index" | "index_mut" | "operator[]" => Some(Follows::Element),
        _ => None,
    }
}

/// The last part of a function's name, without what generic functions are made for. The arrow of an operator is no bracket.
pub(super) fn plain(function: &str) -> &str {
    let mut depth = 0_u32;
    let mut start = 0;
    let bytes = function.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if at > 0 && bytes.get(at - 1) != Some(&b'-') => depth = depth.saturating_sub(1),
            b':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    let last = function.get(start..).unwrap_or(function);
    match last.find('<') {
        Some(end) if end > 0 => last.get(..end).unwrap_or(last),
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_follow_a_pointer_are_known_by_their_names() {
        for (function, expected) in [
            ("core::ops::deref::Deref::deref", Some(Follows::One)),
            (
                "alloc::sync::{impl#37}::deref<main::Site, alloc::alloc::Global>",
                Some(Follows::One),
            ),
            (
                "std::unique_ptr<Queue, std::default_delete<Queue> >::operator->",
                Some(Follows::One),
            ),
            ("std::vector<int>::operator[]", Some(Follows::Element)),
            ("std::map<int, A<B> >::find", None),
            ("dereference", None),
            ("operator->", Some(Follows::One)),
            ("", None),
        ] {
            assert_eq!(follows(function), expected, "{function}");
        }
    }
}
