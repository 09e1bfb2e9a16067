//! Names of memory accesses in real programs.
//!
//! The programs say on each line which names are right: `// = a b | c`. Unoptimised code must have exactly
//! `a` and `b`; optimised code may have any of the three, and never another one. Plain locals need not be
//! listed: they are right on lines that have them.

#![allow(
    clippy::print_stdout,
    reason = "the share of named accesses is for people to read"
)]

mod support;

use std::collections::BTreeSet;

use program::Module;
use program::code::InstrIx;
use program::naming::{Namer, RootKind, name_in_callee};
use program::values::{Gpr, Values};
use support::{Folder, FolderFiles};

/// An access: its line, where it is, its name.
struct Named {
    line: u32,
    addr: u64,
    path: Option<String>,
    /// The whole of a local variable or parameter.
    plain: bool,
}

/// The names of a program's accesses, in the functions of the file that the names are listed in.
fn named(build: &str, file: &str, text: &str) -> Vec<Named> {
    let folder = Folder::new("naming");
    folder.write(file, text);
    folder.run(&format!("{build} {file} -o built"));
    let files = FolderFiles::new(&folder, "built");
    let module = Module::load("built", files.binary(), files).expect("a compiler wrote it");
    let mut found = Vec::new();
    for function in module.code().functions().ids() {
        let flow = module.code().flow(function);
        let values = Values::analyse(&flow, &|slot| module.constant_pointer(slot));
        let namer = Namer::new(&module, &flow, &values);
        for ix in (0..).map(InstrIx).take(flow.instructions.len()) {
            let addr = flow.addr(ix).expect("an instruction");
            let frame = module.sources().frames_at(addr).into_iter().next();
            let of_file = |path: &str| path.ends_with(file);
            let Some(frame) = frame.filter(|frame| frame.file.as_deref().is_some_and(of_file)) else {
                continue;
            };
            for access in values.accesses(ix).iter().filter(|access| !access.implicit) {
                let name = namer.name(ix, access);
                let plain = name.as_ref().is_some_and(|name| {
                    name.steps.is_empty() && matches!(name.root.kind, RootKind::Local | RootKind::Parameter)
                });
                found.push(Named {
                    line: frame.line,
                    addr: addr.0,
                    path: name.map(|name| name.path),
                    plain,
                });
            }
        }
    }
    found
}

/// What a line says about names: those that must be there, those that may.
struct Listed<'t> {
    exact: BTreeSet<&'t str>,
    others: BTreeSet<&'t str>,
}

fn listed(text: &str, line: u32) -> Option<(&str, Listed<'_>)> {
    let text = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let (code, names) = text.split_once("//")?;
    let names = names.trim_start();
    let (exact, others) = match names.strip_prefix('=') {
        Some(names) => names.split_once('|').unwrap_or((names, "")),
        None => ("", names.strip_prefix('|')?),
    };
    let exact = exact.split_whitespace().collect();
    let others = others.split_whitespace().collect();
    Some((code, Listed { exact, others }))
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .any(|found| found == word)
}

/// Checks every name of a build; says how many of its accesses on listed lines have one.
fn check(build: &str, file: &str, text: &str, exactly: bool) -> (usize, usize) {
    let (mut with_name, mut all) = (0, 0);
    let accesses = named(build, file, text);
    let mut lines: Vec<u32> = accesses.iter().map(|access| access.line).collect();
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        let Some((code, listed)) = listed(text, line) else {
            continue;
        };
        let mut found = BTreeSet::new();
        for access in accesses.iter().filter(|access| access.line == line) {
            all += 1;
            let Some(path) = &access.path else { continue };
            with_name += 1;
            if access.plain && (has_word(code, path) || path == "this") {
                continue;
            }
            let right = listed.exact.contains(path.as_str()) || listed.others.contains(path.as_str());
            assert!(
                right,
                "{build}: {:#x} on line {line} is not {path}: {code}",
                access.addr
            );
            found.insert(path.as_str());
        }
        if exactly {
            let others = |name: &&str| !listed.others.contains(name) || listed.exact.contains(name);
            let found: BTreeSet<_> = found.into_iter().filter(others).collect();
            assert_eq!(found, listed.exact, "{build}, line {line}: {code}");
        }
    }
    (with_name, all)
}

