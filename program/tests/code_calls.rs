//! Who calls whom, also where the call is a short jump at a function's end.

mod support;

use std::sync::Arc;

use program::code::{CallSite, Code, Exit, FunctionId, Target};
use program::elf::Elf;
use support::Folder;

fn build(name: &str, text: &str, command: &str) -> Code<'static> {
    let folder = Folder::new("calls");
    folder.write(name, text);
    folder.run(&format!("{command} {name} -o program"));
    let bytes: &'static [u8] = Box::leak(folder.read("program").into_boxed_slice());
    Code::new(Arc::new(Elf::parse(bytes).expect("a program")))
}

fn only(code: &Code<'_>, name: &str) -> FunctionId {
    let found = code.functions().named(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0]
}

const NEIGHBOURS: &str = r#"
#define F __attribute__((noinline, noclone))
volatile int state;
F void last(int n) { state += n; }
F void always(int n) { state++; last(n + 1); }
F void sometimes(int n) { if (n > 3) last(n); else state--; }
F void after(int n);
F void before(int n) { state += 2; after(n); }
F void after(int n) { state -= n; }
int main(int argc, char **argv) { always(argc); sometimes(argc); before(argc); return state; }
"#;

#[test]
fn short_jumps_between_neighbours_are_calls() {
    for command in ["gcc -O2", "gcc -O2 -no-pie -fno-pie", "clang -O2", "gcc -Os"] {
        let code = build("neighbours.c", NEIGHBOURS, command);
        for (callee, callers) in [("last", vec!["always", "sometimes"]), ("after", vec!["before"])] {
            let sites = code.callers_of(only(&code, callee));
            let mut names: Vec<String> = sites
                .iter()
                .map(|site| code.functions().display_name(site.caller))
                .collect();
            names.sort();
            assert_eq!(names, callers, "{command}");
            assert!(sites.iter().all(|site| site.tail), "{command}");
        }
    }
}

#[test]
fn single_questions_and_the_index_of_all_calls_agree() {
    // With the C library in the program: hand-written assembly, short jumps both ways, stubs.
    let code = build("neighbours.c", NEIGHBOURS, "gcc -O2 -static");
    let index = code.call_index();
    let is_near = |function: FunctionId, site: CallSite| {
        let entry = code.functions().get(function).map(|function| function.entry.0);
        site.tail && entry.is_some_and(|entry| site.at.0.abs_diff(entry) < 126)
    };
    let near: Vec<FunctionId> = code
        .functions()
        .ids()
        .filter(|&function| index.callers_of(function).any(|site| is_near(function, site)))
        .collect();
    assert!(!near.is_empty(), "the C library has short tail calls");
    for function in code.functions().ids().step_by(17).chain(near) {
        let expected: Vec<CallSite> = index.callers_of(function).collect();
        let name = code.functions().display_name(function);
        assert_eq!(code.callers_of(function), expected, "{name}");
    }
}

const WRAPPERS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define F __attribute__((noinline, noclone))
volatile int state;
F void give_up(void) { state = 1; abort(); }
F void complain(const char *why) { puts(why); give_up(); }
F void refuse(int n) { state = n; complain("refused"); }
F void perhaps(int n) { if (n > 3) refuse(n); state = 2; }
F void both(int n) { if (n > 3) refuse(n); else complain("small"); }
F void spin(void) { for (;;) state++; }
int main(int argc, char **argv) {
    if (argc == 7) refuse(argc);
    if (argc == 8) both(argc);
    if (argc == 9) spin();
    perhaps(argc);
    return state;
}
"#;

#[test]
fn not_returning_is_passed_on_through_wrappers() {
    for command in ["gcc -O0", "gcc -O2", "clang -O0", "clang -O2"] {
        let code = build("wrappers.c", WRAPPERS, command);
        for (name, stays_away) in [
            ("give_up", true),
            ("complain", true),
            ("refuse", true),
            ("both", true),
            ("spin", true),
            ("perhaps", false),
        ] {
            let target = Target::Function(only(&code, name));
            assert_eq!(code.never_returns(target), stays_away, "{command} {name}");
        }
        let graph = code.flow(only(&code, "perhaps"));
        let ends_there = graph
            .blocks
            .iter()
            .any(|block| matches!(block.exit, Exit::NoReturnCall(_)) && block.succs.is_empty());
        assert!(ends_there, "{command}");
    }
}
