//! Which functions a value can be the address of.
//!
//! Constants are followed backwards: through registers and stack slots of the function (the value analysis
//! has done that), through loads from data that the file initialises and stores of constants into it, and
//! through the arguments that callers pass. What comes from the heap stays unknown.

use std::collections::BTreeSet;

use iced_x86::{ConditionCode, Instruction, Mnemonic};
use program::code::{InstrIx, ReferenceKind};
use program::values::{Base, Gpr, Place, Spot, State, Value};
use program::{FunctionRef, LinkAddr, Pc};

use super::look::{Look, Looked};

/// Callers are followed so many levels up, and so many of each function.
const MAX_DEPTH: usize = 6;
const MAX_CALLERS: usize = 64;
/// Entries of a table of functions.
const MAX_TABLE: i64 = 64;

/// A function that a value can point to, and the calls through which it was passed, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pointee {
    pub function: FunctionRef,
    pub through: Vec<Pc>,
}

/// A search for pointees.
pub(crate) struct Search<'l, 'p, 'a> {
    look: &'l Look<'p, 'a>,
    found: BTreeSet<Pointee>,
    through: Vec<Pc>,
    /// What is being followed, so that recursion ends.
    following: Vec<(FunctionRef, Value)>,
}

/// The functions that `value`, in `function`, can point to; none when that is not known.
pub(crate) fn pointees(look: &Look<'_, '_>, function: &Looked<'_, '_>, value: Value) -> Vec<Pointee> {
    let mut search = Search {
        look,
        found: BTreeSet::new(),
        through: Vec::new(),
        following: Vec::new(),
    };
    search.follow(function, value);
    search.found.into_iter().collect()
}

