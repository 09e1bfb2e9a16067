//! Tests for a handle that holds no thread, before it is joined.
//!
//! `if (t.joinable()) t.join();`, `while let Some(t) = threads.pop() { t.join() }`: who skips the join has no
//! thread to wait for. After a creation that way is not taken.

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind};
use program::code::{Block, InstrIx};
use program::values::{Base, Gpr, Spot, Value};

use super::joins::{Handle, address_in, handle, symbol_of};
use super::look::Looked;

/// The edges that are taken where the handle is empty that `join` would await.
pub(super) fn edges(at: &Looked<'_, '_>, join: InstrIx, handles: &[Handle]) -> Vec<(usize, usize)> {
    let passed = passed_by_value(at, join);
    let blocks = at.flow.blocks.iter().enumerate();
    let tests = blocks.filter_map(|(number, block)| {
        let (test, to) = zero_way(at, block)?;
        let tests_it = tests_handle(at, test, handles)
            || tested_register(at, test).is_some_and(|value| passed.contains(&value))
            || asks_whether_joinable(at, block, handles);
        tests_it.then_some((number, to))
    });
    tests.collect()
}

/// The test at a block's end, and the block that follows if what it tests is zero.
fn zero_way(at: &Looked<'_, '_>, block: &Block) -> Option<(InstrIx, usize)> {
    let (passed, taken) = at.flow.branch(block)?;
    let to = match at.flow.instruction(block.last())?.condition_code() {
        ConditionCode::e => taken,
        ConditionCode::ne => passed,
        _ => None,
    };
    let is_test = |ix: &InstrIx| at.flow.instruction(*ix).is_some_and(compares_with_zero);
    let test = block.indices().rev().take(3).find(is_test)?;
    Some((test, to?.0 as usize))
}

fn compares_with_zero(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Test => instruction.op0_register() == instruction.op1_register(),
        Mnemonic::Cmp => instruction.try_immediate(1).is_ok_and(|value| value == 0),
        _ => false,
    }
}

/// What is known of the register that a test is about.
fn tested_register(at: &Looked<'_, '_>, test: InstrIx) -> Option<Value> {
    let instruction = at.flow.instruction(test)?;
    let full = instruction.op0_kind() == OpKind::Register && instruction.op0_register().size() == 8;
    let value = at.value(test, Gpr::of(instruction.op0_register()).filter(|_| full)?);
    matches!(value, Value::Sum(Base::Made(..), 0)).then_some(value)
}

/// Whether the tested value is what stands in the handle.
fn tests_handle(at: &Looked<'_, '_>, test: InstrIx, handles: &[Handle]) -> bool {
    let in_memory = at
        .flow
        .instruction(test)
        .is_some_and(|instruction| instruction.op0_kind() == OpKind::Memory);
    let place = match tested_register(at, test) {
        Some(Value::Sum(Base::Made(load, _), 0)) => at.values().place(load),
        _ => at.values().place(test).filter(|_| in_memory),
    };
    place
        .and_then(|place| handle(at, place.base))
        .is_some_and(|handle| handles.contains(&handle))
}

/// The words of the object that a join takes: Rust hands handles over by value, in memory.
fn passed_by_value(at: &Looked<'_, '_>, join: InstrIx) -> Vec<Value> {
    let Some(state) = at.before(join) else {
        return Vec::new();
    };
    let objects = [Gpr::RDI, Gpr::RSI].map(|gpr| state.get(gpr).stack_offset());
    let words = objects
        .into_iter()
        .flatten()
        .flat_map(|start| [0, 8, 16].map(|word| start + word));
    let mut values: Vec<Value> = words.filter_map(|word| state.slot(word, 8)).collect();
    let joined: Vec<Value> = values.iter().flat_map(|&value| incoming(at, value)).collect();
    values.extend(joined);
    values
}

/// What a value is on each of the ways that meet where it was made: before a loop, and around it.
fn incoming(at: &Looked<'_, '_>, value: Value) -> Vec<Value> {
    let Value::Sum(Base::Joined(block, spot), 0) = value else {
        return Vec::new();
    };
    let from = at.flow.blocks.get(block as usize).map(|block| &block.preds);
    let lasts = from.into_iter().flatten().filter_map(|&from| at.flow.block(from));
    let values = lasts.filter_map(|from| match spot {
        Spot::Register(gpr) => Some(at.value(from.last(), gpr)),
        Spot::Slot(offset) => at.before(from.last())?.slot(offset, 8),
    });
    values.collect()
}

/// Whether the block tests the result of `joinable()`, which the block before it calls.
fn asks_whether_joinable(at: &Looked<'_, '_>, block: &Block, handles: &[Handle]) -> bool {
    let mut before = block.preds.iter().filter_map(|from| at.flow.block(*from));
    before.any(|from| {
        let symbol = from
            .exit
            .target()
            .and_then(|target| symbol_of(at, from.last(), target));
        symbol.is_some_and(|symbol| {
            symbol.ends_with("6thread8joinableEv") || symbol == "_ZNKSt7jthread8joinableEv"
        }) && address_in(at, from.last(), Gpr::RDI).is_none_or(|handle| handles.contains(&handle))
    })
}
