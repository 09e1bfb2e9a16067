//! The tracking plan of compiled functions.

use program::code::{FlowGraph, InstrIx};
use program::{FunctionRef, Pc, Program};
use slicer::cfg::of_flow;
use slicer::dependence::passed::Library;
use slicer::dominance::{DomTree, PostDomTree};
use slicer::plan::{AddressExpr, Early, Plan, Planner};
use slicer::threads::ThreadModel;
use slicer::view::FunctionView;

use super::common::{Language, function, program};

const SOURCE: &str = r#"
struct item { long key; long value; struct item *next; };
long total;
long limit = 10;
volatile long misses;
__attribute__((noinline, noclone)) void missed(void) { misses++; }
__attribute__((noinline, noclone)) long find(struct item *list, long key) {
    long found = 0;
    while (list) {
        if (list->key == key) {
            found = list->value;
            break;
        }
        list = list->next;
    }
    if (found > limit)
        total += found;
    else
        missed();
    return found;
}
int main(int argc, char **argv) {
    struct item item = { argc, 20, 0 };
    return (int)find(&item, 1) + (int)total;
}
"#;

fn line_of(text: &str) -> u32 {
    let at = SOURCE.lines().position(|line| line.contains(text)).unwrap();
    u32::try_from(at).unwrap() + 1
}

/// The instructions of the source line that contains `text`.
fn instructions(program: &Program<'_>, id: FunctionRef, flow: &FlowGraph, text: &str) -> Vec<InstrIx> {
    let sources = program.module(id.module).unwrap().sources();
    let on_line = |ix: &InstrIx| {
        let frames = sources.frames_at(flow.addr(*ix).unwrap());
        frames.first().is_some_and(|frame| frame.line == line_of(text))
    };
    (0..u32::try_from(flow.instructions.len()).unwrap())
        .map(InstrIx)
        .filter(on_line)
        .collect()
}

struct Planned {
    plan: Plan,
    /// The tracked instructions' blocks.
    blocks: Vec<usize>,
    flow: std::sync::Arc<FlowGraph>,
}

fn plan(level: u8, lines: &[&str]) -> Planned {
    let program = program("plan", Language::C, level, SOURCE);
    let id = function(program, "find");
    let flow = program.module(id.module).unwrap().code().flow(id.function);
    let numbered = (0..).zip(lines);
    let tracked: Vec<(u32, InstrIx)> = numbered
        .flat_map(|(number, line)| {
            instructions(program, id, &flow, line)
                .into_iter()
                .map(move |ix| (number, ix))
        })
        .collect();
    assert!(!tracked.is_empty());
    let blocks = tracked
        .iter()
        .map(|(_, ix)| flow.block_of(*ix).unwrap().0 as usize)
        .collect();
    let (library, threads) = (Library::new(program), ThreadModel::new(program));
    let mut planner = Planner::new(program, &library, &threads, false);
    planner.add(id, &tracked);
    Planned {
        plan: planner.finish(),
        blocks,
        flow,
    }
}

impl Planned {
    fn traces(&self, block: usize) -> bool {
        let block = &self.flow.blocks[block];
        let pc = |addr| Pc {
            module: self.plan.ranges[0].module,
            addr,
        };
        self.plan
            .ranges
            .iter()
            .any(|range| range.contains(pc(block.start)))
    }
}

#[test]
fn lines_dominate_lines() {
    for level in [0, 2] {
        let program = program("dominance", Language::C, level, SOURCE);
        let id = function(program, "find");
        let flow = program.module(id.module).unwrap().code().flow(id.function);
        let cfg = of_flow(&flow);
        let (before, after) = (DomTree::new(&cfg), PostDomTree::new(&cfg));
        let blocks = |text| -> Vec<usize> {
            let found = instructions(program, id, &flow, text);
            found
                .into_iter()
                .map(|ix| flow.block_of(ix).unwrap().0 as usize)
                .collect()
        };
        let entry = flow.entry.unwrap().0 as usize;
        let (compare, load, add) = (
            blocks("list->key == key"),
            blocks("list->value"),
            blocks("total += found"),
        );
        assert!(
            !compare.is_empty() && !load.is_empty() && !add.is_empty(),
            "-O{level}"
        );
        assert!(
            load.iter()
                .all(|&load| compare.iter().any(|&compare| before.dominates(compare, load)))
        );
        assert!(
            add.iter().all(|&add| before.strictly_dominates(entry, add)),
            "-O{level}"
        );
        assert!(
            add.iter().all(|&add| !after.post_dominates(add, entry)),
            "-O{level}"
        );
    }
}

