//! What can have run before a failure, in compiled programs.

use std::rc::Rc;

use program::{FunctionRef, Pc, Program};
use slicer::before::ProgramCalls;
use slicer::threads::ThreadModel;

use super::common::{Language, function, program};

/// The address of the call of `callee` in `caller`.
pub fn call(program: &Program<'_>, caller: FunctionRef, callee: &str) -> Pc {
    let code = program.module(caller.module).unwrap().code();
    let flow = code.flow(caller.function);
    let named = |target| code.target_name(target).is_some_and(|name| name.contains(callee));
    let found = flow.calls().find(|(_, target, _)| named(*target));
    let (ix, _, _) = found.unwrap_or_else(|| panic!("no call of {callee}"));
    Pc {
        module: caller.module,
        addr: flow.addr(ix).unwrap(),
    }
}

/// Of `names`, those that can have run before `at`, a call of `.1` in `.0`.
pub fn ran(program: &'static Program<'static>, at: (&str, &str), names: &[&str]) -> Vec<String> {
    let threads = Rc::new(ThreadModel::new(program));
    let calls = Rc::new(ProgramCalls::new(program, threads));
    let failing = call(program, function(program, at.0), at.1);
    let before = calls.before(&[failing], &[]);
    let ran = names
        .iter()
        .filter(|name| before.has_run(function(program, name)));
    ran.map(|name| (*name).to_owned()).collect()
}

const SEQUENTIAL: &str = r#"
#include <stdlib.h>
#define F __attribute__((noinline, noclone))
int state;
F void setup(void) { state = 1; }
F void twice(void) { state += 2; }
F void late(void) { state = 4; }
F void never(void) { state = 5; }
F void only_from_never(void) { state = 6; }
F void calls_never(void) { never(); only_from_never(); }
F int compare(const void *a, const void *b) { state++; return *(int *)a - *(int *)b; }
F int late_compare(const void *a, const void *b) { state--; return *(int *)a - *(int *)b; }
F void in_table(void) { state += 3; }
F void in_unused_table(void) { state += 4; }
void (*volatile handlers[])(void) = { in_table };
void (*volatile unused_handlers[])(void) = { in_unused_table };
F void fail(void) { if (state == 12345) abort(); }
__attribute__((constructor)) F void construct(void) { state = 7; }
__attribute__((destructor)) F void destruct(void) { state = 8; }
int main(int argc, char **argv) {
    int numbers[4] = { argc, 2, 3, 1 };
    setup();
    qsort(numbers, 4, sizeof numbers[0], compare);
    handlers[0]();
    for (int i = 0; i < argc; i++) {
        fail();
        twice();
    }
    late();
    qsort(numbers, 4, sizeof numbers[0], late_compare);
    return state;
}
"#;

