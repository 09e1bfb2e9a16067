//! Which start routines are found for each way of creating threads.

use slicer::threads::{CreationKind, ThreadModel};

use super::common::{Language, function, name_of, program};

/// Creator and routine of every creation, `?` for an unknown routine, sorted.
fn creations(name: &str, language: Language, level: u8, source: &str) -> Vec<String> {
    let program = program(name, language, level, source);
    let model = ThreadModel::new(program);
    let mut found: Vec<String> = model
        .creations()
        .iter()
        .map(|site| {
            let routine = site
                .routine
                .map_or("?".to_owned(), |routine| name_of(program, routine));
            format!("{} -> {routine}", name_of(program, site.creator))
        })
        .collect();
    found.sort_unstable();
    found
}

const TAKING: &str = r#"#include <pthread.h>
struct peer { long sent; long limit; };
volatile long total;
static void *serve(void *arg) {
    long wanted = 3;
    struct peer *peer = arg;
    for (long i = 0; i < peer->limit; i++) { total += wanted; peer->sent++; }
    return 0;
}
static void *count(void *arg) { total += ((struct peer *)arg)->limit; return 0; }
int main(void) {
    pthread_t threads[2];
    struct peer peer = {0, 5};
    pthread_create(&threads[0], 0, serve, &peer);
    pthread_create(&threads[1], 0, count, &peer);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    serve(&peer);
    return 0;
}
"#;

#[test]
fn where_a_thread_takes_its_argument_without_code() {
    let program = program("taking", Language::C, 2, TAKING);
    let model = ThreadModel::new(program);
    let taking = |name| {
        model
            .argument_of(function(program, name))
            .and_then(|taking| taking.line)
    };
    assert_eq!(taking("serve"), Some(6));
    assert_eq!(taking("count"), None, "it has no variable for it");
    assert_eq!(taking("main"), None, "nobody creates a thread with it");
}

const C: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>
struct job { int id; void *(*run)(void *); void *arg; };
volatile int counter;
void *direct(void *arg) { counter += *(int *)arg; return 0; }
void *in_struct(void *arg) { counter -= 1; return arg; }
void *in_parameter(void *arg) { counter -= 2; return arg; }
void *in_static(void *arg) { counter -= 3; return arg; }
void *first_of_two(void *arg) { counter -= 4; return arg; }
void *second_of_two(void *arg) { counter -= 5; return arg; }
void *on_heap(void *arg) { counter -= 6; return arg; }
int c11(void *arg) { counter ^= 3; return 0; }
static void *(*const table[])(void *) = { in_static };
__attribute__((noinline, noclone)) void start(pthread_t *t, void *(*run)(void *), void *arg) {
    pthread_create(t, 0, run, arg);
}
__attribute__((noinline, noclone)) void launch(pthread_t *t, struct job *job) {
    pthread_create(t, 0, job->run, job->arg);
}
__attribute__((noinline, noclone)) void pick(pthread_t *t, int which) {
    pthread_create(t, 0, which ? first_of_two : second_of_two, 0);
}
__attribute__((noinline, noclone)) struct job *make(void) {
    struct job *job = malloc(sizeof *job);
    job->run = on_heap;
    return job;
}
__attribute__((noinline, noclone)) void unknown(pthread_t *t) {
    struct job *job = make();
    pthread_create(t, 0, job->run, 0);
}
int main(int argc, char **argv) {
    pthread_t t[8];
    thrd_t c;
    int one = 1;
    struct job job = { 1, in_struct, &one };
    pthread_create(&t[0], 0, direct, &one);
    launch(&t[1], &job);
    start(&t[2], in_parameter, &one);
    pthread_create(&t[3], 0, table[0], &one);
    pick(&t[4], argc);
    unknown(&t[5]);
    thrd_create(&c, c11, &one);
    for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
    return thrd_join(c, 0) + counter;
}
"#;

#[test]
fn c_threads() {
    for level in [0, 2] {
        // At -O2 the struct is filled with one vector store of both pointers, which is not followed.
        let field = if level == 0 {
            "launch -> in_struct"
        } else {
            "launch -> ?"
        };
        let expected = [
            field,
            "main -> c11",
            "main -> direct",
            "main -> in_static",
            "pick -> first_of_two",
            "pick -> second_of_two",
            "start -> in_parameter",
            "unknown -> ?",
        ];
        assert_eq!(
            creations("c_threads", Language::C, level, C),
            expected,
            "-O{level}"
        );
    }
}

#[test]
fn a_site_says_how_the_routine_came_there_and_where_its_argument_is() {
    let program = program("c_site", Language::C, 0, C);
    let model = ThreadModel::new(program);
    let sites = model.creators_of(function(program, "in_parameter"));
    assert_eq!(sites.len(), 1);
    assert_eq!(sites[0].kind, CreationKind::Pthread);
    assert_eq!(
        name_of(program, program.function_at(sites[0].through[0]).unwrap()),
        "main"
    );
    assert_eq!(sites[0].argument, Some(program::values::Gpr::RCX));
    assert_eq!(model.created_at(sites[0].at), sites);
    assert_eq!(
        model.creators_of(function(program, "c11"))[0].kind,
        CreationKind::C11
    );
    assert_eq!(model.creators_of(function(program, "main")).len(), 0);
}

