//! Source names for memory accesses: `counter`, `f->mut`, `jobs[i].next`, `self.head`.
//!
//! The address of an access is taken apart into what variables hold at that instruction; their types then
//! say which member or element the rest of the address leads to. Everything must fit: the variable's place
//! as the debug information has it for exactly this instruction, the pointer's type, the element's size,
//! the width. If anything does not, the access has no name.
//!
//! - `address` takes the operand's address apart, `origin` and `fresh` tell where a register was loaded
//!   from and whether the memory there still holds the same
//! - `scope` knows the variables at an instruction, `pointers` finds the one that an address comes from
//! - `parts` goes from an object to the part that holds the bytes, `wrappers` past the standard types that
//!   no source writes out
//! - `dereferenced` goes through the calls that only follow a pointer, `locked` from the guard of a lock to the lock, `earlier` back to where a pointer was made
//! - `path` writes it down; `callee` asks whoever is passed what has no name, `received` which variable a value without one is put into

mod address;
mod callee;
mod dereferenced;
mod earlier;
mod fresh;
mod locked;
mod memory;
mod origin;
mod parts;
mod path;
mod pointers;
mod received;
mod scope;
mod wrappers;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use iced_x86::{InstructionInfoFactory, OpKind};

use crate::addr::LinkAddr;
use crate::code::{FlowGraph, InstrIx};
use crate::expression::Shape;
use crate::module::Module;
use crate::source::{TypeId, TypeKind};
use crate::values::{Gpr, PlacedAccess, State, Value, Values};
pub use callee::name_in_callee;
use memory::{DEEPEST, Lvalue};
pub use path::{PointerKind, Step, Subscript};
use scope::InScope;

/// States and scopes kept for later questions; neighbours ask for the same ones.
const MOST_KEPT: usize = 256;
/// Loads that are looked at for one name.
const MOST_LOADS: u32 = 128;
/// Members of structures that are looked at for one name.
const MOST_MEMBERS: usize = 1 << 16;

/// The variable that a path begins with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// Its name; that of a global with its namespaces.
    pub name: Arc<str>,
    /// What it is.
    pub kind: RootKind,
    /// Where it is, for a global.
    pub address: Option<LinkAddr>,
    /// Its type.
    pub ty: Option<TypeId>,
    /// Whether it belongs to a function of a library that was inlined here.
    pub of_library: bool,
}

/// What a path begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootKind {
    /// A variable of the whole program, a file, or a static one of a function.
    Global,
    /// A variable that each thread has its own of.
    ThreadLocal,
    /// A parameter of the function or of one inlined into it.
    Parameter,
    /// A local variable.
    Local,
}

/// The source's name of the memory that is accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessName {
    /// As a programmer writes it: `f->mut`.
    pub path: String,
    /// With the members that a library's types keep to themselves: what tells places of one container from each other.
    pub exact: String,
    /// The type of what is accessed.
    pub type_name: Option<String>,
    /// What its bytes are.
    pub shape: Shape,
    /// The variable that the path begins with.
    pub root: Root,
    /// The way from there.
    pub steps: Vec<Step>,
    /// Whether the memory is something that the variable points to, not a part of the variable itself.
    pub is_pointed: bool,
}

impl AccessName {
    /// Whether other threads may know the memory: it is not just this function's own variable.
    #[must_use]
    pub fn may_be_shared(&self) -> bool {
        self.is_pointed || matches!(self.root.kind, RootKind::Global | RootKind::ThreadLocal)
    }
}

/// Names the accesses of one function.
pub struct Namer<'m, 'a> {
    module: &'m Module<'a>,
    flow: &'m FlowGraph,
    values: &'m Values,
    states: RefCell<HashMap<InstrIx, Option<Rc<State>>>>,
    scopes: RefCell<HashMap<InstrIx, Rc<Vec<InScope<'m, 'a>>>>>,
    /// What slots of the frame hold that are written once.
    lasting: RefCell<HashMap<i64, Option<Value>>>,
    factory: RefCell<InstructionInfoFactory>,
    loads: Cell<u32>,
    members: Rc<Cell<usize>>,
}

impl<'m, 'a> Namer<'m, 'a> {
    /// For a function of a module. `values` are those of `flow`.
    #[must_use]
    pub fn new(module: &'m Module<'a>, flow: &'m FlowGraph, values: &'m Values) -> Self {
        Self {
            module,
            flow,
            values,
            states: RefCell::default(),
            scopes: RefCell::default(),
            lasting: RefCell::default(),
            factory: RefCell::new(InstructionInfoFactory::new()),
            loads: Cell::new(0),
            members: Rc::default(),
        }
    }

    /// The name of the memory that an instruction accesses, if it has one for certain.
    #[must_use]
    pub fn name(&self, ix: InstrIx, access: &PlacedAccess) -> Option<AccessName> {
        self.name_part(ix, access, 0, access.width?)
    }

    /// The name of some of the bytes that an instruction accesses: so many from an offset on.
    #[must_use]
    pub fn name_part(
        &self,
        ix: InstrIx,
        access: &PlacedAccess,
        within: u32,
        width: u32,
    ) -> Option<AccessName> {
        if access.implicit || !self.module.has_debug_information() {
            return None;
        }
        let instr = self.flow.instruction(ix)?;
        let stands_in_it = (0..instr.op_count()).any(|op| instr.op_kind(op) == OpKind::Memory);
        self.begin();
        let found = self.memory(ix, within, u64::from(width), DEEPEST);
        Self::finish(found.filter(|_| stands_in_it)?)
    }

    /// The name of the memory at an offset from what an instruction, a call, is passed in a register.
    #[must_use]
    pub fn name_passed(&self, ix: InstrIx, register: Gpr, offset: i64, width: u32) -> Option<AccessName> {
        if !self.module.has_debug_information() {
            return None;
        }
        self.begin();
        Self::finish(self.behind_register(ix, register, offset, u64::from(width), DEEPEST)?)
    }

    /// The name of the memory at an address of the module, as the code around an instruction sees it.
    #[must_use]
    pub fn name_static(&self, ix: InstrIx, addr: LinkAddr, width: u32) -> Option<AccessName> {
        if !self.module.has_debug_information() {
            return None;
        }
        self.begin();
        Self::finish(self.at_static(ix, addr, u64::from(width))?)
    }

    fn begin(&self) {
        self.loads.set(MOST_LOADS);
        self.members.set(MOST_MEMBERS);
    }

    fn finish(found: Lvalue<'m, 'a>) -> Option<AccessName> {
        // The place of a C++ reference itself has no name: its name means what it refers to.
        if found.ty.stripped().kind() == TypeKind::Reference {
            return None;
        }
        Some(AccessName {
            path: found.text()?,
            exact: found.exact_text()?,
            type_name: Some(found.ty.name()),
            shape: Shape::of(found.ty),
            root: (*found.root).clone(),
            is_pointed: found.is_pointed,
            steps: found.steps,
        })
    }

    fn state(&self, ix: InstrIx) -> Option<Rc<State>> {
        if let Some(known) = self.states.borrow().get(&ix) {
            return known.clone();
        }
        let constants = |slot| self.module.constant_pointer(slot);
        let state = self.values.before(self.flow, ix, &constants).map(Rc::new);
        let mut states = self.states.borrow_mut();
        if states.len() >= MOST_KEPT {
            states.clear();
        }
        states.insert(ix, state.clone());
        state
    }

    fn is_data(&self, addr: u64) -> bool {
        let segments = self.module.elf().segments();
        segments.contains(LinkAddr(addr)) && !segments.is_executable(LinkAddr(addr))
    }
}