impl Search<'_, '_, '_> {
    fn follow(&mut self, at: &Looked<'_, '_>, value: Value) {
        if self.following.len() > 4 * MAX_DEPTH || self.following.contains(&(at.id, value)) {
            return;
        }
        self.following.push((at.id, value));
        match value {
            Value::Unknown => {}
            Value::Const(addr) => self.add(at, LinkAddr(addr)),
            Value::Sum(Base::Entry(gpr), 0) => self.in_callers(at, |state| Some(state.get(gpr))),
            Value::Sum(Base::Made(ix, _), 0) => self.loaded(at, ix),
            Value::Sum(Base::Joined(block, spot), 0) => self.joined(at, block, spot),
            Value::Sum(..) => {}
        }
        self.following.pop();
    }

    fn add(&mut self, at: &Looked<'_, '_>, addr: LinkAddr) {
        if let Some(function) = at.function_starting_at(addr) {
            self.found.insert(Pointee {
                function,
                through: self.through.clone(),
            });
        }
    }

    /// Follows what callers make of a value.
    fn in_callers(&mut self, at: &Looked<'_, '_>, value: impl Fn(&State) -> Option<Value>) {
        if self.through.len() >= MAX_DEPTH {
            return;
        }
        for caller in self.look.program.callers_of(at.id).into_iter().take(MAX_CALLERS) {
            let Some((outer, ix)) = self.look.around(caller) else {
                continue;
            };
            let Some(passed) = outer.before(ix).as_ref().and_then(&value) else {
                continue;
            };
            self.through.push(caller);
            self.follow(&outer, passed);
            self.through.pop();
        }
    }

    /// Follows a value that an instruction loaded.
    fn loaded(&mut self, at: &Looked<'_, '_>, ix: InstrIx) {
        if let Some(either) = at.flow.instruction(ix).and_then(chosen_between) {
            either
                .into_iter()
                .for_each(|gpr| self.follow(at, at.value(ix, gpr)));
            return;
        }
        let Some(place) = at.values().place(ix) else {
            return;
        };
        match (place.base, place.index) {
            (Value::Const(addr), index) if !place.thread_local => {
                self.stored_in_data(at, LinkAddr(addr), index.is_some());
            }
            // A field of something that a caller handed in: its stack or its data.
            (Value::Sum(Base::Entry(gpr), offset), None) if gpr != Gpr::RSP => {
                self.field_in_callers(at, gpr, offset);
            }
            _ => {}
        }
    }

    fn stored_in_data(&mut self, at: &Looked<'_, '_>, addr: LinkAddr, table: bool) {
        let entries = if table { MAX_TABLE } else { 1 };
        let pointers = (0..entries).map(|entry| at.module.elf().pointer_at(addr.offset(8 * entry)));
        for pointer in pointers.take_while(Option::is_some).flatten() {
            self.add(at, pointer);
        }
        if table || !at.module.elf().segments().is_writable(addr) {
            return;
        }
        let user = at.module.code().functions().get(at.id.function);
        let user = user.map_or(addr, |function| function.entry);
        for reference in at.module.references_to(&(addr..addr.offset(8)), user) {
            if reference.kind == ReferenceKind::Write {
                self.stored(Pc {
                    module: at.id.module,
                    addr: reference.at,
                });
            }
        }
    }

    /// Follows what `mov %reg, variable` stores.
    fn stored(&mut self, pc: Pc) {
        let Some((writer, ix)) = self.look.around(pc) else {
            return;
        };
        let Some(instruction) = writer.flow.instruction(ix) else {
            return;
        };
        if instruction.mnemonic() != Mnemonic::Mov {
            return;
        }
        let value = match Gpr::of(instruction.op1_register()) {
            Some(gpr) => writer.value(ix, gpr),
            None => instruction.try_immediate(1).map_or(Value::Unknown, Value::Const),
        };
        self.follow(&writer, value);
    }

    fn field_in_callers(&mut self, at: &Looked<'_, '_>, gpr: Gpr, offset: i64) {
        let mut in_data = Vec::new();
        self.in_callers(at, |state| {
            let base = state.get(gpr).plus(offset);
            base.stack_offset().and_then(|slot| state.slot(slot, 8))
        });
        for caller in self.look.program.callers_of(at.id).into_iter().take(MAX_CALLERS) {
            let Some((outer, ix)) = self.look.around(caller) else {
                continue;
            };
            if let Some(addr) = Place::at(outer.value(ix, gpr).plus(offset)).static_addr() {
                in_data.push((outer, caller, addr));
            }
        }
        for (outer, caller, addr) in in_data {
            self.through.push(caller);
            self.stored_in_data(&outer, addr, false);
            self.through.pop();
        }
    }

    /// Follows a value that differs by the way that was taken.
    fn joined(&mut self, at: &Looked<'_, '_>, block: u32, spot: Spot) {
        let Some(joining) = at.flow.blocks.get(block as usize) else {
            return;
        };
        for from in &joining.preds {
            let Some(last) = at.flow.block(*from).map(program::code::Block::last) else {
                continue;
            };
            // The state before the block's last instruction: a jump, or an instruction that makes the value.
            let value = match spot {
                Spot::Register(gpr) => made_by(at, last, gpr).or_else(|| Some(at.value(last, gpr))),
                Spot::Slot(offset) => at.before(last).and_then(|state| state.slot(offset, 8)),
            };
            if let Some(value) = value {
                self.follow(at, value);
            }
        }
    }
}

/// The address that the instruction puts into the register itself.
fn made_by(at: &Looked<'_, '_>, ix: InstrIx, gpr: Gpr) -> Option<Value> {
    let writes = Gpr::of(at.flow.instruction(ix)?.op0_register()) == Some(gpr);
    let made = at.addresses().find(|(made_at, _)| *made_at == ix);
    made.filter(|_| writes).map(|(_, addr)| Value::Const(addr.0))
}

/// The registers between which a conditional move chooses.
fn chosen_between(instruction: &Instruction) -> Option<[Gpr; 2]> {
    let chooses = instruction.condition_code() != ConditionCode::None && instruction.op_count() == 2;
    let registers = [instruction.op0_register(), instruction.op1_register()].map(Gpr::of);
    match registers {
        [Some(kept), Some(moved)] if chooses => Some([kept, moved]),
        _ => None,
    }
}
