//! What is still to be looked at, nearest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use program::code::InstrIx;

use super::Why;
use super::context::Context;
use crate::dependence::location::Location;
use crate::dependence::uses::Role;
use program::FunctionRef;

/// A point in a function, with how the slice came there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Point {
    pub function: FunctionRef,
    pub context: Context,
    pub ix: InstrIx,
}

/// A piece of work. Those that may be expensive (finding all callers, all writers of a global) wait in the
/// queue until their distance is reached, so that a short slice never pays for them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Task {
    /// An instruction is in the slice.
    Visit(Point, Role),
    /// A call's result is in the slice.
    Result(Point, Location),
    /// A call, made by a function that was itself followed for what it wrote, of one that may write a location: what lies behind a
    /// pointer that it got.
    Lent(Point, FunctionRef, Location),
    /// A function's execution depends on its call sites.
    Called(FunctionRef, Context),
    /// What a location held at function entry: an argument.
    Argument(FunctionRef, Context, Location),
    /// Everybody who writes a global or thread-local variable, which the function reads.
    Writers(FunctionRef, Location),
}

/// A queued task with its rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Queued {
    /// Statements between the criterion and here.
    pub distance: u32,
    /// Function boundaries between the criterion and here.
    pub hops: u32,
    /// The source line, later ones first; program order walked backwards.
    pub line: Reverse<u32>,
    /// Order of discovery: makes the order total, and the same on every run.
    pub serial: u64,
    pub task: Task,
    pub why: Why,
    /// The statement that this came from, by its number in the slice.
    pub from: u32,
    /// All that the way through the statement met so far only moves a value within the frame.
    pub moving: bool,
}

impl Queued {
    fn rank(&self) -> (u32, u32, Reverse<u32>, u64) {
        (self.distance, self.hops, self.line, self.serial)
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A queue that hands out the nearest task.
#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<Queued>>,
    serial: u64,
}

impl Queue {
    pub(super) fn push(&mut self, mut queued: Queued) {
        queued.serial = self.serial;
        self.serial += 1;
        self.heap.push(Reverse(queued));
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        self.heap.pop().map(|Reverse(queued)| queued)
    }
}
