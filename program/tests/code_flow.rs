//! Functions and control flow of real programs, compared with the source and with objdump.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use program::LinkAddr;
use program::code::{AddressTaken, Code, Exit, FlowGraph, FunctionId, ReferenceKind, Target};
use program::elf::{Elf, ElfError, ElfKind};
use support::Folder;

const SWITCHES: &str = include_str!("programs/switches.c");
const THROWS: &str = include_str!("programs/throws.cpp");
const SHAPES: &str = include_str!("programs/shapes.rs");

const C_BUILDS: [&str; 12] = [
    "gcc -O0",
    "gcc -O2",
    "gcc -O3 -fcf-protection=full",
    "gcc -O0 -no-pie -fno-pie",
    "gcc -O2 -no-pie -fno-pie",
    "gcc -O2 -fno-plt",
    "gcc -O2 -static",
    "clang -O0",
    "clang -O2",
    "clang -O0 -no-pie -fno-pie",
    "clang -O3 -no-pie -fno-pie",
    "clang -O2 -fno-plt",
];

fn build(source: &str, text: &str, command: &str) -> (Folder, &'static [u8]) {
    let folder = Folder::new("flow");
    folder.write(source, text);
    folder.run(&format!("{command} {source} -o program"));
    let bytes: &'static [u8] = Box::leak(folder.read("program").into_boxed_slice());
    (folder, bytes)
}

fn code(bytes: &'static [u8]) -> Code<'static> {
    Code::new(Arc::new(Elf::parse(bytes).expect("a program")))
}

fn only(code: &Code<'_>, name: &str) -> FunctionId {
    let found = code.functions().named(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0]
}

fn count(graph: &FlowGraph, wanted: impl Fn(&Exit) -> bool) -> usize {
    graph.blocks.iter().filter(|block| wanted(&block.exit)).count()
}

/// Names of call targets in a graph, with whether they return.
fn calls<'a>(code: &Code<'a>, graph: &FlowGraph) -> BTreeSet<(&'a str, &'static str)> {
    let how = |exit: Exit| match exit {
        Exit::Call(_) => "call",
        Exit::NoReturnCall(_) => "no return",
        _ => "tail",
    };
    graph
        .calls()
        .filter_map(|(_, target, exit)| Some((code.target_name(target)?, how(exit))))
        .collect()
}

fn check_graph(graph: &FlowGraph) {
    for (at, block) in graph.blocks.iter().enumerate() {
        let id = program::code::BlockId(at as u32);
        assert!(!block.instrs.is_empty());
        for next in &block.succs {
            assert!(graph.block(*next).expect("an edge inside").preds.contains(&id));
        }
        for ix in block.indices() {
            assert_eq!(graph.block_of(ix), Some(id));
            let addr = graph.addr(ix).expect("an instruction");
            assert_eq!(graph.at(addr), Some(ix));
        }
    }
    let mut end = 0;
    for instruction in &graph.instructions {
        assert!(
            end <= instruction.ip(),
            "compiled instructions do not overlap: {:x}",
            instruction.ip()
        );
        end = instruction.next_ip();
    }
}

#[test]
fn a_switch_leads_to_each_of_its_cases() {
    for flags in C_BUILDS {
        let (_folder, bytes) = build("switches.c", SWITCHES, flags);
        let code = code(bytes);
        for (name, cases) in [("choose", 8), ("interpret", 8)] {
            let graph = code.flow(only(&code, name));
            check_graph(&graph);
            assert_eq!(
                count(&graph, |exit| *exit == Exit::Unresolved),
                0,
                "{flags} {name}"
            );
            // Compilers may copy the dispatch to the end of each case.
            let switches: Vec<_> = graph
                .blocks
                .iter()
                .filter(|block| block.exit == Exit::Switch)
                .collect();
            assert!(!switches.is_empty(), "{flags} {name}");
            for switch in switches {
                let targets = switch.succs.len();
                assert!(
                    (cases - 1..=cases + 1).contains(&targets),
                    "{flags} {name}: {targets} of {cases}"
                );
            }
            assert!(
                graph.blocks.iter().all(|block| !block.exceptional),
                "{flags} {name}"
            );
        }
    }
}

