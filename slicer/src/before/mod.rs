//! What can have run before the failure, or beside it.
//!
//! A statement that cannot have run by then cannot be a cause. Some functions are only partly through when
//! the failure happens: those on the failing thread's stack, and those of the threads that created it. They
//! form the *spine* ([`spine`]); of them, the parts count that can come before (or, in another thread,
//! beside) the point where they stand. Every other function counts if a chain of calls, thread creations or
//! taken addresses leads to it from such a part or from where programs start ([`Before::has_run`]).
//!
//! The question is asked about single functions. Mostly the answer is a few calls away from the spine; where
//! it is not, it is searched for backwards from the function. A few questions about a big program look at
//! little of it. The graph behind it is a trait, so that the rules can be tested on
//! drawings.

pub mod calls;
mod ended;
mod parts;
mod spine;
#[cfg(test)]
mod tests;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use crate::cfg::Cfg;
use crate::threads::Joins;
pub use calls::ProgramCalls;
pub use parts::Position;
use spine::Spine;

/// How a function comes to run from a place in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// It is called (or jumped to) there.
    Call,
    /// A thread is started there that runs it.
    Creation,
    /// Its address is taken there; from then on anybody may call it.
    Taken,
}

/// A place that makes a function run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site<F> {
    /// The function that the place is in.
    pub function: F,
    /// The place.
    pub position: Position,
    /// What happens there.
    pub link: Link,
}

/// What runs a function that nothing in the program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// Runs once before `main`: the start-up code's own functions, static constructors.
    Start,
    /// `main`.
    Main,
    /// Runs when the program exits: static destructors.
    End,
    /// Code outside the program can call it, whenever it likes (an exported function of a library, a
    /// pointer in data that cannot be traced to its users).
    Outside,
}

/// The calls of a whole program, looked at piece by piece.
pub trait Calls {
    /// Names a function.
    type Function: Copy + Ord;

    /// The control flow of a function. Calls end blocks.
    fn cfg(&self, function: Self::Function) -> Option<Arc<Cfg>>;

    /// Every place that makes `function` run.
    fn sites(&self, function: Self::Function) -> Vec<Site<Self::Function>>;

    /// Some of the functions that `function` calls, with where: those that are known without a search.
    fn callees(&self, function: Self::Function) -> Vec<(Position, Self::Function)>;

    /// Whether, and how, `function` is run from outside.
    fn root(&self, function: Self::Function) -> Option<Root>;

    /// Where, in the site's function, the thread has ended that was created at `site`, or inside what is
    /// called there.
    fn joins(&self, site: &Site<Self::Function>) -> Joins;

    /// Whether threads that are created while `function` runs have ended when it returns.
    fn awaits_all(&self, function: Self::Function) -> bool;

    /// Whether two blocks of a function end with tests of the same thing.
    fn tests_alike(&self, function: Self::Function, one: usize, other: usize) -> bool;
}

impl<C: Calls + ?Sized> Calls for Rc<C> {
    type Function = C::Function;

    fn cfg(&self, function: C::Function) -> Option<Arc<Cfg>> {
        (**self).cfg(function)
    }

    fn sites(&self, function: C::Function) -> Vec<Site<C::Function>> {
        (**self).sites(function)
    }

    fn callees(&self, function: C::Function) -> Vec<(Position, C::Function)> {
        (**self).callees(function)
    }

    fn root(&self, function: C::Function) -> Option<Root> {
        (**self).root(function)
    }

    fn joins(&self, site: &Site<C::Function>) -> Joins {
        (**self).joins(site)
    }

    fn awaits_all(&self, function: C::Function) -> bool {
        (**self).awaits_all(function)
    }

    fn tests_alike(&self, function: C::Function, one: usize, other: usize) -> bool {
        (**self).tests_alike(function, one, other)
    }
}

/// One frame of a stack: where a function stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<F> {
    /// The function.
    pub function: F,
    /// The instruction that failed, or the call that had not returned.
    pub position: Position,
}

