//! Where a variable is: DWARF expressions, as far as they can be said without a running process.

use gimli::{AttributeValue, Expression, LocListIter, Operation};

use super::budget::Budget;
use super::functions::Function;
use super::units::{Entry, Reader, Unit, Value};
use super::{Piece, Sources, VarLocation};
use crate::addr::LinkAddr;

/// Compilers write a handful of operations; a longer expression is not one that could be shown anyway.
const MOST_OPERATIONS: usize = 256;
const DEEPEST_STACK: usize = 16;

/// Entries of location lists that one question about one address may look at.
pub(super) const MOST_ENTRIES: usize = 1 << 20;

/// A value on the expression's stack.
#[derive(Clone, Debug, PartialEq)]
enum Symbolic {
    Constant(u64),
    Address(u64),
    Register(u16, i64),
    Cfa(i64),
    Tls(u64),
    /// What is stored at another value, plus an offset.
    Loaded(Box<Symbolic>, i64),
    Unknown,
}

impl Symbolic {
    fn plus(self, offset: i64) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value.wrapping_add_signed(offset)),
            Self::Address(addr) => Self::Address(addr.wrapping_add_signed(offset)),
            Self::Register(register, known) => Self::Register(register, known.wrapping_add(offset)),
            Self::Cfa(known) => Self::Cfa(known.wrapping_add(offset)),
            Self::Loaded(from, known) => Self::Loaded(from, known.wrapping_add(offset)),
            Self::Tls(known) => Self::Tls(known.wrapping_add_signed(offset)),
            Self::Unknown => Self::Unknown,
        }
    }

    /// A variable stored at this address.
    fn into_memory(self) -> VarLocation {
        match self {
            Self::Address(addr) | Self::Constant(addr) => VarLocation::Address(LinkAddr(addr)),
            Self::Register(register, offset) => VarLocation::RegisterOffset { register, offset },
            Self::Cfa(offset) => VarLocation::Cfa(offset),
            Self::Tls(offset) => VarLocation::Tls(offset),
            Self::Loaded(from, offset) => VarLocation::Indirect {
                pointer: Box::new(from.into_memory()),
                offset,
            },
            Self::Unknown => VarLocation::Value,
        }
    }

    /// A variable that is this value and has no place of its own.
    fn into_value(self) -> VarLocation {
        match self {
            Self::Constant(value) | Self::Address(value) => VarLocation::Constant(value),
            Self::Register(register, offset) => VarLocation::RegisterValue { register, offset },
            _ => VarLocation::Value,
        }
    }
}

/// The place an expression runs in.
#[derive(Clone, Copy)]
pub(super) struct Context<'s, 'a> {
    pub unit: &'s Unit<'a>,
    /// `None` outside functions.
    pub function: Option<&'s Function>,
    /// The address, and how many entries of location lists may be looked at for it.
    pub at: Option<(LinkAddr, &'s Budget)>,
}

impl<'s, 'a> Context<'s, 'a> {
    /// Where only what holds at every address can be said.
    pub fn fixed(unit: &'s Unit<'a>) -> Self {
        Self {
            unit,
            function: None,
            at: None,
        }
    }
}

impl<'a> Sources<'a> {
    /// Where an entry with `DW_AT_location` or `DW_AT_const_value` has its value.
    pub(super) fn location(&self, entry: &Entry<'a>, context: &Context<'_, 'a>) -> Option<VarLocation> {
        if let Some(value) = entry.attr_value(gimli::DW_AT_location) {
            let expression = self.expression_at(&value, context);
            return Some(expression.map_or(VarLocation::Unavailable, |found| self.evaluate(found, context)));
        }
        entry
            .attr_value(gimli::DW_AT_const_value)
            .map(|value| match value {
                AttributeValue::Block(bytes) => constant(bytes),
                value => match (value.udata_value(), value.sdata_value()) {
                    (Some(value), _) => VarLocation::Constant(value),
                    (None, Some(value)) => VarLocation::Constant(value.cast_unsigned()),
                    (None, None) => VarLocation::Value,
                },
            })
    }

