//! The thread-ICFG of small programs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::common::{Language, compile};
use petgraph::visit::Dfs;
use program::code::{Code, FunctionId, Target};
use program::elf::Elf;
use slicer::icfg::{EdgeKind, NodeKind, ThreadCall, ThreadEdges, ThreadIcfg};

const SOURCE: &str = r#"
#include <pthread.h>
int shared;
__attribute__((noinline, noclone)) int leaf(int x) { return x > 2 ? x * 3 : shared; }
__attribute__((noinline, noclone)) int repeat(int n) { int s = 0; while (n-- > 0) s += leaf(n); return s; }
__attribute__((noinline, noclone)) int unused(int n) { return leaf(n); }
void *routine(void *arg) { shared = repeat(*(int *)arg) + 1; return 0; }
int main(void) {
    pthread_t t;
    int n = 5;
    pthread_create(&t, 0, routine, &n);
    pthread_join(t, 0);
    return shared;
}
"#;

struct Fixture<'a> {
    code: Code<'a>,
    graph: ThreadIcfg,
}

impl Fixture<'_> {
    fn function(&self, name: &str) -> FunctionId {
        self.code.functions().named(name)[0]
    }

    fn name_of(&self, node: u32) -> String {
        let function = self.graph.function_of(node).unwrap();
        self.code.functions().display_name(function)
    }

    /// The edges between functions: kind, from, to.
    fn between(&self, names: &[&str]) -> BTreeSet<String> {
        let crossing = self.graph.edges().filter(|(_, _, kind)| *kind != EdgeKind::Flow);
        let named = crossing.map(|(from, to, kind)| (kind, self.name_of(from), self.name_of(to)));
        named
            .filter(|(_, from, to)| names.contains(&from.as_str()) && names.contains(&to.as_str()))
            .map(|(kind, from, to)| format!("{kind:?} {from} {to}"))
            .collect()
    }
}

fn call_of(code: &Code<'_>, function: FunctionId, callee: &str) -> program::LinkAddr {
    let flow = code.flow(function);
    let mut calls = flow.calls();
    let is_callee = |target: Target| {
        code.target_name(target)
            .is_some_and(|name| name.starts_with(callee))
    };
    let (ix, _, _) = calls.find(|(_, target, _)| is_callee(*target)).unwrap();
    flow.addr(ix).unwrap()
}

fn with_program(level: u8, check: impl Fn(&Fixture<'_>)) {
    let bytes = compile("icfg", Language::C, level, SOURCE);
    let code = Code::new(Arc::new(Elf::parse(&bytes).unwrap()));
    let (main, routine) = (
        code.functions().named("main")[0],
        code.functions().named("routine")[0],
    );
    let call = |callee| ThreadCall {
        function: main,
        at: call_of(&code, main, callee),
        routine,
    };
    let threads = ThreadEdges {
        creations: vec![call("pthread_create")],
        joins: vec![call("pthread_join")],
    };
    let graph = ThreadIcfg::build(&code, &threads);
    check(&Fixture { code, graph });
}

#[test]
fn calls_returns_and_threads_cross_functions() {
    for level in [0, 2] {
        with_program(level, |program| {
            let names = ["main", "routine", "repeat", "leaf", "unused"];
            let expected = [
                "Call repeat leaf",
                "Call routine repeat",
                "Call unused leaf",
                "Create main routine",
                "Join routine main",
                "Return leaf repeat",
                "Return leaf unused",
                "Return repeat routine",
            ];
            let expected: BTreeSet<String> = expected.iter().map(|edge| (*edge).to_owned()).collect();
            assert_eq!(program.between(&names), expected, "-O{level}");
        });
    }
}

#[test]
fn a_walk_from_main_meets_the_thread_and_what_it_calls() {
    with_program(2, |program| {
        let graph = &program.graph;
        let mut walk = Dfs::new(graph, graph.entry_of(program.function("main")).unwrap());
        let mut met = BTreeSet::new();
        while let Some(node) = walk.next(graph) {
            met.insert(program.name_of(node));
        }
        assert!(
            ["main", "routine", "repeat", "leaf"]
                .iter()
                .all(|name| met.contains(*name)),
            "{met:?}"
        );
    });
}

#[test]
fn nodes_are_blocks_and_one_exit_for_each_function() {
    with_program(0, |program| {
        let leaf = program.function("leaf");
        let flow = program.code.flow(leaf);
        let exit = program.graph.exit_of(leaf).unwrap();
        assert_eq!(program.graph.kind_of(exit), Some(NodeKind::Exit));
        for (place, block) in flow.blocks.iter().enumerate() {
            let node = program.graph.block_at(leaf, block.start).unwrap();
            assert_eq!(program.graph.kind_of(node), Some(NodeKind::Block(block.start)));
            let next: Vec<u32> = program.graph.successors(node).map(|(to, _)| to).collect();
            let base = exit as usize - flow.blocks.len();
            assert_eq!(node as usize, base + place);
            let leaves = block.exit.leaves().then_some(exit);
            let flows = block.succs.iter().map(|next| base as u32 + next.0).chain(leaves);
            assert_eq!(next, flows.collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_part_of_the_program_is_a_part_of_the_graph() {
    with_program(0, |program| {
        let functions = [program.function("routine"), program.function("repeat")];
        let part = ThreadIcfg::around(&program.code, &functions, &ThreadEdges::default());
        let kinds: BTreeSet<EdgeKind> = part.edges().map(|(_, _, kind)| kind).collect();
        assert_eq!(
            kinds,
            BTreeSet::from([EdgeKind::Flow, EdgeKind::Call, EdgeKind::Return])
        );
        assert_eq!(part.entry_of(program.function("main")), None);
        assert!(part.node_count() < program.graph.node_count());
    });
}
