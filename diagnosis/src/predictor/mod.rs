//! Predictors: what can separate failing from successful runs.
//!
//! A predictor's identity is static (statements, the roles of threads, a location of the plan), so that the runs of
//! different processes and hosts add up. [`observe`](extract::observe) says of one run which predictors held in it,
//! and of which that is not known.
//!
//! What the patterns mean, exactly. All are about the accesses to one location at one address, in their order:
//!
//! - `WR`: a read returned what another thread had written last. `RW`: the next write after a read is another
//!   thread's. `WW`: a write was replaced by another thread's before anybody had read it.
//!   Where threads wait for news, `RW` is also a thread's last read before another one's write: it never looked again, and waits for what
//!   had come by then.
//! - `-R`: a read that no write of this run came before, or that met null where nothing else had been written. It says
//!   something only if another thread's write does come before it in successful runs; whether it does, the evidence knows.
//! - `RWR`, `WWR`, `RWW`, `WRW`: two accesses of one thread that follow one another, with another thread's between.
//!   Where the other's is a write, it must have shown: a second access that met the value that the first left was not
//!   disturbed.
//!   A process that dies of the read between two writes does not live to see the second: that is `WRW` all the same where in
//!   successful runs the second follows the first each time.
//! - `WRR`: a thread read two locations; what it read of the one another thread had written last, and since that write nobody
//!   had written the other one. It says something only if such a write does come in between in successful runs: then the
//!   two belong together, and the thread saw half of a change.
//! - `deadlock`: threads of a hanging run each wait for what the next one of them has, or one waits for what a thread has that is
//!   over, or that waits for a signal. Who waits where is what tells it from others; where each got what it has is not known of
//!   every run, and added when all runs are looked at.
//!
//! An access that reads and writes acts as both; a pattern is named once, by its write where it can be named by either
//! at its ends. A statement that reads and then writes (`n++` without optimisation) is one access if nothing came
//! between, so that optimised and unoptimised code agree.

mod accesses;
pub(crate) mod blocked;
pub(crate) mod cycle;
#[cfg(test)]
mod deadlocks;
pub mod extract;
pub(crate) mod halves;
mod instead;
mod interleaving;
mod missed;
#[cfg(test)]
mod tests;
mod torn;
mod values;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::run::{AccessKind, BranchId, LocationId, StatementId, Way};
use crate::sketch::PredictorKind;

/// A thread's kind: the name of its start routine.
pub type Role = Arc<str>;

/// A statement, executed by a thread of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Actor<R = Role> {
    /// The statement.
    pub statement: StatementId,
    /// Who executes it.
    pub role: R,
}

/// Something that held in a run, or did not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Predictor<R = Role> {
    /// A branch went one way at least once.
    Branch {
        /// The branch.
        branch: BranchId,
        /// The way.
        way: Way,
        /// Who took it.
        role: R,
    },
    /// An access met a value.
    Value {
        /// The access.
        at: Actor<R>,
        /// To what.
        location: LocationId,
        /// What is said of the value.
        test: Test,
        /// Of which execution it is said.
        when: When,
    },
    /// `-R`.
    Unwritten {
        /// What was read.
        location: LocationId,
        /// The read.
        read: Actor<R>,
    },
    /// Two threads' accesses in one order.
    Order {
        /// Which accesses.
        pattern: OrderPattern,
        /// To what.
        location: LocationId,
        /// The one that came first.
        first: Actor<R>,
        /// The other thread's.
        second: Actor<R>,
    },
    /// `RW` of which the read was its thread's last: whatever it waits for then, the write came before.
    Missed {
        /// To what.
        location: LocationId,
        /// The last look.
        read: Actor<R>,
        /// The other thread's write after it.
        write: Actor<R>,
    },
    /// A thread's two accesses with another thread's between.
    Atomicity {
        /// Which accesses.
        pattern: AtomicityPattern,
        /// To what.
        location: LocationId,
        /// The first of the pair.
        first: Actor<R>,
        /// The other thread's.
        between: Actor<R>,
        /// The second of the pair.
        second: Actor<R>,
    },
    /// `WRR`.
    Torn {
        /// What had been written.
        changed: LocationId,
        /// What had not since.
        kept: LocationId,
        /// The other thread's write.
        write: Actor<R>,
        /// The read that returned it.
        fresh: Actor<R>,
        /// The read of what belongs to it.
        stale: Actor<R>,
        /// Whether this one came first.
        stale_first: bool,
    },
    /// `WRW` of which no process lives to see the end: it dies of the read. That the write would have come, successful runs tell.
    Unfinished {
        /// To what.
        location: LocationId,
        /// The write that was made.
        first: Actor<R>,
        /// The other thread's read.
        between: Actor<R>,
        /// The write that was not.
        second: Actor<R>,
    },
    /// Threads that wait for one another.
    Deadlock {
        /// Each waits for the next; in a cycle the smallest comes first. Many that wait in one place for one another are two.
        waits: Vec<Wait<R>>,
        /// For whom the last one waits.
        ending: Ending,
    },
}

