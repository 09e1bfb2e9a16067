//! What library functions do with the memory that they are passed, and how it is watched.

use program::code::{AccessKind, InstrIx};
use program::values::Gpr;
use slicer::dependence::passed::{Library, Passed};
use slicer::plan::{AddressExpr, Early, Planner, WatchSite};
use slicer::threads::ThreadModel;
use slicer::view::FunctionView;

use super::common::{Language, function, program};

const CPP: &str = r#"
#include <atomic>
#include <mutex>
struct queue { long length; std::atomic<long> taken; };
std::mutex guard;
long count;
__attribute__((noinline)) long take(queue *q) { return q->taken++; }
__attribute__((noinline)) long look(const queue *q) { return q->taken; }
__attribute__((noinline)) void add() { guard.lock(); count++; guard.unlock(); }
int main() { queue q{}; add(); return (int)(take(&q) + look(&q)); }
"#;

const SMART: &str = r#"
#include <memory>
struct loader { long received; };
struct page { long size; std::unique_ptr<loader> owned; };
__attribute__((noinline)) long follow(page *p) { return p->owned->received; }
__attribute__((noinline)) long copy(page *p) { return (*p->owned).received; }
int main() { page p{1, std::make_unique<loader>()}; return (int)(follow(&p) + copy(&p)); }
"#;

const RUST: &str = r#"
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
static STAGE: AtomicUsize = AtomicUsize::new(0);
static COUNT: Mutex<u64> = Mutex::new(0);
#[inline(never)]
fn set() { STAGE.store(1, Ordering::Relaxed); }
#[inline(never)]
fn add() { *COUNT.lock().unwrap() += 1; }
#[inline(never)]
fn take(page: &mut Option<[String; 3]>) -> usize { page.take().map_or(0, |names| names.len()) }
fn main() { set(); add(); std::process::exit(take(&mut None) as i32); }
"#;

/// What the calls of a function access behind their arguments, and how that is watched.
fn passed(
    name: &str,
    language: Language,
    source: &str,
    of: &str,
    locks: bool,
) -> Vec<(Passed, Option<WatchSite>)> {
    let program = program(name, language, 0, source);
    let id = function(program, of);
    let view = FunctionView::new(program.module(id.module).unwrap(), id);
    let (library, threads) = (Library::new(program), ThreadModel::new(program));
    let calls = (0..u32::try_from(view.flow.instructions.len()).unwrap()).map(InstrIx);
    let mut found = Vec::new();
    for ix in calls {
        for passed in &*library.accesses(&view, ix) {
            let mut planner = Planner::new(program, &library, &threads, locks);
            planner.add(id, &[(0, ix)]);
            let sites = planner.finish().watch_sites;
            let is_it = |site: &&WatchSite| {
                site.passed.is_some_and(|argument| {
                    (argument.register, argument.offset) == (passed.argument, passed.offset)
                })
            };
            found.push((*passed, sites.iter().find(is_it).copied()));
        }
    }
    found
}

#[test]
fn a_smart_pointer_is_read_by_whoever_follows_it() {
    for of in ["follow", "copy"] {
        let found = passed("smart", Language::Cpp, SMART, of, false);
        let [(passed, Some(site))] = &found[..] else {
            panic!("{of}: {found:?}");
        };
        assert_eq!(
            (passed.argument, passed.offset, passed.width, passed.kind),
            (Gpr::RDI, 0, 8, AccessKind::Read),
            "{of}"
        );
        assert_eq!(site.kind, AccessKind::Read);
    }
}

#[test]
fn an_atomic_is_read_and_written_behind_the_first_argument() {
    for (of, kind) in [("take", AccessKind::ReadWrite), ("look", AccessKind::Read)] {
        let found = passed("atomic", Language::Cpp, CPP, of, false);
        let [(passed, Some(site))] = &found[..] else {
            panic!("{of}: {found:?}");
        };
        assert_eq!(
            (passed.argument, passed.width, passed.kind),
            (Gpr::RDI, 8, kind),
            "{of}"
        );
        assert_eq!(site.kind, kind);
        assert!(
            matches!(site.address, AddressExpr::Registers { .. }),
            "{of}: {site:?}"
        );
        // It is the function's own argument, and known when the function is entered.
        let entered = Early::Argument {
            register: Gpr::RDI,
            offset: 8,
        };
        assert_eq!(site.early, Some(entered), "{of}");
    }
}

#[test]
fn what_a_library_function_copies_out_is_read_and_written() {
    let found = passed("taken", Language::Rust, RUST, "taken::take", false);
    let content = found
        .iter()
        .filter(|(passed, _)| passed.kind == AccessKind::ReadWrite);
    let content: Vec<_> = content.collect();
    let [(passed, Some(site))] = content[..] else {
        panic!("{found:?}");
    };
    assert_eq!((passed.offset, passed.width), (0, 8));
    assert_eq!(site.kind, AccessKind::ReadWrite);
}

#[test]
fn locks_are_watched_where_the_failure_is_about_them() {
    let watched = |locks| passed("locks", Language::Cpp, CPP, "add", locks);
    let found = watched(true);
    assert_eq!(found.len(), 2, "lock and unlock: {found:?}");
    for (passed, site) in &found {
        assert!(passed.lock && passed.reads() && passed.writes());
        assert!(
            site.is_some_and(|site| matches!(site.address, AddressExpr::Static(_))),
            "{site:?}"
        );
    }
    assert!(watched(false).iter().all(|(_, site)| site.is_none()));
}

#[test]
fn what_rust_does_without_optimisation_is_calls() {
    let found = passed("stores", Language::Rust, RUST, "stores::set", false);
    let [(passed_there, Some(site))] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(passed_there.writes() && passed_there.width == 8);
    assert!(matches!(site.address, AddressExpr::Static(_)));
    let taken = |(passed, _): &&(Passed, _)| {
        (passed.offset, passed.width, passed.kind) == (0, 4, AccessKind::ReadWrite)
    };
    for (locks, name) in [(true, "held"), (false, "mutex")] {
        let found = passed(name, Language::Rust, RUST, &format!("{name}::add"), locks);
        let (passed, site) = found.iter().find(taken).expect("the lock is taken");
        assert!(passed.lock);
        assert_eq!(site.is_some(), locks, "{found:?}");
    }
}