    /// The location list that an attribute refers to.
    fn locations(&self, unit: &Unit<'a>, value: &Value<'a>) -> Option<LocListIter<Reader<'a>>> {
        let dwarf = self.dwarf_of(unit);
        if !std::ptr::eq(dwarf, &self.dwarf) {
            return dwarf.attr_locations(&unit.gimli, *value).ok()?;
        }
        let (lists, encoding) = (self.location_lists(), unit.gimli.encoding());
        let offset = match *value {
            AttributeValue::LocationListsRef(offset) => offset,
            AttributeValue::DebugLocListsIndex(index) => {
                lists.get_offset(encoding, unit.gimli.loclists_base, index).ok()?
            }
            _ => return None,
        };
        let (low, addr_base) = (unit.gimli.low_pc, unit.gimli.addr_base);
        lists
            .locations(offset, encoding, low, &dwarf.debug_addr, addr_base)
            .ok()
    }

    /// The expression itself, or the one of a location list that holds at the address.
    fn expression_at(&self, value: &Value<'a>, context: &Context<'_, 'a>) -> Option<Expression<Reader<'a>>> {
        match value {
            AttributeValue::Exprloc(expression) => Some(*expression),
            // Until version 3 an expression was a plain block; some producers still write one.
            AttributeValue::Block(bytes) => Some(Expression(*bytes)),
            value => {
                let (LinkAddr(addr), entries) = context.at?;
                let mut list = self.locations(context.unit, value)?;
                while entries.spend(1)
                    && let Ok(Some(entry)) = list.next()
                {
                    if (entry.range.begin..entry.range.end).contains(&addr) {
                        return Some(entry.data);
                    }
                }
                None
            }
        }
    }

    fn evaluate(&self, expression: Expression<Reader<'a>>, context: &Context<'_, 'a>) -> VarLocation {
        if expression.0.is_empty() {
            return VarLocation::Unavailable;
        }
        let mut machine = Machine::default();
        let mut operations = expression.operations(context.unit.gimli.encoding());
        for _ in 0..MOST_OPERATIONS {
            match operations.next() {
                Ok(Some(operation)) => self.step(operation, &mut machine, context),
                Ok(None) => return machine.result(),
                Err(_) => return VarLocation::Unavailable,
            }
        }
        VarLocation::Value
    }

    fn step(&self, operation: Operation<Reader<'a>>, machine: &mut Machine, context: &Context<'_, 'a>) {
        let address = |index| {
            self.dwarf_of(context.unit)
                .address(&context.unit.gimli, index)
                .ok()
        };
        match operation {
            Operation::Register { register } => machine.finish(VarLocation::Register(register.0)),
            Operation::ImplicitValue { data } => machine.finish(constant(data)),
            Operation::ImplicitPointer { .. } => machine.finish(VarLocation::Value),
            Operation::StackValue => {
                let value = machine.pop().into_value();
                machine.finish(value);
            }
            Operation::Piece {
                size_in_bits,
                bit_offset,
            } => machine.piece(size_in_bits, bit_offset),
            Operation::Address { address } => machine.push(Symbolic::Address(address)),
            Operation::AddressIndex { index } => {
                machine.push(address(index).map_or(Symbolic::Unknown, Symbolic::Address));
            }
            Operation::ConstantIndex { index } => {
                machine.push(address(index).map_or(Symbolic::Unknown, Symbolic::Constant));
            }
            Operation::UnsignedConstant { value } => machine.push(Symbolic::Constant(value)),
            Operation::SignedConstant { value } => machine.push(Symbolic::Constant(value.cast_unsigned())),
            Operation::RegisterOffset {
                register,
                offset,
                base_type,
            } if base_type.0 == 0 => {
                machine.push(Symbolic::Register(register.0, offset));
            }
            Operation::CallFrameCFA => machine.push(Symbolic::Cfa(0)),
            Operation::FrameOffset { offset } => machine.push(self.frame_base(context).plus(offset)),
            Operation::PlusConstant { value } => {
                let top = machine.pop();
                machine.push(top.plus(value.cast_signed()));
            }
            Operation::Plus | Operation::Minus => {
                let (right, left) = (machine.pop(), machine.pop());
                machine.push(match (left, right, operation) {
                    (left, Symbolic::Constant(value), Operation::Plus) => left.plus(value.cast_signed()),
                    (Symbolic::Constant(value), right, Operation::Plus) => right.plus(value.cast_signed()),
                    (left, Symbolic::Constant(value), _) => left.plus(value.cast_signed().wrapping_neg()),
                    _ => Symbolic::Unknown,
                });
            }
            Operation::Deref {
                base_type,
                size,
                space: false,
            } if base_type.0 == 0 && size == 8 => {
                let from = machine.pop();
                machine.push(match from {
                    Symbolic::Unknown => Symbolic::Unknown,
                    from => Symbolic::Loaded(Box::new(from), 0),
                });
            }
            Operation::TLS => {
                let offset = machine.pop();
                machine.push(match offset {
                    Symbolic::Constant(offset) | Symbolic::Address(offset) => Symbolic::Tls(offset),
                    _ => Symbolic::Unknown,
                });
            }
            Operation::Nop => {}
            _ => machine.give_up(),
        }
    }

    fn frame_base(&self, context: &Context<'_, 'a>) -> Symbolic {
        let base = || {
            let entry = context.unit.entry(context.function?.die)?;
            let value = entry.attr_value(gimli::DW_AT_frame_base)?;
            // Without the function, so that a frame base that needs a frame base ends here.
            let context = Context {
                function: None,
                ..*context
            };
            Some(self.evaluate(self.expression_at(&value, &context)?, &context))
        };
        match base() {
            Some(VarLocation::Register(register)) => Symbolic::Register(register, 0),
            Some(VarLocation::RegisterOffset { register, offset }) => Symbolic::Register(register, offset),
            Some(VarLocation::Cfa(offset)) => Symbolic::Cfa(offset),
            _ => Symbolic::Unknown,
        }
    }
}

fn constant(bytes: Reader<'_>) -> VarLocation {
    let bytes = bytes.slice();
    let mut value = [0; 8];
    match value.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            VarLocation::Constant(u64::from_le_bytes(value))
        }
        None => VarLocation::Value,
    }
}