/// For whom the last thread of a deadlock waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// For the first.
    Cycle,
    /// For one that is over, and has not given back what it had.
    Ended,
    /// For a signal, with what the one before it wants.
    Elsewhere,
}

/// One thread of a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wait<R = Role> {
    /// What it wants, where some run watched it. A run by itself leaves it out.
    pub location: Option<LocationId>,
    /// Where it waits.
    pub wants: Actor<R>,
    /// Where the next thread got it, where that is known. A run by itself leaves it out.
    pub held_since: Option<Actor<R>>,
}

/// What is said of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// It is zero, null or false.
    Zero,
    /// It is negative.
    Negative,
    /// It has no sign, and is as large as what is less than zero comes out.
    Wrapped,
    /// It is this one, cut to the location's width.
    Is(u64),
    /// Whatever it is, the same thread read it by this statement, and nobody had written there in between.
    ReadBy(StatementId),
    /// The same of something else than zero.
    NonZeroReadBy(StatementId),
}

impl Test {
    /// The statement that read it, where that is what is said.
    pub(crate) fn read_by(self) -> Option<StatementId> {
        match self {
            Self::ReadBy(read) | Self::NonZeroReadBy(read) => Some(read),
            Self::Zero | Self::Negative | Self::Wrapped | Self::Is(_) => None,
        }
    }
}

/// Of which execution of a statement something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Of some.
    Ever,
    /// Of the last.
    Last,
}

/// Two threads' accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OrderPattern {
    /// A read returned another thread's write.
    Wr,
    /// A write came after another thread's read.
    Rw,
    /// A write replaced another thread's that nobody had read.
    Ww,
}

/// A thread's two accesses and another's between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AtomicityPattern {
    /// Two reads see different values.
    Rwr,
    /// A thread does not read what it wrote.
    Wwr,
    /// A write is based on a value that is no longer true.
    Rww,
    /// A state that was not meant to be seen is read.
    Wrw,
}

impl OrderPattern {
    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wr => "WR",
            Self::Rw => "RW",
            Self::Ww => "WW",
        }
    }
}

impl AtomicityPattern {
    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rwr => "RWR",
            Self::Wwr => "WWR",
            Self::Rww => "RWW",
            Self::Wrw => "WRW",
        }
    }

    /// The pattern that three accesses make, if they make one.
    #[must_use]
    pub fn of(first: AccessKind, between: AccessKind, second: AccessKind) -> Option<Self> {
        if between.writes() {
            match (first.reads(), first.writes(), second.reads(), second.writes()) {
                // What a statement wrote after it had read is what another one overwrote before somebody read it.
                (true, true, true, true) => return Some(Self::Wwr),
                (true, _, _, true) => return Some(Self::Rww),
                (_, true, true, _) => return Some(Self::Wwr),
                (true, _, true, _) => return Some(Self::Rwr),
                _ => {}
            }
        }
        (between.reads() && first.writes() && second.writes()).then_some(Self::Wrw)
    }
}

