//! One instruction's effect on the state.

use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::state::{Base, Gpr, State, Value};
use super::{Constants, Place};
use crate::code::InstrIx;
use crate::code::access::AccessReader;

/// Applies instructions to a state.
pub(super) struct Stepper<'c> {
    constants: Constants<'c>,
    reader: AccessReader,
    factory: InstructionInfoFactory,
}

impl<'c> Stepper<'c> {
    pub(super) fn new(constants: Constants<'c>) -> Self {
        Self {
            constants,
            reader: AccessReader::default(),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The explicit memory operand, if there is one.
    fn place(&mut self, instr: &Instruction, state: &State) -> Option<Place> {
        let access = self
            .reader
            .read(instr)
            .iter()
            .find(|access| !access.stack_engine())?;
        Some(Place::of(access, state))
    }

    pub(super) fn step(&mut self, instr: &Instruction, ix: InstrIx, state: &mut State) {
        let handled = match instr.mnemonic() {
            Mnemonic::Xor | Mnemonic::Sub if same_register_twice(instr) => zero(instr, state),
            Mnemonic::Mov => self.mov(instr, ix, state),
            Mnemonic::Lea => lea(instr, ix, state),
            Mnemonic::Push => push(instr, state),
            Mnemonic::Pop => pop(instr, ix, state),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => shift(instr, state),
            Mnemonic::Leave => leave(ix, state),
            Mnemonic::Call => {
                call(ix, state);
                true
            }
            Mnemonic::Endbr64 | Mnemonic::Nop => true,
            _ => false,
        };
        if !handled {
            self.anything(instr, ix, state);
        }
    }

    fn mov(&mut self, instr: &Instruction, ix: InstrIx, state: &mut State) -> bool {
        let width = operand_width(instr);
        let value = match instr.op1_kind() {
            OpKind::Register => match Gpr::of(instr.op1_register()) {
                Some(source) if width == 8 => state.get(source),
                Some(source) => narrow(state.get(source), width),
                None => return false,
            },
            OpKind::Memory => {
                let Some(place) = self.place(instr, state) else {
                    return false;
                };
                let fixed = place
                    .static_addr()
                    .filter(|_| place.index.is_none() && width == 8);
                if let Some(pointer) = fixed.and_then(|slot| (self.constants)(slot)) {
                    return set_register(instr, Value::Const(pointer.0), state);
                }
                let known = place.index.is_none().then(|| place.stack_offset()).flatten();
                match known.and_then(|offset| state.slot(offset, width)) {
                    Some(value) if width == 8 => value,
                    Some(value @ Value::Const(_)) => narrow(value, width),
                    _ => Value::Unknown,
                }
            }
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate32to64 => narrow(Value::Const(instr.immediate(1)), width),
            _ => return false,
        };
        match instr.op0_kind() {
            OpKind::Register => {
                let Some(target) = Gpr::of(instr.op0_register()) else {
                    return false;
                };
                let known = value != Value::Unknown && width >= 4;
                state.set(
                    target,
                    if known {
                        value
                    } else {
                        Value::Sum(Base::Made(ix, target), 0)
                    },
                );
                true
            }
            OpKind::Memory => {
                let Some(place) = self.place(instr, state) else {
                    return false;
                };
                if let Some(offset) = value.stack_offset()
                    && place.stack_offset().is_none()
                {
                    state.escape(offset);
                }
                match place.stack_offset() {
                    Some(offset) if place.index.is_none() => state.store(offset, width, value),
                    _ => state.forget_escaped(),
                }
                true
            }
            _ => false,
        }
    }

    /// Any other instruction: whatever it writes holds something new.
    fn anything(&mut self, instr: &Instruction, ix: InstrIx, state: &mut State) {
        let info = self.factory.info(instr);
        let writes = |access| {
            !matches!(
                access,
                OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            )
        };
        for memory in info.used_memory().iter().filter(|memory| writes(memory.access())) {
            let base =
                Gpr::of(memory.base()).map(|gpr| state.get(gpr).plus(memory.displacement().cast_signed()));
            let offset = base
                .and_then(Value::stack_offset)
                .filter(|_| memory.index() == Register::None);
            match offset {
                Some(offset) => {
                    let width = u32::try_from(memory.memory_size().size()).unwrap_or(64);
                    state.forget(offset, width.max(1));
                }
                None => state.forget_escaped(),
            }
        }
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            if let Some(gpr) = Gpr::of(used.register()) {
                let moved = gpr == Gpr::RSP && instr.flow_control() == FlowControl::Return;
                if !moved {
                    state.set(gpr, Value::Sum(Base::Made(ix, gpr), 0));
                }
            }
        }
        if instr.code() == Code::Syscall {
            state.forget_escaped();
        }
    }
}

fn set_register(instr: &Instruction, value: Value, state: &mut State) -> bool {
    Gpr::of(instr.op0_register()).is_some_and(|target| {
        state.set(target, value);
        true
    })
}

/// A copy of the low `width` bytes: only numbers survive, and 32-bit moves clear the upper half.
fn narrow(value: Value, width: u32) -> Value {
    match (value, width) {
        (value, 8) => value,
        (Value::Const(number), 4) => Value::Const(number & 0xffff_ffff),
        _ => Value::Unknown,
    }
}

fn operand_width(instr: &Instruction) -> u32 {
    let register = (0..2)
        .find(|&op| instr.op_kind(op) == OpKind::Register)
        .map(|op| instr.op_register(op));
    let bytes = match register {
        Some(register) => register.size(),
        None => instr.memory_size().size(),
    };
    u32::try_from(bytes).unwrap_or(0)
}

/// The address that `lea` computes is no access, so its operand is read here.
fn lea(instr: &Instruction, ix: InstrIx, state: &mut State) -> bool {
    let Some(target) = Gpr::of(instr.op0_register()) else {
        return false;
    };
    let displacement = instr.memory_displacement64();
    let base = match instr.memory_base() {
        _ if instr.is_ip_rel_memory_operand() => Value::Const(displacement),
        Register::None => Value::Const(displacement),
        base => Gpr::of(base).map_or(Value::Unknown, |gpr| {
            state.get(gpr).plus(displacement.cast_signed())
        }),
    };
    let known = match Gpr::of(instr.memory_index()).map(|gpr| state.get(gpr)) {
        None => base,
        Some(Value::Const(number)) => {
            let scale = u64::from(instr.memory_index_scale());
            base.plus(number.wrapping_mul(scale).cast_signed())
        }
        Some(_) => {
            // An element of a local array: its address goes where the index leads.
            if let Some(offset) = base.stack_offset() {
                state.escape(offset);
            }
            Value::Unknown
        }
    };
    let whole = instr.op0_register().size() == 8;
    let made = Value::Sum(Base::Made(ix, target), 0);
    state.set(
        target,
        if whole && known != Value::Unknown {
            known
        } else {
            made
        },
    );
    true
}

fn push(instr: &Instruction, state: &mut State) -> bool {
    let value = match instr.op0_kind() {
        OpKind::Register => match Gpr::of(instr.op0_register()) {
            Some(gpr) => state.get(gpr),
            None => return false,
        },
        OpKind::Memory => Value::Unknown,
        _ => Value::Const(instr.immediate(0)),
    };
    let top = state.get(Gpr::RSP).plus(-8);
    state.set(Gpr::RSP, top);
    if let Some(offset) = top.stack_offset() {
        state.store(offset, 8, value);
    }
    true
}

fn pop(instr: &Instruction, ix: InstrIx, state: &mut State) -> bool {
    let top = state.get(Gpr::RSP);
    let Some(target) = Gpr::of(instr.op0_register()) else {
        return false;
    };
    let value = top.stack_offset().and_then(|offset| state.slot(offset, 8));
    state.set(Gpr::RSP, top.plus(8));
    state.set(target, value.unwrap_or(Value::Sum(Base::Made(ix, target), 0)));
    true
}

fn shift(instr: &Instruction, state: &mut State) -> bool {
    let Some(target) = Gpr::of(instr.op0_register()) else {
        return false;
    };
    if instr.op0_kind() != OpKind::Register || instr.op0_register().size() != 8 {
        return false;
    }
    let by = match instr.op1_kind() {
        _ if instr.op_count() == 1 => 1,
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => instr.immediate(1).cast_signed(),
        OpKind::Register => match Gpr::of(instr.op1_register()).map(|gpr| state.get(gpr)) {
            Some(Value::Const(number)) => number.cast_signed(),
            _ => return false,
        },
        _ => return false,
    };
    let down = matches!(instr.mnemonic(), Mnemonic::Sub | Mnemonic::Dec);
    let value = state.get(target).plus(if down { by.wrapping_neg() } else { by });
    state.set(target, value);
    value != Value::Unknown
}

fn same_register_twice(instr: &Instruction) -> bool {
    instr.op_count() == 2
        && instr.op0_kind() == OpKind::Register
        && instr.op1_kind() == OpKind::Register
        && instr.op0_register() == instr.op1_register()
}

fn zero(instr: &Instruction, state: &mut State) -> bool {
    match Gpr::of(instr.op0_register()) {
        Some(target) if instr.op0_register().size() >= 4 => {
            state.set(target, Value::Const(0));
            true
        }
        _ => false,
    }
}

fn leave(ix: InstrIx, state: &mut State) -> bool {
    let frame = state.get(Gpr::RBP);
    let saved = frame.stack_offset().and_then(|offset| state.slot(offset, 8));
    state.set(Gpr::RSP, frame.plus(8));
    state.set(Gpr::RBP, saved.unwrap_or(Value::Sum(Base::Made(ix, Gpr::RBP), 0)));
    true
}

/// A call keeps the registers that the calling convention says it keeps, and may write to whatever escaped.
fn call(ix: InstrIx, state: &mut State) {
    for gpr in Gpr::ARGUMENTS {
        if let Some(offset) = state.get(gpr).stack_offset() {
            state.escape(offset);
        }
    }
    state.forget_escaped();
    for number in 0..16 {
        let Some(gpr) = Gpr::from_dwarf(number) else {
            continue;
        };
        if !gpr.survives_calls() {
            state.set(gpr, Value::Sum(Base::Made(ix, gpr), 0));
        }
    }
}
