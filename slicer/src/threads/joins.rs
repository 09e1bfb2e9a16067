//! Which calls wait for which thread.

use std::collections::BTreeSet;

use iced_x86::Mnemonic;
use program::FunctionRef;
use program::code::{InstrIx, Target};
use program::values::{Base, Gpr, Value};

use super::look::Looked;
use super::model::ThreadModel;
use super::names::{self, CreationKind, JoinKind};

/// The variable that holds a thread's handle, inside one function. Elements of one array are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Stack(i64),
    Static(u64),
    Behind(Base, i64),
}

impl ThreadModel<'_, '_> {
    /// The blocks of a function at whose end the thread has ended that its call at `creation` created.
    ///
    /// A join belongs to a creation when both name one variable; where that is not known, when the function
    /// creates threads at no other place. Joins in other functions are not looked for.
    #[must_use]
    pub fn joins_of(&self, creator: FunctionRef, creation: InstrIx) -> Vec<usize> {
        let Some(at) = self.look.at(creator) else {
            return Vec::new();
        };
        let here = self.created_in(creator).into_iter();
        let places: BTreeSet<InstrIx> = here.clone().filter_map(|site| at.flow.at(site.at.addr)).collect();
        let kind = here
            .clone()
            .find(|site| at.flow.at(site.at.addr) == Some(creation))
            .map(|site| site.kind);
        let Some(kind) = kind else { return Vec::new() };
        let created = address_in(&at, creation, Gpr::RDI);

        let mut blocks = Vec::new();
        for (ix, target, _) in at.flow.calls() {
            let Some(join) = join_kind(&at, ix, target).filter(|&join| fits(kind, join)) else {
                continue;
            };
            let awaited = awaited(&at, ix, join);
            let matches = match created {
                Some(created) if !awaited.is_empty() => awaited.contains(&created),
                _ => places.len() == 1,
            };
            if matches && let Some(block) = at.flow.block_of(ix) {
                blocks.push(block.0 as usize);
            }
        }
        blocks
    }
}

fn join_kind(at: &Looked<'_, '_>, call: InstrIx, target: Target) -> Option<JoinKind> {
    let code = at.module.code();
    let symbol = match target {
        Target::Indirect => code.functions().get(at.through_register(call)?.function)?.symbol,
        target => code.target_name(target),
    };
    names::join(symbol?)
}

fn fits(creation: CreationKind, join: JoinKind) -> bool {
    match creation {
        CreationKind::Pthread => join == JoinKind::Pthread,
        CreationKind::C11 => join == JoinKind::C11,
        CreationKind::StdThread => matches!(join, JoinKind::StdThread | JoinKind::Future),
        CreationKind::Rust => join == JoinKind::Rust,
    }
}

/// The variables that a join may be about, as far as they are known.
fn awaited(at: &Looked<'_, '_>, call: InstrIx, join: JoinKind) -> Vec<Handle> {
    match join {
        JoinKind::Pthread | JoinKind::C11 => loaded_from(at, call).into_iter().collect(),
        // The object itself; after the place for the result, if that is returned in memory.
        JoinKind::StdThread => address_in(at, call, Gpr::RDI).into_iter().collect(),
        JoinKind::Future => [Gpr::RDI, Gpr::RSI]
            .iter()
            .filter_map(|&gpr| address_in(at, call, gpr))
            .collect(),
        JoinKind::Rust => Vec::new(),
    }
}

/// The variable whose address a register holds.
fn address_in(at: &Looked<'_, '_>, ix: InstrIx, gpr: Gpr) -> Option<Handle> {
    handle(at, at.value(ix, gpr))
}

/// The variable that the first argument was loaded from.
fn loaded_from(at: &Looked<'_, '_>, call: InstrIx) -> Option<Handle> {
    match at.value(call, Gpr::RDI) {
        Value::Sum(Base::Made(load, _), 0) => handle(at, at.values.place(load)?.base),
        _ => None,
    }
}

fn handle(at: &Looked<'_, '_>, address: Value) -> Option<Handle> {
    match address {
        Value::Unknown => None,
        Value::Const(addr) => Some(Handle::Static(addr)),
        Value::Sum(Base::Entry(Gpr::RSP), offset) => Some(Handle::Stack(offset)),
        Value::Sum(Base::Made(ix, _), 0) => element(at, ix),
        // A pointer that walks over an array.
        Value::Sum(Base::Joined(..) | Base::Made(..), _) => None,
        Value::Sum(base, offset) => Some(Handle::Behind(base, offset)),
    }
}

/// The array whose element `lea array(,%index,8)` names.
fn element(at: &Looked<'_, '_>, ix: InstrIx) -> Option<Handle> {
    let instruction = at.flow.instruction(ix)?;
    let base = Gpr::of(instruction.memory_base())?;
    let array = at
        .value(ix, base)
        .plus(instruction.memory_displacement64().cast_signed());
    let known = instruction.mnemonic() == Mnemonic::Lea && !matches!(array, Value::Sum(Base::Made(..), _));
    known.then(|| handle(at, array)).flatten()
}
