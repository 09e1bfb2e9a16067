//! A program's calls, thread creations and taken addresses, found in its machine code when asked for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use program::code::{AddressTaken, Block, FlowGraph, InstrIx, ReferenceKind, Target};
use program::elf::ElfKind;
use program::{FunctionRef, LinkAddr, LinkRange, Module, Pc, Program};

use super::{Before, Calls, Frame, Link, Position, Root, Site};
use crate::cfg::{Cfg, with_exceptions};
use crate::threads::{Joins, ThreadModel, names};

/// How far a table can begin before the slot in it that holds a function, where no symbol tells.
const TABLE: i64 = 256;
/// Tables that point to tables are followed so far.
const MAX_TABLES: u32 = 4;

/// The calls of a program.
pub struct ProgramCalls<'p, 'a> {
    program: &'p Program<'a>,
    threads: Rc<ThreadModel<'p, 'a>>,
    graphs: RefCell<HashMap<FunctionRef, Arc<Cfg>>>,
    sites: RefCell<HashMap<FunctionRef, Vec<Site<FunctionRef>>>>,
}

impl<'p, 'a> ProgramCalls<'p, 'a> {
    /// The calls of a program with its threads.
    #[must_use]
    pub fn new(program: &'p Program<'a>, threads: Rc<ThreadModel<'p, 'a>>) -> Self {
        Self {
            program,
            threads,
            graphs: RefCell::default(),
            sites: RefCell::default(),
        }
    }

    /// What can have run before a failure: `failing` is the failing thread's stack, the failing instruction
    /// first, then the call instructions that had not returned; `others` are other threads' complete stacks.
    #[must_use]
    pub fn before(self: &Rc<Self>, failing: &[Pc], others: &[Vec<Pc>]) -> Before<Rc<Self>> {
        let frames = |stack: &[Pc]| -> Vec<Frame<FunctionRef>> {
            stack.iter().filter_map(|pc| self.frame(*pc)).collect()
        };
        let others: Vec<_> = others.iter().map(|stack| frames(stack)).collect();
        Before::new(Rc::clone(self), &frames(failing), &others)
    }

    fn frame(&self, pc: Pc) -> Option<Frame<FunctionRef>> {
        let function = self.program.function_at(pc)?;
        Some(Frame {
            function,
            position: self.position(function, pc.addr)?,
        })
    }

    /// Where an instruction stands in its function.
    #[must_use]
    pub fn position(&self, function: FunctionRef, addr: LinkAddr) -> Option<Position> {
        let flow = self
            .program
            .module(function.module)?
            .code()
            .flow(function.function);
        let ix = flow.containing(addr)?;
        Some(Position {
            block: flow.block_of(ix)?.0 as usize,
            instruction: ix.0,
        })
    }

    fn site(&self, function: FunctionRef, addr: LinkAddr, link: Link) -> Option<Site<FunctionRef>> {
        Some(Site {
            function,
            position: self.position(function, addr)?,
            link,
        })
    }

    fn find_sites(&self, function: FunctionRef) -> Vec<Site<FunctionRef>> {
        let Some(module) = self.program.module(function.module) else {
            return Vec::new();
        };
        let mut sites = Vec::new();
        for pc in self.program.callers_of(function) {
            let caller = self.program.function_at(pc);
            sites.extend(caller.and_then(|caller| self.site(caller, pc.addr, Link::Call)));
        }
        let creators = self.threads.creators_of(function);
        for creator in &creators {
            sites.extend(self.site(creator.creator, creator.at.addr, Link::Creation));
        }
        // What a library wraps a thread's routine in stands in a table that was made for that thread alone.
        if creators.iter().any(|site| site.is_wrapped_in(function)) {
            return sorted(sites);
        }
        let taken = module.address_taken(function.function);
        for (at, user) in self.users(function, module, taken, 0) {
            // What a creation call passes on is that creation, and no call from elsewhere.
            let passed = creators
                .iter()
                .any(|site| site.creator == user || leads(site.through.as_slice(), user, self));
            if !passed {
                let link = if self.runs_at_once(user, at) {
                    Link::Call
                } else {
                    Link::Taken
                };
                sites.extend(self.site(user, at, link));
            }
        }
        sorted(sites)
    }

    /// The instructions that take an address, of the function or of tables that lead to it, directly or through
    /// more tables in data.
    fn users(
        &self,
        of: FunctionRef,
        module: &Module<'_>,
        taken: Vec<AddressTaken>,
        depth: u32,
    ) -> Vec<(LinkAddr, FunctionRef)> {
        let in_module = |function| FunctionRef { function, ..of };
        let mut users = Vec::new();
        for taken in taken {
            match taken {
                AddressTaken::Code { function, at } => users.push((at, in_module(function))),
                AddressTaken::Data(slot) if depth < MAX_TABLES && !in_start_table(module, slot) => {
                    let object = table_around(module, slot);
                    let references = module.references_to_table(&object, of.function);
                    let reading = references
                        .iter()
                        .filter(|reference| reference.kind != ReferenceKind::Write);
                    users.extend(reading.map(|reference| (reference.at, in_module(reference.function))));
                    // The object may itself be known by a pointer in data: to its start, or, for a vtable,
                    // to its third slot.
                    let starts = [object.start, object.start.offset(16)];
                    for start in starts.into_iter().filter(|start| object.contains(start)) {
                        let taken = module.table_taken(start, of.function);
                        users.extend(self.users(of, module, taken, depth + 1));
                    }
                }
                AddressTaken::Data(_) => {}
            }
        }
        users
    }