/// Checks builds that must name everything, and builds that must name so many of a hundred.
fn check_all(file: &str, text: &str, plain: &[&str], optimised: &[&str], least: usize) {
    for build in plain {
        let (with_name, all) = check(build, file, text, true);
        println!("{build}: {with_name} of {all} accesses have a name");
    }
    let (mut with_name, mut all) = (0, 0);
    for build in optimised {
        let (here, of) = check(build, file, text, false);
        println!("{build}: {here} of {of} accesses have a name");
        with_name += here;
        all += of;
    }
    let share = with_name * 100 / all.max(1);
    assert!(
        share >= least,
        "only {share} of 100 accesses of optimised {file} have a name"
    );
}

#[test]
fn accesses_of_c_have_their_names_or_none() {
    check_all(
        "paths.c",
        include_str!("programs/paths.c"),
        &[
            "gcc -gdwarf-4 -O0",
            "gcc -gdwarf-5 -O0",
            "gcc -g -O0 -no-pie",
            "clang -gdwarf-4 -O0",
            "clang -gdwarf-5 -O0",
        ],
        &[
            "gcc -gdwarf-4 -O1",
            "gcc -gdwarf-5 -O2",
            "gcc -g -O3 -no-pie",
            "gcc -g -Og -fno-pie -no-pie",
            "clang -gdwarf-4 -O1",
            "clang -gdwarf-5 -O2",
            "clang -g -O3 -march=x86-64-v3",
        ],
        70,
    );
}

#[test]
fn accesses_of_cpp_have_their_names_or_none() {
    check_all(
        "paths.cpp",
        include_str!("programs/paths.cpp"),
        &[
            "g++ -gdwarf-4 -O0",
            "g++ -gdwarf-5 -O0",
            "clang++ -gdwarf-4 -O0",
            "clang++ -gdwarf-5 -O0",
        ],
        &[
            "g++ -gdwarf-4 -O1",
            "g++ -gdwarf-5 -O2",
            "clang++ -gdwarf-4 -O1",
            "clang++ -gdwarf-5 -O2",
        ],
        60,
    );
}

#[test]
fn accesses_of_rust_have_their_names_or_none() {
    check_all(
        "paths.rs",
        include_str!("programs/paths.rs"),
        &["rustc -g", "rustc -g -C dwarf-version=5"],
        &[
            "rustc -g -C opt-level=1",
            "rustc -g -C opt-level=2",
            "rustc -g -C opt-level=3 -C dwarf-version=5",
        ],
        50,
    );
}

