//! Switches: which table an indirect jump goes through, and how long the table is.
//!
//! The instructions that lead to the jump are followed backwards along one path, then evaluated forwards with
//! a handful of symbolic values. That covers what gcc, clang and rustc emit, optimised or through the stack,
//! without a pattern for each: an index is compared, scaled, used to load from a constant table, and the
//! table's (or another) base is added to what was loaded.

use iced_x86::{ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::descent::Descent;

/// How far back the comparison may lie.
const MAX_PATH: usize = 96;

/// How many instructions before a jump may be shared by several switches, and by how many.
const SHARED_END: usize = 4;
const MAX_MERGED: usize = 16;

/// How many places to look for the load of a table's address outside the path.
const MAX_GUESSES: usize = 4;

/// A table of jump targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Its first entry.
    pub base: u64,
    /// Bytes an entry: 4 or 8.
    pub stride: u64,
    /// What entries are relative to; `None` for entries that are addresses.
    pub anchor: Option<u64>,
    /// How many entries, if a comparison says so.
    pub count: Option<u64>,
    /// Seen on the path to the jump. Otherwise the base is a guess that the entries have to confirm.
    pub certain: bool,
}

/// What an indirect jump turned out to be, by the paths that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// For each path that computes its target: the tables it may come from, likeliest first; none when no
    /// table can be told. No path does so for a jump through a function pointer, which is a tail call.
    pub tables: Vec<Vec<Table>>,
    /// Several paths meet at the jump, each with a table of its own; more may be found yet.
    pub shared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// Something unknown, with a number of its own.
    Symbol(u32),
    /// An unknown times a constant.
    Scaled(u32, u64),
    /// A known address or number.
    Constant(u64),
    /// An entry of a table: base, stride, index.
    Entry(u64, u64, u32),
    /// An entry plus an address: base, index, address.
    Sum(u64, u32, u64),
}

/// Where a value is kept besides registers: relative to an unknown base.
type Place = (Value, i64);

struct State {
    registers: [Value; 16],
    memory: Vec<(Place, Value)>,
    /// Upper bounds (exclusive) of symbols.
    bounds: Vec<(u32, u64)>,
    /// What the flags compare: a symbol with a constant.
    compared: Option<(u32, u64)>,
    /// Symbols that came out of additions: to jump to one is to jump through a table of distances.
    sums: Vec<u32>,
    symbols: u32,
}

/// Finds out what the indirect jump at `ip` goes through.
pub(super) fn find(descent: &Descent<'_, '_>, ip: u64) -> Found {
    let paths = paths_to(descent, ip);
    Found {
        tables: paths.iter().filter_map(|path| tables_of(descent, path)).collect(),
        shared: paths.len() > 1,
    }
}

/// The tables that the jump at the end of a path may go through; `None` for a function pointer.
fn tables_of(descent: &Descent<'_, '_>, path: &[Instruction]) -> Option<Vec<Table>> {
    let mut state = State::new();
    let target = evaluate(&mut state, path)?;
    if let Some(table) = state.table(target) {
        return Some(vec![Table {
            certain: true,
            ..table
        }]);
    }
    // Indexed memory may be a table whose address is not known yet.
    let indexed = path
        .last()
        .is_some_and(|jump| jump.memory_index() != Register::None);
    let sum = matches!(target, Value::Symbol(symbol) if state.sums.contains(&symbol));
    if !sum && !indexed {
        return None;
    }
    // Out of a loop, the table's address is loaded before the path begins.
    let start = path.first().map_or(0, Instruction::ip);
    let tables = (0..MAX_GUESSES).filter_map(|guess| {
        let mut state = State::new();
        for (number, value) in state.registers.iter_mut().enumerate() {
            if let Some(addr) = descent.constant_in(number, start, guess) {
                *value = Value::Constant(addr);
            }
        }
        let target = evaluate(&mut state, path)?;
        state.table(target)
    });
    let mut tables: Vec<Table> = tables.collect();
    tables.dedup();
    // An array of function pointers that is not in the file is called through.
    (sum || !tables.is_empty()).then_some(tables)
}

