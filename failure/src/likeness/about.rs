//! The variables that a crash is over.

use std::collections::BTreeSet;

use iced_x86::{Instruction, Mnemonic, OpKind};
use program::code::{AccessKind, FlowGraph, InstrIx};
use program::naming::{AccessName, Namer, RootKind, Step};
use program::values::{Base, Gpr, State, Value, Values};
use program::{Attribution, Module, Pc, Program, StatementKey};

use super::condition::Condition;
use crate::report::{Kind, Position};
use crate::resolve::Failure;

/// A variable by a name that is the same in every run and wherever it is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A global, or a part of one, or of what it points to.
    Global(String),
    /// A member of what a pointer points to: the pointer's type, and the way from there.
    Member {
        /// The pointer's type.
        of: String,
        /// The way.
        path: String,
    },
    /// What a function was passed.
    Parameter {
        /// The function, by its symbol.
        function: String,
        /// The register that it came in.
        register: usize,
    },
}

impl Variable {
    /// Whether there is one such variable in a process.
    pub(super) fn is_one_place(&self) -> bool {
        matches!(self, Self::Global(_))
    }
}

/// What the address of the failing access was loaded from; of a failing call, what it was passed, or, if it led nowhere, the table
/// that it took its target from: such a table is filled in at once, and each of its functions may be the first to be missed. Of an
/// assertion, what it asked for.
pub(super) fn variables(failure: &Failure, program: &Program<'_>) -> BTreeSet<Variable> {
    let thread = failure.threads.get(failure.failing);
    let frame = thread
        .zip(failure.failing_frame)
        .and_then(|(thread, index)| thread.frames.get(index));
    let Some((frame, pc)) = frame.and_then(|frame| Some((frame, frame.executing()?))) else {
        return BTreeSet::new();
    };
    if frame.line_only {
        return BTreeSet::new();
    }
    let found = || {
        let module = program.module(pc.module)?;
        let function = program.function_at(pc)?;
        let flow = module.code().flow(function.function);
        let constants = |slot| module.constant_pointer(slot);
        let values = Values::analyse(&flow, &constants);
        let at = flow.containing(pc.addr)?;
        let state = values.before(&flow, at, &constants)?;
        let failing = Failing {
            program,
            module,
            flow: &flow,
            values: &values,
            pc,
        };
        if matches!(failure.kind, Kind::Assertion | Kind::Abort) && frame.position == Position::Return {
            let condition = Condition {
                flow: &flow,
                values: &values,
                before: &|at| values.before(&flow, at, &constants),
            };
            let loads = condition.of_call(at);
            if !loads.is_empty() {
                let asked_for = loads.into_iter().filter_map(|load| failing.name(load));
                return Some(asked_for.filter_map(|name| failing.variable(&name)).collect());
            }
        }
        if frame.position == Position::Return && led_nowhere(failure) {
            return Some(failing.called(&state, at).into_iter().collect());
        }
        let registers = match frame.position {
            Position::Exact => Gpr::of_address(flow.instruction(at)?),
            Position::Return => failing.arguments(&state, at),
        };
        let variables = registers.into_iter().filter_map(|gpr| failing.made(&state, gpr));
        Some(variables.collect())
    };
    found().unwrap_or_default()
}

/// Whether the failing thread went where there is no code, straight from the failing frame.
fn led_nowhere(failure: &Failure) -> bool {
    let inner = || {
        let frames = &failure.threads.get(failure.failing)?.frames;
        frames.get(failure.failing_frame?.checked_sub(1)?)
    };
    inner().is_some_and(|frame| frame.pc.is_none() && frame.module.is_none())
}

/// The failing instruction and what is known around it.
struct Failing<'f, 'a> {
    program: &'f Program<'a>,
    module: &'f Module<'a>,
    flow: &'f FlowGraph,
    values: &'f Values,
    pc: Pc,
}

