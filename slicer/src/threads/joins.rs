//! Which calls wait for which thread.

use std::collections::BTreeSet;

use iced_x86::Mnemonic;
use program::FunctionRef;
use program::code::{InstrIx, Target};
use program::values::{Base, Gpr, Value};

use super::empty;
use super::look::Looked;
use super::model::ThreadModel;
use super::names::{self, CreationKind, JoinKind};
use crate::cfg::{Cfg, Direction, with_exceptions};

/// The variable that holds a thread's handle, inside one function. Elements of one array are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handle {
    Stack(i64),
    Static(u64),
    Behind(Base, i64),
}

/// Where a thread, created in a function, is over in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joins {
    /// The blocks at whose end it is.
    pub blocks: Vec<usize>,
    /// Edges that are taken only where there is no thread to wait for.
    pub skips: Vec<(usize, usize)>,
}

/// A call that waits for a thread.
struct Join {
    call: InstrIx,
    block: usize,
    /// The variables that it may be about, as far as they are known.
    handles: Vec<Handle>,
}

impl ThreadModel<'_, '_> {
    /// The blocks of a function at whose end the thread has ended that its call at `creation` created.
    ///
    /// A join belongs to a creation when both name one variable. Handles that were moved or are kept in a
    /// collection are taken together: when a function awaits as many threads as it creates, or some in a
    /// loop, then all of them have ended after the last join. Joins in other functions are not looked for.
    #[must_use]
    pub fn joins_of(&self, creator: FunctionRef, creation: InstrIx) -> Joins {
        let Some(at) = self.look.at(creator) else {
            return Joins::default();
        };
        let mut here = self.created_in(creator).into_iter();
        let site = here.find(|site| at.flow.at(site.at.addr) == Some(creation));
        site.map_or_else(Joins::default, |site| self.joins_in(&at, creation, site.kind))
    }

    /// The blocks of a function at whose end the threads have ended that were created inside its call at
    /// `call` by one of its closures: `(0..4).map(|_| spawn(work)).collect()`.
    #[must_use]
    pub fn joins_after(&self, caller: FunctionRef, call: InstrIx) -> Joins {
        match (self.created_by_closures_of(caller).first(), self.look.at(caller)) {
            (Some(site), Some(at)) => self.joins_in(&at, call, site.kind),
            _ => Joins::default(),
        }
    }

    fn joins_in(&self, at: &Looked<'_, '_>, creation: InstrIx, kind: CreationKind) -> Joins {
        let cfg = with_exceptions(&at.flow);
        let joins: Vec<Join> = calls(at)
            .filter_map(|(ix, block, target)| {
                let join = join_kind(at, ix, target).filter(|&join| fits(kind, join))?;
                let handles = awaited(at, ix, join);
                Some(Join {
                    call: ix,
                    block,
                    handles,
                })
            })
            .collect();
        let awaiting = |handle: Handle| joins.iter().filter(move |join| join.handles.contains(&handle));
        let created = |place: InstrIx| address_in(at, place, Gpr::RDI);
        if let Some(handle) = created(creation)
            && awaiting(handle).next().is_some()
        {
            return Joins::at(at, awaiting(handle));
        }
        let sites = self.created_in(at.id).into_iter();
        let mut places: BTreeSet<InstrIx> = sites.filter_map(|site| at.flow.at(site.at.addr)).collect();
        places.insert(creation);
        let known: Vec<Handle> = places.iter().filter_map(|&place| created(place)).collect();
        places.retain(|&place| created(place).is_none_or(|handle| awaiting(handle).next().is_none()));
        // A C++ thread object may be assigned to the variable that is joined.
        let elsewhere = kind == CreationKind::StdThread || created(creation).is_none();
        let open = joins.iter().filter(|join| {
            join.handles.is_empty() || elsewhere && !join.handles.iter().any(|handle| known.contains(handle))
        });
        let mut joins = Joins::at(at, open);
        if places.len() > 1 {
            let blocks = places.iter().filter_map(|&place| at.flow.block_of(place));
            let blocks: Vec<usize> = blocks.map(|block| block.0 as usize).collect();
            let last = last_of_all(at, &cfg, &joins.blocks, &blocks);
            joins.blocks = last.into_iter().collect();
        }
        joins
    }
}

