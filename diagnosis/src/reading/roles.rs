//! What kind of thread a thread is: its start routine, as its stack shows it.
//!
//! The outermost function of the program's own code is the routine that the thread was started with. Where that is a
//! closure, its name says little and the function that it calls says more. Where the routine ends in a jump to another
//! function, it has left the stack: whoever no thread starts with was jumped to from the one it does start with.
//!
//! Where memory is watched without stopping anybody, a thread may never have been looked at. Then the code that it was
//! seen in tells its kind, if only one start routine leads there.

use std::collections::BTreeMap;
use std::sync::Arc;

use program::{FunctionRef, Pc, RunAddr, is_library_path};
use slicer::threads::ThreadModel;

use super::places::Places;

/// Jumps from function to function at the end of a thread's routine.
const MOST_JUMPS: usize = 4;
/// Functions that are looked at on the way from an access back to the start of its thread.
const MOST_CALLERS: usize = 32;

/// The role of a thread with these stacks, each with its innermost address first. A thread that was looked at in its
/// closure shows the function that the closure calls at one of the next looks.
pub(super) fn of_stacks<'r>(
    stacks: impl IntoIterator<Item = &'r [RunAddr]>,
    places: &Places<'_, '_, '_>,
    threads: &ThreadModel<'_, '_>,
) -> Option<Arc<str>> {
    let mut closure = None;
    for stack in stacks {
        match of_stack(stack, places, threads) {
            Some(name) if !is_closure(&name) => return Some(name),
            name => closure = closure.or(name),
        }
    }
    closure
}

fn of_stack(
    stack: &[RunAddr],
    places: &Places<'_, '_, '_>,
    threads: &ThreadModel<'_, '_>,
) -> Option<Arc<str>> {
    let mut closure = None;
    let mut outermost = true;
    for (depth, &addr) in stack.iter().enumerate().rev() {
        // All but the innermost are where calls return to.
        let inside = if depth == 0 { addr } else { addr.offset(-1) };
        let own = places.place(inside).map(|pc| own_functions(pc, places));
        for name in own.unwrap_or_default() {
            if std::mem::take(&mut outermost)
                && let Some(routine) = jumped_from(inside, places, threads)
            {
                return Some(routine);
            }
            if !is_closure(&name) {
                return Some(name);
            }
            closure.get_or_insert(name);
        }
    }
    closure
}

/// The role of a thread other than the first that was seen at these places of the program's own code, and whose stack nobody saw.
pub(super) fn of_code(
    seen_at: &[Pc],
    places: &Places<'_, '_, '_>,
    threads: &ThreadModel<'_, '_>,
) -> Option<Arc<str>> {
    let mut functions: Vec<FunctionRef> = Vec::new();
    for &at in seen_at {
        let function = places.program.function_at(at);
        functions.extend(function.filter(|function| !functions.contains(function)));
    }
    // Each of them may be called by several kinds of threads; together they may tell.
    let mut common: Option<Vec<Arc<str>>> = None;
    for function in functions {
        let Some(reach) = routines_that_reach(function, places, threads) else {
            continue;
        };
        common = Some(match common {
            None => reach,
            Some(known) => known.into_iter().filter(|name| reach.contains(name)).collect(),
        });
    }
    match common.as_deref() {
        Some([only]) => Some(in_closure(Arc::clone(only), seen_at, places)),
        _ => None,
    }
}

/// The role of a thread that is known by a name and was seen at these places: what a closure calls may have been inlined into it.
pub(super) fn in_closure(name: Arc<str>, seen_at: &[Pc], places: &Places<'_, '_, '_>) -> Arc<str> {
    if !is_closure(&name) {
        return name;
    }
    let mut inlined = seen_at.iter().flat_map(|&at| own_functions(at, places));
    inlined.find(|name| !is_closure(name)).unwrap_or(name)
}

/// The roles of the threads that can come to a function; `None` if not all of them were found.
fn routines_that_reach(
    function: FunctionRef,
    places: &Places<'_, '_, '_>,
    threads: &ThreadModel<'_, '_>,
) -> Option<Vec<Arc<str>>> {
    let program = places.program;
    // Each function on the way back, and the one that it leads to.
    let mut leads_to: BTreeMap<FunctionRef, Option<FunctionRef>> = BTreeMap::from([(function, None)]);
    let mut open = vec![function];
    let mut found: Vec<Arc<str>> = Vec::new();
    while let Some(at) = open.pop() {
        if leads_to.len() > MOST_CALLERS {
            return None;
        }
        if !threads.creators_of(at).is_empty() {
            let name = role_of_way(at, &leads_to, places)?;
            found.extend(Some(name).filter(|name| !found.contains(name)));
        }
        for caller in program.callers_of(at) {
            let caller = program.function_at(caller)?;
            leads_to.entry(caller).or_insert_with(|| {
                open.push(caller);
                Some(at)
            });
        }
    }
    Some(found)
}

