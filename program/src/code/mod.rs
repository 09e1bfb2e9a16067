//! Machine code as functions, blocks and accesses.
//!
//! - [`functions`] knows where functions begin and end: `index` finds them around an address, or all with
//!   `starts` to find callees quickly, with the help of `cold` (parts moved out of them) and `unwind` (what the
//!   unwind tables add)
//! - [`names`] demangles
//! - [`flow`] is the control flow of one function: `descent` reads instructions, `jump_table`,
//!   `switches` and `no_return` tell where they lead, `layout` makes blocks of them
//! - `listing` shows the instructions of a function without following them
//! - [`access`] tells which memory an instruction reads and writes
//! - [`xref`] finds who calls a function and who refers to a variable, by `places`: a `scan` of the code, or
//!   an index of it; `through` finds calls through a slot of a table
//! - [`sweep`] goes over all functions at once
//! - `bring` says which code is about to be read

pub mod access;
mod bring;
mod cold;
mod context;
mod descent;
pub mod flow;
pub mod functions;
mod index;
mod jump_table;
mod layout;
mod listing;
pub mod names;
mod no_return;
mod places;
mod scan;
mod starts;
pub mod sweep;
mod switches;
mod through;
mod unwind;
pub mod xref;

use std::collections::HashMap;
use std::sync::{Arc, Once, PoisonError, RwLock};

pub use access::{Access, AccessKind, Operand, accesses};
pub use flow::{Block, BlockId, Edges, Exit, FlowGraph, InstrIx, Target};
pub(crate) use functions::Removed;
pub use functions::{Function, FunctionId, Functions};
pub use names::{demangle, demangle_path};
pub use sweep::CallIndex;
pub use unwind::{Frame, FrameBase};
pub use xref::{AddressTaken, CallSite, Reference, ReferenceKind, Search};

use context::{CALLEE_DEPTH, Context};
use no_return::NoReturn;
use places::Places;

use crate::addr::{LinkAddr, LinkRange};
use crate::elf::Elf;
use crate::files::{Files, Provider};

/// Graphs are kept in so many maps, so that threads seldom wait for one another.
const SHARDS: usize = 32;

type Shard = RwLock<HashMap<FunctionId, Arc<FlowGraph>>>;

/// The machine code of one file. Everything is found when asked for, and kept.
#[derive(Debug)]
pub struct Code<'a> {
    elf: Arc<Elf<'a>>,
    functions: Arc<Functions<'a>>,
    no_return: NoReturn,
    places: Places,
    flows: Vec<Shard>,
    provider: Provider<'a>,
    brought: Once,
}

impl<'a> Code<'a> {
    /// Prepares to find the functions of a file.
    #[must_use]
    pub fn new(elf: Arc<Elf<'a>>) -> Self {
        Self::with_functions(Arc::new(Functions::new(&elf)), elf, Provider::default())
    }

    /// The same, with the symbols that were taken out of the file, telling `files` what is going to be read and what is done
    /// with.
    #[must_use]
    pub(crate) fn passing(elf: Arc<Elf<'a>>, removed: Removed<'a>, files: &'a dyn Files) -> Self {
        Self::with_functions(
            Arc::new(Functions::passing(&elf, removed, files)),
            elf,
            Provider::of(files),
        )
    }

    fn with_functions(functions: Arc<Functions<'a>>, elf: Arc<Elf<'a>>, provider: Provider<'a>) -> Self {
        let flows = std::iter::repeat_with(Shard::default).take(SHARDS).collect();
        Self {
            elf,
            functions,
            no_return: NoReturn::default(),
            places: Places::default(),
            flows,
            provider,
            brought: Once::new(),
        }
    }

    /// The file.
    #[must_use]
    pub fn elf(&self) -> &Arc<Elf<'a>> {
        &self.elf
    }

    /// The functions.
    #[must_use]
    pub fn functions(&self) -> &Arc<Functions<'a>> {
        &self.functions
    }

    /// The control flow of a function. For an id of another file the graph is empty.
    #[must_use]
    pub fn flow(&self, function: FunctionId) -> Arc<FlowGraph> {
        let shard = self.flows.get(function.mixed() % SHARDS);
        let kept = shard.and_then(|shard| {
            shard
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&function)
                .map(Arc::clone)
        });
        if let Some(kept) = kept {
            return kept;
        }
        self.bring_around(function);
        // Read without holding the lock: twice at worst, with the same result.
        let graph = Arc::new(descent::flow(self.context(), function));
        match shard {
            Some(shard) => {
                let mut graphs = shard.write().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(graphs.entry(function).or_insert(graph))
            }
            None => graph,
        }
    }

    /// Whether a call to a function never comes back.
    #[must_use]
    pub fn never_returns(&self, target: Target) -> bool {
        self.context().never_returns(target)
    }

    /// Where exceptions land in a function: the calls that throw, and the landing pad for them.
    #[must_use]
    pub fn landings(&self, function: FunctionId) -> Vec<(LinkRange, LinkAddr)> {
        let parts = self.functions.parts(function).into_iter();
        parts
            .flat_map(|part| self.context().landings(part.start))
            .collect()
    }

    /// Where a function has its frame when it is at an instruction, as far as registers that keep their values tell.
    #[must_use]
    pub fn frame(&self, addr: LinkAddr) -> Option<Frame> {
        self.context().unwind_table().frame(addr)
    }

    /// The name of a call's target as in the symbol table.
    #[must_use]
    pub fn target_name(&self, target: Target) -> Option<&'a str> {
        match target {
            Target::Function(function) => self.functions.get(function)?.symbol,
            Target::Import(import) => self.elf.import_name(import),
            Target::Unknown(_) | Target::Indirect => None,
        }
    }

    /// Prepares for questions about most functions: takes a while, and makes each faster.
    pub fn expect_many(&self) {
        self.no_return.settle(self.context());
    }

    fn context(&self) -> Context<'_, 'a> {
        Context {
            elf: &self.elf,
            functions: &self.functions,
            no_return: &self.no_return,
            depth: CALLEE_DEPTH,
        }
    }
}
