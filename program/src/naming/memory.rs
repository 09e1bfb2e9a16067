//! What a memory operand refers to: a part of a variable, or of what one points to.

use std::rc::Rc;
use std::sync::Arc;

use iced_x86::Register;

use super::address::{Address, Detail, Term};
use super::parts::{self, Part, Varying, Wanted};
use super::path::{Step, render, render_all};
use super::scope::{InScope, Where, root};
use super::wrappers::Handle;
use super::{Namer, Root};
use crate::addr::LinkAddr;
use crate::code::InstrIx;
use crate::source::{Type, TypeKind};
use crate::values::{Base, Gpr, Value};

/// Pointers to follow for one name.
pub(super) const DEEPEST: usize = 6;
/// Longer names say less than none between brackets.
const LONGEST_INDEX: usize = 40;

/// A piece of memory by its source name.
#[derive(Clone)]
pub(super) struct Lvalue<'m, 'a> {
    pub root: Rc<Root>,
    pub steps: Vec<Step>,
    pub ty: Type<'m, 'a>,
    /// The standard type around it that stands for what it points to, and the steps before that.
    pub handle: Option<(usize, Handle)>,
    /// The steps to the enumeration whose tag this is.
    pub tag_of: Option<usize>,
    /// What must still hold where the name is used.
    pub guards: Vec<Guard>,
    /// Whether a pointer was followed.
    pub is_pointed: bool,
}

/// Something that made a name right when it was found.
#[derive(Clone)]
pub(super) enum Guard {
    /// Memory still holds what this instruction loaded.
    Loaded(InstrIx),
    /// These eight bytes of a variable still hold this.
    Held {
        name: Arc<str>,
        offset: u64,
        value: Value,
    },
}

impl<'m, 'a> Lvalue<'m, 'a> {
    pub fn variable(variable: &InScope<'m, 'a>) -> Self {
        Self {
            root: Rc::clone(&variable.root),
            steps: Vec::new(),
            ty: variable.ty,
            handle: None,
            tag_of: None,
            guards: Vec::new(),
            is_pointed: false,
        }
    }

    pub fn text(&self) -> Option<String> {
        let steps = self.tag_of.and_then(|steps| self.steps.get(..steps));
        render(&self.root.name, steps.unwrap_or(&self.steps))
    }

    /// As nobody writes it, with what libraries keep to themselves.
    pub fn exact_text(&self) -> Option<String> {
        render_all(&self.root.name, &self.steps)
    }

    /// A part of this.
    pub fn part(&self, wanted: Wanted) -> Option<Self> {
        Some(self.extended(parts::part(self.ty, wanted)?))
    }

    /// A part of what this points to.
    pub fn pointed(&self, wanted: Wanted) -> Option<Self> {
        let part = parts::pointed(self.ty, self.handle.map(|(_, handle)| handle), wanted)?;
        let mut pointer = self.clone();
        pointer.is_pointed = true;
        if let Some((before, _)) = pointer.handle.take() {
            pointer.steps.truncate(before);
        }
        Some(pointer.extended(part))
    }

    fn extended(&self, part: Part<'m, 'a>) -> Self {
        let mut whole = self.clone();
        let before = whole.steps.len();
        whole.steps.extend(part.steps);
        whole.ty = part.ty;
        whole.handle = part.handle.map(|(steps, handle)| (before + steps, handle));
        whole.tag_of = part.tag_of.map(|steps| before + steps);
        whole
    }
}

