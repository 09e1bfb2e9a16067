//! What library functions do with the memory behind their arguments.
//!
//! Without optimisation, what a language's library does for the program is a call: `stage.load(…)`, `mutex.lock()`,
//! `*pointer`. The program's statement is the access that people see, the library's code is the one that makes it. So a call of a small
//! library function is taken for an instruction that reads and writes behind the pointers that it is passed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use iced_x86::FlowControl;
use program::code::{AccessKind, Block, InstrIx, Target};
use program::values::{Base, Gpr, Value};
use program::{FunctionRef, Program};

use super::locks;
use super::summary::Summary;
use crate::view::FunctionView;

/// What a register watches.
const WORD: u32 = 8;
/// Instructions of a library function that is looked into.
const MOST_INSTRUCTIONS: usize = 600;
/// Library functions inside one another: `Mutex::lock` is four of them deep, `unique_ptr::operator->` seven.
const DEEPEST: usize = 10;
/// Pieces of memory that a function may access through its arguments: one that does more is no access, but work.
const MOST_PIECES: usize = 8;
/// The bytes of a lock that taking it changes first, in every C library that there is for Linux.
const LOCK: u32 = 4;

/// Memory that a call accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passed {
    /// The register that the pointer is passed in.
    pub argument: Gpr,
    /// From where the pointer leads.
    pub offset: i64,
    /// Bytes.
    pub width: u32,
    /// What is done there.
    pub kind: AccessKind,
    /// It is a lock that is taken or released, or looked at on the way.
    pub lock: bool,
}

impl Passed {
    /// Whether it reads.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.kind != AccessKind::Write
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.kind != AccessKind::Read
    }
}

/// What the library functions of a program do with what they are passed, each looked at once.
pub struct Library<'p, 'a> {
    program: &'p Program<'a>,
    known: RefCell<HashMap<FunctionRef, Rc<[Passed]>>>,
    /// What functions return, where that is one of their arguments plus an offset.
    returned: RefCell<HashMap<FunctionRef, Option<(Gpr, i64)>>>,
}

impl<'p, 'a> Library<'p, 'a> {
    /// Of a program.
    #[must_use]
    pub fn new(program: &'p Program<'a>) -> Self {
        Self {
            program,
            known: RefCell::default(),
            returned: RefCell::default(),
        }
    }

