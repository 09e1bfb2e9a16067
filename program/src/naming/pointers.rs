//! Which variable, or which memory, a pointer comes from.

use super::Namer;
use super::address::Term;
use super::memory::{Guard, Lvalue, only_innermost};
use super::origin::Load;
use super::parts::Wanted;
use super::scope::{InScope, Where};
use crate::code::InstrIx;
use crate::values::{Base, Gpr, Value};

impl<'m, 'a> Namer<'m, 'a> {
    /// The bytes at an offset from a pointer. Several variables may hold the same pointer; the one that the
    /// instructions took it from is what the source names there.
    pub(super) fn through(
        &self,
        ix: InstrIx,
        pointer: &Term,
        wanted: &Wanted,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        if let Some(found) = self.through_local(ix, pointer, wanted, depth) {
            let known = || {
                self.held(ix, pointer.base, None, wanted)
                    .filter(|held| !is_reserved(held))
            };
            return match is_reserved(&found) {
                true => known().or(Some(found)),
                false => Some(found),
            };
        }
        let made = self.load_of(pointer.base).filter(|load| load.width == 8);
        let near = made.filter(|load| self.same_line(load.at, ix));
        if let Some(found) = near.and_then(|load| self.loaded(ix, load, 0, wanted, depth)) {
            return Some(found);
        }
        if let Some(found) = self.held(ix, pointer.base, None, wanted) {
            // The copy may be there before the pointer to the object that it is of.
            let of_object = || {
                let later = self.held_later(ix, pointer.base, wanted);
                later.filter(|later| later.is_pointed && has_member(later))
            };
            return match is_copy(&found) {
                true => of_object().or(Some(found)),
                false => Some(found),
            };
        }
        let far = made.filter(|_| near.is_none());
        let loaded = far.and_then(|load| self.loaded(ix, load, 0, wanted, depth));
        loaded
            .or_else(|| self.dereferenced(ix, pointer.base, wanted, depth))
            .or_else(|| self.held_earlier(ix, pointer.base, wanted))
            .or_else(|| self.held_later(ix, pointer.base, wanted))
    }

    /// Through the variable that the very register was loaded from, or that is in it.
    pub(super) fn through_local(
        &self,
        ix: InstrIx,
        pointer: &Term,
        wanted: &Wanted,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        let slot = self
            .loaded_by(pointer.at, pointer.gpr)
            .filter(|load| load.width == 8 && self.is_in_frame(*load));
        let loaded = slot.and_then(|load| self.loaded(ix, load, pointer.offset, wanted, depth));
        let held = || self.held(ix, pointer.base, Some(pointer.gpr), wanted);
        loaded.or_else(|| held().filter(|_| pointer.at == ix))
    }

    fn is_in_frame(&self, load: Load) -> bool {
        let place = self.values.place(load.at);
        place.is_some_and(|place| place.index.is_none() && place.stack_offset().is_some())
    }

    /// Through a pointer that an instruction loaded, which then was `base + offset`.
    fn loaded(
        &self,
        ix: InstrIx,
        load: Load,
        offset: i64,
        wanted: &Wanted,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        let mut wanted = wanted.clone();
        wanted.offset = wanted.offset.checked_sub(offset)?;
        if let Some(found) = self.behind(ix, load, &wanted) {
            return Some(found);
        }
        let mut pointer = self.memory(load.at, 0, load.width, depth)?;
        pointer.guards.push(Guard::Loaded(load.at));
        let right = pointer.guards.iter().all(|guard| self.still(guard, ix, false));
        pointer.pointed(wanted).filter(|_| right)
    }

    /// A variable that the debug information says is where a slot of the frame points to.
    fn behind(&self, ix: InstrIx, load: Load, wanted: &Wanted) -> Option<Lvalue<'m, 'a>> {
        let slot = self.values.place(load.at)?.stack_offset()?;
        let scope = self.scope(ix);
        let found = scope.iter().filter_map(|variable| {
            let offset = variable.pieces.iter().find_map(|piece| match piece.at {
                Where::Behind(known, offset) if known == slot && piece.offset == 0 => Some(offset),
                _ => None,
            })?;
            let mut wanted = wanted.clone();
            wanted.offset = wanted.offset.checked_sub(offset)?;
            Some((variable.frame, Lvalue::variable(variable).part(wanted)?))
        });
        only_innermost(found)
    }