/// Runs the path; gives what the jump at its end goes to.
fn evaluate(state: &mut State, path: &[Instruction]) -> Option<Value> {
    let (jump, lead) = path.split_last()?;
    for (at, instruction) in lead.iter().enumerate() {
        let next = path.get(at + 1).map_or(0, Instruction::ip);
        state.step(instruction, next);
    }
    Some(match jump.op0_kind() {
        OpKind::Memory => state.load(jump, 8),
        _ => state.register(jump.op0_register()),
    })
}

/// Instructions that lead to `ip`, oldest first, the jump itself last. Compilers merge equal ends of blocks,
/// so a few instructions before the jump may be shared by several switches: a path for each.
fn paths_to(descent: &Descent<'_, '_>, ip: u64) -> Vec<Vec<Instruction>> {
    let mut end: Vec<Instruction> = descent.instruction_at(ip).copied().into_iter().collect();
    let mut at = ip;
    let mut before: Vec<Instruction> = Vec::new();
    for _ in 0..SHARED_END {
        before = descent.falls_to(at).copied().into_iter().collect();
        let sources = descent.jumps_to(at).take(MAX_MERGED);
        before.extend(sources.filter_map(|source| descent.instruction_at(source).copied()));
        match before[..] {
            [only] => {
                at = only.ip();
                end.push(only);
            }
            _ => break,
        }
        before.clear();
    }
    if before.is_empty() {
        return vec![complete(descent, end)];
    }
    let forks = before.into_iter().map(|fork| {
        let mut path = end.clone();
        path.push(fork);
        complete(descent, path)
    });
    forks.collect()
}

/// Goes on backwards from the last of some instructions; gives all in the order of execution.
fn complete(descent: &Descent<'_, '_>, mut path: Vec<Instruction>) -> Vec<Instruction> {
    while path.len() < MAX_PATH {
        let Some(at) = path.last().map(Instruction::ip) else {
            break;
        };
        let before = descent.falls_to(at).copied().or_else(|| {
            let source = descent.jumps_to(at).next()?;
            descent.instruction_at(source).copied()
        });
        let Some(before) = before else { break };
        path.push(before);
    }
    path.reverse();
    path
}

impl State {
    fn new() -> Self {
        Self {
            registers: std::array::from_fn(|number| Value::Symbol(number as u32)),
            memory: Vec::new(),
            bounds: Vec::new(),
            compared: None,
            sums: Vec::new(),
            symbols: 16,
        }
    }

    fn fresh(&mut self) -> Value {
        self.symbols += 1;
        Value::Symbol(self.symbols)
    }

    fn fresh_below(&mut self, bound: u64) -> Value {
        let value = self.fresh();
        if let Value::Symbol(symbol) = value {
            self.bounds.push((symbol, bound));
        }
        value
    }

    /// The bound that was checked last. Tighter ones before need not hold on other paths.
    fn bound(&self, symbol: u32) -> Option<u64> {
        let own = self.bounds.iter().rev().filter(|(of, _)| *of == symbol);
        own.map(|(_, bound)| *bound).find(|bound| *bound > 1)
    }

    fn register(&self, register: Register) -> Value {
        number(register).map_or(Value::Symbol(u32::MAX), |number| self.registers[number])
    }

    fn set(&mut self, register: Register, value: Value) {
        if let Some(number) = number(register) {
            self.registers[number] = value;
        }
    }

    fn place(&self, instruction: &Instruction) -> Option<Place> {
        if instruction.memory_index() != Register::None {
            return None;
        }
        if instruction.is_ip_rel_memory_operand() {
            return Some((
                Value::Constant(0),
                instruction.ip_rel_memory_address().cast_signed(),
            ));
        }
        let base = instruction.memory_base();
        number(base)?;
        Some((
            self.register(base),
            instruction.memory_displacement64().cast_signed(),
        ))
    }

