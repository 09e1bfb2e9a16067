//! The state of the value analysis: registers, stack slots, and how two states join.

use std::collections::BTreeMap;

use iced_x86::{Instruction, OpKind, Register};

use crate::code::InstrIx;

/// A 64-bit general-purpose register, by its hardware number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Gpr(u8);

impl Gpr {
    /// `rax`: results.
    pub const RAX: Self = Self(0);
    /// `rcx`: fourth argument.
    pub const RCX: Self = Self(1);
    /// `rdx`: third argument, second half of wide results.
    pub const RDX: Self = Self(2);
    /// `rbx`: kept across calls.
    pub const RBX: Self = Self(3);
    /// `rsp`: the stack pointer.
    pub const RSP: Self = Self(4);
    /// `rbp`: the frame pointer, or any value, kept across calls.
    pub const RBP: Self = Self(5);
    /// `rsi`: second argument.
    pub const RSI: Self = Self(6);
    /// `rdi`: first argument.
    pub const RDI: Self = Self(7);
    /// `r8`: fifth argument.
    pub const R8: Self = Self(8);
    /// `r9`: sixth argument.
    pub const R9: Self = Self(9);
    /// How many there are.
    pub const COUNT: usize = 16;
    /// The registers that carry integer and pointer arguments, in order (System V x86-64).
    pub const ARGUMENTS: [Self; 6] = [Self::RDI, Self::RSI, Self::RDX, Self::RCX, Self::R8, Self::R9];

    /// The register that `register` is or is part of; `None` for vector, flag and segment registers.
    #[must_use]
    pub fn of(register: Register) -> Option<Self> {
        let full = register.full_register();
        let number = (full as u32).checked_sub(Register::RAX as u32)?;
        u8::try_from(number).ok().filter(|&number| number < 16).map(Self)
    }

    /// The registers that the address of an instruction's access is made of, or the sum of a `lea`.
    #[must_use]
    pub fn of_address(instruction: &Instruction) -> Vec<Self> {
        let has_memory = (0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory);
        let registers = [instruction.memory_base(), instruction.memory_index()];
        let known = registers.into_iter().filter_map(Self::of);
        known.filter(|_| has_memory).collect()
    }

    /// The whole register.
    #[must_use]
    pub fn register(self) -> Register {
        Register::RAX + u32::from(self.0)
    }

    /// The register of a DWARF register number.
    #[must_use]
    pub fn from_dwarf(number: u16) -> Option<Self> {
        // DWARF numbers rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, then r8 to r15.
        const ORDER: [u8; 8] = [0, 2, 1, 3, 6, 7, 5, 4];
        match number {
            0..=7 => Some(Self(ORDER[usize::from(number)])),
            8..=15 => u8::try_from(number).ok().map(Self),
            _ => None,
        }
    }

    /// Its number, for tables.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether a call leaves it as it was (System V x86-64).
    #[must_use]
    pub fn survives_calls(self) -> bool {
        matches!(self.0, 3 | 4 | 5 | 12..=15)
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..16).map(Self)
    }
}

/// Something that holds a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Spot {
    /// A register.
    Register(Gpr),
    /// A slot of the function's frame, by offset from the stack pointer at entry.
    Slot(i64),
}

/// Where an unknown quantity came from: the name by which equal values are recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Base {
    /// What a register held when the function was entered.
    Entry(Gpr),
    /// What an instruction put into a register (a load, a call's result, arithmetic).
    Made(InstrIx, Gpr),
    /// Paths with different values meet at the start of a block.
    Joined(u32, Spot),
}

/// A value: a number, or an unknown quantity plus a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// Nothing is known, not even equality with itself elsewhere.
    Unknown,
    /// A number; also a link-time address.
    Const(u64),
    /// `base + offset`.
    Sum(Base, i64),
}

impl Value {
    /// This value plus a constant.
    #[must_use]
    pub fn plus(self, delta: i64) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Const(number) => Self::Const(number.wrapping_add_signed(delta)),
            Self::Sum(base, offset) => Self::Sum(base, offset.wrapping_add(delta)),
        }
    }

    /// The address at an offset from the stack pointer at function entry.
    #[must_use]
    pub fn stack(offset: i64) -> Self {
        Self::Sum(Base::Entry(Gpr::RSP), offset)
    }

    /// For an address in this function's frame: its offset from the stack pointer at entry.
    #[must_use]
    pub fn stack_offset(self) -> Option<i64> {
        match self {
            Self::Sum(Base::Entry(Gpr::RSP), offset) => Some(offset),
            _ => None,
        }
    }
}

