//! The backward slice: which statements the failing one depends on, nearest first.
//!
//! The slice is an iterator over statements. It walks dependences between instructions, counts distance in
//! statements (a step inside one source line is free), and looks at a function, its callers or the writers
//! of a global only when their turn comes: σ statements cost what σ statements cost.

mod around;
mod callers;
mod calls;
mod context;
mod criterion;
mod globals;
mod pointers;
mod queue;
mod slots;
mod smashed;
mod stored;
mod walk;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use program::code::InstrIx;
use program::{Attribution, Pc, Program, Statement, StatementKey};

use crate::dependence::location::Location;
use crate::dependence::passed::Library;
use crate::plan::{Plan, Planner};
use crate::view::FunctionView;
use around::Around;
use context::{Context, Contexts};
use program::FunctionRef;
use queue::{Point, Queue, Queued, Task};

pub use criterion::{Criterion, Start};

/// Why a statement is in the slice: the last step on the shortest way from the failure to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Why {
    /// It produced a value that is used.
    Data,
    /// It decided that something ran.
    Control,
    /// It called the function, or passed it an argument.
    Call,
    /// It created the thread, or passed it its argument.
    Thread,
}

/// One statement of a slice.
#[derive(Clone, Debug)]
pub struct SliceStatement {
    /// Its number in the slice, from 0.
    pub number: u32,
    /// Statements between the failing one (0) and this.
    pub distance: u32,
    /// What put it there.
    pub why: Why,
    /// The number of the statement that depends on it; its own for the failing one.
    pub because_of: u32,
    /// It creates a thread on the way to the failure; what only prepared what the thread got does not.
    pub creates: bool,
    /// The statement.
    pub statement: Statement,
}

/// A backward slice, computed as it is read.
pub struct Slice<'p, 'a> {
    program: &'p Program<'a>,
    around: Around<'p, 'a>,
    library: Library<'p, 'a>,
    /// Whether the failure is about locks.
    locks: bool,
    views: HashMap<FunctionRef, Rc<FunctionView<'p, 'a>>>,
    contexts: Contexts,
    queue: Queue,
    done: HashSet<Task>,
    wanted: HashSet<(Point, Location)>,
    /// In how many contexts a function was entered for what it wrote behind a pointer that its caller was lent as well.
    lent: HashMap<(FunctionRef, Location), u32>,
    /// Which functions write behind a pointer that they get, as far as they are followed.
    writes_back: HashMap<(FunctionRef, Location, u32), bool>,
    numbers: HashMap<StatementKey, u32>,
    /// The instructions of each emitted statement that the slice went through.
    instructions: Vec<Vec<(FunctionRef, InstrIx)>>,
    /// The statements that create the threads that the slice went through the beginning of.
    creations: HashSet<StatementKey>,
}

/// Where the walk is, while a task is being worked on.
#[derive(Clone, Copy)]
struct Here {
    distance: u32,
    hops: u32,
    /// The statement that everything found now is needed by.
    from: u32,
    /// The step to the next statement was counted already, for this reason: it led across a call.
    paid: Option<Why>,
    /// The statement only moves a value within the frame: what made the value is no further away. Optimised
    /// code has few such statements, unoptimised code is full of them; distances should not tell the two apart.
    moving: bool,
    /// In a function that got a pointer to what is wanted.
    lent: bool,
}

impl Here {
    fn of(queued: &Queued, from: u32) -> Self {
        Self {
            distance: queued.distance,
            hops: queued.hops,
            from,
            paid: None,
            moving: queued.moving,
            lent: false,
        }
    }
}

impl<'p, 'a> Slice<'p, 'a> {
    /// The slice backwards from a criterion.
    #[must_use]
    pub fn new(program: &'p Program<'a>, criterion: &Criterion) -> Self {
        let mut slice = Self {
            program,
            around: Around::new(program, criterion),
            library: Library::new(program),
            locks: criterion.blocked,
            views: HashMap::new(),
            contexts: Contexts::default(),
            queue: Queue::default(),
            done: HashSet::new(),
            wanted: HashSet::new(),
            lent: HashMap::new(),
            writes_back: HashMap::new(),
            numbers: HashMap::new(),
            instructions: Vec::new(),
            creations: HashSet::new(),
        };
        slice.begin(criterion);
        slice
    }

    /// The instructions of an emitted statement that the slice went through so far.
    #[must_use]
    pub fn instructions(&self, number: u32) -> &[(FunctionRef, InstrIx)] {
        self.instructions.get(number as usize).map_or(&[], Vec::as_slice)
    }

    /// The library functions whose accesses count as those of the statements that call them.
    #[must_use]
    pub fn library_functions(&self) -> Vec<FunctionRef> {
        self.library.functions()
    }