const CPP: &str = r#"
#include <future>
#include <thread>
#include <vector>
volatile int counter;
__attribute__((noinline)) void plain(int n) { counter = counter + n; }
__attribute__((noinline)) void pooled(int n) { counter = counter + 2 * n; }
__attribute__((noinline)) void touch(int n) { counter = counter ^ n; }
struct Worker {
    int n;
    __attribute__((noinline)) void loop() { counter = counter - n; }
    void operator()() { touch(n); }
};
__attribute__((noinline)) int compute(int n) { return counter * n; }
__attribute__((noinline)) void by_pointer() { std::thread t(plain, 1); t.join(); }
__attribute__((noinline)) void by_lambda(Worker &w) { std::thread t([&w] { touch(w.n + 1); }); t.join(); }
__attribute__((noinline)) void by_member(Worker &w) { std::thread t(&Worker::loop, &w); t.join(); }
__attribute__((noinline)) void by_object(Worker &w) { std::thread t(w); t.join(); }
__attribute__((noinline)) void by_vector() {
    std::vector<std::thread> v;
    v.emplace_back(pooled, 5);
    v[0].join();
}
__attribute__((noinline)) int by_async() {
    auto f = std::async(std::launch::async, compute, 2);
    return f.get();
}
__attribute__((noinline)) int by_async_lambda(Worker &w) {
    auto f = std::async(std::launch::async, [&w] { touch(w.n); return w.n; });
    return f.get();
}
int main() {
    Worker w{3};
    by_pointer();
    by_lambda(w);
    by_member(w);
    by_object(w);
    by_vector();
    return by_async() + by_async_lambda(w);
}
"#;

#[test]
fn cpp_threads() {
    let compilers = [Language::Cpp, Language::ClangCpp];
    for (compiler, level) in compilers
        .into_iter()
        .flat_map(|compiler| [(compiler, 0), (compiler, 2)])
    {
        let mut found = creations("cpp_threads", compiler, level, CPP);
        // A vector makes its element in one place if there is room, and in another if not.
        found.dedup();
        for expected in [
            "by_pointer() -> plain(int)",
            "by_member(Worker&) -> Worker::loop()",
            "by_vector() -> pooled(int)",
            "by_async() -> compute(int)",
        ] {
            assert!(
                found.iter().any(|site| site == expected),
                "{compiler:?} -O{level}: no {expected} in {found:#?}"
            );
        }
        // Where the callable was inlined, the library's function around it is its place.
        for creator in [
            "by_lambda(Worker&)",
            "by_object(Worker&)",
            "by_async_lambda(Worker&)",
        ] {
            let site = found.iter().find(|site| site.starts_with(creator));
            let routine = site.map(|site| &site[creator.len() + 4..]);
            assert!(
                routine.is_some_and(|routine| routine != "?"),
                "{compiler:?} -O{level}: {creator} in {found:#?}"
            );
        }
        assert_eq!(found.len(), 7, "{compiler:?} -O{level}: {found:#?}");
    }
}

#[test]
fn unoptimised_cpp_names_lambdas_and_call_operators() {
    let found = creations("cpp_lambdas", Language::Cpp, 0, CPP);
    assert!(
        found
            .iter()
            .any(|site| site == "by_object(Worker&) -> Worker::operator()()"),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|site| site.starts_with("by_lambda(Worker&) -> by_lambda(Worker&)::")),
        "{found:#?}"
    );
}

const RUST: &str = r#"
use std::sync::{Arc, Mutex};
use std::thread;
#[inline(never)]
fn worker(m: &Mutex<i32>) { *m.lock().unwrap() += 1; }
#[inline(never)]
fn plain() { println!("plain"); }
#[inline(never)]
fn spawn_closure(m: &Arc<Mutex<i32>>) { let n = m.clone(); thread::spawn(move || worker(&n)).join().unwrap(); }
#[inline(never)]
fn spawn_function() { thread::spawn(plain).join().unwrap(); }
#[inline(never)]
fn spawn_named(m: &Arc<Mutex<i32>>) {
    let n = m.clone();
    let builder = thread::Builder::new().name("x".into());
    builder.spawn(move || { *n.lock().unwrap() -= 1; }).unwrap().join().unwrap();
}
#[inline(never)]
fn spawn_scoped(m: &Mutex<i32>) { thread::scope(|s| { s.spawn(|| worker(m)); }); }
fn main() {
    let m = Arc::new(Mutex::new(0));
    spawn_closure(&m);
    spawn_function();
    spawn_named(&m);
    spawn_scoped(&m);
    println!("{}", m.lock().unwrap());
}
"#;

#[test]
fn rust_threads() {
    for level in [0, 2] {
        let found = creations("rust_threads", Language::Rust, level, RUST);
        // At -O2 the scope's closure is inlined into the library's `scope`, which then is the creator.
        for creator in ["spawn_closure", "spawn_function", "spawn_named", "scope"] {
            assert!(
                found.iter().any(|site| site.contains(creator)),
                "-O{level}: {creator} in {found:#?}"
            );
        }
        assert!(
            found.iter().all(|site| !site.ends_with('?')),
            "-O{level}: {found:#?}"
        );
        assert!(
            found.iter().any(|site| site.ends_with("::plain")),
            "-O{level}: {found:#?}"
        );
        assert_eq!(found.len(), 4, "-O{level}: {found:#?}");
    }
}

#[test]
fn unoptimised_rust_names_closures_and_functions() {
    let found = creations("rust_closures", Language::Rust, 0, RUST);
    let of = |creator: &str| found.iter().find(|site| site.contains(creator)).unwrap();
    assert!(of("::spawn_function").ends_with("::plain"), "{found:#?}");
    assert!(
        of("::spawn_named").contains(" -> rust_closures::spawn_named::{"),
        "{found:#?}"
    );
}
