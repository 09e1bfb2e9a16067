//! The functions that were only partly through when the failure happened.
//!
//! From the failing frame outwards: of a function that a frame stands in, what can run before the frame's
//! call. Where the stack is not known, every caller is a possible frame. A thread's start routine leads on
//! to the places that create such threads: there, what can run before the creation counts, and what can run
//! after it until the thread is awaited; when the creating function can return by then, the same goes for
//! whatever called it.

use std::collections::{BTreeMap, BTreeSet};

use super::ended::Ended;
use super::parts::Parts;
use super::{Calls, Frame, Link, Position, Root, Site};

/// The spine, with the parts of each function that count.
pub(super) struct Spine<F> {
    parts: BTreeMap<F, Parts>,
    /// Functions whose frames are given by complete stacks: how far they got is not guessed.
    placed: BTreeSet<F>,
    roots: BTreeSet<Root>,
    /// `main` can have returned, or the stack began outside of what is known.
    ends: bool,
}

/// A function on the spine whose callers are still to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outward<F> {
    function: F,
    /// It may have returned: its callers went on.
    went_on: bool,
}

struct Builder<'c, C: Calls> {
    calls: &'c C,
    spine: Spine<C::Function>,
    todo: Vec<Outward<C::Function>>,
    seen: BTreeSet<Outward<C::Function>>,
}

impl<F: Copy + Ord> Spine<F> {
    pub(super) fn new<C: Calls<Function = F>>(
        calls: &C,
        failing: &[Frame<F>],
        others: &[Vec<Frame<F>>],
    ) -> Self {
        let spine = Spine {
            parts: BTreeMap::new(),
            placed: BTreeSet::new(),
            roots: BTreeSet::new(),
            ends: false,
        };
        let mut builder = Builder {
            calls,
            spine,
            todo: Vec::new(),
            seen: BTreeSet::new(),
        };
        for stack in others {
            for frame in stack {
                builder.place(frame);
                builder.spine.placed.insert(frame.function);
            }
            if let Some(root) = stack.last().and_then(|frame| calls.root(frame.function)) {
                builder.spine.roots.insert(root);
            }
        }
        for frame in failing {
            builder.place(frame);
            // A report with several stacks has this one whole: how far its functions got is known as well.
            if !others.is_empty() {
                builder.spine.placed.insert(frame.function);
            }
        }
        let outermost = others
            .iter()
            .map(Vec::as_slice)
            .chain([failing])
            .filter_map(<[_]>::last);
        for frame in outermost {
            builder.outward(frame.function, false);
        }
        builder.finish()
    }

    /// The functions of the spine, with the parts of each that count.
    pub(super) fn functions(&self) -> impl Iterator<Item = (F, &Parts)> {
        self.parts.iter().map(|(function, parts)| (*function, parts))
    }

    pub(super) fn contains(&self, function: F) -> bool {
        self.parts.contains_key(&function)
    }

    pub(super) fn allows(&self, function: F, position: Position) -> bool {
        self.parts
            .get(&function)
            .is_some_and(|parts| parts.contains(position))
    }

    /// Whether a function that runs because of `site` can have run apart from standing on the spine.
    pub(super) fn has_made_run(&self, site: &Site<F>) -> bool {
        self.parts.get(&site.function).is_some_and(|parts| {
            // A thread may be running already while the call that creates it has not returned.
            let creating = site.link == Link::Creation && self.placed.contains(&site.function);
            parts.has_passed(site.position) || (creating && parts.stands_at(site.position))
        })
    }

    /// Whether `main` can have been entered: everything but a failure in start-up code.
    pub(super) fn main_started(&self) -> bool {
        self.roots.iter().any(|&root| root != Root::Start) || self.roots.is_empty()
    }

    /// Whether the program can have been on its way out.
    pub(super) fn program_ends(&self) -> bool {
        self.ends || self.roots.contains(&Root::End)
    }
}

impl<C: Calls> Builder<'_, C> {
    fn place(&mut self, frame: &Frame<C::Function>) {
        if let Some(cfg) = self.calls.cfg(frame.function) {
            let parts = self
                .spine
                .parts
                .entry(frame.function)
                .or_insert_with(|| Parts::none(&cfg));
            parts.add_before(&cfg, frame.position);
        }
    }

    fn outward(&mut self, function: C::Function, went_on: bool) {
        let outward = Outward { function, went_on };
        if self.seen.insert(outward) {
            self.todo.push(outward);
        }
    }

    fn finish(mut self) -> Spine<C::Function> {
        while let Some(at) = self.todo.pop() {
            if let Some(root) = self.calls.root(at.function) {
                self.spine.roots.insert(root);
                self.spine.ends |= at.went_on && root == Root::Main;
            }
            for site in self.calls.sites(at.function) {
                self.frame_at(&site, at.went_on);
            }
        }
        self.spine
    }

    fn frame_at(&mut self, site: &Site<C::Function>, went_on: bool) {
        // Where a stack says how far a function got, nothing is to be guessed.
        if self.spine.placed.contains(&site.function) {
            return;
        }
        let Some(cfg) = self.calls.cfg(site.function) else {
            return;
        };
        let parts = self
            .spine
            .parts
            .entry(site.function)
            .or_insert_with(|| Parts::none(&cfg));
        parts.add_before(&cfg, site.position);
        let returns = match site.link {
            Link::Call if !went_on => false,
            Link::Taken => {
                parts.add_rest(site.position.block);
                parts.add_after(&cfg, site.position, &Ended::default())
            }
            Link::Call | Link::Creation => {
                let joins = self.calls.joins(site);
                let alike = |one, other| self.calls.tests_alike(site.function, one, other);
                let ended = Ended::new(&cfg, site.position.block, &joins, alike);
                parts.add_after(&cfg, site.position, &ended)
            }
        };
        self.outward(site.function, returns && !self.calls.awaits_all(site.function));
    }
}