    /// What to track for the first `sigma` statements: those emitted so far count, with the instructions that
    /// the slice went through.
    #[must_use]
    pub fn plan(&self, sigma: usize) -> Plan {
        let mut by_function: BTreeMap<FunctionRef, Vec<(u32, InstrIx)>> = BTreeMap::new();
        for (number, instructions) in (0..).zip(self.instructions.iter().take(sigma)) {
            for &(function, ix) in instructions {
                by_function.entry(function).or_default().push((number, ix));
            }
        }
        let mut planner = Planner::new(self.program, &self.library, self.around.threads(), self.locks);
        for (function, mut tracked) in by_function {
            tracked.sort_unstable();
            tracked.dedup();
            planner.add(function, &tracked);
        }
        planner.finish()
    }

    /// A function, looked at once.
    pub fn view(&mut self, id: FunctionRef) -> Option<Rc<FunctionView<'p, 'a>>> {
        if let Some(view) = self.views.get(&id) {
            return Some(Rc::clone(view));
        }
        let module = self.program.module(id.module)?;
        let view = Rc::new(FunctionView::new(module, id));
        self.views.insert(id, Rc::clone(&view));
        Some(view)
    }

    fn begin(&mut self, criterion: &Criterion) {
        for start in &criterion.starts {
            let context = self.context_of_stack(&start.callers);
            let Some(function) = self.program.function_at(start.pc) else {
                continue;
            };
            let Some(view) = self.view(function) else { continue };
            let Some(ix) = view.flow.containing(start.pc.addr) else {
                continue;
            };
            self.queue.push(Queued {
                distance: 0,
                hops: 0,
                line: Reverse(0),
                serial: 0,
                task: Task::Visit(
                    Point {
                        function,
                        context,
                        ix,
                    },
                    start.role,
                ),
                why: Why::Data,
                from: 0,
                moving: false,
            });
        }
    }

    fn context_of_stack(&mut self, callers: &[Pc]) -> Context {
        let mut context = Context::ANY;
        for caller in callers.iter().rev() {
            // Where the C library calls a start routine or a callback, whoever passed it is the caller.
            let site = self.call_before(*caller).map(|(function, call)| context::Site {
                function,
                call,
                context,
            });
            context = site.map_or(Context::ANY, |site| self.contexts.enter(site));
        }
        context
    }

    /// The call in the program that returns to an address.
    fn call_before(&mut self, back: Pc) -> Option<(FunctionRef, InstrIx)> {
        let inside = Pc {
            addr: back.addr.offset(-1),
            ..back
        };
        let function = self.program.function_at(inside)?;
        if self.program.module(function.module)?.is_library() {
            return None;
        }
        let view = self.view(function)?;
        Some((function, view.flow.containing(inside.addr)?))
    }

    /// Notes that an instruction is in the slice; gives the statement to emit, if it is a new one, and where
    /// further dependences come from.
    fn note(
        &mut self,
        view: &FunctionView<'p, 'a>,
        queued: &Queued,
        ix: InstrIx,
    ) -> (Option<SliceStatement>, Here) {
        let first = queued.distance == 0 && self.instructions.is_empty();
        let attribution = view.pc(ix).map(|pc| match first {
            true => failing_statement(self.program, pc),
            false => self.program.statement_at(pc),
        });
        let Some(Attribution::Statement(statement)) = attribution else {
            return (None, Here::of(queued, queued.from));
        };
        let next = u32::try_from(self.instructions.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(statement.key()).or_insert(next);
        let here = Here::of(queued, number);
        if number != next {
            if let Some(list) = self.instructions.get_mut(number as usize) {
                list.push((view.id, ix));
            }
            return (None, here);
        }
        self.instructions.push(vec![(view.id, ix)]);
        let emitted = SliceStatement {
            number,
            distance: queued.distance,
            why: queued.why,
            because_of: if next == 0 { 0 } else { queued.from },
            creates: self.creations.contains(&statement.key()),
            statement,
        };
        (Some(emitted), here)
    }
}

/// The statement of a failing instruction: its own, or the one that leads there if it has none.
#[must_use]
pub fn failing_statement(program: &Program<'_>, pc: Pc) -> Attribution {
    let own = program.statement_at(pc);
    let before = match own {
        Attribution::CompilerMade => program.with_line_before(pc),
        Attribution::Statement(_) | Attribution::Library => None,
    };
    match before.map(|before| program.statement_at(before)) {
        Some(Attribution::Statement(statement)) => Attribution::Statement(Statement { pc, ..statement }),
        _ => own,
    }
}

impl Iterator for Slice<'_, '_> {
    type Item = SliceStatement;

    fn next(&mut self) -> Option<SliceStatement> {
        while let Some(queued) = self.queue.pop() {
            if !self.done.insert(queued.task) {
                continue;
            }
            if let Some(found) = self.work_on(&queued) {
                return Some(found);
            }
        }
        None
    }
}
