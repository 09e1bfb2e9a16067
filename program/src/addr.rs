//! Addresses that cannot be mixed up.
//!
//! A byte of a program has three positions: where it stands in its file, where the linker meant it to be,
//! and where a process has it mapped. Each is a type of its own; going from one to another takes the object
//! that knows how (the segments of an ELF file, the mappings of a process).

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `delta` bytes further on (wrapping, as machine addresses do).
            #[must_use]
            pub fn offset(self, delta: i64) -> Self {
                Self(self.0.wrapping_add_signed(delta))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address! {
    /// A position in a file. Uprobes and core-dump mappings speak this.
    FileOffset
}
address! {
    /// An address as linked: what ELF headers, symbols and DWARF speak. For a position-independent file it
    /// is relative to wherever the file gets loaded.
    LinkAddr
}
address! {
    /// An address in a running (or crashed) process.
    RunAddr
}

/// A half-open range of link-time addresses.
pub type LinkRange = Range<LinkAddr>;

/// How many low bits to leave away from distances up to `span` for about `groups` groups, and never less than two.
#[must_use]
pub fn group_shift(span: u64, groups: usize) -> u32 {
    let last = (groups as u64).max(1);
    // A span may need every bit: what is left then is one of them.
    (0..u64::BITS)
        .find(|shift| span >> shift <= last)
        .unwrap_or(u64::BITS - 1)
}

/// Which module of a [`crate::Program`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ModuleId(pub u32);

/// One instruction's (or datum's) place in a program of several modules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Pc {
    /// The module.
    pub module: ModuleId,
    /// The link-time address inside the module.
    pub addr: LinkAddr,
}

/// The GNU build-id of a file: what tells one build from another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BuildId(pub Vec<u8>);

impl BuildId {
    /// Reads the hexadecimal form that `file`, `readelf` and crash reports print.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.is_empty() || !text.len().is_multiple_of(2) || text.len() > 128 {
            return None;
        }
        let digits = text.as_bytes().chunks_exact(2);
        digits
            .map(|pair| {
                let high = char::from(pair[0]).to_digit(16)?;
                let low = char::from(pair[1]).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()
            })
            .collect::<Option<Vec<u8>>>()
            .map(Self)
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}