/// Tells what can have run before the failure.
pub struct Before<C: Calls> {
    calls: C,
    spine: Spine<C::Function>,
    /// Answers of [`Before::runs_whole`] so far.
    known: RefCell<BTreeMap<C::Function, bool>>,
    near: OnceCell<BTreeSet<C::Function>>,
}

/// Functions whose calls are looked at forwards from the spine.
const NEAR: usize = 64;

impl<C: Calls> Before<C> {
    /// `failing` is the failing thread's stack, innermost frame first; it may end early, and then whatever
    /// can call its last function counts as a caller. `others` are the stacks of other threads at that time:
    /// what they had not reached does not count. Leave out stacks that are not complete.
    #[must_use]
    pub fn new(calls: C, failing: &[Frame<C::Function>], others: &[Vec<Frame<C::Function>>]) -> Self {
        let spine = Spine::new(&calls, failing, others);
        Self {
            calls,
            spine,
            known: RefCell::default(),
            near: OnceCell::new(),
        }
    }

    /// Whether any statement of `function` can have run.
    #[must_use]
    pub fn has_run(&self, function: C::Function) -> bool {
        self.spine.contains(function) || self.runs_whole(function)
    }

    /// Whether the instruction at `position` of `function` can have run.
    #[must_use]
    pub fn has_run_at(&self, function: C::Function, position: Position) -> bool {
        self.spine.allows(function, position) || self.runs_whole(function)
    }

    /// Whether `function` can have run with no part of it out of reach: apart from where it stands on the
    /// spine, if it does.
    fn runs_whole(&self, function: C::Function) -> bool {
        if let Some(&known) = self.known.borrow().get(&function) {
            return known;
        }
        if self.near().contains(&function) {
            return true;
        }
        // Backwards from the function to something that certainly can run.
        let mut came_from: BTreeMap<C::Function, C::Function> = BTreeMap::new();
        let mut seen = BTreeSet::from([function]);
        let mut queue = VecDeque::from([function]);
        while let Some(at) = queue.pop_front() {
            let known = self.known.borrow().get(&at).copied();
            if known == Some(false) {
                continue;
            }
            let sites = self.calls.sites(at);
            let starts = known == Some(true) || self.starts_itself(at);
            if starts || sites.iter().any(|site| self.spine.has_made_run(site)) {
                let path = std::iter::successors(Some(at), |at| came_from.get(at).copied());
                self.known
                    .borrow_mut()
                    .extend(path.map(|function| (function, true)));
                return true;
            }
            for caller in sites.iter().map(|site| site.function) {
                if seen.insert(caller) {
                    came_from.insert(caller, at);
                    queue.push_back(caller);
                }
            }
        }
        self.known
            .borrow_mut()
            .extend(seen.into_iter().map(|function| (function, false)));
        false
    }

    /// Functions that were called from parts of the spine that were passed, and functions that those call.
    fn near(&self) -> &BTreeSet<C::Function> {
        self.near.get_or_init(|| {
            let mut found = BTreeSet::new();
            let mut queue = VecDeque::new();
            for (function, parts) in self.spine.functions() {
                let passed = self.calls.callees(function).into_iter();
                let passed = passed.filter(|(position, _)| parts.has_passed(*position));
                queue.extend(passed.map(|(_, callee)| callee));
            }
            while let Some(function) = queue.pop_front() {
                if found.insert(function) && found.len() <= NEAR {
                    queue.extend(self.calls.callees(function).into_iter().map(|(_, callee)| callee));
                }
            }
            found
        })
    }

    fn starts_itself(&self, function: C::Function) -> bool {
        match self.calls.root(function) {
            None => false,
            Some(Root::Outside) => true,
            Some(Root::Start) => !self.spine.contains(function),
            Some(Root::Main) => !self.spine.contains(function) && self.spine.main_started(),
            Some(Root::End) => !self.spine.contains(function) && self.spine.program_ends(),
        }
    }
}
