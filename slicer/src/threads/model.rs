//! The thread model: every place that creates a thread.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use program::code::{AddressTaken, InstrIx};
use program::elf::{ImportId, Pointer};
use program::values::Gpr;
use program::{FunctionRef, LinkAddr, Pc, Program};

use super::candidates::{self, Below, Ways};
use super::frames::SharedFrame;
use super::look::{Look, Looked};
use super::names::{self, CreationKind};
use super::tables::{Style, routine_before};
use super::{all, constants, own};

/// Library functions between the creating call and the program's own, and callers of each.
const MAX_LEVELS: usize = 20;
const MAX_CALLERS: usize = 64;

/// A place that creates a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreationSite {
    /// The call, in the program's own code where there is any: `std::thread worker(run);` rather than what
    /// the constructor does inside.
    pub at: Pc,
    /// The function of that call.
    pub creator: FunctionRef,
    /// The call that creates the thread; the same as `at` for C.
    pub inner: Pc,
    /// How.
    pub kind: CreationKind,
    /// What the library starts: the function given to `pthread_create`, `_M_run`, a closure's `call_once`.
    /// `None` when it is not known; a run may show it.
    pub entry: Option<FunctionRef>,
    /// The first function of the program itself that the thread runs.
    pub routine: Option<FunctionRef>,
    /// The register that holds, at `at`, what the entry gets as its first argument.
    pub argument: Option<Gpr>,
    /// The calls through which the routine was passed to the creating function, innermost first.
    pub through: Vec<Pc>,
}

impl CreationSite {
    /// Whether `function` is what the library makes of the routine for this thread: a virtual function of an
    /// object that holds it.
    #[must_use]
    pub fn is_wrapped_in(&self, function: FunctionRef) -> bool {
        self.entry == Some(function) && matches!(self.kind, CreationKind::StdThread | CreationKind::Rust)
    }
}

/// Who creates which threads. The program is searched at the first question; each creating call is examined
/// when a question may be about it.
pub struct ThreadModel<'p, 'a> {
    pub(super) look: Look<'p, 'a>,
    calls: OnceCell<Vec<Creating>>,
    all: OnceCell<Vec<CreationSite>>,
    creators: RefCell<HashMap<FunctionRef, Vec<CreationSite>>>,
    pub(super) frames: RefCell<HashMap<FunctionRef, Rc<SharedFrame>>>,
}