    /// The address of a memory operand as a table and an index into it.
    fn indexed(&mut self, instruction: &Instruction) -> Option<(u64, u64, u32)> {
        let displacement = instruction.memory_displacement64();
        let base = match instruction.memory_base() {
            Register::None => Value::Constant(0),
            base => self.register(base),
        };
        let scale = u64::from(instruction.memory_index_scale());
        let index = match instruction.memory_index() {
            Register::None => Value::Constant(0),
            index => self.register(index),
        };
        match (base, index) {
            (Value::Constant(base), Value::Symbol(index)) => {
                Some((base.wrapping_add(displacement), scale, index))
            }
            (Value::Constant(base), Value::Scaled(index, by)) if scale == 1 => {
                Some((base.wrapping_add(displacement), by, index))
            }
            (Value::Scaled(index, by), Value::Constant(base)) if scale == 1 => {
                Some((base.wrapping_add(displacement), by, index))
            }
            // Whatever this path has put into the index, other paths put something else.
            (Value::Constant(base), _) if scale > 1 => {
                self.symbols += 1;
                Some((base.wrapping_add(displacement), scale, self.symbols))
            }
            _ => None,
        }
    }

    fn load(&mut self, instruction: &Instruction, size: u64) -> Value {
        if let Some((base, stride, index)) = self.indexed(instruction)
            && stride == size
            && matches!(size, 4 | 8)
        {
            return Value::Entry(base, stride, index);
        }
        let Some(place) = self.place(instruction) else {
            return self.fresh();
        };
        if let Some((_, value)) = self.memory.iter().find(|(known, _)| *known == place) {
            return *value;
        }
        let value = self.fresh();
        self.memory.push((place, value));
        value
    }

    fn store(&mut self, instruction: &Instruction, value: Value) {
        let Some(place) = self.place(instruction) else {
            return;
        };
        self.memory.retain(|(known, _)| *known != place);
        self.memory.push((place, value));
    }

    /// The value of an operand that is read.
    fn operand(&mut self, instruction: &Instruction, operand: u32) -> Value {
        match instruction.op_kind(operand) {
            OpKind::Register => self.register(instruction.op_register(operand)),
            OpKind::Memory => self.load(instruction, instruction.memory_size().size() as u64),
            _ => match instruction.try_immediate(operand) {
                Ok(immediate) => Value::Constant(immediate),
                Err(_) => self.fresh(),
            },
        }
    }

    fn assign(&mut self, instruction: &Instruction, value: Value) {
        match instruction.op0_kind() {
            OpKind::Register => self.set(instruction.op0_register(), value),
            OpKind::Memory => self.store(instruction, value),
            _ => {}
        }
    }

    fn step(&mut self, instruction: &Instruction, next: u64) {
        match instruction.mnemonic() {
            // Widening keeps the value: what was compared as `dl` is used as `rdx`.
            Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Movzx | Mnemonic::Movsx => {
                let value = self.operand(instruction, 1);
                self.assign(instruction, value);
            }
            Mnemonic::Cdqe | Mnemonic::Nop | Mnemonic::Endbr64 => {}
            Mnemonic::Lea => {
                let value = self.lea(instruction);
                self.assign(instruction, value);
            }
            Mnemonic::Add => {
                let (left, right) = (self.operand(instruction, 0), self.operand(instruction, 1));
                let value = self.add(left, right);
                self.assign(instruction, value);
                self.compared = None;
            }
            Mnemonic::Shl => {
                let (left, right) = (self.operand(instruction, 0), self.operand(instruction, 1));
                let value = match (left, right) {
                    (Value::Symbol(symbol), Value::Constant(by @ 1..=3)) => Value::Scaled(symbol, 1 << by),
                    _ => self.fresh(),
                };
                self.assign(instruction, value);
                self.compared = None;
            }
            Mnemonic::Cmp => self.compare(instruction),
            Mnemonic::Sub => {
                self.compare(instruction);
                let value = self.fresh();
                self.assign(instruction, value);
            }
            Mnemonic::And => {
                let value = match self.operand(instruction, 1) {
                    Value::Constant(mask) if mask < u64::from(u32::MAX) => self.fresh_below(mask + 1),
                    _ => self.fresh(),
                };
                self.assign(instruction, value);
                self.compared = None;
            }
            _ => self.other(instruction, next),
        }
    }