#[test]
fn calls_have_names_and_the_ones_that_stay_away_end_their_path() {
    for flags in C_BUILDS {
        let (_folder, bytes) = build("switches.c", SWITCHES, flags);
        let code = code(bytes);
        let choose = code.flow(only(&code, "choose"));
        let named = calls(&code, &choose);
        assert!(named.contains(&("die", "no return")), "{flags}: {named:?}");
        let optimised = !flags.contains("-O0");
        let rand = if optimised { "tail" } else { "call" };
        assert!(named.contains(&("rand", rand)), "{flags}: {named:?}");
        let main = code.flow(only(&code, "main"));
        let named = calls(&code, &main);
        assert!(
            named.contains(&("__assert_fail", "no return")),
            "{flags}: {named:?}"
        );
        assert!(
            main.calls().any(|(_, target, _)| target == Target::Indirect),
            "{flags}"
        );
        let hand_on = calls(&code, &code.flow(only(&code, "hand_on")));
        assert!(
            hand_on.contains(&("choose", if optimised { "tail" } else { "call" })),
            "{flags}: {hand_on:?}"
        );
        let die = only(&code, "die");
        assert!(code.never_returns(Target::Function(die)), "{flags}");
        assert!(
            !code.never_returns(Target::Function(only(&code, "choose"))),
            "{flags}"
        );
    }
}

#[test]
fn parts_moved_away_belong_to_their_function() {
    let text = "#include <stdlib.h>\n#include <stdio.h>\n\
        __attribute__((cold, noinline)) void rare(int x) { printf(\"%d\\n\", x); }\n\
        __attribute__((noinline)) int work(int *p, int n) {\n\
        int sum = 0; for (int i = 0; i < n; i++) { if (__builtin_expect(p[i] < 0, 0)) { rare(i); rare(p[i]); sum -= 7; }\n\
        sum += p[i]; } if (sum == 77) abort(); return sum; }\n\
        int main(int c, char **v) { int a[3] = {c, -c, c}; return work(a, c); }";
    let (folder, bytes) = build("cold.c", text, "gcc -O2");
    let symbols = folder.run("nm program");
    let cold = symbols
        .lines()
        .find(|line| line.ends_with(" work.cold"))
        .expect("gcc moves the part away");
    let start = LinkAddr(u64::from_str_radix(&cold[..16], 16).expect("an address"));
    let code = code(bytes);
    let work = only(&code, "work");
    assert_eq!(code.functions().at(start), Some(work));
    assert_eq!(code.functions().parts(work).len(), 2);
    let graph = code.flow(work);
    let block = graph
        .at(start)
        .and_then(|ix| graph.block_of(ix))
        .and_then(|id| graph.block(id))
        .expect("a block");
    assert!(!block.preds.is_empty() && !block.exceptional);
    let back = graph.blocks.iter().filter(|b| b.start >= start).any(|b| {
        b.succs.iter().any(|next| {
            code.functions()
                .get(work)
                .is_some_and(|f| f.range.contains(&graph.blocks[next.0 as usize].start))
        })
    });
    assert!(back, "the part leads back");
    assert!(
        graph
            .blocks
            .iter()
            .any(|b| matches!(b.exit, Exit::NoReturnCall(_)))
    );
    assert_eq!(count(&graph, |exit| matches!(exit, Exit::TailCall(_))), 0);
}

/// Instruction addresses of each function, as objdump sees them, padding left out.
fn objdump(folder: &Folder) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut functions = BTreeMap::new();
    let mut current = 0;
    for line in folder
        .run("objdump -d --no-show-raw-insn -j .text program")
        .lines()
    {
        if let Some((addr, rest)) = line.split_once(" <").filter(|_| !line.starts_with(' ')) {
            if rest.ends_with(">:") && !rest.contains(".cold") {
                current = u64::from_str_radix(addr, 16).expect("an address");
            }
            continue;
        }
        let Some((addr, text)) = line.split_once(':') else {
            continue;
        };
        let Ok(addr) = u64::from_str_radix(addr.trim(), 16) else {
            continue;
        };
        let padding = ["nop", "xchg   %ax,%ax", "cs nop", "data16", "int3", "ud2", "hlt"];
        if !padding.iter().any(|nothing| text.trim().starts_with(nothing)) {
            functions
                .entry(current)
                .or_insert_with(BTreeSet::new)
                .insert(addr);
        }
    }
    functions
}