impl Joins {
    fn at<'j>(at: &Looked<'_, '_>, joins: impl Iterator<Item = &'j Join>) -> Self {
        let mut all = Self::default();
        for join in joins {
            all.blocks.push(join.block);
            all.skips.extend(empty::edges(at, join.call, &join.handles));
        }
        all
    }
}

/// The join after which all threads that were created at `places` have ended, if `joins` are all theirs.
fn last_of_all(at: &Looked<'_, '_>, cfg: &Cfg, joins: &[usize], places: &[usize]) -> Option<usize> {
    let is_for_many = |&&join: &&usize| {
        let cycle = cfg.cycle_around(join);
        cycle.is_some_and(|cycle| !places.iter().any(|&place| cycle[place]))
    };
    if joins.len() < places.len() && !joins.iter().any(|join| is_for_many(&join)) {
        return None;
    }
    let later = |block: usize| {
        let unwinds = |block| Some(block) == cfg.unwinder();
        let next = cfg.successors(block).iter().map(|&block| block as usize);
        cfg.reach(next, Direction::Forward, unwinds)
    };
    let mut last = joins.iter().filter(|&&join| {
        let later = later(join);
        !joins.iter().any(|&other| other != join && later[other])
    });
    let (Some(&join), None) = (last.next(), last.next()) else {
        return None;
    };
    // A thread that is let go is not awaited.
    let detached = calls(at).any(|(ix, block, target)| {
        symbol_of(at, ix, target).is_some_and(names::is_detach) && later(block)[join]
    });
    (!detached).then_some(join)
}

/// The calls of a function on its usual ways, with their blocks.
fn calls<'l>(at: &'l Looked<'_, '_>) -> impl Iterator<Item = (InstrIx, usize, Target)> + 'l {
    at.flow.calls().filter_map(|(ix, target, _)| {
        let id = at.flow.block_of(ix)?;
        let usual = !at.flow.block(id)?.exceptional;
        usual.then_some((ix, id.0 as usize, target))
    })
}

pub(super) fn symbol_of<'a>(at: &Looked<'_, 'a>, call: InstrIx, target: Target) -> Option<&'a str> {
    let code = at.module.code();
    match target {
        Target::Indirect => code.functions().get(at.through_register(call)?.function)?.symbol,
        target => code.target_name(target),
    }
}

fn join_kind(at: &Looked<'_, '_>, call: InstrIx, target: Target) -> Option<JoinKind> {
    let symbol = symbol_of(at, call, target)?;
    names::join(symbol).or_else(|| {
        // Where `std::thread::scope` was inlined, the wait for its threads is a call of `park`.
        let addr = at.flow.addr(call).filter(|_| names::is_park(symbol))?;
        let mut frames = at.module.sources().frames_at(addr).into_iter();
        let waits = frames.any(|frame| frame.linkage_name.as_deref().is_some_and(names::awaits_all));
        waits.then_some(JoinKind::Rust)
    })
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
pub(super) fn address_in(at: &Looked<'_, '_>, ix: InstrIx, gpr: Gpr) -> Option<Handle> {
    handle(at, at.value(ix, gpr))
}

/// The variable that the first argument was loaded from.
fn loaded_from(at: &Looked<'_, '_>, call: InstrIx) -> Option<Handle> {
    match at.value(call, Gpr::RDI) {
        Value::Sum(Base::Made(load, _), 0) => handle(at, at.values().place(load)?.base),
        _ => None,
    }
}

pub(super) fn handle(at: &Looked<'_, '_>, address: Value) -> Option<Handle> {
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
