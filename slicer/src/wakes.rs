//! Who could wake a thread that waits for a signal.
//!
//! A thread that waits for a condition, and is not asked for anything on the way there, depends on nothing but that somebody signals.
//! Whether that was done, and when, is decided where it would have been: the calls that signal are looked for all over the
//! program's own code, those in the file of the waiting statement first.

use std::collections::BTreeSet;

use failure::resolve::{Waiting, waiting};
use failure::{Failure, ResolvedThread};
use program::elf::{ImportId, Pointer};
use program::{Attribution, FunctionRef, Module, ModuleId, Pc, Program};

/// Calls that are looked at: where more signal, nothing tells which of them is meant.
const MOST: usize = 6;

/// Names of what signals, as the C library, C++ and Rust have them; of C++ without the parameters.
const IMPORTS: [&str; 8] = [
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "cnd_signal",
    "cnd_broadcast",
    "sem_post",
    "_ZNSt18condition_variable10notify_oneEv",
    "_ZNSt18condition_variable10notify_allEv",
    "pthread_barrier_wait",
];
const LINKED_IN: [&str; 2] = ["7Condvar10notify_one", "7Condvar10notify_all"];

/// The calls in the program's own code by which threads that wait for a signal may be woken, nearest first.
#[must_use]
pub fn waking(program: &Program<'_>, failure: &Failure) -> Vec<Pc> {
    let waits = |thread: &&ResolvedThread| waiting(thread) == Waiting::Signal;
    let waiting: Vec<&ResolvedThread> = failure.threads.iter().filter(waits).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let places = waiting.iter().filter_map(|thread| {
        let own = thread.frames.iter().find(|frame| frame.own)?;
        file_of(program, own.executing()?)
    });
    let files: BTreeSet<String> = places.collect();
    let own = program.modules().filter(|(_, module)| !module.is_library());
    let mut calls: Vec<(bool, Pc)> = own
        .flat_map(|(id, module)| signalling(program, id, module))
        .map(|pc| {
            (
                !file_of(program, pc).is_some_and(|file| files.contains(&file)),
                pc,
            )
        })
        .collect();
    calls.sort_unstable();
    calls.dedup();
    calls.into_iter().map(|(_, pc)| pc).take(MOST).collect()
}

fn signalling(program: &Program<'_>, id: ModuleId, module: &Module<'_>) -> Vec<Pc> {
    let code = module.code();
    let imports = module
        .elf()
        .relocations()
        .iter()
        .filter_map(|(_, pointer)| match pointer {
            Pointer::Import(import) => Some(ImportId(import)),
            Pointer::Local(_) | Pointer::Resolved(_) => None,
        });
    let imports: BTreeSet<ImportId> = imports.collect();
    let signals = |import: &ImportId| {
        let name = module.elf().import_name(*import);
        name.is_some_and(|name| IMPORTS.contains(&name.split('@').next().unwrap_or(name)))
    };
    let mut sites: Vec<_> = imports
        .into_iter()
        .filter(signals)
        .flat_map(|import| code.callers_of_import(import))
        .collect();
    let functions = code.functions();
    for function in LINKED_IN.iter().flat_map(|part| functions.with_symbol_part(part)) {
        sites.extend(code.callers_of(function));
    }
    let own = |pc: &Pc| {
        let function = program.function_at(*pc);
        function.is_some_and(|function: FunctionRef| program.is_own(function))
    };
    let calls = sites.into_iter().map(|site| Pc {
        module: id,
        addr: site.at,
    });
    calls.filter(own).collect()
}

fn file_of(program: &Program<'_>, pc: Pc) -> Option<String> {
    match program.statement_at(pc) {
        Attribution::Statement(statement) => statement.file.map(|file| file.to_string()),
        Attribution::CompilerMade | Attribution::Library => None,
    }
}