impl<'m, 'a> Namer<'m, 'a> {
    /// The memory operand of an instruction, as named there: so many bytes from an offset on.
    pub(super) fn memory(
        &self,
        ix: InstrIx,
        within: u32,
        width: u64,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        let depth = depth.checked_sub(1)?;
        self.loads.set(self.loads.get().checked_sub(1)?);
        let instr = self.flow.instruction(ix)?;
        if matches!(instr.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        self.at_either(ix, width, depth, |detail| {
            let mut address = self.operand(ix, detail)?;
            address.number = address.number.checked_add(i64::from(within))?;
            Some(address)
        })
    }

    /// The memory at an offset from what a register holds.
    pub(super) fn behind_register(
        &self,
        ix: InstrIx,
        gpr: Gpr,
        offset: i64,
        width: u64,
        depth: usize,
    ) -> Option<Lvalue<'m, 'a>> {
        let depth = depth.checked_sub(1)?;
        self.at_either(ix, width, depth, |detail| {
            self.register_plus(ix, gpr, offset, detail)
        })
    }

    /// The memory at an address of the module.
    pub(super) fn at_static(&self, ix: InstrIx, addr: LinkAddr, width: u64) -> Option<Lvalue<'m, 'a>> {
        let wanted = Wanted {
            offset: addr.0.cast_signed(),
            width,
            varying: Vec::new(),
            members: Rc::clone(&self.members),
        };
        self.in_module(ix, wanted)
    }

    /// By what an address was computed from, or else by what it is added up from.
    fn at_either(
        &self,
        ix: InstrIx,
        width: u64,
        depth: usize,
        address: impl Fn(Detail) -> Option<Address>,
    ) -> Option<Lvalue<'m, 'a>> {
        let origin = address(Detail::Origin)?;
        if let Some(found) = self.at_address(ix, &origin, width, depth) {
            return Some(found);
        }
        let plain = address(Detail::Operand)?;
        let bases = |address: &Address| address.terms.iter().map(|term| term.base).collect::<Vec<_>>();
        if bases(&plain) == bases(&origin) {
            return None;
        }
        self.at_address(ix, &plain, width, depth)
    }

    fn at_address(&self, ix: InstrIx, address: &Address, width: u64, depth: usize) -> Option<Lvalue<'m, 'a>> {
        let is_frame = |term: &&Term| term.base == Base::Entry(Gpr::RSP) && term.times == 1;
        if let Some(frame) = address.terms.iter().find(is_frame) {
            let wanted = self.wanted(ix, address, frame.base, width, depth)?;
            let pointer = self.through_local(ix, frame, &wanted, depth);
            return pointer.or_else(|| self.in_frame(ix, wanted));
        }
        for pointer in address.terms.iter().filter(|term| term.times == 1) {
            let wanted = self.wanted(ix, address, pointer.base, width, depth)?;
            if let Some(found) = self.through(ix, pointer, &wanted, depth) {
                return Some(found);
            }
        }
        if address.anchored {
            let wanted = self.wanted(ix, address, Base::Entry(Gpr::RSP), width, depth)?;
            return self.in_module(ix, wanted);
        }
        None
    }

    /// The bytes relative to one term of an address: the others are indices.
    fn wanted(&self, ix: InstrIx, address: &Address, root: Base, width: u64, depth: usize) -> Option<Wanted> {
        let mut wanted = Wanted {
            offset: address.number,
            width,
            varying: Vec::new(),
            members: Rc::clone(&self.members),
        };
        for term in address.terms.iter().filter(|term| term.base != root) {
            let (name, held) = match self.index(ix, term, depth) {
                Some((name, held)) => (Some(name), held),
                None => (None, term.offset),
            };
            // What the index variable itself holds beyond the term is not part of the array's address.
            let part = held.checked_mul(term.times)?;
            wanted.offset = wanted.offset.checked_sub(part)?;
            wanted.varying.push(Varying {
                stride: term.times,
                mixed: name.is_none() && self.may_be_sum(term.base),
                name,
            });
        }
        Some(wanted)
    }

    fn in_frame(&self, ix: InstrIx, wanted: Wanted) -> Option<Lvalue<'m, 'a>> {
        let scope = self.scope(ix);
        let mut found: Vec<(u64, usize, Lvalue<'m, 'a>)> = Vec::new();
        for variable in scope.iter() {
            found.extend(variable.pieces.iter().filter_map(|piece| {
                let Where::Memory(start) = piece.at else {
                    return None;
                };
                let into = wanted.offset.checked_sub(start.stack_offset()?)?;
                let inside = u64::try_from(into).ok()?.checked_add(wanted.width)? <= piece.size;
                let mut wanted = wanted.clone();
                wanted.offset = into.checked_add(i64::try_from(piece.offset).ok()?)?;
                let part = Lvalue::variable(variable).part(wanted).filter(|_| inside)?;
                Some((piece.size, variable.frame, part))
            }));
        }
        // Two variables are in one place when the compiler found that one is a copy of a part of the other, as `n` is in
        // `long n = queue.length;`: the memory is the other's.
        let largest = found.iter().map(|(size, ..)| *size).max()?;
        let found = found.into_iter().filter(|(size, ..)| *size == largest);
        only_innermost(found.map(|(_, frame, part)| (frame, part)))
    }

    fn in_module(&self, ix: InstrIx, wanted: Wanted) -> Option<Lvalue<'m, 'a>> {
        let addr = LinkAddr(wanted.offset.cast_unsigned());
        let scope = self.scope(ix);
        let statics = scope.iter().filter_map(|variable| {
            let start = variable.pieces.iter().find_map(|piece| match piece.at {
                Where::Memory(Value::Const(start)) if piece.offset == 0 => Some(start),
                _ => None,
            })?;
            let mut wanted = wanted.clone();
            wanted.offset = i64::try_from(addr.0.checked_sub(start)?).ok()?;
            Some((variable.frame, Lvalue::variable(variable).part(wanted)?))
        });
        if let Some(found) = only_innermost(statics) {
            return Some(found);
        }
        let sources = self.module.sources();
        let (variable, into) = sources.global_at(addr, self.flow.addr(ix))?;
        let whole = Lvalue {
            root: Rc::new(root(&variable)),
            steps: Vec::new(),
            ty: sources.ty(variable.ty?),
            handle: None,
            tag_of: None,
            guards: Vec::new(),
            is_pointed: false,
        };
        whole.part(Wanted {
            offset: i64::try_from(into).ok()?,
            ..wanted
        })
    }

    /// The name of an index, and the constant that it holds beyond the term's base.
    fn index(&self, ix: InstrIx, term: &Term, depth: usize) -> Option<(String, i64)> {
        if let Some(found) = self.number_holding(ix, term.base) {
            return Some(found);
        }
        if let Some(load) = self.load_of(term.base) {
            let found = self.memory(load.at, 0, load.width, depth)?;
            let text = found
                .text()
                .filter(|text| is_number(found.ty) && text.len() <= LONGEST_INDEX)?;
            let still = found.guards.iter().all(|guard| self.still(guard, ix, true));
            return (still && self.is_fresh(load.at, ix)).then_some((text, 0));
        }
        let (at, gpr) = self.widened(term.base)?;
        let Value::Sum(base, offset) = self.state(at)?.get(gpr) else {
            return None;
        };
        let narrow = Term {
            at,
            gpr,
            base,
            offset,
            times: 1,
        };
        let (name, held) = self.index(ix, &narrow, depth.checked_sub(1)?)?;
        (held == offset).then_some((name, 0))
    }

    /// The variable that holds a number, up to a constant.
    fn number_holding(&self, ix: InstrIx, base: Base) -> Option<(String, i64)> {
        let scope = self.scope(ix);
        let state = self.state(ix)?;
        let found = scope
            .iter()
            .filter(|variable| is_number(variable.ty))
            .flat_map(|variable| {
                let held = variable.pieces.iter().filter_map(|piece| match piece.at {
                    Where::Register(_, value) if piece.offset == 0 => Some(value),
                    _ => None,
                });
                let stored = variable.words(&state).map(|(_, value, _)| value);
                let values: Vec<_> = held.chain(stored).collect();
                values.into_iter().filter_map(move |value| match value {
                    Value::Sum(known, offset) if known == base => {
                        Some((variable.frame, (variable.root.name.to_string(), offset)))
                    }
                    _ => None,
                })
            });
        let mut found: Vec<_> = found.collect();
        found.sort();
        found.dedup();
        let (innermost, _) = *found.first()?;
        let mut same = found.into_iter().filter(|(frame, _)| *frame == innermost);
        let (_, one) = same.next()?;
        same.next().is_none().then_some(one)
    }
}

fn is_number(ty: Type<'_, '_>) -> bool {
    matches!(ty.stripped().kind(), TypeKind::Base { .. } | TypeKind::Enum)
}

/// The one candidate of the innermost inlining; `None` when several names are as good.
pub(super) fn only_innermost<'m, 'a>(
    found: impl Iterator<Item = (usize, Lvalue<'m, 'a>)>,
) -> Option<Lvalue<'m, 'a>> {
    let mut found: Vec<_> = found.collect();
    let innermost = found.iter().map(|(frame, _)| *frame).min()?;
    found.retain(|(frame, _)| *frame == innermost);
    let (_, first) = found.pop()?;
    let same = |other: &Lvalue<'_, '_>| other.root.name == first.root.name && other.steps == first.steps;
    found.iter().all(|(_, other)| same(other)).then_some(first)
}