    fn other(&mut self, instruction: &Instruction, next: u64) {
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => self.branch(instruction, next == instruction.next_ip()),
            FlowControl::UnconditionalBranch => {}
            FlowControl::Call | FlowControl::IndirectCall => {
                // What a call may change; unknown from here on.
                for register in CALLER_SAVED {
                    let value = self.fresh();
                    self.set(register, value);
                }
                self.compared = None;
            }
            _ => {
                if instruction.op_count() > 0 && writes_first_operand(instruction) {
                    let value = self.fresh();
                    self.assign(instruction, value);
                }
                if instruction.is_stack_instruction() {
                    let value = self.fresh();
                    self.set(Register::RSP, value);
                }
                if instruction.rflags_modified() != 0 {
                    self.compared = None;
                }
            }
        }
    }

    fn lea(&mut self, instruction: &Instruction) -> Value {
        if instruction.is_ip_rel_memory_operand() {
            return Value::Constant(instruction.ip_rel_memory_address());
        }
        let displacement = instruction.memory_displacement64();
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if base == Register::None && displacement == 0 {
            let scale = u64::from(instruction.memory_index_scale());
            if !matches!(self.register(index), Value::Symbol(_)) {
                self.fresh();
                return Value::Scaled(self.symbols, scale);
            }
            if let Value::Symbol(symbol) = self.register(index) {
                return Value::Scaled(symbol, scale);
            }
        }
        if index == Register::None {
            return match self.register(base) {
                Value::Constant(at) => Value::Constant(at.wrapping_add(displacement)),
                same if displacement == 0 => same,
                _ => self.fresh(),
            };
        }
        let (left, right) = (self.register(base), self.register(index));
        if displacement == 0 && instruction.memory_index_scale() == 1 {
            self.add(left, right)
        } else {
            self.fresh()
        }
    }

    fn add(&mut self, left: Value, right: Value) -> Value {
        match (left, right) {
            (Value::Entry(base, 4, index), Value::Constant(anchor))
            | (Value::Constant(anchor), Value::Entry(base, 4, index)) => Value::Sum(base, index, anchor),
            (Value::Constant(a), Value::Constant(b)) => Value::Constant(a.wrapping_add(b)),
            _ => {
                let value = self.fresh();
                self.sums.push(self.symbols);
                value
            }
        }
    }

    fn table(&self, target: Value) -> Option<Table> {
        let (base, stride, anchor, index) = match target {
            Value::Entry(base, stride, index) => (base, stride, None, index),
            Value::Sum(base, index, anchor) => (base, 4, Some(anchor), index),
            _ => return None,
        };
        Some(Table {
            base,
            stride,
            anchor,
            count: self.bound(index),
            certain: false,
        })
    }

    fn compare(&mut self, instruction: &Instruction) {
        let (mut left, right) = (self.operand(instruction, 0), self.operand(instruction, 1));
        // What is compared varies, even if it is a constant on this path; and it may itself come from a table.
        if !matches!(left, Value::Symbol(_)) {
            left = self.fresh();
            self.assign(instruction, left);
        }
        self.compared = match (left, right) {
            (Value::Symbol(symbol), Value::Constant(limit)) => {
                // Immediates are sign-extended; the comparison has the width of its operand.
                let bits = match instruction.op0_kind() {
                    OpKind::Memory => instruction.memory_size().size() * 8,
                    _ => instruction.op0_register().size() * 8,
                };
                let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
                Some((symbol, limit & mask))
            }
            _ => None,
        };
    }

    fn branch(&mut self, instruction: &Instruction, falls_through: bool) {
        let Some((symbol, limit)) = self.compared else {
            return;
        };
        let bound =
            match (instruction.condition_code(), falls_through) {
                (ConditionCode::a | ConditionCode::g, true)
                | (ConditionCode::be | ConditionCode::le, false) => limit.checked_add(1),
                (ConditionCode::ae | ConditionCode::ge, true)
                | (ConditionCode::b | ConditionCode::l, false) => Some(limit),
                _ => None,
            };
        self.bounds.extend(bound.map(|bound| (symbol, bound)));
    }
}

fn writes_first_operand(instruction: &Instruction) -> bool {
    !matches!(
        instruction.mnemonic(),
        Mnemonic::Test | Mnemonic::Push | Mnemonic::Bt | Mnemonic::Prefetcht0 | Mnemonic::Prefetchw
    )
}

const CALLER_SAVED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}
