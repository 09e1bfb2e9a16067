//! Value numbers, on functions written in assembly so that every instruction is known.

mod support;

use std::sync::Arc;

use program::LinkAddr;
use program::code::{Code, FlowGraph, InstrIx};
use program::values::{Base, Gpr, State, Value, Values};
use support::{Folder, FolderFiles};

/// A function's flow graph and values.
struct Analysed {
    code: Code<'static>,
    flow: Arc<FlowGraph>,
    values: Values,
}

impl Analysed {
    fn new(body: &str) -> Self {
        let folder = Folder::new("values");
        folder.write(
            "f.s",
            &format!(".globl f\n.protected f\n.type f,@function\nf:\n{body}\n.size f,.-f\n"),
        );
        folder.run("gcc -shared -nostdlib -o f.so f.s");
        let code = Code::new(Arc::new(FolderFiles::new(&folder, "f.so").elf()));
        let function = code.functions().named("f")[0];
        let flow = code.flow(function);
        let values = Values::analyse(&flow, &|_| None);
        Self { code, flow, values }
    }

    /// The state before the n-th instruction.
    fn before(&self, number: u32) -> State {
        self.values
            .before(&self.flow, InstrIx(number), &|_| None)
            .expect("the instruction is reached")
    }

    fn stack_offset_of_access(&self, number: u32) -> Option<i64> {
        self.values
            .place(InstrIx(number))
            .and_then(|place| place.stack_offset())
    }
}

fn entry(gpr: Gpr) -> Value {
    Value::Sum(Base::Entry(gpr), 0)
}

#[test]
fn a_spilled_parameter_is_still_the_parameter() {
    let f = Analysed::new(
        "push %rbp
         mov %rsp,%rbp
         mov %rdi,-8(%rbp)
         mov -8(%rbp),%rax
         mov 0x28(%rax),%rdx
         pop %rbp
         ret",
    );
    assert_eq!(f.before(4).get(Gpr::RAX), entry(Gpr::RDI));
    let place = f.values.place(InstrIx(4)).expect("a load");
    assert_eq!(place.base, entry(Gpr::RDI).plus(0x28));
    assert_eq!(
        f.stack_offset_of_access(3),
        Some(-16),
        "8 below the saved rbp, which is 8 below the entry"
    );
    assert_eq!(
        f.values.stack_depth(InstrIx(6)),
        Some(0),
        "the stack is level again at the return"
    );
}

#[test]
fn paths_with_different_values_meet_in_a_new_one() {
    let f = Analysed::new(
        "test %rsi,%rsi
         je 1f
         mov %rsi,%rdi
      1: mov (%rdi),%rax
         mov (%rdx),%rcx
         ret",
    );
    assert!(matches!(
        f.before(3).get(Gpr::RDI),
        Value::Sum(Base::Joined(..), 0)
    ));
    assert_eq!(
        f.before(3).get(Gpr::RDX),
        entry(Gpr::RDX),
        "the same on both paths"
    );
}

#[test]
fn a_loop_counter_is_not_a_constant() {
    let f = Analysed::new(
        "xor %eax,%eax
      1: add $1,%rax
         cmp %rdi,%rax
         jne 1b
         ret",
    );
    assert!(matches!(
        f.before(1).get(Gpr::RAX),
        Value::Sum(Base::Joined(..), 0)
    ));
    assert!(matches!(
        f.before(2).get(Gpr::RAX),
        Value::Sum(Base::Joined(..), 1)
    ));
}

#[test]
fn calls_keep_what_the_convention_says() {
    let f = Analysed::new(
        "push %rbx
         mov %rdi,%rbx
         call other@PLT
         mov (%rbx),%rax
         pop %rbx
         ret",
    );
    let after = f.before(3);
    assert_eq!(after.get(Gpr::RBX), entry(Gpr::RDI));
    assert_eq!(
        after.get(Gpr::RAX),
        Value::Sum(Base::Made(InstrIx(2), Gpr::RAX), 0)
    );
    assert_ne!(after.get(Gpr::RDI), entry(Gpr::RDI));
}

#[test]
fn a_slot_whose_address_went_out_is_forgotten_at_calls() {
    let f = Analysed::new(
        "sub $0x28,%rsp
         mov %rsi,0x8(%rsp)
         mov %rsi,0x18(%rsp)
         lea 0x18(%rsp),%rdi
         call other@PLT
         mov 0x8(%rsp),%rax
         mov 0x18(%rsp),%rdx
         add $0x28,%rsp
         ret",
    );
    let end = f.before(7);
    assert_eq!(
        end.get(Gpr::RAX),
        entry(Gpr::RSI),
        "nobody got this slot's address"
    );
    assert_eq!(end.get(Gpr::RDX), Value::Sum(Base::Made(InstrIx(6), Gpr::RDX), 0));
}

