//! A program with a debug file: functions, flow graphs, values, everything the debug information answers,
//! references, and a slice.
#![no_main]

use failsketch_fuzz::{Other, split};
use program::code::FunctionId;
use program::source::{Sources, TypeId, Variable};
use program::values::Values;
use program::{LinkAddr, Module, ModuleId, Pc, Program};
use slicer::slice::{Criterion, Slice};

const FUNCTIONS: usize = 6;
const STATEMENTS: usize = 64;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (binary, debug) = split(input);
    let files = Other::new(debug);
    let Ok(module) = Module::load("program", binary, &files) else {
        return;
    };
    let program = Program::new(vec![module]);
    let Some(module) = program.module(ModuleId(0)) else { return };
    let functions: Vec<FunctionId> = module.code().functions().ids().take(FUNCTIONS).collect();
    let mut middles = Vec::new();
    for id in functions {
        let Some(function) = module.code().functions().get(id) else { continue };
        let flow = module.code().flow(id);
        let _ = Values::analyse(&flow, &|slot| module.constant_pointer(slot));
        let _ = module.code().callers_of(id);
        let middle = flow.instructions.get(flow.instructions.len() / 2);
        middles.extend(middle.map(|instruction| LinkAddr(instruction.ip())));
        ask(module.sources(), function.entry);
        let _ = module.sources().line_rows(&function.range);
    }
    for data in module.elf().data_symbols().take(FUNCTIONS) {
        let _ = module.code().references_to(&(data.addr..data.addr.offset(8)));
        globals(module.sources(), data.addr, middles.first().copied());
        for variable in module.sources().global_named(data.name) {
            types(module.sources(), &variable);
        }
    }
    for addr in middles.iter().copied().take(3) {
        ask(module.sources(), addr);
        let criterion = Criterion::instruction(Pc {
            module: ModuleId(0),
            addr,
        });
        Slice::new(&program, &criterion).take(STATEMENTS).for_each(drop);
    }
});

fn ask(sources: &Sources<'_>, addr: LinkAddr) {
    for frame in sources.frames_at(addr) {
        if let Some(file) = frame.file {
            let _ = sources.addresses_of(&file, frame.line);
        }
    }
    let _ = sources.function_at(addr);
    for variable in sources.variables_at(addr) {
        types(sources, &variable);
    }
}

fn globals(sources: &Sources<'_>, addr: LinkAddr, user: Option<LinkAddr>) {
    if let Some((variable, _)) = sources.global_at(addr, user) {
        types(sources, &variable);
    }
}

fn types(sources: &Sources<'_>, variable: &Variable) {
    let mut next = variable.ty;
    // Pointers may form a circle; a reader of names goes as far as the name does.
    for _ in 0..4 {
        next = next.and_then(|id| one_type(sources, id));
    }
}

fn one_type(sources: &Sources<'_>, id: TypeId) -> Option<TypeId> {
    let ty = sources.ty(id);
    let _ = (ty.kind(), ty.name(), ty.size(), ty.dimensions(), ty.member_at(4, 4));
    let members = ty.members();
    let inner = ty.stripped().pointee().or_else(|| ty.element());
    inner.map(|inner| inner.id()).or_else(|| Some(members.first()?.ty))
}
