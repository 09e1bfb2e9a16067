//! What the slice asks about the rest of the program: who starts threads, and what can have run by then.

use std::cell::OnceCell;
use std::rc::Rc;

use program::code::InstrIx;
use program::values::{Base, Gpr, Place};
use program::{Attribution, FunctionRef, Pc, Program};

use super::criterion::Criterion;
use crate::before::calls::ProgramCalls;
use crate::before::{Before, Calls as _, Link, Position};
use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::threads::{ThreadModel, names};
use crate::view::FunctionView;

/// A failing point and what can have run before it.
type PointBefore<'p, 'a> = Before<Rc<ProgramCalls<'p, 'a>>>;

/// The program around the slice. Each answer is searched for at the first question.
pub(super) struct Around<'p, 'a> {
    program: &'p Program<'a>,
    threads: Rc<ThreadModel<'p, 'a>>,
    /// The stacks of the failing points, the failing instruction first.
    failing: Vec<Vec<Pc>>,
    others: Vec<Vec<Pc>>,
    calls: OnceCell<Rc<ProgramCalls<'p, 'a>>>,
    before: OnceCell<Vec<PointBefore<'p, 'a>>>,
}

/// Failing points that are asked one by one; a line has a handful of instructions, a hang some threads.
const MOST_POINTS: usize = 16;

impl<'p, 'a> Around<'p, 'a> {
    pub(super) fn new(program: &'p Program<'a>, criterion: &Criterion) -> Self {
        let stacks = criterion.starts.iter().map(|start| {
            let inside = |back: &Pc| Pc {
                addr: back.addr.offset(-1),
                ..*back
            };
            let calls = start.callers.iter().map(inside);
            own_part(program, std::iter::once(start.pc).chain(calls))
        });
        let others = criterion
            .others
            .iter()
            .map(|stack| own_part(program, stack.iter().copied()));
        Self {
            program,
            threads: Rc::new(ThreadModel::new(program)),
            failing: stacks.take(MOST_POINTS).collect(),
            others: others.filter(|stack| !stack.is_empty()).collect(),
            calls: OnceCell::new(),
            before: OnceCell::new(),
        }
    }

    /// The threads of the program.
    pub(super) fn threads(&self) -> &ThreadModel<'p, 'a> {
        &self.threads
    }

    fn calls(&self) -> &Rc<ProgramCalls<'p, 'a>> {
        self.calls
            .get_or_init(|| Rc::new(ProgramCalls::new(self.program, Rc::clone(&self.threads))))
    }

    /// Where a function's address, or that of a table that it stands in, is taken for whoever may call it.
    pub(super) fn taken_at(&self, function: FunctionRef) -> Vec<Pc> {
        let taken = self.calls().sites(function).into_iter();
        let taken = taken.filter(|site| site.link == Link::Taken);
        let places = taken.filter_map(|site| {
            let module = self.program.module(site.function.module)?;
            let flow = module.code().flow(site.function.function);
            Some(Pc {
                module: site.function.module,
                addr: flow.addr(InstrIx(site.position.instruction))?,
            })
        });
        places.collect()
    }

    /// Whether an instruction can have run before (or beside) the failure.
    pub(super) fn has_run(&self, pc: Pc) -> bool {
        let Some((function, position)) = self.position(pc) else {
            return true;
        };
        let before = self.before.get_or_init(|| {
            let points = self.failing.iter();
            let calls = self.calls();
            points.map(|stack| calls.before(stack, &self.others)).collect()
        });
        before.iter().any(|before| before.has_run_at(function, position))
    }

    fn position(&self, pc: Pc) -> Option<(FunctionRef, Position)> {
        let function = self.program.function_at(pc)?;
        let flow = self.program.module(pc.module)?.code().flow(function.function);
        let ix = flow.containing(pc.addr)?;
        let block = flow.block_of(ix)?.0 as usize;
        Some((
            function,
            Position {
                block,
                instruction: ix.0,
            },
        ))
    }

    /// The calls that create a thread which starts in a function, each with the register that holds, before
    /// the call, what the function gets as its first argument.
    pub(super) fn creators_of(&self, routine: FunctionRef) -> Vec<(Pc, Option<Gpr>)> {
        let sites = self.threads.creators_of(routine).into_iter();
        // The register is about what the library starts, which need not be the program's own routine.
        sites
            .map(|site| (site.at, site.argument.filter(|_| site.entry == Some(routine))))
            .collect()
    }
}

/// The part of a stack that is in the program's own modules. What a library called back is followed from
/// the callback's own callers. Where library code was compiled into the program and the stack begins in it,
/// the first function of the program itself tells more about who started all that.
fn own_part(program: &Program<'_>, stack: impl Iterator<Item = Pc>) -> Vec<Pc> {
    let mut own: Vec<Pc> = stack
        .take_while(|pc| {
            program
                .module(pc.module)
                .is_some_and(|module| !module.is_library())
        })
        .collect();
    let is_library = |pc: &Pc| {
        let function = program.function_at(*pc);
        let symbol = function.and_then(|function| program.symbol(function));
        symbol.is_some_and(names::is_library)
            && !matches!(program.statement_at(*pc), Attribution::Statement(_))
    };
    while own.len() > 1 && own.last().is_some_and(is_library) {
        own.pop();
    }
    own
}

/// A start routine's location at its entry, as its creator names it before the creating call.
pub(super) fn passed_to_thread(
    view: &FunctionView<'_, '_>,
    call: InstrIx,
    argument: Option<Gpr>,
    location: Location,
) -> Option<Location> {
    let argument = argument?;
    match location {
        Location::Register(register) if register.as_gpr() == Some(Gpr::RDI) => {
            Some(Location::Register(RegisterSet::gpr(argument)))
        }
        Location::Object {
            base: Base::Entry(Gpr::RDI),
            offset,
            width,
        } => {
            let passed = view.state_before(call)?.get(argument).plus(offset);
            Location::of(&Place::at(passed), Some(width))
        }
        _ => None,
    }
}
