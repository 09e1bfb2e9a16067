//! Through which calls the slice came into a function.
//!
//! A slice that goes down into a callee for its result must come back up at the same call, and one that
//! starts from a crash knows every call on the stack. Both are a chain of call sites. Where the chain ends,
//! any caller may have called.

use std::collections::HashMap;

use program::code::InstrIx;

use program::FunctionRef;

/// A chain of call sites; `ANY` is the empty one: whoever calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Context(u32);

impl Context {
    pub(super) const ANY: Self = Self(0);
}

/// A call instruction in a function, itself reached through a chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Site {
    pub function: FunctionRef,
    pub call: InstrIx,
    pub context: Context,
}

/// All chains met so far; equal chains have equal numbers.
#[derive(Default)]
pub(super) struct Contexts {
    sites: Vec<(Site, u32)>,
    known: HashMap<Site, Context>,
}

/// Chains do not grow past this; a recursion deeper than that is cut back to "whoever calls".
const MAX_DEPTH: u32 = 256;

impl Contexts {
    /// The chain with one more call at its inner end.
    pub(super) fn enter(&mut self, site: Site) -> Context {
        if let Some(&known) = self.known.get(&site) {
            return known;
        }
        let depth = self.depth(site.context) + 1;
        if depth > MAX_DEPTH {
            return Context::ANY;
        }
        self.sites.push((site, depth));
        let context = Context(u32::try_from(self.sites.len()).unwrap_or(0));
        self.known.insert(site, context);
        context
    }

    /// The innermost call of a chain.
    pub(super) fn site(&self, context: Context) -> Option<Site> {
        let index = context.0.checked_sub(1)? as usize;
        self.sites.get(index).map(|(site, _)| *site)
    }

    /// Whether a chain already goes through this function: a recursive descent.
    pub(super) fn passes_through(&self, mut context: Context, function: FunctionRef) -> bool {
        while let Some(site) = self.site(context) {
            if site.function == function {
                return true;
            }
            context = site.context;
        }
        false
    }

    fn depth(&self, context: Context) -> u32 {
        let index = context.0.checked_sub(1).map(|index| index as usize);
        index
            .and_then(|index| self.sites.get(index))
            .map_or(0, |(_, depth)| *depth)
    }
}
