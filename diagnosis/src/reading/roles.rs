//! What kind of thread a thread is: its start routine, as its stack shows it.
//!
//! The outermost function of the program's own code is the routine that the thread was started with. Where that is a
//! closure, its name says little and the function that it calls says more.

use std::sync::Arc;

use program::{RunAddr, is_library_path};

use super::places::Places;

/// The role of a thread with this stack, innermost address first.
pub(super) fn of_stack(stack: &[RunAddr], places: &Places<'_, '_, '_>) -> Option<Arc<str>> {
    let mut closure = None;
    for (depth, &addr) in stack.iter().enumerate().rev() {
        // All but the innermost are where calls return to.
        let inside = if depth == 0 { addr } else { addr.offset(-1) };
        for name in own_functions(inside, places) {
            if !is_closure(&name) {
                return Some(name);
            }
            closure.get_or_insert(name);
        }
    }
    closure
}

/// The program's own functions at a place, the outermost one first.
fn own_functions(at: RunAddr, places: &Places<'_, '_, '_>) -> Vec<Arc<str>> {
    let own = || {
        let pc = places.place(at)?;
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

fn is_closure(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    name.contains("{lambda")
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
        ] {
            assert!(is_closure(name), "{name}");
        }
        assert!(!is_closure("worker"));
        assert!(!is_closure("Pool<int>::work"));
    }
}
