//! The variables in scope at an instruction, with what they hold and where they are.

use std::rc::Rc;
use std::sync::Arc;

use super::{Namer, Root, RootKind};
use crate::addr::LinkAddr;
use crate::code::InstrIx;
use crate::source::{Type, VarLocation, Variable, VariableKind};
use crate::values::{Gpr, State, Value};

/// From the stack pointer at function entry to the canonical frame address: the return address.
const CFA: i64 = 8;
/// Larger variables are not looked through for the pointers they hold.
const LARGEST_SEARCHED: u64 = 64;
/// More variables than any function has in scope.
const MOST_VARIABLES: usize = 4096;

/// A variable at an instruction.
#[derive(Clone)]
pub(super) struct InScope<'m, 'a> {
    pub root: Rc<Root>,
    pub ty: Type<'m, 'a>,
    /// The inlining it belongs to; 0 is the innermost.
    pub frame: usize,
    /// Its bytes: where they are, or what they hold.
    pub pieces: Vec<PlacedPiece>,
}

/// Some bytes of a variable.
#[derive(Clone, Debug)]
pub(super) struct PlacedPiece {
    pub offset: u64,
    pub size: u64,
    pub at: Where,
}

/// Where bytes of a variable are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In a register.
    Register(Gpr, Value),
    /// In memory at an address.
    Memory(Value),
    /// In memory at an address that is stored in a slot of the frame, plus an offset.
    Behind(i64, i64),
    /// Nowhere, but this is what they are, computed from a register if not from nothing.
    Computed(Value, Option<Gpr>),
}

impl InScope<'_, '_> {
    /// What eight bytes of the variable hold, with the register they are in: every place that is known.
    pub fn words<'v>(&'v self, state: &'v State) -> impl Iterator<Item = (u64, Value, Option<Gpr>)> + 'v {
        self.pieces.iter().flat_map(move |piece| {
            let size = piece.size.min(LARGEST_SEARCHED);
            let whole = size == 8;
            let in_memory = match piece.at {
                Where::Memory(addr) => addr.stack_offset(),
                _ => None,
            };
            let slots = in_memory.into_iter().flat_map(move |start| {
                (0..size / 8).filter_map(move |word| {
                    let into = i64::try_from(word.checked_mul(8)?).ok()?;
                    let value = state.slot(start.checked_add(into)?, 8)?;
                    Some((piece.offset.checked_add(word * 8)?, value, None))
                })
            });
            let direct = match piece.at {
                Where::Register(gpr, value) if whole => Some((piece.offset, value, Some(gpr))),
                Where::Computed(value, gpr) if whole => Some((piece.offset, value, gpr)),
                _ => None,
            };
            slots.chain(direct)
        })
    }
}

impl<'m, 'a> Namer<'m, 'a> {
    /// The variables in scope before an instruction, innermost first, shadowed ones left out.
    pub(super) fn scope(&self, ix: InstrIx) -> Rc<Vec<InScope<'m, 'a>>> {
        if let Some(known) = self.scopes.borrow().get(&ix) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.read_scope(ix).unwrap_or_default());
        let mut scopes = self.scopes.borrow_mut();
        if scopes.len() >= super::MOST_KEPT {
            scopes.clear();
        }
        scopes.insert(ix, Rc::clone(&found));
        found
    }

    fn read_scope(&self, ix: InstrIx) -> Option<Vec<InScope<'m, 'a>>> {
        let addr = self.flow.addr(ix)?;
        let state = self.state(ix)?;
        let sources = self.module.sources();
        let mut found: Vec<InScope<'m, 'a>> = Vec::new();
        for variable in sources.variables_at(addr).into_iter().take(MOST_VARIABLES) {
            let shadowed = found
                .iter()
                .any(|inner| inner.root.name == variable.name && inner.frame <= variable.frame);
            let Some(ty) = variable.ty.filter(|_| !shadowed) else {
                continue;
            };
            let ty = sources.ty(ty);
            found.push(InScope {
                pieces: pieces(&variable.location, ty.size(), &state),
                root: Rc::new(root(&variable)),
                ty,
                frame: variable.frame,
            });
        }
        Some(found)
    }
}

/// The root of a path that begins with a variable.
pub(super) fn root(variable: &Variable) -> Root {
    let (kind, address) = match (variable.kind, &variable.location) {
        (VariableKind::Parameter, _) => (RootKind::Parameter, None),
        (_, VarLocation::Tls(_)) => (RootKind::ThreadLocal, None),
        (VariableKind::Static, VarLocation::Address(addr)) => (RootKind::Global, Some(*addr)),
        (VariableKind::Static, _) => (RootKind::Global, None),
        (VariableKind::Local, _) => (RootKind::Local, None),
    };
    Root {
        name: Arc::clone(&variable.name),
        kind,
        address,
    }
}

fn pieces(location: &VarLocation, size: Option<u64>, state: &State) -> Vec<PlacedPiece> {
    let one = |offset, size, location: &VarLocation| {
        place(location, state).map(|at| PlacedPiece { offset, size, at })
    };
    match location {
        VarLocation::Pieces(pieces) => pieces
            .iter()
            .filter_map(|piece| one(piece.offset, piece.size, &piece.location))
            .collect(),
        location => size.and_then(|size| one(0, size, location)).into_iter().collect(),
    }
}

fn place(location: &VarLocation, state: &State) -> Option<Where> {
    let register = |number: u16| Gpr::from_dwarf(number).map(|gpr| (gpr, state.get(gpr)));
    let found = match location {
        VarLocation::Register(number) => {
            let (gpr, value) = register(*number)?;
            Where::Register(gpr, value)
        }
        VarLocation::RegisterValue {
            register: number,
            offset,
        } => {
            let (gpr, value) = register(*number)?;
            Where::Computed(value.plus(*offset), Some(gpr))
        }
        VarLocation::Constant(value) => Where::Computed(Value::Const(*value), None),
        VarLocation::Address(LinkAddr(addr)) => Where::Memory(Value::Const(*addr)),
        VarLocation::Cfa(_) | VarLocation::RegisterOffset { .. } => Where::Memory(address(location, state)?),
        VarLocation::Indirect { pointer, offset } => {
            let slot = address(pointer, state)?.stack_offset()?;
            match state.slot(slot, 8) {
                Some(value) => Where::Memory(value.plus(*offset)),
                None => Where::Behind(slot, *offset),
            }
        }
        VarLocation::Tls(_) | VarLocation::Value | VarLocation::Pieces(_) | VarLocation::Unavailable => {
            return None;
        }
    };
    let known = !matches!(
        found,
        Where::Register(_, Value::Unknown)
            | Where::Memory(Value::Unknown)
            | Where::Computed(Value::Unknown, _)
    );
    known.then_some(found)
}

/// The address of something in memory near a register.
fn address(location: &VarLocation, state: &State) -> Option<Value> {
    match location {
        VarLocation::Cfa(offset) => Some(Value::stack(offset.checked_add(CFA)?)),
        VarLocation::RegisterOffset { register, offset } => {
            Some(state.get(Gpr::from_dwarf(*register)?).plus(*offset))
        }
        _ => None,
    }
}