#[test]
fn instructions_are_the_ones_that_objdump_shows() {
    for flags in ["gcc -O0", "gcc -O2 -no-pie", "clang -O2", "clang -O0"] {
        let (folder, bytes) = build("switches.c", SWITCHES, flags);
        let code = code(bytes);
        let shown = objdump(&folder);
        for name in ["choose", "interpret", "hand_on", "die"] {
            let id = only(&code, name);
            let function = code.functions().get(id).expect("a function");
            let graph = code.flow(id);
            let found: BTreeSet<u64> = graph.instructions.iter().map(|i| i.ip()).collect();
            let range = function.range.start.0..function.range.end.0;
            let expected = shown[&function.entry.0]
                .iter()
                .filter(|addr| range.contains(addr));
            let missing: Vec<_> = expected.filter(|addr| !found.contains(addr)).collect();
            assert!(missing.is_empty(), "{flags} {name}: {missing:x?}");
        }
    }
}

#[test]
fn callers_references_and_addresses_are_found() {
    for flags in C_BUILDS {
        let (_folder, bytes) = build("switches.c", SWITCHES, flags);
        let code = code(bytes);
        let callers = |name: &str| -> BTreeSet<String> {
            let sites = code.callers_of(only(&code, name));
            sites
                .iter()
                .map(|site| code.functions().display_name(site.caller))
                .collect()
        };
        let expected: BTreeSet<String> = ["hand_on", "interpret", "main"].map(String::from).into();
        assert_eq!(callers("choose"), expected, "{flags}");
        assert_eq!(
            callers("hand_on"),
            BTreeSet::from([String::from("main")]),
            "{flags}"
        );
        let index = code.call_index();
        let choose = only(&code, "choose");
        assert_eq!(
            index.callers_of(choose).collect::<Vec<_>>(),
            code.callers_of(choose),
            "{flags}"
        );

        let counter = code
            .elf()
            .data_symbols()
            .find(|symbol| symbol.name == "counter")
            .expect("counter");
        let references = code.references_to(&(counter.addr..counter.addr.offset(4)));
        let users: BTreeSet<String> = references
            .iter()
            .map(|reference| code.functions().display_name(reference.function))
            .collect();
        assert_eq!(users, ["interpret", "main"].map(String::from).into(), "{flags}");
        let writes = |kind| matches!(kind, ReferenceKind::Write | ReferenceKind::ReadWrite);
        assert!(
            references.iter().any(|reference| writes(reference.kind)),
            "{flags}"
        );
        assert!(
            references
                .iter()
                .any(|reference| reference.kind == ReferenceKind::Read),
            "{flags}"
        );

        let handlers = code
            .elf()
            .data_symbols()
            .find(|symbol| symbol.name == "handlers")
            .expect("handlers");
        let die = code
            .functions()
            .get(only(&code, "die"))
            .expect("a function")
            .entry;
        assert_eq!(code.elf().pointer_at(handlers.addr), Some(die), "{flags}");
        assert!(
            code.address_taken(die)
                .contains(&AddressTaken::Data(handlers.addr)),
            "{flags}"
        );
    }
}

#[test]
fn landing_pads_are_exceptional_and_throwing_does_not_return() {
    for flags in ["g++ -O0", "g++ -O2", "clang++ -O2", "clang++ -O0 -no-pie"] {
        let (_folder, bytes) = build("throws.cpp", THROWS, flags);
        let code = code(bytes);
        let parse = code.flow(only(&code, "jobs::parse"));
        check_graph(&parse);
        assert!(
            calls(&code, &parse).contains(&("__cxa_throw", "no return")),
            "{flags}"
        );
        let guarded = code.flow(only(&code, "jobs::guarded"));
        check_graph(&guarded);
        let catches = |exceptional: bool| {
            guarded
                .blocks
                .iter()
                .filter(|block| block.exceptional == exceptional)
                .any(|block| {
                    block.exit.target().and_then(|target| code.target_name(target))
                        == Some("__cxa_begin_catch")
                })
        };
        assert!(catches(true) && !catches(false), "{flags}");
    }
}

