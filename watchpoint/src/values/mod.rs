//! What an access read or wrote.
//!
//! Memory is looked at when a hit is reported, and by then another thread may have written. So the value comes
//! from the instruction and its registers wherever they tell (`effect`), from memory only where they do not;
//! and memory that contradicts the flags the instruction left is not believed.

mod effect;
mod flags;
mod sources;
mod update;

use failure::image::Registers;
use program::RunAddr;

use crate::access::{Accessor, Touch};
use crate::hit::{Content, Provenance, Value};
use crate::location::Location;
use crate::watcher::Snapshot;
use effect::Effect;
pub use update::Update;

/// What is known about the moment of a hit.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'m> {
    /// The registers after the access.
    pub registers: &'m Registers,
    /// The eight bytes at the stack pointer.
    pub stack_top: Option<u64>,
    /// Watched memory when the hit was reported.
    pub memory: &'m [Snapshot],
}

/// A location's value before and after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Change {
    /// Before.
    pub before: Option<Value>,
    /// After.
    pub after: Option<Value>,
    /// How the one follows from the other, for an instruction that works on just the location.
    pub update: Option<Update>,
}

/// The bytes of an operand, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes {
    bits: u128,
    from: Provenance,
}

/// What an access did to a location.
#[must_use]
pub fn change(accessor: &Accessor, touch: &Touch, location: &Location, moment: &Moment<'_>) -> Change {
    let window = Window {
        location,
        operand: touch.addr,
        width: touch.len,
        memory: moment.memory,
    };
    let seen = window.seen();
    let memory = window.operand_in_memory();
    let effect = effect::of(accessor, touch, moment, memory);
    let whole = touch.addr == Some(location.addr) && touch.len == location.len;
    let update = whole.then(|| effect::update(accessor, touch, moment)).flatten();
    let in_location = |bytes: Option<Bytes>| bytes.and_then(|bytes| window.project(bytes));
    match effect {
        Effect::Read(value) => {
            let value = in_location(value).or(seen);
            Change {
                before: value,
                after: value,
                update: None,
            }
        }
        Effect::Change { before, after } => Change {
            before: in_location(before),
            after: in_location(after).or(seen),
            update,
        },
        Effect::Contradicted => Change {
            update,
            ..Change::default()
        },
        Effect::ReadSomething => Change {
            before: seen,
            after: seen,
            update: None,
        },
        Effect::WroteSomething => Change {
            before: None,
            after: seen,
            update,
        },
    }
}

/// A location as it was in memory when a hit was reported.
#[must_use]
pub fn seen(location: &Location, moment: &Moment<'_>) -> Option<Content> {
    let window = Window {
        location,
        operand: None,
        width: 0,
        memory: moment.memory,
    };
    window.seen().map(|value| value.content())
}

/// A location, an operand that overlaps it, and the memory that was seen.
struct Window<'w> {
    location: &'w Location,
    operand: Option<RunAddr>,
    width: u32,
    memory: &'w [Snapshot],
}

impl Window<'_> {
    /// How many bytes of the location a value shows.
    fn shown(&self) -> usize {
        (self.location.len as usize).min(Content::BYTES)
    }

    /// The location as it was in memory.
    fn seen(&self) -> Option<Value> {
        let mut bytes = [0; Content::BYTES];
        for (at, byte) in (0..).zip(bytes.iter_mut().take(self.shown())) {
            *byte = self.byte(self.location.addr.0.checked_add(at)?)?;
        }
        Some(Value::new(Content::of(&bytes), Provenance::Memory))
    }

    fn byte(&self, addr: u64) -> Option<u8> {
        self.memory.iter().find_map(|seen| {
            let into = addr.checked_sub(seen.addr.0)?;
            if into >= u64::from(seen.len) {
                return None;
            }
            seen.bytes.get(usize::try_from(into).ok()?).copied()
        })
    }

    /// Where the operand is: an instruction that covered its own tracks most likely accessed just the location.
    fn operand(&self) -> Option<u64> {
        let whole = self.location.len == self.width;
        self.operand
            .or(whole.then_some(self.location.addr))
            .map(|addr| addr.0)
    }

    /// The operand as it was in memory, if all of it was watched.
    fn operand_in_memory(&self) -> Option<u128> {
        let start = self.operand()?;
        let mut bytes = [0; 16];
        for (at, byte) in (0..u64::from(self.width)).zip(bytes.iter_mut()) {
            *byte = self.byte(start.checked_add(at)?)?;
        }
        (1..=16)
            .contains(&self.width)
            .then_some(u128::from_le_bytes(bytes))
    }

    /// The location's bytes of an operand's value; those beside the operand come from memory.
    fn project(&self, operand: Bytes) -> Option<Value> {
        let start = self.operand()?;
        let source = operand.bits.to_le_bytes();
        let mut bytes = [0; Content::BYTES];
        let mut from = operand.from;
        for (at, byte) in (0..).zip(bytes.iter_mut().take(self.shown())) {
            let addr = self.location.addr.0.checked_add(at)?;
            let into = addr
                .checked_sub(start)
                .filter(|into| *into < u64::from(self.width))
                .and_then(|into| source.get(usize::try_from(into).ok()?));
            *byte = match into {
                Some(byte) => *byte,
                None => {
                    from = Provenance::Memory;
                    self.byte(addr)?
                }
            };
        }
        Some(Value::new(Content::of(&bytes), from))
    }
}