#[test]
fn only_what_can_come_first_has_run() {
    let names = [
        "main",
        "setup",
        "compare",
        "in_table",
        "twice",
        "construct",
        "fail",
        "late",
        "never",
        "only_from_never",
        "calls_never",
        "late_compare",
        "in_unused_table",
        "destruct",
    ];
    for level in [0, 2] {
        let program = program("sequential", Language::C, level, SEQUENTIAL);
        let ran = ran(program, ("fail", "abort"), &names);
        assert_eq!(
            ran,
            [
                "main",
                "setup",
                "compare",
                "in_table",
                "twice",
                "construct",
                "fail"
            ],
            "-O{level}"
        );
    }
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#define F __attribute__((noinline, noclone))
volatile int state;
F void prepare(void) { state = 1; }
F void beside(void) { state = 2; }
F void report(void) { state = 3; }
F void helper(void) { state = 4; }
F void after_failure(void) { state = 5; }
F void in_later_thread(void) { state = 6; }
F void fail(void) { if (state == 12345) abort(); }
F void *first(void *arg) { helper(); return arg; }
F void *second(void *arg) { fail(); after_failure(); return arg; }
F void *later(void *arg) { in_later_thread(); return arg; }
int main(void) {
    pthread_t a, b, c;
    prepare();
    pthread_create(&a, 0, first, 0);
    pthread_create(&b, 0, second, 0);
    beside();
    pthread_join(b, 0);
    report();
    pthread_create(&c, 0, later, 0);
    pthread_join(a, 0);
    pthread_join(c, 0);
    return state;
}
"#;

#[test]
fn threads_run_beside_each_other_until_they_are_joined() {
    let names = [
        "main",
        "prepare",
        "first",
        "helper",
        "second",
        "beside",
        "after_failure",
        "report",
        "later",
        "in_later_thread",
    ];
    for level in [0, 2] {
        let program = program("beside", Language::C, level, THREADS);
        let in_thread = ran(program, ("fail", "abort"), &names);
        assert_eq!(
            in_thread,
            ["main", "prepare", "first", "helper", "second", "beside"],
            "-O{level}"
        );
        let in_main = ran(program, ("main", "beside"), &names);
        assert_eq!(
            in_main[..5],
            ["main", "prepare", "first", "helper", "second"],
            "-O{level}"
        );
        assert!(!in_main.contains(&"later".to_owned()), "-O{level}: {in_main:?}");
    }
}

const POOL: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#define F __attribute__((noinline, noclone))
volatile int state;
F void summarise(void) { state = 1; }
F void *work(void *arg) { if (state == 12345) abort(); return arg; }
int main(int argc, char **argv) {
    pthread_t pool[4];
    for (int i = 0; i < 4; i++) pthread_create(&pool[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(pool[i], 0);
    summarise();
    return state;
}
"#;

#[test]
fn a_pool_is_over_when_all_were_joined() {
    for level in [0, 2] {
        let program = program("pool", Language::C, level, POOL);
        assert_eq!(
            ran(program, ("work", "abort"), &["main", "work", "summarise"]),
            ["main", "work"],
            "-O{level}"
        );
    }
}

const CPP: &str = r#"
#include <cstdlib>
#include <memory>
#include <thread>
#define F __attribute__((noinline))
volatile int state;
struct Shape { virtual ~Shape() {} virtual void draw() = 0; };
struct Circle : Shape { F void draw() override { state = 1; } };
struct Square : Shape { F void draw() override { state = 2; } };
F Shape *make_circle() { return new Circle; }
F Shape *make_square() { return new Square; }
F void after() { state = 3; }
F void fail() { if (state == 12345) std::abort(); }
F void worker(Shape *shape) { shape->draw(); fail(); state = 4; }
int main() {
    std::unique_ptr<Shape> shape(make_circle());
    std::thread t(worker, shape.get());
    t.join();
    after();
    return state;
}
"#;

#[test]
fn virtual_functions_of_objects_that_nobody_makes_do_not_run() {
    for level in [0, 2] {
        let program = program("virtual", Language::Cpp, level, CPP);
        let names = [
            "main",
            "worker(Shape*)",
            "Circle::draw()",
            "make_circle()",
            "Square::draw()",
            "make_square()",
            "after()",
        ];
        let ran = ran(program, ("fail()", "abort"), &names);
        assert_eq!(
            ran,
            ["main", "worker(Shape*)", "Circle::draw()", "make_circle()"],
            "-O{level}"
        );
    }
}

const RUST: &str = r#"
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
#[inline(never)]
fn prepare(s: &AtomicI32) { s.store(1, Ordering::Relaxed); }
#[inline(never)]
fn unused(s: &AtomicI32) { s.store(2, Ordering::Relaxed); }
#[inline(never)]
fn fail(s: &AtomicI32) { if s.load(Ordering::Relaxed) == 12345 { std::process::abort() } }
#[inline(never)]
fn work(s: &AtomicI32) { fail(s); s.store(3, Ordering::Relaxed); }
fn main() {
    let s = Arc::new(AtomicI32::new(0));
    prepare(&s);
    let t = s.clone();
    let handle = thread::spawn(move || work(&t));
    handle.join().unwrap();
    if std::env::args().len() > 100 { let f: fn(&AtomicI32) = unused; s.store(f as usize as i32, Ordering::Relaxed); }
}
"#;

#[test]
fn rust_threads_lead_back_to_main() {
    for level in [0, 2] {
        let program = program("rust_before", Language::Rust, level, RUST);
        let names = ["rust_before::main", "rust_before::prepare", "rust_before::work"];
        assert_eq!(
            ran(program, ("rust_before::fail", "abort"), &names),
            names,
            "-O{level}"
        );
    }
}
