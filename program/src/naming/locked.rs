//! Names of what is behind the guard of a lock, by the lock.
//!
//! `self.parts.lock().unwrap()` is a guard in a temporary or a variable, and unoptimised code calls `Deref::deref` for it. The memory
//! is the lock's: whoever else reads the program calls it `self.parts`, and so does optimised code.

use super::Namer;
use super::dereferenced::plain;
use super::memory::Lvalue;
use super::parts::Wanted;
use crate::code::InstrIx;
use crate::source::{Member, SubprogramInfo, Type};
use crate::values::{Gpr, Place};

/// A guard is made of what the lock returned soon, or never.
const MOST_INSTRUCTIONS: usize = 64;
/// What is larger is returned through memory that the caller passes the address of.
const IN_REGISTERS: u64 = 16;

/// Guards in Rust's libraries, and others that are called the same.
const GUARDS: [&str; 5] = [
    "MutexGuard<",
    "RwLockReadGuard<",
    "RwLockWriteGuard<",
    "Ref<",
    "RefMut<",
];
/// What returns one, or a result with one.
const LOCKING: [&str; 9] = [
    "lock",
    "read",
    "write",
    "borrow",
    "borrow_mut",
    "try_lock",
    "try_read",
    "try_write",
    "try_borrow_mut",
];

/// Whether a type is the guard of a lock.
pub(super) fn is_guard(ty: Type<'_, '_>) -> bool {
    let name = ty.name();
    let own = name.find('<').map_or(name.as_str(), |end| {
        let path = name.get(..end).unwrap_or_default();
        let start = path.rfind(':').map_or(0, |colon| colon + 1);
        name.get(start..).unwrap_or_default()
    });
    GUARDS.iter().any(|guard| own.starts_with(guard))
}

impl<'m, 'a> Namer<'m, 'a> {
    /// The bytes at an offset from what a call returned that was made for a guard, by the lock that is held. `content` is what the call's
    /// result points to.
    pub(super) fn locked(
        &self,
        call: InstrIx,
        content: Type<'m, 'a>,
        wanted: &Wanted,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        let guard = self.state(call)?.get(Gpr::RDI).stack_offset()?;
        let made = self.made(call, guard)?;
        let mut before = self.back_from(made);
        let (at, function) = before.find_map(|ix| Some((ix, self.called_at(ix).filter(is_locking)?)))?;
        let sources = self.module.sources();
        let returned = sources.ty(function.return_type?).size()?;
        let lock = sources.ty(function.parameters.first()?.ty?).pointee()?;
        let (member, inside) = content_of(lock)?;
        if inside.name() != content.name() {
            return None;
        }
        let register = match returned > IN_REGISTERS {
            true => Gpr::RSI,
            false => Gpr::RDI,
        };
        let mut owner = self.behind_register(at, register, 0, lock.size()?, depth)?;
        owner.ty = lock;
        owner.is_pointed = true;
        owner.handle = None;
        // Which lock that was is decided: where it was found may have changed since.
        owner.guards.clear();
        let mut wanted = wanted.clone();
        wanted.offset = wanted.offset.checked_add(i64::try_from(member.offset).ok()?)?;
        owner.part(wanted)
    }

    /// The instruction that made the guard in a slot of the frame: the last one before a call that used it, or else the only one.
    fn made(&self, user: InstrIx, slot: i64) -> Option<InstrIx> {
        let makes = |ix: &InstrIx| {
            let mut accesses = self.values.accesses(*ix).iter();
            accesses.any(|access| access.kind.writes() && is_slot(&access.place, slot))
        };
        if let Some(last) = self.back_from(user).find(makes) {
            return Some(last);
        }
        let count = u32::try_from(self.flow.instructions.len()).ok()?;
        let mut all = (0..count).map(InstrIx).filter(makes);
        let only = all.next()?;
        all.next().is_none().then_some(only)
    }

    /// The instructions that ran before one, as long as no other way leads there.
    fn back_from(&self, at: InstrIx) -> impl Iterator<Item = InstrIx> + '_ {
        std::iter::successors(self.before(at), |&ix| self.before(ix)).take(MOST_INSTRUCTIONS)
    }
}

fn is_slot(place: &Place, slot: i64) -> bool {
    place.index.is_none() && place.stack_offset() == Some(slot)
}

fn is_locking(function: &SubprogramInfo) -> bool {
    let name = function.name.as_deref();
    name.is_some_and(|name| LOCKING.contains(&plain(name)))
}

/// Where a lock has what it protects, and of which type that is.
fn content_of<'m, 'a>(lock: Type<'m, 'a>) -> Option<(Member, Type<'m, 'a>)> {
    let sources = lock.sources();
    let cell = |member: &Member| {
        let ty = sources.ty(member.ty);
        ty.name()
            .starts_with("core::cell::UnsafeCell<")
            .then(|| ty.members().into_iter().next())?
    };
    let cells = lock.members().into_iter().filter_map(|member| {
        let inside = cell(&member)?;
        Some((member, sources.ty(inside.ty)))
    });
    cells.last()
}