    /// Whether the address is taken for the call that runs the program: `main` in `_start`, Rust's `main`
    /// in C's.
    fn runs_at_once(&self, function: FunctionRef, at: LinkAddr) -> bool {
        let Some(module) = self.program.module(function.module) else {
            return false;
        };
        let flow = module.code().flow(function.function);
        let block = flow
            .at(at)
            .and_then(|ix| flow.block_of(ix))
            .and_then(|block| flow.block(block));
        let callee = block.and_then(|block| module.code().target_name(block.exit.target()?));
        callee.is_some_and(|name| name.contains("libc_start_main") || name.contains("lang_start"))
    }
}

fn sorted<T: Ord>(mut sites: Vec<T>) -> Vec<T> {
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// Whether one of the calls is in a function.
fn leads(calls: &[Pc], function: FunctionRef, of: &ProgramCalls<'_, '_>) -> bool {
    calls
        .iter()
        .any(|&pc| of.program.function_at(pc) == Some(function))
}

/// The table that a slot is part of: the object that a symbol names, else what may come before the slot.
fn table_around(module: &Module<'_>, slot: LinkAddr) -> LinkRange {
    module
        .object_at(slot)
        .unwrap_or(slot.offset(-TABLE)..slot.offset(8))
}

/// Sections of functions that the loader calls.
const START: [&str; 2] = [".init_array", ".preinit_array"];
const END: [&str; 1] = [".fini_array"];

fn in_section(module: &Module<'_>, names: &[&str], addr: LinkAddr) -> bool {
    names
        .iter()
        .filter_map(|name| module.elf().section(name))
        .any(|(start, bytes)| start <= addr && addr.0 - start.0 < bytes.len() as u64)
}

fn in_start_table(module: &Module<'_>, slot: LinkAddr) -> bool {
    in_section(module, &START, slot) || in_section(module, &END, slot)
}

impl Calls for ProgramCalls<'_, '_> {
    type Function = FunctionRef;

    fn cfg(&self, function: FunctionRef) -> Option<Arc<Cfg>> {
        if let Some(graph) = self.graphs.borrow().get(&function) {
            return Some(Arc::clone(graph));
        }
        let flow = self
            .program
            .module(function.module)?
            .code()
            .flow(function.function);
        let graph = Arc::new(with_exceptions(&flow));
        self.graphs.borrow_mut().insert(function, Arc::clone(&graph));
        Some(graph)
    }

    fn sites(&self, function: FunctionRef) -> Vec<Site<FunctionRef>> {
        if let Some(known) = self.sites.borrow().get(&function) {
            return known.clone();
        }
        let found = self.find_sites(function);
        self.sites.borrow_mut().insert(function, found.clone());
        found
    }

    fn root(&self, id: FunctionRef) -> Option<Root> {
        let module = self.program.module(id.module)?;
        let function = module.code().functions().get(id.function)?;
        let executable = module.elf().interp().is_some() || module.elf().kind() == ElfKind::Executable;
        if executable && function.symbol == Some("main") {
            return Some(Root::Main);
        }
        if executable && function.entry == module.elf().entry() || function.symbol == Some("_init") {
            return Some(Root::Start);
        }
        if function.symbol == Some("_fini") {
            return Some(Root::End);
        }
        let holders = module.code().pointers_to(function.entry);
        let held_in = |names: &[&str]| holders.iter().any(|slot| in_section(module, names, *slot));
        if held_in(&START) {
            return Some(Root::Start);
        }
        if held_in(&END) {
            return Some(Root::End);
        }
        let exported = function
            .symbol
            .is_some_and(|symbol| module.exported(symbol).is_some());
        (!executable && exported).then_some(Root::Outside)
    }

    fn callees(&self, function: FunctionRef) -> Vec<(Position, FunctionRef)> {
        let Some(module) = self.program.module(function.module) else {
            return Vec::new();
        };
        let flow = module.code().flow(function.function);
        let calls = flow.calls().filter_map(|(ix, target, _)| {
            let Target::Function(callee) = target else {
                return None;
            };
            let callee = FunctionRef {
                function: callee,
                ..function
            };
            let own = !self.program.symbol(callee).is_some_and(names::is_library);
            let position = Position {
                block: flow.block_of(ix)?.0 as usize,
                instruction: ix.0,
            };
            own.then_some((position, callee))
        });
        calls.collect()
    }

    fn joins(&self, site: &Site<FunctionRef>) -> Joins {
        let at = InstrIx(site.position.instruction);
        match site.link {
            Link::Creation => self.threads.joins_of(site.function, at),
            Link::Call => self.threads.joins_after(site.function, at),
            Link::Taken => Joins::default(),
        }
    }

    fn awaits_all(&self, function: FunctionRef) -> bool {
        self.program.symbol(function).is_some_and(names::awaits_all)
    }

    fn tests_alike(&self, function: FunctionRef, one: usize, other: usize) -> bool {
        let Some(module) = self.program.module(function.module) else {
            return false;
        };
        let flow = module.code().flow(function.function);
        let tested = |block: usize| flow.blocks.get(block).and_then(|block| tested(&flow, block));
        match (tested(one), tested(other)) {
            (Some(one), Some(other)) => one.iter().any(|operand| other.contains(operand)),
            _ => false,
        }
    }
}

/// What a block's conditional jump depends on: the registers and the memory that the last comparison names.
fn tested(flow: &FlowGraph, block: &Block) -> Option<Vec<(Register, Register, u64)>> {
    let compares =
        |instruction: &&Instruction| matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let last = flow.instructions_of(block).iter().rev().find(compares)?;
    let operands = (0..last.op_count()).filter_map(|operand| match last.op_kind(operand) {
        OpKind::Register => Some((last.op_register(operand).full_register(), Register::None, 0)),
        OpKind::Memory => Some((
            last.memory_base().full_register(),
            last.memory_index().full_register(),
            last.memory_displacement64(),
        )),
        _ => None,
    });
    Some(operands.collect())
}
