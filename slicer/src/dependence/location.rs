//! Places that hold data: what a dependence is about.

use program::LinkAddr;
use program::values::{Base, Gpr, Place, Value};

use super::effects::RegisterSet;

/// Something that an instruction can read and another can define.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Location {
    /// A register family (general, vector, flags).
    Register(RegisterSet),
    /// Bytes of the function's own frame, by offset from the stack pointer at entry.
    Stack {
        /// Offset of the first byte.
        offset: i64,
        /// How many bytes.
        width: u32,
    },
    /// Bytes at a fixed address of the module.
    Static {
        /// First byte.
        addr: LinkAddr,
        /// How many bytes.
        width: u32,
    },
    /// Bytes of a thread-local variable of the executable, by offset from the thread pointer.
    Thread {
        /// Offset of the first byte.
        offset: i64,
        /// How many bytes.
        width: u32,
    },
    /// Bytes at a constant distance from a value that the function does not compute itself: the same value
    /// is the same memory, so this needs no alias analysis.
    Object {
        /// The value.
        base: Base,
        /// Distance of the first byte.
        offset: i64,
        /// How many bytes.
        width: u32,
    },
}

/// How a write relates to the location that is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// Another place, or one that nothing shows to be the same.
    None,
    /// Some of the bytes, or perhaps them: earlier definitions may still reach.
    Partial,
    /// All of the bytes: earlier definitions do not reach.
    Whole,
}

/// How far an indexed access may reach when nothing says how large the array is.
const ARRAY_REACH: u32 = 64;

impl Location {
    /// The location of a memory access, if it is one that dependence follows.
    #[must_use]
    pub fn of(place: &Place, width: Option<u32>) -> Option<Self> {
        let width = match (place.index, width) {
            (Some(_), _) | (None, None) => ARRAY_REACH,
            (None, Some(width)) => width.max(1),
        };
        match place.base {
            Value::Const(offset) if place.thread_local => Some(Self::Thread {
                offset: offset.cast_signed(),
                width,
            }),
            _ if place.thread_local => None,
            Value::Sum(Base::Entry(Gpr::RSP), offset) => Some(Self::Stack { offset, width }),
            Value::Sum(base, offset) => Some(Self::Object { base, offset, width }),
            Value::Const(addr) if addr >= 0x1000 => Some(Self::Static {
                addr: LinkAddr(addr),
                width,
            }),
            Value::Const(_) | Value::Unknown => None,
        }
    }

    /// What a write to `place` does to this location.
    #[must_use]
    pub fn overlap(&self, place: &Place, width: Option<u32>) -> Overlap {
        let Some(written) = Self::of(place, width) else {
            return Overlap::None;
        };
        let exact = place.index.is_none() && width.is_some();
        let (want, got) = match (*self, written) {
            (
                Self::Stack { offset, width },
                Self::Stack {
                    offset: at,
                    width: wide,
                },
            )
            | (
                Self::Thread { offset, width },
                Self::Thread {
                    offset: at,
                    width: wide,
                },
            ) => ((offset, width), (at, wide)),
            (
                Self::Static { addr, width },
                Self::Static {
                    addr: at,
                    width: wide,
                },
            ) => ((addr.0.cast_signed(), width), (at.0.cast_signed(), wide)),
            (
                Self::Object { base, offset, width },
                Self::Object {
                    base: other,
                    offset: at,
                    width: wide,
                },
            ) if base == other => ((offset, width), (at, wide)),
            _ => return Overlap::None,
        };
        let (want_end, got_end) = (
            want.0.saturating_add(i64::from(want.1)),
            got.0.saturating_add(i64::from(got.1)),
        );
        if got_end <= want.0 || want_end <= got.0 {
            Overlap::None
        } else if exact && got.0 <= want.0 && want_end <= got_end {
            Overlap::Whole
        } else {
            Overlap::Partial
        }
    }
}
