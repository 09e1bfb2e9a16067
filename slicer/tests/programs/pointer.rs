//! Where the pointer came from that a crash went through.

use std::collections::BTreeSet;

use failure::report::{Frame, ModuleRef, Position, Report, Source, SymbolRef, Thread};
use failure::{Kind, Signal, resolve};
use program::code::InstrIx;
use program::{LinkAddr, Program};
use slicer::dependence::uses::Role;
use slicer::view::FunctionView;

use super::common::{self, Language, function, line_at, program};

const CPP: &str = r#"
#include <memory>
struct loader { long received; };
struct page { std::unique_ptr<loader> owned; loader *plain; char *text; unsigned long fill; };
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
extern "C" __attribute__((noinline)) void look(const char **at) { at[1] = at[0]; }
extern "C" __attribute__((noinline)) void append(page *p, const char *line) {
    const char *begin[2] = { line, line };
    char *out = p->text + p->fill; /* begun */
    const char *end[2] = { line, line };
    for (; *line; line++, look(begin), look(end))
        *out++ = *line; /* walk */
    *out = 0;
}
extern "C" __attribute__((noinline)) void walked(page *p) {
    append(p, "text"); /* walked */
}
int main() {
    page p{};
    owned(&p);
    plain(&p);
    walked(&p);
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
    instruction_on(program, name, line_of(mark), fits)
}

fn instruction_on(
    program: &Program<'_>,
    name: &str,
    line: u32,
    fits: impl Fn(&FunctionView<'_, '_>, InstrIx) -> bool,
) -> iced_x86::Instruction {
    let id = function(program, name);
    let view = FunctionView::new(program.module(id.module).unwrap(), id);
    let all = (0..u32::try_from(view.flow.instructions.len()).unwrap()).map(InstrIx);
    let on_line = |ix: &InstrIx| line_at(program, view.pc(*ix).unwrap()) == Some(line);
    let found = all.filter(on_line).rfind(|&ix| fits(&view, ix));
    *view
        .instruction(found.unwrap_or_else(|| panic!("nothing on {line}")))
        .unwrap()
}

/// A crash in `respond`, which another function called.
fn crash(program: &Program<'_>, file: &str, caller: &str) -> Report {
    crash_in(program, file, ("respond", "crash"), caller)
}

/// A crash of a line, in a function that another one called.
fn crash_in(program: &Program<'_>, file: &str, (failing, mark): (&str, &str), caller: &str) -> Report {
    let touches = |view: &FunctionView<'_, '_>, ix: InstrIx| {
        let mut accesses = view.values.accesses(ix).iter();
        accesses.any(|access| access.place.stack_offset().is_none())
    };
    let access = instruction(program, failing, mark, touches);
    let call = instruction(program, caller, caller, |view, ix| view.is_call(ix));
    Report {
        threads: vec![Thread {
            frames: vec![
                frame(file, access.ip(), Position::Exact),
                frame(file, call.next_ip(), Position::Return),
            ],
            ..Thread::default()
        }],
        ..blank()
    }
}

fn frame(file: &str, addr: u64, position: Position) -> Frame {
    Frame {
        module: Some(ModuleRef {
            path: file.to_owned(),
            addr: Some(LinkAddr(addr)),
            ..ModuleRef::default()
        }),
        position,
        ..Frame::default()
    }
}