/// What a thread that starts with a routine is called: after the first function on its way that is no closure.
fn role_of_way(
    routine: FunctionRef,
    leads_to: &BTreeMap<FunctionRef, Option<FunctionRef>>,
    places: &Places<'_, '_, '_>,
) -> Option<Arc<str>> {
    let mut at = Some(routine);
    let mut closure = None;
    for _ in 0..=leads_to.len() {
        let Some(function) = at else { break };
        // Between the thread's first instruction and the program's own code is the language's library.
        if let Some(name) = entry_name(function, places) {
            if !is_closure(&name) {
                return Some(name);
            }
            closure.get_or_insert(name);
        }
        at = leads_to.get(&function).copied().flatten();
    }
    closure
}

/// The name of a function of the program's own.
fn entry_name(function: FunctionRef, places: &Places<'_, '_, '_>) -> Option<Arc<str>> {
    let module = places.program.module(function.module)?;
    let entry = module.code().functions().get(function.function)?.entry;
    let own = places.program.is_own(function);
    let name = module
        .sources()
        .frames_at(entry)
        .pop()
        .and_then(|frame| frame.function);
    name.or_else(|| module.name_of_function_at(entry)).filter(|_| own)
}

/// The program's own functions at a place, the outermost one first.
fn own_functions(pc: Pc, places: &Places<'_, '_, '_>) -> Vec<Arc<str>> {
    let own = || {
        let module = places.program.module(pc.module)?;
        if module.is_library() {
            return None;
        }
        if !module.has_debug_information() {
            return module.name_of_function_at(pc.addr).map(|name| vec![name]);
        }
        let frames = module.sources().frames_at(pc.addr);
        let own = frames.into_iter().rev().filter(|frame| {
            let file = frame.file.as_deref();
            file.is_some_and(|file| !is_library_path(file))
        });
        Some(own.filter_map(|frame| frame.function).collect())
    };
    own().unwrap_or_default()
}

/// The routine of a thread whose outermost function it jumped to at its end.
fn jumped_from(at: RunAddr, places: &Places<'_, '_, '_>, threads: &ThreadModel<'_, '_>) -> Option<Arc<str>> {
    let program = places.program;
    let mut function = program.function_at(places.place(at)?)?;
    for _ in 0..MOST_JUMPS {
        let module = program.module(function.module)?;
        if !program.is_own(function) || module.is_start(function.function) {
            return None;
        }
        if !threads.creators_of(function).is_empty() {
            break;
        }
        let jumps = program.callers_of(function).into_iter().filter_map(|site| {
            let caller = program.function_at(site)?;
            let flow = program.module(site.module)?.code().flow(caller.function);
            let at = flow.at(site.addr)?;
            let (_, _, exit) = flow.calls().find(|(ix, ..)| *ix == at)?;
            exit.leaves().then_some(caller)
        });
        let mut jumps: Vec<FunctionRef> = jumps.collect();
        jumps.dedup();
        // Two ways to get there, and nothing tells which one was taken.
        let [only] = jumps[..] else { return None };
        function = only;
    }
    let module = program.module(function.module)?;
    let entry = module.code().functions().get(function.function)?.entry;
    let was_jumped_to = program.function_at(places.place(at)?) != Some(function);
    let name = || module.sources().frames_at(entry).pop()?.function;
    was_jumped_to.then(name).flatten()
}

/// A lambda's function has no other name in the debug information than `operator()`; that of an object of a class has the class's before it.
pub(super) fn is_closure(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    name == "operator()"
        || name.contains("{lambda")
        || name.contains("<lambda")
        || last.contains("{closure")
        || last.contains("{{closure")
}

#[cfg(test)]
mod tests {
    use super::is_closure;

    #[test]
    fn closures_by_their_names() {
        for name in [
            "main::run::{closure#0}",
            "main::run::{{closure}}",
            "main::{lambda()#1}::operator()",
            "Pool::start()::<lambda()>::operator()",
            "operator()",
        ] {
            assert!(is_closure(name), "{name}");
        }
        assert!(!is_closure("Worker::operator()"));
        assert!(!is_closure("worker"));
        assert!(!is_closure("Pool<int>::work"));
    }
}
