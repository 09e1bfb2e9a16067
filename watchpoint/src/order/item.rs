//! What is put in order: accesses, and looks at memory.

use program::RunAddr;

use crate::hit::{Access, Content, Hit, Value};
use crate::values::Update;

/// A hit on its way, with how its values hang together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The hit; `seq` is given when it leaves. Its time is that of the report.
    pub hit: Hit,
    /// Where its location begins.
    pub at: RunAddr,
    /// It did not happen before this,
    pub earliest_ns: u64,
    /// and most likely not before this.
    pub likely_ns: u64,
    /// The watch may have been set after it: what is known of the location's content may be what it left.
    pub is_first: bool,
    /// Bytes of its location, at most eight.
    pub len: u32,
    /// How the value after follows from the one before, of a location of at most eight bytes.
    pub update: Option<Update>,
}

impl Pending {
    /// What it makes of what was there, if it is an update.
    pub(super) fn applied(&self, before: Content) -> Option<Content> {
        let update = self.update?;
        Some(update.apply(before.low(), self.len).into())
    }

    /// What was there before an update, for what is there after it.
    pub(super) fn undone(&self, after: Content) -> Option<Content> {
        let update = self.update?;
        update.undo(after.low(), self.len).map(Content::from)
    }

    /// Whether what was there before it is known when it is known what is there after it.
    pub(super) fn can_be_undone(&self) -> bool {
        self.undone(Content::default()).is_some()
    }

    /// What it found in memory, if no other thread can have made that wrong.
    pub(super) fn found(&self) -> Option<Content> {
        self.hit
            .before
            .filter(|before| before.is_exact() && !self.is_first)
            .map(|before| before.content())
    }

    /// What it left in memory, if that is certain.
    pub(super) fn left(&self) -> Option<Content> {
        self.hit
            .value
            .filter(Value::is_exact)
            .map(|value| value.content())
    }

    /// Whether memory may be something else after it.
    pub(super) fn may_write(&self) -> bool {
        self.hit.access.is_none_or(|access| access.kind.writes())
    }

    /// Whether another thread can write between its read and its write.
    pub(super) fn can_be_overtaken(&self) -> bool {
        let split = |access: Access| access.kind.reads() && access.kind.writes() && !access.atomic;
        self.hit.access.is_some_and(split)
    }
}

/// What memory held when a hit was reported: a read of our own, whose time is known well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which location.
    pub location: usize,
    /// Where it begins.
    pub at: RunAddr,
    /// Its bytes.
    pub content: Content,
    /// Not before this.
    pub from_ns: u64,
    /// Not after this.
    pub until_ns: u64,
}

/// A location at one of its addresses, of which it may have several at once. What was known of it is void when it was
/// not watched in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) location: usize,
    pub(super) at: RunAddr,
    pub(super) armed: u64,
}

/// What happens at a place.
#[derive(Clone, Debug)]
pub(super) enum What {
    Access(Box<Pending>),
    Look(Content),
}

/// One thing to find a place for in the order: it happened at some time of its span.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) earliest_ns: u64,
    pub(super) likely_ns: u64,
    pub(super) latest_ns: u64,
    pub(super) what: What,
}

/// Which times of accesses are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// Those that are likely.
    Likely,
    /// Those that are certain.
    Certain,
}

impl Item {
    /// The same with an end that is not before its beginning: an item without a moment to happen in fits into no order, and
    /// whatever waits with it would wait for good.
    pub(super) fn with_a_span(mut self) -> Self {
        match self.what {
            What::Access(_) => self.earliest_ns = self.earliest_ns.min(self.latest_ns),
            What::Look(_) => self.latest_ns = self.latest_ns.max(self.earliest_ns),
        }
        self.likely_ns = self.likely_ns.clamp(self.earliest_ns, self.latest_ns);
        self
    }

    /// When its thread is known to have come this far: an access is over then, and a look begins.
    pub(super) fn reported_ns(&self) -> u64 {
        match self.what {
            What::Access(_) => self.latest_ns,
            What::Look(_) => self.earliest_ns,
        }
    }

    /// It did not happen before this.
    pub(super) fn begins_ns(&self, times: Times) -> u64 {
        match times {
            Times::Likely => self.likely_ns,
            Times::Certain => self.earliest_ns,
        }
    }

    pub(super) fn access(&self) -> Option<&Pending> {
        match &self.what {
            What::Access(pending) => Some(pending),
            What::Look(_) => None,
        }
    }

    /// What was certainly found at the place.
    pub(super) fn found(&self) -> Option<Content> {
        match &self.what {
            What::Access(pending) => pending.found(),
            What::Look(content) => Some(*content),
        }
    }
}