#[test]
fn rust_matches_and_panics_are_followed() {
    for flags in [
        "rustc -O",
        "rustc",
        "rustc -O -Cpanic=abort -Crelocation-model=static",
    ] {
        let (_folder, bytes) = build("shapes.rs", SHAPES, flags);
        let code = code(bytes);
        let graph = code.flow(only(&code, "shapes::area"));
        check_graph(&graph);
        assert_eq!(count(&graph, |exit| *exit == Exit::Switch), 1, "{flags}");
        assert_eq!(count(&graph, |exit| *exit == Exit::Unresolved), 0, "{flags}");
        let panics = graph.calls().any(|(_, target, exit)| {
            matches!(exit, Exit::NoReturnCall(_))
                && code
                    .target_name(target)
                    .is_some_and(|name| name.contains("panic_bounds_check"))
        });
        assert!(panics, "{flags}");
        assert!(!graph.truncated);
    }
}

#[test]
fn the_standard_library_has_no_riddles() {
    let (_folder, bytes) = build("shapes.rs", SHAPES, "rustc -O");
    let code = code(bytes);
    let counts = code.sweep_map(|graph| {
        check_graph(graph);
        [Exit::Switch, Exit::Unresolved].map(|wanted| count(graph, |exit| *exit == wanted))
    });
    let [switches, unresolved] = [0, 1].map(|which| counts.iter().map(|own| own[which]).sum::<usize>());
    assert!(switches > 50, "{switches}");
    assert_eq!(unresolved, 0);
}

#[test]
fn a_stripped_program_still_has_its_functions() {
    let (folder, bytes) = build("switches.c", SWITCHES, "gcc -O2");
    let full = code(bytes);
    let entries: Vec<LinkAddr> = ["choose", "interpret", "hand_on", "die", "main"]
        .map(|name| full.functions().get(only(&full, name)).expect("a function").entry)
        .into();
    folder.run("strip program");
    let bytes: &'static [u8] = Box::leak(folder.read("program").into_boxed_slice());
    let stripped = code(bytes);
    assert!(stripped.elf().is_stripped() && !full.elf().is_stripped());
    for entry in entries {
        let id = stripped
            .functions()
            .starting_at(entry)
            .expect("found through the unwind table");
        let (graph, named) = (
            stripped.flow(id),
            full.flow(full.functions().starting_at(entry).expect("named")),
        );
        assert!(graph.instructions.len() >= named.instructions.len() / 2);
    }
    assert_eq!(stripped.elf().build_id(), full.elf().build_id());
    assert_eq!(stripped.elf().kind(), ElfKind::Pie);
}

#[test]
fn files_of_other_kinds_are_refused_with_a_reason() {
    let folder = Folder::new("kinds");
    folder.write("a.c", "int f(void) { return 1; }");
    folder.run("gcc -c a.c -o a.o");
    assert_eq!(Elf::parse(&folder.read("a.o")).err(), Some(ElfError::Relocatable));
    assert_eq!(Elf::parse(b"#!/bin/sh\n").err(), Some(ElfError::NotElf));
    assert_eq!(Elf::parse(b"").err(), Some(ElfError::NotElf));
    folder.run("gcc -shared -fPIC a.c -o liba.so");
    let library = folder.read("liba.so");
    assert_eq!(
        Elf::parse(&library).map(|elf| elf.kind()),
        Ok(ElfKind::SharedObject)
    );
    assert!(matches!(
        Elf::parse(&library[..library.len() / 2]),
        Err(ElfError::Damaged(_))
    ));
    let mut other = library.clone();
    other[18] = 183;
    assert_eq!(
        Elf::parse(&other).err(),
        Some(ElfError::OtherMachine {
            class: 2,
            machine: 183
        })
    );
    let mut core = library;
    core[16] = 4;
    assert!(
        Elf::parse(&core)
            .expect_err("a core")
            .to_string()
            .starts_with("this is a core; ")
    );
}