fn sorted(mut sites: Vec<CreationSite>) -> Vec<CreationSite> {
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// A call that creates a thread.
pub(super) struct Creating {
    pub call: Pc,
    pub kind: CreationKind,
    /// See [`candidates::around`].
    around: OnceCell<Option<BTreeSet<FunctionRef>>>,
    sites: OnceCell<Vec<CreationSite>>,
}

impl<'p, 'a> ThreadModel<'p, 'a> {
    /// The thread model of a program.
    #[must_use]
    pub fn new(program: &'p Program<'a>) -> Self {
        Self {
            look: Look::new(program),
            calls: OnceCell::new(),
            all: OnceCell::new(),
            creators: RefCell::default(),
            frames: RefCell::default(),
        }
    }

    /// Every place that creates a thread, by address; one for each routine that it may start.
    pub fn creations(&self) -> &[CreationSite] {
        self.all.get_or_init(|| {
            let mut sites = all::examine(self, self.calls());
            sites.sort_unstable();
            sites.dedup();
            sites
        })
    }

    /// The places that create threads which start with this function.
    #[must_use]
    pub fn creators_of(&self, routine: FunctionRef) -> Vec<CreationSite> {
        if let Some(known) = self.creators.borrow().get(&routine) {
            return known.clone();
        }
        let found = self.find_creators_of(routine);
        self.creators.borrow_mut().insert(routine, found.clone());
        found
    }

    fn find_creators_of(&self, routine: FunctionRef) -> Vec<CreationSite> {
        let module = self.look.program.module(routine.module);
        if module.is_none_or(|module| module.is_start(routine.function)) {
            return Vec::new();
        }
        let ways = Ways::to(&self.look, routine);
        let starts = |site: &CreationSite| site.entry == Some(routine) || site.routine == Some(routine);
        if let Some(near) = self.creators_along(&ways, starts) {
            return near;
        }
        let may_start = |creating: &Creating| self.may_start(&ways, creating.call, creating.kind);
        self.sites_where(may_start, starts)
    }

    fn may_start(&self, ways: &Ways, call: Pc, kind: CreationKind) -> bool {
        let style = match kind {
            CreationKind::Pthread | CreationKind::C11 => return true,
            CreationKind::StdThread => Style::Cpp,
            CreationKind::Rust => Style::Rust,
        };
        let Some((at, ix)) = self.look.around(call) else {
            return true;
        };
        let entry = routine_before(&self.look, &at, ix, style);
        ways.may_start(entry, at.id)
    }

    /// The places that create threads, looked for where the routine's address is made, and in library code
    /// from there. `None` when this does not explain what the address is made for: somebody may store it and
    /// somebody else start it.
    fn creators_along(
        &self,
        ways: &Ways,
        starts: impl Fn(&CreationSite) -> bool,
    ) -> Option<Vec<CreationSite>> {
        if !ways.is_made() {
            return Some(Vec::new());
        }
        let makers = ways.own_makers(&self.look);
        let below = Below::new(&self.look, makers.iter().copied())?;
        let calls = candidates::creating_calls(&self.look, &ways.functions()?).into_iter();
        let calls = calls.filter(|&(call, kind)| self.may_start(ways, call, kind));
        let sites = calls.flat_map(|(call, kind)| self.examine(call, kind, &|id| self.calls_of(&below, id)));
        let found: Vec<CreationSite> = sorted(sites.filter(starts).collect());
        let explained = |maker: &FunctionRef| {
            let functions = |pc: &Pc| self.look.program.function_at(*pc);
            found.iter().any(|site| {
                site.creator == *maker || site.through.iter().filter_map(functions).any(|at| at == *maker)
            })
        };
        (!found.is_empty() && makers.iter().all(explained)).then_some(found)
    }

    /// The calls of a function that matter: below some functions, those; else all.
    fn calls_of(&self, below: &Below, function: FunctionRef) -> Vec<Pc> {
        let known = below.callers_of(function).map(<[Pc]>::to_vec);
        known.unwrap_or_else(|| self.look.program.callers_of(function))
    }

    /// The threads that the call at `pc` creates.
    #[must_use]
    pub fn created_at(&self, pc: Pc) -> Vec<CreationSite> {
        let function = self.look.program.function_at(pc);
        self.sites_where(
            |creating| self.may_be_in(creating, function),
            |site| site.at == pc || site.inner == pc,
        )
    }

    /// The threads that a function creates.
    pub(super) fn created_in(&self, creator: FunctionRef) -> Vec<CreationSite> {
        let is_here = |site: &CreationSite| site.creator == creator;
        let below = match self.all.get() {
            Some(_) => None,
            None => Below::new(&self.look, std::iter::once(creator)),
        };
        let Some(below) = below else {
            return self.sites_where(|creating| self.may_be_in(creating, Some(creator)), is_here);
        };
        let calls = candidates::creating_calls(&self.look, &below.functions).into_iter();
        let sites = calls.flat_map(|(call, kind)| self.examine(call, kind, &|id| self.calls_of(&below, id)));
        sorted(sites.filter(is_here).collect())
    }

    /// The threads that closures create which are written inside a function.
    pub(super) fn created_by_closures_of(&self, function: FunctionRef) -> Vec<CreationSite> {
        let Some(outer) = self.look.symbol(function) else {
            return Vec::new();
        };
        let is_closure = |creator: FunctionRef| {
            let symbol = self.look.symbol(creator);
            symbol.is_some_and(|symbol| names::is_closure_in(symbol, outer))
        };
        self.sites_where(
            |creating| {
                self.around(creating)
                    .is_none_or(|around| around.iter().any(|&function| is_closure(function)))
            },
            |site| is_closure(site.creator),
        )
    }

    fn sites_where(
        &self,
        candidate: impl Fn(&Creating) -> bool,
        wanted: impl Fn(&CreationSite) -> bool,
    ) -> Vec<CreationSite> {
        if let Some(all) = self.all.get() {
            return all.iter().filter(|site| wanted(site)).cloned().collect();
        }
        let candidates = self.calls().iter().filter(|creating| candidate(creating));
        let sites = candidates.flat_map(|creating| self.sites(creating));
        sorted(sites.filter(|site| wanted(site)).cloned().collect())
    }

    fn may_be_in(&self, creating: &Creating, function: Option<FunctionRef>) -> bool {
        let around = self.around(creating);
        around.is_none_or(|around| function.is_none_or(|function| around.contains(&function)))
    }

    fn calls(&self) -> &[Creating] {
        self.calls.get_or_init(|| {
            let calls = self.creating_calls().into_iter();
            let creating = calls.map(|(call, kind)| Creating {
                call,
                kind,
                around: OnceCell::new(),
                sites: OnceCell::new(),
            });
            creating.collect()
        })
    }

    fn around<'c>(&self, creating: &'c Creating) -> Option<&'c BTreeSet<FunctionRef>> {
        let around = creating
            .around
            .get_or_init(|| candidates::around(&self.look, creating.call));
        around.as_ref()
    }

    fn sites<'c>(&self, creating: &'c Creating) -> &'c [CreationSite] {
        creating.sites.get_or_init(|| {
            self.examine(creating.call, creating.kind, &|id| {
                self.look.program.callers_of(id)
            })
        })
    }

    /// Calls of functions that create threads, in the order of addresses.
    fn creating_calls(&self) -> Vec<(Pc, CreationKind)> {
        let mut calls = BTreeSet::new();
        // The system's libraries start threads of their own, but not with the program's functions.
        let own = self
            .look
            .program
            .modules()
            .filter(|(_, module)| !module.is_library());
        for (id, module) in own {
            let code = module.code();
            let pc = |addr: LinkAddr| Pc { module: id, addr };
            let imports = module
                .elf()
                .relocations()
                .iter()
                .filter_map(|(_, pointer)| match pointer {
                    Pointer::Import(import) => Some(ImportId(import)),
                    Pointer::Local(_) | Pointer::Resolved(_) => None,
                });
            for import in imports.collect::<BTreeSet<_>>() {
                if let Some(kind) = module.elf().import_name(import).and_then(names::creation) {
                    calls.extend(
                        code.callers_of_import(import)
                            .iter()
                            .map(|site| (pc(site.at), kind)),
                    );
                }
            }
            let functions = code.functions();
            let parts = names::CREATION_PARTS.iter();
            let named: BTreeSet<_> = parts.flat_map(|part| functions.with_symbol_part(part)).collect();
            for function in named.into_iter().filter_map(|id| functions.get(id)) {
                let Some(kind) = function.symbol.and_then(names::creation) else {
                    continue;
                };
                calls.extend(
                    code.callers_of(function.id)
                        .iter()
                        .map(|site| (pc(site.at), kind)),
                );
                let creating = FunctionRef {
                    module: id,
                    function: function.id,
                };
                let through_registers = self.register_calls(creating, function.entry);
                calls.extend(through_registers.into_iter().map(|call| (call, kind)));
            }
        }
        // A library's own creating function calls the system's: one creation, not two.
        let nested = |pc: Pc| {
            let caller = self
                .look
                .program
                .function_at(pc)
                .and_then(|caller| self.look.symbol(caller));
            caller.and_then(names::creation).is_some()
        };
        calls.into_iter().filter(|(pc, _)| !nested(*pc)).collect()
    }

    /// `mov create@GOT(%rip),%rax; call *%rax`, as unoptimised Rust has it.
    fn register_calls(&self, creating: FunctionRef, entry: LinkAddr) -> Vec<Pc> {
        let Some(module) = self.look.program.module(creating.module) else {
            return Vec::new();
        };
        let takers: BTreeSet<_> = module
            .code()
            .address_taken(entry)
            .into_iter()
            .filter_map(|taken| match taken {
                AddressTaken::Code { function, .. } => Some(function),
                AddressTaken::Data(_) => None,
            })
            .collect();
        let calls = takers.into_iter().filter_map(|function| {
            let looked = self.look.at(FunctionRef {
                module: creating.module,
                function,
            })?;
            let indirect = looked.flow.calls().map(|(ix, _, _)| ix);
            let of_it = indirect.filter(|&ix| looked.through_register(ix) == Some(creating));
            Some(of_it.filter_map(|ix| looked.flow.addr(ix)).collect::<Vec<_>>())
        });
        calls
            .flatten()
            .map(|addr| Pc {
                module: creating.module,
                addr,
            })
            .collect()
    }

    /// The threads that a creating call creates; `callers` tells who calls a function.
    pub(super) fn examine(
        &self,
        call: Pc,
        kind: CreationKind,
        callers: &dyn Fn(FunctionRef) -> Vec<Pc>,
    ) -> Vec<CreationSite> {
        let Some((at, ix)) = self.look.around(call) else {
            return Vec::new();
        };
        match kind {
            CreationKind::Pthread => self.with_pointer(&at, ix, call, kind, (Gpr::RDX, Gpr::RCX)),
            CreationKind::C11 => self.with_pointer(&at, ix, call, kind, (Gpr::RSI, Gpr::RDX)),
            CreationKind::StdThread => self.with_object(&at, ix, call, (kind, Style::Cpp), callers),
            CreationKind::Rust => self.with_object(&at, ix, call, (kind, Style::Rust), callers),
        }
    }

    /// A creating call that gets the routine's address and its argument.
    fn with_pointer(
        &self,
        at: &Looked<'p, 'a>,
        ix: InstrIx,
        call: Pc,
        kind: CreationKind,
        (routine, argument): (Gpr, Gpr),
    ) -> Vec<CreationSite> {
        let bare = CreationSite {
            at: call,
            creator: at.id,
            inner: call,
            kind,
            entry: None,
            routine: None,
            argument: Some(argument),
            through: Vec::new(),
        };
        let pointees = constants::pointees(&self.look, at, at.value(ix, routine));
        if pointees.is_empty() {
            return vec![bare];
        }
        let known = pointees.into_iter().map(|pointee| CreationSite {
            entry: Some(pointee.function),
            routine: own::first_own(&self.look, pointee.function),
            through: pointee.through,
            ..bare.clone()
        });
        known.collect()
    }

    /// A creating call that gets an object with a vtable: found inside library code, and lifted from there
    /// to the program's calls of it.
    fn with_object(
        &self,
        at: &Looked<'p, 'a>,
        ix: InstrIx,
        call: Pc,
        (kind, style): (CreationKind, Style),
        callers: &dyn Fn(FunctionRef) -> Vec<Pc>,
    ) -> Vec<CreationSite> {
        let entry = routine_before(&self.look, at, ix, style);
        let routine = entry.and_then(|entry| own::first_own(&self.look, entry));
        let mut sites = Vec::new();
        // Each is a chain of calls from the creating one outwards.
        let mut chains = vec![vec![call]];
        while let Some(chain) = chains.pop() {
            let Some(&outermost) = chain.last() else { continue };
            let Some((outer, _)) = self.look.around(outermost) else {
                continue;
            };
            let own_code = own::is_own(&self.look, outer.id);
            let callers = if own_code { Vec::new() } else { callers(outer.id) };
            if callers.is_empty() || chain.len() > MAX_LEVELS {
                // Otherwise the routine is behind a pointer that is passed to or stored by one of the calls.
                let pointer = || self.pointer_along(&chain);
                sites.push(CreationSite {
                    at: outermost,
                    creator: outer.id,
                    inner: call,
                    kind,
                    entry,
                    routine: routine.or_else(pointer),
                    argument: None,
                    through: Vec::new(),
                });
                continue;
            }
            for caller in callers.into_iter().take(MAX_CALLERS) {
                if !chain.contains(&caller) {
                    chains.push(chain.iter().copied().chain([caller]).collect());
                }
            }
        }
        sites
    }

    /// The routine that a chain of calls, innermost first, hands on by pointer.
    fn pointer_along(&self, chain: &[Pc]) -> Option<FunctionRef> {
        let around = |pc: &Pc| self.look.around(*pc);
        let passed = chain
            .iter()
            .rev()
            .filter_map(around)
            .find_map(|(at, ix)| own::passed(&self.look, &at, ix));
        passed.or_else(|| {
            chain
                .iter()
                .filter_map(around)
                .find_map(|(at, ix)| own::stored_before(&self.look, &at, ix))
        })
    }
}
