//! What is watched for a statement, and what is not: data, each field for itself, and no locks and constants.

use program::code::InstrIx;
use slicer::dependence::passed::Library;
use slicer::plan::{AddressExpr, Planner, WatchSite};
use slicer::threads::ThreadModel;
use slicer::view::FunctionView;

use super::common::{Language, function, program};

const C: &str = r#"
struct book { long cash, bank, total; };
static const long fees[64] = {3, 1, 4, 1, 5, 9, 2, 6};
long charged[64];
__attribute__((noinline)) void add(struct book *b, long amount) { b->bank += amount; b->total += amount; }
__attribute__((noinline)) void charge(void) { for (int i = 0; i < 64; i++) charged[i] += fees[5]; }
int main(void) { struct book b = {0}; add(&b, 3); charge(); return (int)(b.total + charged[3]); }
"#;

const RUST: &str = r#"
use std::sync::{Arc, Mutex};
#[inline(never)]
fn add(count: &Arc<Mutex<u64>>) { let other = count.clone(); *other.lock().unwrap() += 1; }
fn main() { let count = Arc::new(Mutex::new(0)); add(&count); println!("{}", count.lock().unwrap()); }
"#;

/// The watch sites of all that an optimised function does.
fn sites(name: &str, language: Language, source: &str, of: &str, locks: bool) -> Vec<WatchSite> {
    let program = program(name, language, 2, source);
    let id = function(program, of);
    let view = FunctionView::new(program.module(id.module).unwrap(), id);
    let (library, threads) = (Library::new(program), ThreadModel::new(program));
    let all = (0..u32::try_from(view.flow.instructions.len()).unwrap()).map(InstrIx);
    let all: Vec<(u32, InstrIx)> = all.map(|ix| (0, ix)).collect();
    let mut planner = Planner::new(program, &library, &threads, locks);
    planner.add(id, &all);
    planner.finish().watch_sites
}

#[test]
fn fields_that_are_accessed_together_are_watched_each_for_itself() {
    let sites = sites("together", Language::C, C, "add", false);
    assert!(sites.iter().all(|site| site.width <= 8), "{sites:?}");
    let at = |offset: i64| {
        let here =
            |site: &WatchSite| matches!(site.address, AddressExpr::Registers { disp, .. } if disp == offset);
        sites.iter().any(here)
    };
    assert!(at(8) && at(16), "bank and total: {sites:?}");
}

#[test]
fn constants_are_not_watched() {
    let sites = sites("constants", Language::C, C, "charge", false);
    assert!(!sites.is_empty());
    let program = program("constants", Language::C, 2, C);
    let (_, module) = program.modules().next().unwrap();
    for site in sites {
        if let AddressExpr::Static(addr) = site.address {
            assert!(module.elf().segments().is_writable(addr), "{site:?}");
        }
    }
}

#[test]
fn optimised_locks_and_counts_are_watched_only_where_the_failure_is_about_locks() {
    let width = |locks| {
        let sites = sites("inlined", Language::Rust, RUST, "inlined::add", locks);
        sites.iter().map(|site| site.width).collect::<Vec<u32>>()
    };
    assert!(width(true).contains(&4), "the lock: {:?}", width(true));
    assert!(!width(false).contains(&4), "{:?}", width(false));
    assert!(width(false).contains(&8), "what it protects: {:?}", width(false));
}