impl Failing<'_, '_> {
    /// The argument registers of a call that were set for it: those that its own statement loaded, or moved there what another one
    /// had loaded. Others may be left from anything.
    fn arguments(&self, state: &State, call: InstrIx) -> Vec<Gpr> {
        let statement = self.statement(self.pc);
        let is_of_it = |at: InstrIx| {
            let addr = self.flow.addr(at);
            let by = addr.and_then(|addr| self.statement(Pc { addr, ..self.pc }));
            statement.is_some() && by == statement
        };
        let of_the_call = |gpr: &Gpr| match state.get(*gpr) {
            Value::Sum(Base::Made(at, _), _) => {
                is_of_it(at) || self.set_before(*gpr, call).is_some_and(is_of_it)
            }
            _ => *gpr == Gpr::RDI,
        };
        Gpr::ARGUMENTS.into_iter().filter(of_the_call).collect()
    }

    /// What moves something into a register, straight before a call.
    fn set_before(&self, gpr: Gpr, call: InstrIx) -> Option<InstrIx> {
        let block = self.flow.block(self.flow.block_of(call)?)?;
        let mut before = block.indices().rev().skip_while(|at| *at >= call);
        before.find(|at| {
            let moves = |instruction: &Instruction| {
                instruction.mnemonic() == Mnemonic::Mov && Gpr::of(instruction.op0_register()) == Some(gpr)
            };
            self.flow.instruction(*at).is_some_and(moves)
        })
    }

    fn statement(&self, pc: Pc) -> Option<StatementKey> {
        match self.program.statement_at(pc) {
            Attribution::Statement(statement) => Some(statement.key()),
            Attribution::CompilerMade | Attribution::Library => None,
        }
    }

    /// What holds the pointer that a call goes through.
    fn called(&self, state: &State, at: InstrIx) -> Option<Variable> {
        let call = self.flow.instruction(at)?;
        let loaded = match call.op0_kind() {
            OpKind::Memory => at,
            OpKind::Register => match state.get(Gpr::of(call.op0_register())?) {
                Value::Sum(Base::Made(made, _), _) => made,
                _ => return None,
            },
            _ => return None,
        };
        let mut name = self.name(loaded)?;
        if matches!(
            name.steps.last(),
            Some(Step::Member(_) | Step::Inner(_) | Step::Element(_))
        ) {
            let _ = name.steps.pop();
        }
        self.variable(&name)
    }

    /// What a register's content was loaded from.
    fn made(&self, state: &State, gpr: Gpr) -> Option<Variable> {
        match state.get(gpr) {
            Value::Sum(Base::Made(at, _), _) => self.variable(&self.name(at)?),
            Value::Sum(Base::Entry(register), _) if register != Gpr::RSP => {
                let function = self.program.function_at(self.pc)?;
                Some(Variable::Parameter {
                    function: self.program.symbol(function)?.to_owned(),
                    register: register.index(),
                })
            }
            _ => None,
        }
    }

    /// The name of what an instruction reads.
    fn name(&self, at: InstrIx) -> Option<AccessName> {
        let mut accesses = self.values.accesses(at).iter();
        let read = accesses.find(|access| !access.implicit && access.kind != AccessKind::Write)?;
        Namer::new(self.module, self.flow, self.values).name(at, read)
    }

    fn variable(&self, name: &AccessName) -> Option<Variable> {
        let path: String = name.steps.iter().map(step).collect();
        match name.root.kind {
            RootKind::Global => Some(Variable::Global(format!("{}{path}", name.root.name))),
            RootKind::ThreadLocal => None,
            RootKind::Parameter | RootKind::Local => name.is_pointed.then(|| {
                let ty = name.root.ty.map(|ty| self.module.sources().ty(ty).name());
                Some(Variable::Member { of: ty?, path })
            })?,
        }
    }
}

/// A step as it is the same for every element.
fn step(step: &Step) -> String {
    match step {
        Step::Member(name) | Step::Inner(name) => format!(".{name}"),
        Step::Deref(_) => "->".to_owned(),
        Step::Element(_) => "[]".to_owned(),
    }
}