    /// Through a variable that holds `base` plus any constant now, or that is stored there.
    pub(super) fn held(
        &self,
        ix: InstrIx,
        base: Base,
        gpr: Option<Gpr>,
        wanted: &Wanted,
    ) -> Option<Lvalue<'m, 'a>> {
        let scope = self.scope(ix);
        let state = self.state(ix)?;
        let found = scope.iter().flat_map(|variable| {
            let words = variable
                .words(&state)
                .filter(|(_, _, within)| gpr.is_none() || *within == gpr);
            let through =
                words.filter_map(|(into, value, _)| pointed_from(variable, into, value, base, wanted));
            let stored = stored_at(variable, base, wanted);
            let found: Vec<_> = through.chain(stored).collect();
            found.into_iter().map(|found| (variable.frame, found))
        });
        let mut found: Vec<_> = found.collect();
        if found.iter().any(|(_, found)| !is_reserved(found)) {
            found.retain(|(_, found)| !is_reserved(found));
        }
        // What the compiler says to be in the memory of a member is a copy of it, as `lock` is in `take(queue->lock)`.
        let is_member = |found: &Lvalue<'_, '_>| found.is_pointed && has_member(found);
        if found.iter().any(|(_, found)| is_member(found)) {
            found.retain(|(_, found)| !is_copy(found));
        }
        // A pointer to the object and one to its member both lead there: the member has a name.
        let innermost = found.iter().map(|(frame, _)| *frame).min();
        let of_member =
            |(frame, found): &(usize, Lvalue<'_, '_>)| Some(*frame) == innermost && has_member(found);
        if found.iter().any(of_member) {
            found.retain(of_member);
        }
        only_innermost(found.into_iter())
    }

    /// Whether any variable in scope holds `base`, up to a constant.
    pub(super) fn is_held(&self, ix: InstrIx, base: Base) -> bool {
        let scope = self.scope(ix);
        let Some(state) = self.state(ix) else { return false };
        let holds = |value: Value| matches!(value, Value::Sum(known, _) if known == base);
        scope.iter().any(|variable| {
            let words = variable.words(&state).any(|(_, value, _)| holds(value));
            let narrow = |piece: &super::scope::PlacedPiece| match piece.at {
                Where::Register(_, value) => holds(value),
                _ => false,
            };
            words || variable.pieces.iter().any(narrow)
        })
    }

    /// Whether what made a name right still holds. Within one source line memory is what it was when the
    /// line read it, unless `strictly` says otherwise.
    pub(super) fn still(&self, guard: &Guard, ix: InstrIx, strictly: bool) -> bool {
        match guard {
            Guard::Loaded(load) => !strictly && self.same_line(*load, ix) || self.is_fresh(*load, ix),
            Guard::Held { name, offset, value } => {
                let scope = self.scope(ix);
                let Some(state) = self.state(ix) else { return false };
                scope
                    .iter()
                    .find(|variable| variable.root.name == *name)
                    .is_some_and(|variable| {
                        variable
                            .words(&state)
                            .any(|(into, now, _)| into == *offset && now == *value)
                    })
            }
        }
    }
}

fn pointed_from<'m, 'a>(
    variable: &InScope<'m, 'a>,
    into: u64,
    value: Value,
    base: Base,
    wanted: &Wanted,
) -> Option<Lvalue<'m, 'a>> {
    let Value::Sum(known, offset) = value else {
        return None;
    };
    if known != base {
        return None;
    }
    let word = wanted.others(i64::try_from(into).ok()?, 8);
    let mut pointer = Lvalue::variable(variable).part(word)?;
    pointer.guards.push(Guard::Held {
        name: variable.root.name.clone(),
        offset: into,
        value,
    });
    let mut wanted = wanted.clone();
    wanted.offset = wanted.offset.checked_sub(offset)?;
    pointer.pointed(wanted)
}

/// A variable that is not in the frame but at an address that a register holds: passed by reference.
fn stored_at<'m, 'a>(variable: &InScope<'m, 'a>, base: Base, wanted: &Wanted) -> Option<Lvalue<'m, 'a>> {
    if base == Base::Entry(Gpr::RSP) {
        return None;
    }
    let start = variable.pieces.iter().find_map(|piece| match piece.at {
        Where::Memory(Value::Sum(known, offset)) if known == base && piece.offset == 0 => Some(offset),
        _ => None,
    })?;
    let mut wanted = wanted.clone();
    wanted.offset = wanted.offset.checked_sub(start)?;
    Lvalue::variable(variable).part(wanted)
}

/// Whether it is a variable as a whole.
fn is_copy(found: &Lvalue<'_, '_>) -> bool {
    !found.is_pointed && found.steps.is_empty()
}

fn has_member(found: &Lvalue<'_, '_>) -> bool {
    found.steps.iter().any(|step| step.member().is_some())
}

/// Whether the path begins with a variable that nobody who reads the program's source knows: one whose name C and C++ reserve for
/// the implementation, as macros such as `atomic_load` have them, or one of a library's inlined function, such as the `this` of
/// `std::atomic::load`.
pub(super) fn is_reserved(found: &Lvalue<'_, '_>) -> bool {
    found.root.of_library || found.root.name.starts_with("__")
}
