//! Functions with the values of their registers, worked out once each.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use iced_x86::{Instruction, Mnemonic, OpKind};
use program::code::{Exit, FlowGraph, InstrIx, Target};
use program::values::{Gpr, State, Value, Values};
use program::{FunctionRef, LinkAddr, Module, Pc, Program};

/// A function that was looked at.
pub(crate) struct Looked<'p, 'a> {
    pub id: FunctionRef,
    pub flow: Arc<FlowGraph>,
    values: OnceCell<Values>,
    pub module: &'p Module<'a>,
    own_code: OnceCell<bool>,
}

impl Looked<'_, '_> {
    /// Whether it holds code that the program's people wrote, found out once.
    pub(crate) fn own_code(&self, find_out: impl FnOnce() -> bool) -> bool {
        *self.own_code.get_or_init(find_out)
    }

    /// What is known just before an instruction.
    pub(crate) fn before(&self, ix: InstrIx) -> Option<State> {
        self.values()
            .before(&self.flow, ix, &|slot| self.module.constant_pointer(slot))
    }

    /// The values of its registers. Most functions are looked at for their calls alone.
    pub(crate) fn values(&self) -> &Values {
        self.values
            .get_or_init(|| Values::analyse(&self.flow, &|slot| self.module.constant_pointer(slot)))
    }

    /// What a register holds just before an instruction.
    pub(crate) fn value(&self, ix: InstrIx, gpr: Gpr) -> Value {
        self.before(ix).map_or(Value::Unknown, |state| state.get(gpr))
    }

    /// The function that begins at an address of this module.
    pub(crate) fn function_starting_at(&self, addr: LinkAddr) -> Option<FunctionRef> {
        let function = self.module.code().functions().starting_at(addr)?;
        Some(FunctionRef {
            module: self.id.module,
            function,
        })
    }

    /// The functions that are called and come back, in the order of the calls, also through registers that
    /// hold a known address.
    pub(crate) fn callees(&self) -> Vec<(InstrIx, FunctionRef)> {
        let function = |function| FunctionRef {
            module: self.id.module,
            function,
        };
        let calls = self.flow.calls().filter_map(|(ix, target, exit)| {
            let callee = match target {
                _ if matches!(exit, Exit::NoReturnCall(_)) => None,
                Target::Function(id) => Some(function(id)),
                Target::Indirect => self.through_register(ix),
                Target::Import(_) | Target::Unknown(_) => None,
            };
            Some((ix, callee?))
        });
        calls.collect()
    }

    /// Whom `call *%rax` calls, where the register holds a known address.
    pub(crate) fn through_register(&self, call: InstrIx) -> Option<FunctionRef> {
        let instruction = self.flow.instruction(call)?;
        if instruction.op0_kind() != OpKind::Register {
            return None;
        }
        match self.value(call, Gpr::of(instruction.op0_register())?) {
            Value::Const(addr) => self.function_starting_at(LinkAddr(addr)),
            _ => None,
        }
    }

    /// Addresses that instructions make, with the instruction, in the function's order.
    pub(crate) fn addresses(&self) -> impl DoubleEndedIterator<Item = (InstrIx, LinkAddr)> + '_ {
        let numbered = self.flow.instructions.iter().enumerate();
        numbered.filter_map(|(at, instruction)| {
            let address = address_made(instruction).or_else(|| {
                let slot = loaded_slot(instruction)?;
                self.module.constant_pointer(slot)
            })?;
            Some((InstrIx(u32::try_from(at).ok()?), address))
        })
    }
}

/// The address that `lea` or a move of a constant makes.
fn address_made(instruction: &Instruction) -> Option<LinkAddr> {
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
            Some(LinkAddr(instruction.ip_rel_memory_address()))
        }
        Mnemonic::Mov | Mnemonic::Push => {
            let operand = instruction.op_count().checked_sub(1)?;
            instruction
                .try_immediate(operand)
                .ok()
                .filter(|&number| number > 0xffff)
                .map(LinkAddr)
        }
        _ => None,
    }
}

fn loaded_slot(instruction: &Instruction) -> Option<LinkAddr> {
    let loads = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Memory;
    (loads && instruction.is_ip_rel_memory_operand()).then(|| LinkAddr(instruction.ip_rel_memory_address()))
}

/// Looks at functions and keeps what it saw.
pub(crate) struct Look<'p, 'a> {
    pub program: &'p Program<'a>,
    kept: RefCell<HashMap<FunctionRef, Rc<Looked<'p, 'a>>>>,
}

impl<'p, 'a> Look<'p, 'a> {
    pub(crate) fn new(program: &'p Program<'a>) -> Self {
        Self {
            program,
            kept: RefCell::default(),
        }
    }

    pub(crate) fn at(&self, id: FunctionRef) -> Option<Rc<Looked<'p, 'a>>> {
        if let Some(kept) = self.kept.borrow().get(&id) {
            return Some(Rc::clone(kept));
        }
        let module = self.program.module(id.module)?;
        let flow = module.code().flow(id.function);
        let looked = Rc::new(Looked {
            id,
            flow,
            values: OnceCell::new(),
            module,
            own_code: OnceCell::new(),
        });
        self.kept.borrow_mut().insert(id, Rc::clone(&looked));
        Some(looked)
    }

    /// The function around an instruction, and the instruction in it.
    pub(crate) fn around(&self, pc: Pc) -> Option<(Rc<Looked<'p, 'a>>, InstrIx)> {
        let looked = self.at(self.program.function_at(pc)?)?;
        let ix = looked.flow.at(pc.addr)?;
        Some((looked, ix))
    }

    /// Whom a call through a register calls, where the register holds a known address.
    pub(crate) fn through_register(&self, function: FunctionRef, call: InstrIx) -> Option<FunctionRef> {
        let module = self.program.module(function.module)?;
        let flow = module.code().flow(function.function);
        let register = flow.instruction(call)?.op0_kind() == OpKind::Register;
        register.then(|| self.at(function)?.through_register(call))?
    }

    /// A function's symbol.
    pub(crate) fn symbol(&self, id: FunctionRef) -> Option<&'a str> {
        self.program.symbol(id)
    }
}
