//! What a watchpoint tells: one access to watched bytes, and what is known of it.

use std::fmt;

use program::RunAddr;
use program::code::AccessKind;

/// How memory is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Kernel-owned events into a ring; no thread ever stops.
    Observe,
    /// The same events, each hit a stop of its thread.
    Exact,
    /// Debug registers written through ptrace, for processes that we started ourselves.
    Compat,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observe => "observe",
            Self::Exact => "exact",
            Self::Compat => "compat",
        })
    }
}

/// What an access did to the watched bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Read, write or both. A compare-and-exchange that did not exchange is a read.
    pub kind: AccessKind,
    /// One indivisible step for other processors: a `lock` prefix, or `xchg` with memory.
    pub atomic: bool,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            AccessKind::Read => "R",
            AccessKind::Write => "W",
            AccessKind::ReadWrite => "RW",
        })
    }
}

/// How a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provenance {
    /// A register that the instruction stored from or loaded into: exact.
    Register,
    /// Worked out from the instruction, its flags, or the accesses before: exact if those are.
    Computed,
    /// Memory as it was when the hit was reported: another thread may have been faster.
    Memory,
}

/// The bytes of a location, as many as debug registers can watch: little end first, zero after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content([u64; Self::BYTES / 8]);

impl Content {
    /// How many bytes it can have.
    pub const BYTES: usize = 32;

    /// These bytes; what is too many of them is left out.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut words = [0; Self::BYTES / 8];
        for (word, piece) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            *word = u64::from_le_bytes(whole);
        }
        Self(words)
    }

    /// All of them.
    #[must_use]
    pub fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (piece, word) in bytes.chunks_mut(8).zip(self.0) {
            piece.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The first eight bytes as a number.
    #[must_use]
    pub fn low(self) -> u64 {
        self.0[0]
    }
}

impl From<u64> for Content {
    fn from(low: u64) -> Self {
        Self([low, 0, 0, 0])
    }
}

/// A value of the watched bytes, little end first in the low `len` bytes of the location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The bytes as a number. Of a location wider than eight bytes, the first eight.
    pub bits: u64,
    content: Content,
    /// How it is known.
    pub from: Provenance,
}

impl Value {
    /// A value from a source.
    #[must_use]
    pub fn new(content: impl Into<Content>, from: Provenance) -> Self {
        let content = content.into();
        Self {
            bits: content.low(),
            content,
            from,
        }
    }

    /// All bytes of the location.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content
    }

    /// Whether no other thread can have made it wrong.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.from != Provenance::Memory
    }
}

/// One access to a watched location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its number in the session, from 1, in the order of the accesses.
    pub seq: u64,
    /// When, by the monotonic clock.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The accessing instruction. `None` when no instruction before `reported_pc` can have made the access.
    pub pc: Option<RunAddr>,
    /// Other instructions that may as well have made the access; empty when `pc` is certain.
    pub pc_or: Vec<RunAddr>,
    /// Where the thread was when the hit was reported: after the access.
    pub reported_pc: RunAddr,
    /// Where calls return to that led there, innermost first, as far as what was read of the stack shows.
    pub callers: Vec<RunAddr>,
    /// What it did. `None` when the instruction is not known.
    pub access: Option<Access>,
    /// The first byte that the access touched, where it can be told; else the watched location's.
    pub addr: RunAddr,
    /// How many bytes it touched; zero when not known.
    pub len: u32,
    /// Which location of the request it touched. An access that touched several gives a hit for each.
    pub location: usize,
    /// The location's value after the access.
    pub value: Option<Value>,
    /// The location's value before the access.
    pub before: Option<Value>,
    /// Its place among the hits of other threads is not certain: times are too close, and values do not tell.
    pub order_uncertain: bool,
    /// If it was in the thread's own stack, as far as that reaches as a rule: behind the frames of how many functions, counted from the
    /// accessing one. As far as the stack was read, that is 0 for this one's own.
    pub in_frame: Option<usize>,
}

/// When a location was watched, at which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchedSpan {
    /// Which location of the request.
    pub location: usize,
    /// Where it was.
    pub addr: RunAddr,
    /// From when on, by the monotonic clock.
    pub from_ns: u64,
    /// Until when; `None` for the end of the session.
    pub until_ns: Option<u64>,
    /// Armed when accesses may have happened already.
    pub late: bool,
}

/// What a session did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Hits reported.
    pub hits: u64,
    /// Hits that happened and could not be reported.
    pub lost: u64,
    /// Children of vfork that were in the process's memory, unwatched, until they ran a program or ended: known where
    /// hits are stops.
    pub vforks: u64,
    /// Locations that were armed when accesses may have happened already.
    pub late_armed: u64,
    /// How it was watched.
    pub mode: Mode,
    /// Why this mode, when it was chosen for the caller, or what limits it.
    pub reason: Option<String>,
    /// What was watched when.
    pub spans: Vec<WatchedSpan>,
}