/// A slot's contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    value: Value,
    width: u32,
}

/// Slots that are followed in one state; past that the oldest knowledge is given up.
const MAX_SLOTS: usize = 512;

/// What is known at one point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    registers: [Value; Gpr::COUNT],
    slots: BTreeMap<i64, Slot>,
    /// The lowest frame offset whose address left the function.
    escaped_from: Option<i64>,
}

impl State {
    pub(super) fn at_entry() -> Self {
        let mut registers = [Value::Unknown; Gpr::COUNT];
        for gpr in Gpr::all() {
            registers[gpr.index()] = Value::Sum(Base::Entry(gpr), 0);
        }
        Self {
            registers,
            slots: BTreeMap::new(),
            escaped_from: None,
        }
    }

    pub(super) fn unknown(block: u32) -> Self {
        let mut state = Self::at_entry();
        for gpr in Gpr::all() {
            state.registers[gpr.index()] = Value::Sum(Base::Joined(block, Spot::Register(gpr)), 0);
        }
        state
    }

    /// What a register holds.
    #[must_use]
    pub fn get(&self, gpr: Gpr) -> Value {
        self.registers[gpr.index()]
    }

    pub(super) fn set(&mut self, gpr: Gpr, value: Value) {
        self.registers[gpr.index()] = value;
    }

    /// What the slot at an offset holds, when a value of exactly this width was put there.
    #[must_use]
    pub fn slot(&self, offset: i64, width: u32) -> Option<Value> {
        self.slots
            .get(&offset)
            .filter(|slot| slot.width == width)
            .map(|slot| slot.value)
    }

    pub(super) fn store(&mut self, offset: i64, width: u32, value: Value) {
        self.forget(offset, width);
        if value != Value::Unknown && self.slots.len() < MAX_SLOTS {
            self.slots.insert(offset, Slot { value, width });
        }
    }

    /// Drops what is known of `width` bytes from `offset`.
    pub(super) fn forget(&mut self, offset: i64, width: u32) {
        // No followed slot is wider than 64 bytes (a vector store), so look back no further than that.
        let end = offset.saturating_add(i64::from(width));
        let overlapping: Vec<i64> = self
            .slots
            .range(offset.saturating_sub(64)..end)
            .filter(|(start, slot)| start.saturating_add(i64::from(slot.width)) > offset)
            .map(|(&start, _)| start)
            .collect();
        for start in overlapping {
            self.slots.remove(&start);
        }
    }

    /// The address of a slot went where others can use it.
    pub(super) fn escape(&mut self, offset: i64) {
        self.escaped_from = Some(self.escaped_from.map_or(offset, |lowest| lowest.min(offset)));
    }

    /// Somebody else may have written to whatever escaped.
    pub(super) fn forget_escaped(&mut self) {
        if let Some(lowest) = self.escaped_from {
            self.slots.split_off(&lowest);
        }
    }

    /// Joins another path's state into this one; says whether anything changed.
    pub(super) fn join(&mut self, other: &Self, block: u32) -> bool {
        let mut changed = false;
        for gpr in Gpr::all() {
            let joined = Value::Sum(Base::Joined(block, Spot::Register(gpr)), 0);
            let mine = &mut self.registers[gpr.index()];
            if *mine != other.registers[gpr.index()] && *mine != joined {
                *mine = joined;
                changed = true;
            }
        }
        let before = self.slots.len();
        self.slots.retain(|offset, slot| {
            other
                .slots
                .get(offset)
                .is_some_and(|theirs| theirs.width == slot.width)
        });
        changed |= self.slots.len() != before;
        for (offset, slot) in &mut self.slots {
            let joined = Value::Sum(Base::Joined(block, Spot::Slot(*offset)), 0);
            let theirs = other.slots.get(offset).map(|theirs| theirs.value);
            if theirs != Some(slot.value) && slot.value != joined {
                slot.value = joined;
                changed = true;
            }
        }
        let escaped = match (self.escaped_from, other.escaped_from) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        changed |= escaped != self.escaped_from;
        self.escaped_from = escaped;
        changed
    }
}
