//! A check and its use.

use program::{LinkAddr, Pc, Program};
use slicer::checks::guards;
use slicer::view::FunctionView;

use super::common::{Language, function, line_at, line_of, program};

const C: &str = r#"
struct file { long size; };
struct node { struct file *file; int count; _Bool open; long used; };
long seen;
extern long use(struct file *);
__attribute__((noinline)) long use(struct file *file) { return file ? file->size : 0; }
__attribute__((noinline)) long pointer(struct node *volatile *n) {
    struct node *volatile node = *n;
    if (node->file == 0) /* check */
        return 0;
    seen++;
    return use(node->file); /* used */
}
__attribute__((noinline)) long number(volatile struct node *node) {
    if (node->count > 0) /* counted */
        return 100 / node->count; /* divided */
    return 0;
}
__attribute__((noinline)) long looked(volatile struct node *node) {
    if (node->count == 0) /* looked */
        seen++;
    return node->count; /* anyway */
}
__attribute__((noinline)) long added(volatile struct node *node) {
    seen += node->count; /* added */
    if (seen == 3)
        return node->count; /* unrelated */
    return 0;
}
int main(void) {
    struct file file = { 3 };
    struct node node = { &file, 2, 1, 0 }, *volatile p = &node;
    return (int)(pointer(&p) + number(&node) + looked(&node) + added(&node));
}
"#;

const CPP: &str = r#"
#include <atomic>
struct window { std::atomic<long> count{2}; long total = 8; long average(); };
__attribute__((noinline)) long window::average() {
    if (count.load(std::memory_order_relaxed) == 0) /* check */
        return 0;
    total++;
    return total / count.load(std::memory_order_relaxed); /* used */
}
int main() { window w; return (int)w.average(); }
"#;

/// The instruction of a line that reads memory of somebody else's, or calls for it.
fn reading(program: &Program<'_>, name: &str, line: u32) -> Pc {
    let id = function(program, name);
    let view = FunctionView::new(program.module(id.module).unwrap(), id);
    let pcs = view
        .flow
        .instructions
        .iter()
        .map(|instruction| LinkAddr(instruction.ip()));
    let mut reads = pcs.filter(|&addr| {
        let at = view.flow.at(addr).unwrap();
        let foreign = |access: &program::values::PlacedAccess| {
            access.place.stack_offset().is_none() && access.place.static_addr().is_none()
        };
        let calls_load = view.is_call(at) && view.library_summary(at).is_none();
        let pc = Pc {
            module: id.module,
            addr,
        };
        line_at(program, pc) == Some(line) && (view.values.accesses(at).iter().any(foreign) || calls_load)
    });
    // Of `node->file` the last: before it is `node`.
    let mut found: Vec<LinkAddr> = reads.by_ref().collect();
    let is_call = |addr: &LinkAddr| view.is_call(view.flow.at(*addr).unwrap());
    if found.len() > 1 && found.last().is_some_and(is_call) && !is_call(&found[0]) {
        found.pop();
    }
    Pc {
        module: id.module,
        addr: *found.last().unwrap(),
    }
}

#[test]
fn what_is_checked_decides_on_its_use() {
    for level in [0, 2] {
        let program = program("checks", Language::C, level, C);
        let is_check = |name: &str, first: &str, second: &str| {
            let at = |mark| reading(program, name, line_of(C, mark));
            guards(at(first), at(second), program)
        };
        assert!(is_check("pointer", "check", "used"), "-O{level}");
        assert!(is_check("number", "counted", "divided"), "-O{level}");
        assert!(
            !is_check("looked", "looked", "anyway"),
            "-O{level}: both ways lead there"
        );
        assert!(
            !is_check("added", "added", "unrelated"),
            "-O{level}: another value decides"
        );
        assert!(!is_check("number", "divided", "counted"), "-O{level}");
    }
}

#[test]
fn what_a_library_loads_is_checked_too() {
    for level in [0, 2] {
        let program = program("checked_atomic", Language::Cpp, level, CPP);
        let at = |mark| reading(program, "window::average", line_of(CPP, mark));
        assert!(guards(at("check"), at("used"), program), "-O{level}");
    }
}