    /// The functions that were found to access what they are passed.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionRef> {
        let known = self.known.borrow();
        let accessing = known.iter().filter(|(_, passed)| !passed.is_empty());
        let mut functions: Vec<_> = accessing.map(|(function, _)| *function).collect();
        functions.sort_unstable();
        functions
    }

    /// The memory that a call of a library function accesses through its arguments; none if it calls anybody else.
    #[must_use]
    pub fn accesses(&self, view: &FunctionView<'p, 'a>, call: InstrIx) -> Rc<[Passed]> {
        self.by_call(view, call, DEEPEST)
    }

    fn by_call(&self, view: &FunctionView<'p, 'a>, call: InstrIx, depth: usize) -> Rc<[Passed]> {
        match view.call_target(call) {
            Some(Target::Function(function)) => {
                let module = view.id.module;
                self.by_function(FunctionRef { module, function }, depth)
            }
            Some(Target::Import(_)) if view.library_summary(call).is_some_and(|summary| summary.locks) => {
                Rc::new([Passed {
                    argument: Gpr::RDI,
                    offset: 0,
                    width: LOCK,
                    kind: AccessKind::ReadWrite,
                    lock: true,
                }])
            }
            // The program's own copies are its own accesses, and what they copy is data more often than state.
            Some(Target::Import(_)) if depth < DEEPEST => copied(view, call).unwrap_or_default().into(),
            _ => Rc::new([]),
        }
    }

    fn by_function(&self, id: FunctionRef, depth: usize) -> Rc<[Passed]> {
        if let Some(known) = self.known.borrow().get(&id) {
            return Rc::clone(known);
        }
        let Some(depth) = depth.checked_sub(1) else {
            return Rc::new([]);
        };
        // One that calls itself does not learn more from that.
        self.known.borrow_mut().insert(id, Rc::new([]));
        let found: Rc<[Passed]> = self.look_into(id, depth).unwrap_or_default().into();
        self.known.borrow_mut().insert(id, Rc::clone(&found));
        found
    }

    fn look_into(&self, id: FunctionRef, depth: usize) -> Option<Vec<Passed>> {
        let module = self.program.module(id.module)?;
        if self.program.is_own(id) {
            return None;
        }
        let flow = module.code().flow(id.function);
        if flow.instructions.len() > MOST_INSTRUCTIONS {
            return None;
        }
        let view = FunctionView::new(module, id);
        let count = u32::try_from(flow.instructions.len()).ok()?;
        let is_lock = |ix| flow.addr(ix).is_some_and(|at| locks::keeps_order(module, at));
        let mut found: Vec<Passed> = Vec::new();
        for ix in (0..count).map(InstrIx) {
            if flow.addr(ix).is_some_and(|at| locks::hashes(module, at)) {
                continue;
            }
            for access in view.values.accesses(ix).iter().filter(|access| !access.implicit) {
                if let (Some((argument, offset)), Some(width), None, false) = (
                    argument(self.followed(&view, access.place.base, depth)),
                    access.width,
                    access.place.index,
                    access.place.thread_local,
                ) {
                    let passed = Passed {
                        argument,
                        offset,
                        width,
                        kind: access.kind,
                        lock: is_lock(ix),
                    };
                    add(&mut found, passed);
                }
            }
            if !view.is_call(ix) {
                continue;
            }
            let inner = self.by_call(&view, ix, depth);
            let Some(state) = Some(&inner)
                .filter(|inner| !inner.is_empty())
                .and_then(|_| view.state_before(ix))
            else {
                continue;
            };
            for passed in &*inner {
                let behind = state.get(passed.argument).plus(passed.offset);
                if let Some((argument, offset)) = argument(self.followed(&view, behind, depth)) {
                    let passed = Passed {
                        argument,
                        offset,
                        lock: passed.lock || is_lock(ix),
                        ..*passed
                    };
                    add(&mut found, passed);
                }
            }
            if found.len() > MOST_PIECES {
                return None;
            }
        }
        Some(found)
    }

    /// What a value is that library functions hand on: the result of one that returns its argument is that argument. A smart pointer's
    /// `get` is a chain of them.
    fn followed(&self, view: &FunctionView<'p, 'a>, value: Value, depth: usize) -> Value {
        let Value::Sum(Base::Made(call, Gpr::RAX), offset) = value else {
            return value;
        };
        let handed_on = || {
            let depth = depth.checked_sub(1)?;
            let Some(Target::Function(function)) = view.call_target(call) else {
                return None;
            };
            let module = view.id.module;
            let (argument, from) = self.returned_by(FunctionRef { module, function }, depth)?;
            let passed = view.state_before(call)?.get(argument);
            Some(self.followed(view, passed.plus(from).plus(offset), depth))
        };
        handed_on().unwrap_or(value)
    }

    /// The argument that a library function returns, and what it adds to it.
    fn returned_by(&self, id: FunctionRef, depth: usize) -> Option<(Gpr, i64)> {
        if let Some(known) = self.returned.borrow().get(&id) {
            return *known;
        }
        self.returned.borrow_mut().insert(id, None);
        let found = self.look_for_result(id, depth);
        self.returned.borrow_mut().insert(id, found);
        found
    }

    fn look_for_result(&self, id: FunctionRef, depth: usize) -> Option<(Gpr, i64)> {
        let module = self.program.module(id.module)?;
        if self.program.is_own(id) {
            return None;
        }
        let view = FunctionView::new(module, id);
        if view.flow.instructions.len() > MOST_INSTRUCTIONS {
            return None;
        }
        let last = view.flow.blocks.iter().map(Block::last);
        let returns = last.filter(|&last| {
            let instruction = view.instruction(last);
            instruction.is_some_and(|instruction| instruction.flow_control() == FlowControl::Return)
        });
        let mut results = returns.map(|at| {
            let result = view.state_before(at)?.get(Gpr::RAX);
            argument(self.followed(&view, result, depth))
        });
        let first = results.next()??;
        results.all(|other| other == Some(first)).then_some(first)
    }
}

/// The beginnings of what is copied, if a call copies so many bytes: `Option::take` moves its content out so. What tells whether there is
/// any, compilers put first.
fn copied(view: &FunctionView<'_, '_>, call: InstrIx) -> Option<Vec<Passed>> {
    let Some(Target::Import(import)) = view.call_target(call) else {
        return None;
    };
    let symbol = view.module().elf().import_name(import);
    symbol.filter(|symbol| Summary::copies(symbol))?;
    let Value::Const(bytes) = view.state_before(call)?.get(Gpr::RDX) else {
        return None;
    };
    let piece = |argument, kind| Passed {
        argument,
        offset: 0,
        width: u32::try_from(bytes.min(u64::from(WORD))).unwrap_or(WORD),
        kind,
        lock: false,
    };
    let both = [(Gpr::RDI, AccessKind::Write), (Gpr::RSI, AccessKind::Read)];
    Some(
        both.into_iter()
            .filter(|_| bytes > 0)
            .map(|(argument, kind)| piece(argument, kind))
            .collect(),
    )
}

/// The argument that a value is, and what was added to it.
fn argument(value: Value) -> Option<(Gpr, i64)> {
    match value {
        Value::Sum(Base::Entry(gpr), offset) if Gpr::ARGUMENTS.contains(&gpr) => Some((gpr, offset)),
        _ => None,
    }
}

/// Adds a piece; the same bytes come once, with everything that is done to them.
fn add(found: &mut Vec<Passed>, piece: Passed) {
    let same = |known: &&mut Passed| {
        (known.argument, known.offset, known.width) == (piece.argument, piece.offset, piece.width)
    };
    match found.iter_mut().find(same) {
        Some(known) => {
            if known.kind != piece.kind {
                known.kind = AccessKind::ReadWrite;
            }
            known.lock &= piece.lock;
        }
        None => found.push(piece),
    }
}