/// What a library's inlined code calls `self`, the program has a name for; and of fields that are accessed together each has its
/// own.
#[test]
fn what_inlined_code_of_a_library_accesses_has_the_name_of_the_program() {
    const RUST: &str = r#"
use std::cell::UnsafeCell;
pub struct Slot { pub peer: UnsafeCell<Option<Box<u64>>> }
#[inline(never)]
pub fn send(slot: &Slot) -> u64 {
    let peer = unsafe { &mut *slot.peer.get() };
    **peer.as_mut().expect("a peer")
}
fn main() {
    let slot = Slot { peer: UnsafeCell::new(Some(Box::new(std::env::args().count() as u64))) };
    std::process::exit(send(&slot) as i32);
}
"#;
    const C: &str = r#"
struct book { long cash, bank, total; };
__attribute__((noinline)) void send(struct book *b) { b->bank += 1; b->total += 1; }
int main(void) { struct book b = {0}; send(&b); return (int)b.total; }
"#;
    // Inlined even where nothing else is, with a `this` of its own; and what is a library of Rust's by its name is the program's here.
    const CXX: &str = r#"
#include <atomic>
namespace core { struct window { std::atomic<long> sum, count; }; }
extern "C" long send(const core::window *w) { return w->count.load(std::memory_order_relaxed); }
int main() { core::window w{}; return static_cast<int>(send(&w)); }
"#;
    for (build, file, text, expected) in [
        ("rustc -g -C opt-level=2", "slot.rs", RUST, vec!["slot.peer"]),
        ("g++ -g -O0", "window.cc", CXX, vec!["w->count"]),
        ("gcc -g -O2", "book.c", C, vec!["b->bank", "b->total"]),
    ] {
        let folder = Folder::new("inlined-names");
        folder.write(file, text);
        folder.run(&format!("{build} {file} -o built"));
        let files = FolderFiles::new(&folder, "built");
        let module = Module::load("built", files.binary(), files).expect("a compiler wrote it");
        let functions = module.code().functions();
        let sends = |id: &_| {
            functions
                .get(*id)
                .and_then(|it| it.symbol)
                .is_some_and(|symbol| symbol == "send" || symbol.contains("slot4send"))
        };
        let function = functions.ids().find(sends).expect("it is not inlined");
        let flow = module.code().flow(function);
        let values = Values::analyse(&flow, &|slot| module.constant_pointer(slot));
        let namer = Namer::new(&module, &flow, &values);
        let mut names = BTreeSet::new();
        for ix in (0..).map(InstrIx).take(flow.instructions.len()) {
            for access in values.accesses(ix).iter().filter(|access| !access.implicit) {
                let pieces = (0..access.width.unwrap_or(0)).step_by(8);
                let named = pieces.filter_map(|within| namer.name_part(ix, access, within, 8));
                names.extend(named.map(|name| name.path).filter(|path| !path.contains("**")));
            }
        }
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert!(
            expected.iter().all(|name| names.contains(name)),
            "{build}: {names:?}"
        );
        assert!(
            !names.iter().any(|name| name.contains("self")),
            "{build}: {names:?}"
        );
    }
}

/// A pointer that a call returned is in no variable of whoever passes it on.
#[test]
fn what_is_passed_has_the_name_that_the_callee_has_for_it() {
    const C: &str = r#"
struct box { int a; int length; };
struct box one;
__attribute__((noinline)) int length(const struct box *self) { return self->length; }
__attribute__((noinline)) int twice(const struct box *it) { return 2 * length(it); }
int main(void) { return twice(&one); }
"#;
    let folder = Folder::new("passed-names");
    folder.write("box.c", C);
    folder.run("gcc -g -O0 box.c -o built");
    let files = FolderFiles::new(&folder, "built");
    let module = Module::load("built", files.binary(), files).expect("a compiler wrote it");
    let functions = module.code().functions();
    let symbol = |id: &_| functions.get(*id).and_then(|it| it.symbol) == Some("twice");
    let twice = functions.ids().find(symbol).expect("it is there");
    let name = |offset| name_in_callee(&module, twice, Gpr::RDI, offset, 4).map(|name| name.path);
    assert_eq!(name(4).as_deref(), Some("self->length"));
    assert_eq!(name(0), None, "nobody accesses it");
}

#[test]
fn what_an_inlined_function_is_passed_is_still_the_caller_s_member() {
    let text = "
struct queue { long used; int *lock; };
__attribute__((noinline)) int take(int *lock) { return *lock; }
static inline int checked(int *mutex) {
    int taken = take(mutex); /* here */
    return taken ? taken : 3;
}
__attribute__((noinline)) int serve(struct queue *q) { return checked(q->lock) + (int)q->used; }
int main(int count, char **words) { struct queue q = {count, &count}; return serve(&q) + !words; }
";
    let line = text.lines().position(|line| line.contains("here")).unwrap_or(0) as u32 + 1;
    let accesses = named("gcc -g -O2 -x c", "inlined.c", text);
    let names = accesses.iter().filter(|access| access.line == line);
    let names: BTreeSet<&str> = names.filter_map(|access| access.path.as_deref()).collect();
    assert_eq!(names, BTreeSet::from(["q->lock"]));
}