impl<R> Predictor<R> {
    /// What it is about.
    #[must_use]
    pub fn kind(&self) -> PredictorKind {
        match self {
            Self::Branch { .. } => PredictorKind::Branch,
            Self::Value { .. } => PredictorKind::Value,
            Self::Unwritten { .. } | Self::Order { .. } | Self::Missed { .. } | Self::Deadlock { .. } => {
                PredictorKind::Order
            }
            Self::Atomicity { .. } | Self::Unfinished { .. } | Self::Torn { .. } => PredictorKind::Atomicity,
        }
    }

    /// Its pattern's name.
    #[must_use]
    pub fn pattern(&self) -> Option<&'static str> {
        match self {
            Self::Branch { .. } | Self::Value { .. } => None,
            Self::Unwritten { .. } => Some("-R"),
            Self::Order { pattern, .. } => Some(pattern.name()),
            Self::Missed { .. } => Some(OrderPattern::Rw.name()),
            Self::Unfinished { .. } => Some(AtomicityPattern::Wrw.name()),
            Self::Atomicity { pattern, .. } => Some(pattern.name()),
            Self::Torn { .. } => Some("WRR"),
            Self::Deadlock { .. } => Some("deadlock"),
        }
    }

    /// The locations that a run must have watched to say something about it.
    #[must_use]
    pub fn locations(&self) -> Vec<LocationId> {
        match self {
            Self::Branch { .. } => Vec::new(),
            Self::Value { location, .. }
            | Self::Unwritten { location, .. }
            | Self::Order { location, .. }
            | Self::Missed { location, .. }
            | Self::Atomicity { location, .. }
            | Self::Unfinished { location, .. } => vec![*location],
            Self::Torn { changed, kept, .. } => vec![*changed, *kept],
            Self::Deadlock { waits, .. } => waits.iter().filter_map(|wait| wait.location).collect(),
        }
    }

    /// Whether only a run that watched from the start on can say that it did not hold: it depends on who wrote last.
    pub(crate) fn needs_the_start(&self) -> bool {
        match self {
            Self::Unwritten { .. } => true,
            Self::Value { test, .. } => test.read_by().is_some(),
            _ => false,
        }
    }

    /// Its accesses, in the order of the pattern. None for a branch, whose statement the catalogue knows.
    #[must_use]
    pub fn accesses(&self) -> Vec<(&Actor<R>, Option<LocationId>, Option<AccessKind>)> {
        use AccessKind::{Read, Write};
        match self {
            Self::Branch { .. } => Vec::new(),
            Self::Value {
                at, location, test, ..
            } => {
                let access = test.read_by().map(|_| Write);
                vec![(at, Some(*location), access)]
            }
            Self::Unwritten { location, read } => vec![(read, Some(*location), Some(Read))],
            Self::Order {
                pattern,
                location,
                first,
                second,
            } => {
                let (a, b) = match pattern {
                    OrderPattern::Wr => (Write, Read),
                    OrderPattern::Rw => (Read, Write),
                    OrderPattern::Ww => (Write, Write),
                };
                vec![
                    (first, Some(*location), Some(a)),
                    (second, Some(*location), Some(b)),
                ]
            }
            Self::Missed {
                location,
                read,
                write,
            } => vec![
                (read, Some(*location), Some(Read)),
                (write, Some(*location), Some(Write)),
            ],
            Self::Atomicity {
                pattern,
                location,
                first,
                between,
                second,
            } => {
                let (a, b, c) = match pattern {
                    AtomicityPattern::Rwr => (Read, Write, Read),
                    AtomicityPattern::Wwr => (Write, Write, Read),
                    AtomicityPattern::Rww => (Read, Write, Write),
                    AtomicityPattern::Wrw => (Write, Read, Write),
                };
                vec![
                    (first, Some(*location), Some(a)),
                    (between, Some(*location), Some(b)),
                    (second, Some(*location), Some(c)),
                ]
            }
            Self::Unfinished {
                location,
                first,
                between,
                second,
            } => vec![
                (first, Some(*location), Some(Write)),
                (between, Some(*location), Some(Read)),
                (second, Some(*location), Some(Write)),
            ],
            Self::Torn {
                changed,
                kept,
                write,
                fresh,
                stale,
                stale_first,
            } => {
                let mut reads = [
                    (fresh, Some(*changed), Some(Read)),
                    (stale, Some(*kept), Some(Read)),
                ];
                if *stale_first {
                    reads.reverse();
                }
                let [first, second] = reads;
                vec![(write, Some(*changed), Some(Write)), first, second]
            }
            Self::Deadlock { waits, .. } => {
                let held = waits
                    .iter()
                    .filter_map(|wait| Some((wait.held_since.as_ref()?, wait.location, None)));
                held.chain(waits.iter().map(|wait| (&wait.wants, wait.location, None)))
                    .collect()
            }
        }
    }

    /// The same with other names for the roles.
    fn map_roles<S>(&self, mut name: impl FnMut(&R) -> S) -> Predictor<S> {
        let mut actor = |actor: &Actor<R>| Actor {
            statement: actor.statement,
            role: name(&actor.role),
        };
        match self {
            Self::Branch { branch, way, role } => Predictor::Branch {
                branch: *branch,
                way: *way,
                role: name(role),
            },
            Self::Value {
                at,
                location,
                test,
                when,
            } => Predictor::Value {
                at: actor(at),
                location: *location,
                test: *test,
                when: *when,
            },
            Self::Unwritten { location, read } => Predictor::Unwritten {
                location: *location,
                read: actor(read),
            },
            Self::Order {
                pattern,
                location,
                first,
                second,
            } => Predictor::Order {
                pattern: *pattern,
                location: *location,
                first: actor(first),
                second: actor(second),
            },
            Self::Missed {
                location,
                read,
                write,
            } => Predictor::Missed {
                location: *location,
                read: actor(read),
                write: actor(write),
            },
            Self::Atomicity {
                pattern,
                location,
                first,
                between,
                second,
            } => Predictor::Atomicity {
                pattern: *pattern,
                location: *location,
                first: actor(first),
                between: actor(between),
                second: actor(second),
            },
            Self::Unfinished {
                location,
                first,
                between,
                second,
            } => Predictor::Unfinished {
                location: *location,
                first: actor(first),
                between: actor(between),
                second: actor(second),
            },
            Self::Torn {
                changed,
                kept,
                write,
                fresh,
                stale,
                stale_first,
            } => Predictor::Torn {
                changed: *changed,
                kept: *kept,
                write: actor(write),
                fresh: actor(fresh),
                stale: actor(stale),
                stale_first: *stale_first,
            },
            Self::Deadlock { waits, ending } => Predictor::Deadlock {
                waits: waits
                    .iter()
                    .map(|wait| Wait {
                        location: wait.location,
                        wants: actor(&wait.wants),
                        held_since: wait.held_since.as_ref().map(&mut actor),
                    })
                    .collect(),
                ending: *ending,
            },
        }
    }

    /// What it is by itself in every run that has it.
    pub(crate) fn in_one_run(&self) -> Cow<'_, Self>
    where
        R: Clone,
    {
        match self {
            Self::Deadlock { waits, ending } => {
                let bare = |wait: &Wait<R>| Wait {
                    location: None,
                    wants: wait.wants.clone(),
                    held_since: None,
                };
                Cow::Owned(Self::Deadlock {
                    waits: waits.iter().map(bare).collect(),
                    ending: *ending,
                })
            }
            Self::Unfinished {
                location,
                first,
                between,
                ..
            } => Cow::Owned(Self::Order {
                pattern: OrderPattern::Wr,
                location: *location,
                first: first.clone(),
                second: between.clone(),
            }),
            _ => Cow::Borrowed(self),
        }
    }
}
