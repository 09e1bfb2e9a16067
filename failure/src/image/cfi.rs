//! One step of unwinding by call-frame information.

use std::cell::Cell;

use gimli::{
    CfaRule, EvaluationResult, Location, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, Value,
};

use super::cfi_table::{Cfi, Slice, Table, TableKind};
use super::registers::{FrameRegisters, RSP};

/// A frame's caller.
pub(super) struct Caller {
    /// Its registers as they were at the call, or when the signal came.
    pub(super) registers: FrameRegisters,
    /// The frame is the kernel's trampoline: the "caller" was interrupted, not calling.
    pub(super) interrupted: bool,
}

/// Why there is no caller.
pub(super) enum NoCaller {
    /// The code says that nobody called it.
    Outermost,
    /// A word that the step needs is not to be had.
    Unreadable(u64),
    /// The information makes no sense, or depends on a register that is not known any more.
    Unusable,
}

/// Where a step happens.
pub(super) struct Place<'p> {
    /// The frame's registers.
    pub(super) registers: &'p FrameRegisters,
    /// The link-time address to look up.
    pub(super) link: u64,
    /// The module's bias.
    pub(super) bias: u64,
    /// Reads a word of memory.
    pub(super) read: &'p dyn Fn(u64) -> Option<u64>,
}

impl Cfi<'_> {
    /// Steps from a frame to its caller; `None` when nothing covers the address. `effort` counts down by
    /// the bytes that were interpreted.
    pub(super) fn step(&self, place: &Place<'_>, effort: &mut u64) -> Option<Result<Caller, NoCaller>> {
        self.tables().find_map(|table| match table.kind {
            TableKind::EhFrame => step_in(&table.eh_frame(), table, place, effort),
            TableKind::DebugFrame => step_in(&table.debug_frame(), table, place, effort),
        })
    }
}

fn step_in<'d, S: UnwindSection<Slice<'d>>>(
    section: &S,
    table: &Table<'_>,
    place: &Place<'_>,
    effort: &mut u64,
) -> Option<Result<Caller, NoCaller>> {
    let offset = table.entry_for(place.link)?;
    let entry = section
        .fde_from_offset(&table.bases, offset.into(), S::cie_from_offset)
        .ok()?;
    if !entry.contains(place.link) {
        return None;
    }
    let cost = entry.entry_len().saturating_add(entry.cie().entry_len());
    *effort = effort.saturating_sub(cost as u64);
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(section, &table.bases, &mut context, place.link);
    let Ok(row) = row else {
        return Some(Err(NoCaller::Unusable));
    };

    let rules = Rules {
        section,
        encoding: entry.cie().encoding(),
        place,
        missing: Cell::new(None),
    };
    let Some(cfa) = rules.cfa(row.cfa()) else {
        return Some(Err(rules.failure()));
    };
    let mut caller = place.registers.caller_default();
    caller.set(RSP, Some(cfa));
    for (register, rule) in row.registers() {
        caller.set(register.0, rules.value(*register, rule, cfa));
    }
    let return_address = entry.cie().return_address_register();
    let rule = row.register(return_address);
    let Some(rule) = rule.filter(|rule| *rule != RegisterRule::Undefined) else {
        return Some(Err(NoCaller::Outermost));
    };
    rules.missing.set(None);
    let Some(rip) = rules.value(return_address, &rule, cfa) else {
        return Some(Err(rules.failure()));
    };
    caller.rip = rip;
    Some(Ok(Caller {
        registers: caller,
        interrupted: entry.is_signal_trampoline(),
    }))
}

/// Evaluates the rules of one row.
struct Rules<'s, S> {
    section: &'s S,
    encoding: gimli::Encoding,
    place: &'s Place<'s>,
    /// The address of the last word that could not be read.
    missing: Cell<Option<u64>>,
}

impl<'d, S: UnwindSection<Slice<'d>>> Rules<'_, S> {
    fn failure(&self) -> NoCaller {
        self.missing
            .get()
            .map_or(NoCaller::Unusable, NoCaller::Unreadable)
    }

    fn read(&self, addr: u64) -> Option<u64> {
        let word = (self.place.read)(addr);
        if word.is_none() {
            self.missing.set(Some(addr));
        }
        word
    }

    fn cfa(&self, rule: &CfaRule<usize>) -> Option<u64> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(self.place.registers.get(register.0)?.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    fn value(&self, register: Register, rule: &RegisterRule<usize>, cfa: u64) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => self.place.registers.get(register.0),
            RegisterRule::Offset(offset) => self.read(cfa.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.place.registers.get(other.0),
            RegisterRule::Expression(expression) => self.read(self.evaluate(expression, Some(cfa))?),
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(cfa)),
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        }
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, start: Option<u64>) -> Option<u64> {
        /// Real ones take a dozen; the limit is for loops.
        const MOST_OPERATIONS: u32 = 1000;
        let mut evaluation = expression.get(self.section).ok()?.evaluation(self.encoding);
        evaluation.set_max_iterations(MOST_OPERATIONS);
        if let Some(start) = start {
            evaluation.set_initial_value(start);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.place.registers.get(register.0)?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresMemory {
                    address,
                    size: size @ 1..=8,
                    ..
                } => {
                    let unused_bits = 64 - u32::from(size) * 8;
                    let word = self.read(address)? << unused_bits >> unused_bits;
                    evaluation.resume_with_memory(Value::Generic(word)).ok()?
                }
                EvaluationResult::RequiresRelocatedAddress(link) => evaluation
                    .resume_with_relocated_address(self.place.bias.wrapping_add(link))
                    .ok()?,
                _ => return None,
            };
        }
        match evaluation.result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}
