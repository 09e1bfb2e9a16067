//! What comes after threads were awaited has not run while one of them fails.

use std::rc::Rc;

use program::Program;
use slicer::before::ProgramCalls;
use slicer::threads::ThreadModel;

use super::before::{call, ran};
use super::common::{Language, function, program};

/// The functions that the cases share: `fail` fails in what `work` calls, `late` comes after all threads.
const RUST: &str = r"
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::thread;
static STATE: AtomicI32 = AtomicI32::new(0);
#[inline(never)]
fn early() { STATE.store(1, Relaxed); }
#[inline(never)]
fn late() { STATE.store(2, Relaxed); }
#[inline(never)]
fn fail() { if STATE.load(Relaxed) == 12345 { std::process::abort() } }
#[inline(never)]
fn work(n: i32) { fail(); STATE.fetch_add(n, Relaxed); }
";

const CPP: &str = r"
#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>
#define F __attribute__((noinline))
std::atomic<int> state;
F void early() { state = 1; }
F void late() { state = 2; }
F void fail() { if (state == 12345) std::abort(); }
F int work(int n) { fail(); return state += n; }
";

/// `late` cannot have run before the failure, `early` can.
fn check(name: &str, language: Language, main: &str) {
    for level in [0, 2] {
        let (common, prefix, brackets) = match language {
            Language::Rust => (RUST, format!("{name}::"), ""),
            Language::C | Language::Cpp | Language::ClangCpp => (CPP, String::new(), "()"),
        };
        let program = program(name, language, level, &format!("{common}{main}"));
        let full = |function: &str| format!("{prefix}{function}{brackets}");
        let (early, late, fail) = (full("early"), full("late"), full("fail"));
        let names = [early.as_str(), late.as_str()];
        let at = (fail.as_str(), "abort");
        assert_eq!(ran(program, at, &names), [early.as_str()], "{name} -O{level}");
    }
}

#[test]
fn rust_straight_on() {
    check(
        "straight",
        Language::Rust,
        "fn main() { early(); work(1); late(); }",
    );
}

#[test]
fn rust_one_handle() {
    check(
        "handle",
        Language::Rust,
        "fn main() { early(); let t = thread::spawn(|| work(1)); t.join().unwrap(); late(); }",
    );
}

#[test]
fn rust_vector_of_handles() {
    let main = r"
fn main() {
    early();
    let mut threads = Vec::new();
    for n in 0..4 { threads.push(thread::spawn(move || work(n))); }
    for thread in threads { thread.join().unwrap(); }
    late();
}";
    check("vector", Language::Rust, main);
}

#[test]
fn rust_collected_handles() {
    let main = r"
fn main() {
    early();
    let threads: Vec<_> = (0..4).map(|n| thread::spawn(move || work(n))).collect();
    for thread in threads { thread.join().unwrap(); }
    late();
}";
    check("collected", Language::Rust, main);
}

#[test]
fn rust_array_of_handles() {
    let main = r"
fn main() {
    early();
    for thread in [thread::spawn(|| work(1)), thread::spawn(|| work(2))] { thread.join().unwrap(); }
    late();
}";
    check("array", Language::Rust, main);
}

#[test]
fn rust_scope() {
    let main = r"
fn main() {
    early();
    let numbers = vec![1, 2];
    thread::scope(|scope| {
        scope.spawn(|| work(numbers[0]));
        scope.spawn(|| work(numbers[1]));
    });
    late();
}";
    check("scope", Language::Rust, main);
}

#[test]
fn cpp_vector_of_threads() {
    let main = r"
int main() {
    early();
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; n++) threads.emplace_back(work, n);
    for (auto &thread : threads) thread.join();
    late();
}";
    check("cpp_vector", Language::Cpp, main);
}

#[test]
fn cpp_vector_of_lambdas() {
    let main = r"
int main() {
    early();
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; n++) threads.push_back(std::thread([n] { work(n); }));
    for (auto &thread : threads) if (thread.joinable()) thread.join();
    late();
}";
    check("cpp_lambdas", Language::Cpp, main);
}

#[test]
fn cpp_joining_thread() {
    let main = r"
int main() {
    early();
    { std::jthread thread(work, 1); }
    late();
}";
    check("cpp_jthread", Language::Cpp, main);
}

#[test]
fn cpp_joinable() {
    let main = r"
int main() {
    early();
    std::thread first(work, 1), second;
    second = std::thread(work, 2);
    if (first.joinable()) first.join();
    if (second.joinable()) second.join();
    late();
}";
    check("cpp_joinable", Language::Cpp, main);
}

#[test]
fn rust_two_handles() {
    let main = r"
fn main() {
    early();
    let first = thread::spawn(|| work(1));
    let second = thread::spawn(|| { work(2); fail() });
    first.join().unwrap();
    second.join().unwrap();
    late();
}";
    check("two", Language::Rust, main);
}

#[test]
fn cpp_future() {
    let main = r"
int main() {
    early();
    auto result = std::async(std::launch::async, work, 1);
    int got = result.get();
    late();
    return got;
}";
    check("cpp_future", Language::Cpp, main);
}

/// The other threads' stacks say where `main` waits.
#[test]
fn a_stack_says_where_main_waits() {
    let main = "fn main() { early(); let t = thread::spawn(|| work(1)); late(); t.join().unwrap(); }";
    for level in [0, 2] {
        let program: &'static Program<'static> =
            program("waits", Language::Rust, level, &format!("{RUST}{main}"));
        let calls = Rc::new(ProgramCalls::new(program, Rc::new(ThreadModel::new(program))));
        let failing = [call(program, function(program, "waits::fail"), "abort")];
        let main = function(program, "waits::main");
        let late = function(program, "waits::late");
        assert!(calls.before(&failing, &[]).has_run(late), "-O{level}");
        let at_join = vec![call(program, main, "4join")];
        assert!(calls.before(&failing, &[at_join]).has_run(late), "-O{level}");
        let early = function(program, "waits::early");
        let at_spawn = vec![call(program, main, "spawn")];
        let before = calls.before(&failing, &[at_spawn]);
        assert!(!before.has_run(late) && before.has_run(early), "-O{level}");
    }
}