#[derive(Default)]
struct Machine {
    stack: Vec<Symbolic>,
    /// The location of the piece at hand, if an operation ended it.
    done: Option<VarLocation>,
    pieces: Vec<Piece>,
    covered: u64,
    lost: bool,
}

impl Machine {
    fn push(&mut self, value: Symbolic) {
        if self.stack.len() < DEEPEST_STACK {
            self.stack.push(value);
        } else {
            self.lost = true;
        }
    }

    fn pop(&mut self) -> Symbolic {
        self.stack.pop().unwrap_or(Symbolic::Unknown)
    }

    fn finish(&mut self, location: VarLocation) {
        self.done = Some(location);
    }

    /// After an operation that is not followed, nothing on the stack means anything.
    fn give_up(&mut self) {
        self.lost = true;
    }

    fn take(&mut self) -> VarLocation {
        let lost = std::mem::take(&mut self.lost);
        let top = self.stack.pop();
        self.stack.clear();
        match (self.done.take(), top) {
            (Some(_) | None, _) if lost => VarLocation::Value,
            (Some(done), _) => done,
            (None, Some(top)) => top.into_memory(),
            (None, None) => VarLocation::Unavailable,
        }
    }

    fn piece(&mut self, size_in_bits: u64, bit_offset: Option<u64>) {
        let location = match bit_offset {
            Some(1..) => {
                self.take();
                VarLocation::Value
            }
            _ => self.take(),
        };
        let offset = self.covered;
        self.covered = self.covered.saturating_add(size_in_bits);
        self.pieces.push(Piece {
            offset: offset / 8,
            size: size_in_bits.div_ceil(8),
            location,
        });
    }

    fn result(mut self) -> VarLocation {
        if self.pieces.is_empty() {
            self.take()
        } else {
            VarLocation::Pieces(self.pieces)
        }
    }
}