fn blank() -> Report {
    Report {
        source: Source::Live,
        kind: Kind::Signal,
        signal: Some(Signal(11)),
        message: None,
        sign: None,
        fault_address: None,
        program: None,
        build_id: None,
        threads: Vec::new(),
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
fn a_pointer_that_walks_comes_from_where_it_began() {
    for level in [0, 2] {
        let name = "walks";
        let program = program(name, Language::Cpp, level, CPP);
        let failure = resolve(&crash_in(program, name, ("append", "walk"), "walked"), program).unwrap();
        let loads = slicer::pointer::loads(&failure, program);
        let lines: BTreeSet<u32> = loads.into_iter().filter_map(|pc| line_at(program, pc)).collect();
        assert_eq!(lines, BTreeSet::from([line_of("begun")]), "-O{level}");
    }
}

#[test]
fn what_a_call_returned_is_told_from_what_was_loaded() {
    let name = "returned";
    let program = program(name, Language::Cpp, 0, CPP);
    for (caller, origin) in [("owned", Some("got")), ("plain", None)] {
        let failure = resolve(&crash(program, name, caller), program).unwrap();
        let results = slicer::pointer::results(&failure, program);
        let lines: Vec<u32> = results
            .into_iter()
            .filter_map(|pc| line_at(program, pc))
            .collect();
        assert_eq!(
            lines,
            origin.map(line_of).into_iter().collect::<Vec<_>>(),
            "{caller}"
        );
    }
}

const DIVISIONS: &str = r#"
struct device { int width; short parts; long total; };
__attribute__((noinline)) long passed(long total, int by) {
    return total / by; /* passed */
}
__attribute__((noinline)) long rows(struct device *d) {
    int parts = d->parts * 2; /* short */
    int width = d->width - parts; /* width */
    long total = d->total;
    return passed(total, width); /* rows */
}
__attribute__((noinline)) long share(struct device *d) {
    return d->total / d->width; /* share */
}
int main(int argc, char **argv) {
    struct device d = { argc, (short) argc, argc };
    return rows(&d) + share(&d) /* main */;
}
"#;

#[test]
fn a_divisor_comes_from_what_it_is_computed_from() {
    for level in [0, 2] {
        let name = format!("divisions-{level}");
        let program = program(&name, Language::C, level, DIVISIONS);
        let line = |mark| common::line_of(DIVISIONS, mark);
        let divides = |view: &FunctionView<'_, '_>, ix: InstrIx| {
            view.instruction(ix)
                .is_some_and(|it| it.mnemonic() == iced_x86::Mnemonic::Idiv)
        };
        let calls = |view: &FunctionView<'_, '_>, ix: InstrIx| {
            let leaves = |it: &iced_x86::Instruction| it.is_jmp_short_or_near();
            view.is_call(ix) || view.instruction(ix).is_some_and(leaves)
        };
        for (failing, caller, origins) in [
            ("passed", "rows", &["short", "width"][..]),
            ("share", "main", &["share"]),
        ] {
            let division = instruction_on(program, failing, line(failing), divides);
            let call = instruction_on(program, caller, line(caller), calls);
            let frames = vec![
                frame(&name, division.ip(), Position::Exact),
                frame(&name, call.next_ip(), Position::Return),
            ];
            let report = Report {
                signal: Some(Signal(8)),
                threads: vec![Thread {
                    frames,
                    ..Thread::default()
                }],
                ..blank()
            };
            let failure = resolve(&report, program).unwrap();
            let loads = slicer::pointer::loads(&failure, program);
            let lines: BTreeSet<u32> = loads.into_iter().filter_map(|pc| line_at(program, pc)).collect();
            let origins: BTreeSet<u32> = origins.iter().copied().map(line).collect();
            assert_eq!(lines, origins, "{failing} -O{level}");
        }
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

const VIRTUAL: &str = r#"
struct decoder {
    int runs = 0;
    virtual void decode() = 0;
    void run() {
        decode(); /* run */
        runs++;
    }
};
extern "C" __attribute__((noinline)) void start(decoder *d) {
    d->run(); /* start */
}
struct audio : decoder {
    void decode() override {}
};
int main() {
    audio a;
    start(&a);
}
"#;

/// What ran was found through a pointer: which one that was is the question.
#[test]
fn a_pure_virtual_call_is_about_whom_it_led_to() {
    for level in [0, 2] {
        let name = "pure";
        let program = program(name, Language::Cpp, level, VIRTUAL);
        let indirect = |view: &FunctionView<'_, '_>, ix: InstrIx| {
            let instruction = view.instruction(ix).unwrap();
            instruction.flow_control() == iced_x86::FlowControl::IndirectCall
        };
        let failing = if level == 0 { "decoder::run" } else { "start" };
        let line = common::line_of(VIRTUAL, "run");
        let call = instruction_on(program, failing, line, indirect);
        let abort = Frame {
            symbol: Some(SymbolRef {
                name: "__cxa_pure_virtual".to_owned(),
                offset: Some(0x20),
            }),
            position: Position::Return,
            ..Frame::default()
        };
        let report = Report {
            kind: Kind::Abort,
            signal: Some(Signal(6)),
            threads: vec![Thread {
                frames: vec![abort, frame(name, call.next_ip(), Position::Return)],
                ..Thread::default()
            }],
            ..blank()
        };
        let failure = resolve(&report, program).unwrap();
        let criterion = slicer::slice::Criterion::failure(program, &failure);
        let roles: Vec<Role> = criterion.starts.iter().map(|start| start.role).collect();
        assert_eq!(roles, [Role::Address], "-O{level}");
    }
}