#[test]
fn static_addresses_are_constants_and_their_arrays_keep_their_start() {
    let f = Analysed::new(
        "lea f(%rip),%rdx
         lea table(%rip),%rcx
         mov (%rcx,%rdi,8),%rax
         ret
         .data
         .hidden table
         table: .quad 0,0
         .text",
    );
    let start = f.code.functions().get(f.flow.function).expect("f").entry;
    assert_eq!(f.before(1).get(Gpr::RDX), Value::Const(start.0));
    let place = f.values.place(InstrIx(2)).expect("a load");
    let Value::Const(table) = f.before(2).get(Gpr::RCX) else {
        panic!("rcx is known")
    };
    assert_eq!(place.static_addr(), Some(LinkAddr(table)));
    assert_eq!(place.index, Some((entry(Gpr::RDI), 8)));
}

#[test]
fn a_realigned_stack_is_another_frame() {
    let f = Analysed::new(
        "push %rbp
         mov %rsp,%rbp
         and $-32,%rsp
         mov %rdi,8(%rsp)
         mov %rsi,-8(%rbp)
         leave
         ret",
    );
    assert_eq!(f.stack_offset_of_access(3), None, "how far it moved is not known");
    assert_eq!(f.stack_offset_of_access(4), Some(-16));
    assert_eq!(f.values.stack_depth(InstrIx(6)), Some(0));
}

#[test]
fn reading_part_of_a_slot_is_not_reading_the_slot() {
    let f = Analysed::new(
        "mov %rdi,-8(%rsp)
         mov -8(%rsp),%eax
         movl $1,-4(%rsp)
         mov -8(%rsp),%rcx
         ret",
    );
    assert_ne!(f.before(2).get(Gpr::RAX), entry(Gpr::RDI));
    assert_eq!(
        f.before(4).get(Gpr::RCX),
        Value::Sum(Base::Made(InstrIx(3), Gpr::RCX), 0)
    );
}

/// What `f` returns, by the instruction that makes it.
fn makers(body: &str) -> Vec<(u32, Option<u64>)> {
    let f = Analysed::new(body);
    let makers = f.values.result_makers(&f.flow, &|_| None);
    makers
        .iter()
        .map(|maker| (maker.at.0, maker.constant()))
        .collect()
}

#[test]
fn each_way_through_a_function_has_its_result() {
    let of_constants = "test %edi,%edi
         je 1f
         mov $3,%eax
         jmp 2f
      1: xor %eax,%eax
      2: ret";
    assert_eq!(makers(of_constants), [(2, Some(3)), (4, Some(0))]);
    let through_a_slot = "push %rbp
         mov %rsp,%rbp
         test %edi,%edi
         je 1f
         movl $3,-4(%rbp)
         jmp 2f
      1: movl $0,-4(%rbp)
      2: mov -4(%rbp),%eax
         pop %rbp
         ret";
    assert_eq!(makers(through_a_slot), [(4, Some(3)), (6, Some(0))]);
    let of_a_call = "push %rbx
         test %edi,%edi
         je 1f
         call other
         mov %eax,%ebx
         jmp 2f
      1: mov $5,%ebx
      2: mov %ebx,%eax
         pop %rbx
         ret
      other: ret";
    let found = makers(of_a_call);
    assert!(found.contains(&(6, Some(5))), "{found:?}");
    assert!(found.iter().any(|(_, constant)| constant.is_none()), "{found:?}");
    let in_a_loop = "mov $1,%eax
      1: add %rdi,%rax
         dec %rsi
         jne 1b
         ret";
    assert_eq!(makers(in_a_loop), [(1, None)]);
}

#[test]
fn a_variable_beside_an_array_that_is_passed_on_keeps_its_maker() {
    let f = Analysed::new(
        "push %rbp
         mov %rsp,%rbp
         sub $32,%rsp
         call other
         mov %rax,-16(%rbp)
      1: lea -32(%rbp),%rdi
         mov -16(%rbp),%rsi
         call other
         jmp 1b
      other: ret",
    );
    let again = InstrIx(7);
    let first = Value::Sum(Base::Made(InstrIx(3), Gpr::RAX), 0);
    assert_ne!(
        f.before(again.0).get(Gpr::RSI),
        first,
        "the callee may have written there"
    );
    let likely = f.values.likely_makers(&f.flow, again, Gpr::RSI, &|_| None);
    let likely: Vec<Value> = likely.iter().map(|maker| maker.value).collect();
    assert_eq!(likely, [first]);
}
