//! Where the pointer came from that a crash went through.

use std::collections::BTreeSet;

use failure::report::{Frame, ModuleRef, Position, Report, Source, Thread};
use failure::{Kind, Signal, resolve};
use program::code::InstrIx;
use program::{LinkAddr, Program};
use slicer::view::FunctionView;

use super::common::{self, Language, function, line_at, program};

const CPP: &str = r#"
#include <memory>
struct loader { long received; };
struct page { std::unique_ptr<loader> owned; loader *plain; };
extern "C" __attribute__((noinline)) void respond(loader *l, long bytes) {
    l->received += bytes; /* crash */
}
extern "C" __attribute__((noinline)) void owned(page *p) {
    loader *l = p->owned.get(); /* got */
    respond(l, 3); /* owned */
}
extern "C" __attribute__((noinline)) void plain(page *p) {
    loader *l = p->plain; /* loaded */
    respond(l, 3); /* plain */
}
int main() {
    page p{};
    owned(&p);
    plain(&p);
}
"#;

fn line_of(mark: &str) -> u32 {
    common::line_of(CPP, mark)
}

/// The last instruction of a function that is on a marked line and fits.
fn instruction(
    program: &Program<'_>,
    name: &str,
    mark: &str,
    fits: impl Fn(&FunctionView<'_, '_>, InstrIx) -> bool,
) -> iced_x86::Instruction {
    let id = function(program, name);
    let view = FunctionView::new(program.module(id.module).unwrap(), id);
    let all = (0..u32::try_from(view.flow.instructions.len()).unwrap()).map(InstrIx);
    let on_line = |ix: &InstrIx| line_at(program, view.pc(*ix).unwrap()) == Some(line_of(mark));
    let found = all.filter(on_line).rfind(|&ix| fits(&view, ix));
    *view
        .instruction(found.unwrap_or_else(|| panic!("nothing on {mark}")))
        .unwrap()
}

/// A crash in `respond`, which another function called.
fn crash(program: &Program<'_>, file: &str, caller: &str) -> Report {
    let frame = |addr: u64, position| Frame {
        module: Some(ModuleRef {
            path: file.to_owned(),
            addr: Some(LinkAddr(addr)),
            ..ModuleRef::default()
        }),
        position,
        ..Frame::default()
    };
    let touches = |view: &FunctionView<'_, '_>, ix: InstrIx| {
        let mut accesses = view.values.accesses(ix).iter();
        accesses.any(|access| access.place.stack_offset().is_none())
    };
    let access = instruction(program, "respond", "crash", touches);
    let call = instruction(program, caller, caller, |view, ix| view.is_call(ix));
    Report {
        source: Source::Live,
        kind: Kind::Signal,
        signal: Some(Signal(11)),
        message: None,
        sign: None,
        fault_address: None,
        program: None,
        build_id: None,
        threads: vec![Thread {
            frames: vec![
                frame(access.ip(), Position::Exact),
                frame(call.next_ip(), Position::Return),
            ],
            ..Thread::default()
        }],
        failing: 0,
        notes: Vec::new(),
    }
}

#[test]
fn a_pointer_comes_from_the_load_or_the_accessor_that_the_caller_has_it_from() {
    let name = "pointers";
    let program = program(name, Language::Cpp, 0, CPP);
    for (caller, origin) in [("owned", "got"), ("plain", "loaded")] {
        let failure = resolve(&crash(program, name, caller), program).unwrap();
        let loads = slicer::pointer::loads(&failure, program);
        let lines: BTreeSet<u32> = loads.into_iter().filter_map(|pc| line_at(program, pc)).collect();
        assert_eq!(lines, BTreeSet::from([line_of(origin)]), "{caller}");
    }
}

#[test]
fn only_faults_are_about_pointers() {
    let name = "aborts";
    let program = program(name, Language::Cpp, 0, CPP);
    let report = Report {
        kind: Kind::Abort,
        signal: Some(Signal(6)),
        ..crash(program, name, "plain")
    };
    let failure = resolve(&report, program).unwrap();
    assert!(slicer::pointer::loads(&failure, program).is_empty());
}
