//! The variables in scope at an instruction, with what they hold and where they are.

use std::rc::Rc;
use std::sync::Arc;

use iced_x86::{Mnemonic, Register};

use super::{Namer, Root, RootKind};
use crate::addr::LinkAddr;
use crate::code::{AccessKind, InstrIx};
use crate::source::{Type, VarLocation, Variable, VariableKind};
use crate::statement::is_library_path;
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
    /// The inlining it belongs to; 0 is the innermost. A library's come after all of the program's own: what its `self` is,
    /// the program has a name for.
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
        let library: Vec<bool> = sources
            .frames_at(addr)
            .into_iter()
            .map(|frame| frame.file.as_deref().is_some_and(is_library_path))
            .collect();
        let mut found: Vec<InScope<'m, 'a>> = Vec::new();
        for variable in sources.variables_at(addr).into_iter().take(MOST_VARIABLES) {
            let of_library = library.get(variable.frame) == Some(&true);
            let frame = match of_library {
                true => variable.frame.saturating_add(library.len()),
                false => variable.frame,
            };
            let shadowed = found
                .iter()
                .any(|inner| inner.root.name == variable.name && inner.frame <= frame);
            let Some(ty) = variable.ty.filter(|_| !shadowed) else {
                continue;
            };
            let ty = sources.ty(ty);
            let mut pieces = pieces(&variable.location, ty.size(), &state);
            let lasting = pieces.iter().filter_map(|piece| self.written_once(piece, &state));
            let lasting: Vec<PlacedPiece> = lasting.collect();
            pieces.extend(lasting);
            found.push(InScope {
                pieces,
                root: Rc::new(Root {
                    of_library,
                    ..root(&variable)
                }),
                ty,
                frame,
            });
        }
        Some(found)
    }

    /// What a variable of the frame holds from the function's beginning to its end although its slot may seem to be
    /// written by others: where pointers into the frame are passed around, values alone do not tell how far these reach. The debug
    /// information does: nobody takes the address of this variable, and it is written once.
    fn written_once(&self, piece: &PlacedPiece, state: &State) -> Option<PlacedPiece> {
        const POINTER: u64 = 8;
        let slot = match piece.at {
            Where::Memory(addr) if piece.size == POINTER => addr.stack_offset()?,
            _ => return None,
        };
        if state.slot(slot, 8).is_some() {
            return None;
        }
        let known = self.lasting.borrow().get(&slot).copied();
        let value = known.unwrap_or_else(|| {
            let value = self.stored_once(slot);
            self.lasting.borrow_mut().insert(slot, value);
            value
        })?;
        Some(PlacedPiece {
            at: Where::Computed(value, None),
            ..piece.clone()
        })
    }

    fn stored_once(&self, slot: i64) -> Option<Value> {
        let bytes = slot..slot.checked_add(8)?;
        let entry = self
            .flow
            .block(self.flow.entry?)
            .filter(|block| block.preds.is_empty())?;
        let mut stored = None;
        for ix in (0..u32::try_from(self.flow.instructions.len()).ok()?).map(InstrIx) {
            let instr = self.flow.instruction(ix)?;
            if instr.mnemonic() == Mnemonic::Lea && instr.memory_index() == Register::None {
                let state = self.state(ix);
                let base = Gpr::of(instr.memory_base()).and_then(|base| Some(state?.get(base)));
                let displacement = instr.memory_displacement64().cast_signed();
                let taken = base.and_then(|base| base.plus(displacement).stack_offset());
                if taken.is_some_and(|taken| bytes.contains(&taken)) {
                    return None;
                }
            }
            for access in self.values.accesses(ix).iter().filter(|access| !access.implicit) {
                let (Some(at), Some(width)) = (access.place.stack_offset(), access.width) else {
                    continue;
                };
                let meets = at < bytes.end && bytes.start < at.saturating_add(i64::from(width));
                if access.kind == AccessKind::Read || !meets {
                    continue;
                }
                let whole = at == slot && width == 8 && instr.mnemonic() == Mnemonic::Mov;
                if stored.replace(ix).is_some() || !whole || !entry.instrs.contains(&ix.0) {
                    return None;
                }
            }
        }
        let stored = stored?;
        let instr = self.flow.instruction(stored)?;
        let source = Gpr::of(instr.op1_register())?;
        let value = self.state(stored)?.get(source);
        (value != Value::Unknown).then_some(value)
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
        ty: variable.ty,
        of_library: false,
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