#[test]
fn a_tracked_line_is_traced_from_its_predecessors_on() {
    for level in [0, 2] {
        let planned = plan(level, &["found = list->value"]);
        for &block in &planned.blocks {
            assert!(planned.traces(block), "-O{level}");
            let before = &planned.flow.blocks[block].preds;
            assert!(
                before.iter().all(|before| planned.traces(before.0 as usize)),
                "-O{level}"
            );
        }
        let last = planned
            .flow
            .blocks
            .iter()
            .position(|block| block.exit.leaves())
            .unwrap();
        // At -O2 the load's block goes on to the next decision and to several returns: nothing but the end
        // of the function comes after it in any case.
        assert!(level != 0 || !planned.traces(last), "on to the end");
        assert!(
            planned
                .plan
                .ranges
                .windows(2)
                .all(|pair| pair[0].end < pair[1].start)
        );
        for branch in &planned.plan.branches {
            assert!(planned.plan.ranges.iter().any(|range| range.contains(*branch)));
        }
        assert!(
            !planned.plan.branches.is_empty(),
            "-O{level}: the comparison is inside"
        );
    }
}

#[test]
fn globals_are_watched_once_and_from_the_start() {
    for level in [0, 2] {
        let plan = plan(level, &["total += found", "found > limit"]).plan;
        let fixed: Vec<_> = plan
            .watch_sites
            .iter()
            .filter_map(|site| match site.address {
                AddressExpr::Static(addr) => Some((addr, site.early)),
                AddressExpr::Registers { .. } => None,
            })
            .collect();
        assert!(fixed.iter().all(|(_, early)| *early == Some(Early::Start)));
        let mut addrs: Vec<_> = fixed.iter().map(|(addr, _)| *addr).collect();
        addrs.sort_unstable();
        addrs.dedup();
        assert_eq!(addrs.len(), fixed.len(), "-O{level}: an address twice");
        assert_eq!(addrs.len(), 2, "-O{level}: total and limit");
        assert_eq!(
            plan.watch_sites.len(),
            2,
            "-O{level}: locals are on the stack: {:?}",
            plan.watch_sites
        );
    }
}

#[test]
fn a_field_is_armed_where_its_base_is_final() {
    for level in [0, 2] {
        let planned = plan(level, &["list->key == key"]);
        let cfg = of_flow(&planned.flow);
        let before = DomTree::new(&cfg);
        assert!(!planned.plan.watch_sites.is_empty(), "-O{level}");
        for site in &planned.plan.watch_sites {
            assert!(
                matches!(site.address, AddressExpr::Registers { base: Some(_), .. }),
                "-O{level}: {site:?}"
            );
            assert_eq!(site.width, 8);
            let block = |pc: Pc| {
                let ix = planned.flow.at(pc.addr).unwrap();
                (planned.flow.block_of(ix).unwrap().0 as usize, ix)
            };
            let ((arm, arm_ix), (access, access_ix)) = (block(site.arm_at), block(site.access));
            assert!(before.dominates(arm, access), "-O{level}: {site:?}");
            assert!(arm != access || arm_ix <= access_ix, "-O{level}: {site:?}");
        }
    }
}

const FRAMES: &str = r#"
#include <pthread.h>
#include <stdio.h>

struct tally { long sum, spare; };

static void *add(void *argument) {
    ((struct tally *)argument)->sum++;
    return NULL;
}

__attribute__((noinline)) void start(pthread_t *thread, struct tally *tally) {
    pthread_create(thread, NULL, add, tally);
}

__attribute__((noinline)) long alone(void) {
    struct tally tally = {0, 0};
    add(&tally);
    return tally.sum;
}

__attribute__((noinline)) long passes_on(void) {
    pthread_t thread;
    struct tally tally = {0, 0};
    volatile long kept = 1;
    start(&thread, &tally);
    pthread_join(thread, NULL);
    return tally.spare + tally.sum + kept;
}

int main(void) {
    pthread_t thread;
    struct tally tally = {0, 0};
    volatile long kept = 1;
    pthread_create(&thread, NULL, add, &tally);
    pthread_join(thread, NULL);
    printf("%ld %ld %ld\n", tally.sum + kept, alone(), passes_on());
    return tally.spare != 0;
}
"#;

/// How many places in the frame of a function are watched.
fn watched_in_frame(level: u8, name: &str) -> usize {
    let program = program("frames", Language::C, level, FRAMES);
    let id = function(program, name);
    let view = FunctionView::new(program.module(id.module).unwrap(), id);
    let all = (0..u32::try_from(view.flow.instructions.len()).unwrap()).map(|ix| (0, InstrIx(ix)));
    let (library, threads) = (Library::new(program), ThreadModel::new(program));
    let mut planner = Planner::new(program, &library, &threads, false);
    planner.add(id, &all.collect::<Vec<_>>());
    let places = planner
        .finish()
        .watch_sites
        .into_iter()
        .filter_map(|site| match site.early {
            Some(Early::Frame { offset }) => Some(offset),
            _ => None,
        });
    places.collect::<std::collections::BTreeSet<i64>>().len()
}

/// What a function gives to threads is not its own although it is in its frame; everything else is.
#[test]
fn what_threads_are_given_of_a_frame_is_watched() {
    // The two members of `tally`, and `thread`; `kept` is nobody's else.
    let given = 2..=3;
    for level in [0, 2] {
        assert!(given.contains(&watched_in_frame(level, "main")), "-O{level}");
        assert!(given.contains(&watched_in_frame(level, "passes_on")), "-O{level}");
        assert_eq!(watched_in_frame(level, "alone"), 0, "-O{level}");
    }
}
