use super::*;

/// A program as a drawing: functions by number, each with edges between blocks, and what the end of a block
/// does. Instruction numbers are ten times the block's; a block's call is its last instruction.
#[derive(Default)]
struct Drawing {
    functions: Vec<Arc<Cfg>>,
    sites: Vec<(usize, Site<usize>)>,
    roots: Vec<(usize, Root)>,
    joins: Vec<(Position, Vec<usize>)>,
    skips: Vec<(usize, usize)>,
    awaiting: Vec<usize>,
    alike: Vec<(usize, usize)>,
}

const MAIN: usize = 0;

fn end_of(block: usize) -> Position {
    Position {
        block,
        instruction: block as u32 * 10 + 9,
    }
}

fn inside(block: usize) -> Position {
    Position {
        block,
        instruction: block as u32 * 10 + 5,
    }
}

impl Drawing {
    /// `main`, a straight line of `blocks` blocks.
    fn new(blocks: usize) -> Self {
        let mut drawing = Self::default();
        drawing.line(blocks);
        drawing.roots.push((MAIN, Root::Main));
        drawing
    }

    fn line(&mut self, blocks: usize) -> usize {
        self.function(
            blocks,
            &(1..blocks).map(|block| (block - 1, block)).collect::<Vec<_>>(),
        )
    }

    fn function(&mut self, blocks: usize, edges: &[(usize, usize)]) -> usize {
        self.functions
            .push(Arc::new(Cfg::new(blocks, 0, edges.iter().copied(), [])));
        self.functions.len() - 1
    }

    fn link(&mut self, link: Link, from: (usize, usize), to: usize) {
        let site = Site {
            function: from.0,
            position: end_of(from.1),
            link,
        };
        self.sites.push((to, site));
    }

    fn before(&self, failing: &[(usize, Position)]) -> Before<&Self> {
        let frame = |&(function, position)| Frame { function, position };
        Before::new(self, &failing.iter().map(frame).collect::<Vec<_>>(), &[])
    }
}

impl Calls for &Drawing {
    type Function = usize;

    fn cfg(&self, function: usize) -> Option<Arc<Cfg>> {
        self.functions.get(function).cloned()
    }

    fn sites(&self, function: usize) -> Vec<Site<usize>> {
        self.sites
            .iter()
            .filter(|(to, _)| *to == function)
            .map(|(_, site)| *site)
            .collect()
    }

    fn callees(&self, function: usize) -> Vec<(Position, usize)> {
        let here = self.sites.iter().filter(|(_, site)| site.function == function);
        let calls = here.filter(|(_, site)| site.link == Link::Call);
        calls.map(|(to, site)| (site.position, *to)).collect()
    }

    fn root(&self, function: usize) -> Option<Root> {
        self.roots
            .iter()
            .find(|(of, _)| *of == function)
            .map(|(_, root)| *root)
    }

    fn joins(&self, site: &Site<usize>) -> Joins {
        let here = self.joins.iter().filter(|(at, _)| *at == site.position);
        Joins {
            blocks: here.flat_map(|(_, joins)| joins.clone()).collect(),
            skips: self.skips.clone(),
        }
    }

    fn awaits_all(&self, function: usize) -> bool {
        self.awaiting.contains(&function)
    }

    fn tests_alike(&self, _: usize, one: usize, other: usize) -> bool {
        self.alike.contains(&(one, other))
    }
}

#[test]
fn straight_line_code_after_the_failure_has_not_run() {
    let mut program = Drawing::new(4);
    let (early, late, deep, unused) = (program.line(1), program.line(1), program.line(1), program.line(1));
    program.link(Link::Call, (MAIN, 0), early);
    program.link(Link::Call, (early, 0), deep);
    program.link(Link::Call, (MAIN, 2), late);
    program.link(Link::Call, (unused, 0), deep);
    let before = program.before(&[(MAIN, inside(2))]);
    assert!(before.has_run(MAIN) && before.has_run(early) && before.has_run(deep));
    assert!(!before.has_run(late), "called at the end of the failing block");
    assert!(!before.has_run(unused), "called by nobody");
    assert!(before.has_run_at(MAIN, inside(2)) && before.has_run_at(MAIN, inside(1)));
    assert!(!before.has_run_at(MAIN, end_of(2)) && !before.has_run_at(MAIN, inside(3)));
}

#[test]
fn a_loop_brings_later_code_before() {
    let mut program = Drawing::default();
    program.function(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]);
    program.roots.push((MAIN, Root::Main));
    let (in_loop, behind) = (program.line(1), program.line(1));
    program.link(Link::Call, (MAIN, 2), in_loop);
    program.link(Link::Call, (MAIN, 3), behind);
    let before = program.before(&[(MAIN, inside(1))]);
    assert!(before.has_run(in_loop) && !before.has_run(behind));
}

#[test]
fn the_failing_function_may_have_run_to_its_end_in_an_earlier_call() {
    let mut program = Drawing::new(3);
    let (failing, cleanup) = (program.line(2), program.line(1));
    program.link(Link::Call, (MAIN, 1), failing);
    program.link(Link::Call, (failing, 1), cleanup);
    let stack = [(failing, inside(0)), (MAIN, end_of(1))];
    assert!(!program.before(&stack).has_run(cleanup));
    program.link(Link::Call, (MAIN, 0), failing);
    assert!(
        program.before(&stack).has_run(cleanup),
        "the first call went through"
    );
}

#[test]
fn without_a_stack_every_caller_counts() {
    let mut program = Drawing::new(4);
    let (failing, other, late) = (program.line(1), program.line(1), program.line(1));
    program.link(Link::Call, (MAIN, 1), failing);
    program.link(Link::Call, (MAIN, 0), other);
    program.link(Link::Call, (MAIN, 2), late);
    let before = program.before(&[(failing, inside(0))]);
    assert!(before.has_run(MAIN) && before.has_run(other) && !before.has_run(late));
}

/// main: create `first` at 0, create `failing` at 1, `work` at 2, join at 3, `report` at 4.
fn threads() -> (Drawing, [usize; 5]) {
    let mut program = Drawing::new(6);
    let numbers = [
        program.line(1),
        program.line(2),
        program.line(1),
        program.line(1),
        program.line(1),
    ];
    let [first, failing, work, report, later] = numbers;
    program.link(Link::Creation, (MAIN, 0), first);
    program.link(Link::Creation, (MAIN, 1), failing);
    program.link(Link::Call, (MAIN, 2), work);
    program.link(Link::Call, (MAIN, 4), report);
    program.link(Link::Creation, (MAIN, 4), later);
    (program, numbers)
}

#[test]
fn other_threads_run_beside_the_failing_one_until_it_is_awaited() {
    let (mut program, [first, failing, work, report, later]) = threads();
    let before = program.before(&[(failing, inside(0))]);
    assert!(
        [first, work, report, later]
            .iter()
            .all(|&function| before.has_run(function))
    );
    program.joins.push((end_of(1), vec![3]));
    let before = program.before(&[(failing, inside(0))]);
    assert!(before.has_run(first) && before.has_run(work));
    assert!(!before.has_run(report) && !before.has_run(later));
}

#[test]
fn a_thread_that_is_created_later_has_not_run() {
    let (program, [first, failing, work, ..]) = threads();
    let before = program.before(&[(MAIN, inside(1))]);
    assert!(before.has_run(first) && !before.has_run(failing) && !before.has_run(work));
}

#[test]
fn a_loop_of_joins_ends_the_threads_of_a_loop_of_creations() {
    // 0 → 1 ⟲ creates → 2 ⟲ (3) joins → 4 calls report
    let mut program = Drawing::default();
    program.function(5, &[(0, 1), (1, 1), (1, 2), (2, 3), (3, 2), (2, 4)]);
    program.roots.push((MAIN, Root::Main));
    let (worker, report) = (program.line(1), program.line(1));
    program.link(Link::Creation, (MAIN, 1), worker);
    program.link(Link::Call, (MAIN, 4), report);
    program.joins.push((end_of(1), vec![3]));
    assert!(!program.before(&[(worker, inside(0))]).has_run(report));
}

#[test]
fn a_test_before_the_loop_of_joins_is_part_of_it() {
    // 0 creates → 1 tests → 2 ⟲ (3) joins and tests → 4 calls report; 1 → 4 directly
    let mut program = Drawing::default();
    program.function(5, &[(0, 1), (1, 2), (1, 4), (2, 3), (3, 2), (3, 4)]);
    program.roots.push((MAIN, Root::Main));
    let (worker, report) = (program.line(1), program.line(1));
    program.link(Link::Creation, (MAIN, 0), worker);
    program.link(Link::Call, (MAIN, 4), report);
    program.joins.push((end_of(0), vec![2]));
    assert!(
        program.before(&[(worker, inside(0))]).has_run(report),
        "whether to wait at all may be another question"
    );
    program.alike.push((1, 3));
    assert!(!program.before(&[(worker, inside(0))]).has_run(report));
}

#[test]
fn a_join_is_not_skipped_where_there_is_a_thread() {
    // 0 creates → 1 tests → 2 joins → 3 calls report; 1 → 3 directly
    let mut program = Drawing::default();
    program.function(4, &[(0, 1), (1, 2), (1, 3), (2, 3)]);
    program.roots.push((MAIN, Root::Main));
    let (worker, report) = (program.line(1), program.line(1));
    program.link(Link::Creation, (MAIN, 0), worker);
    program.link(Link::Call, (MAIN, 3), report);
    program.joins.push((end_of(0), vec![2]));
    assert!(program.before(&[(worker, inside(0))]).has_run(report));
    program.skips.push((1, 3));
    assert!(!program.before(&[(worker, inside(0))]).has_run(report));
}

#[test]
fn a_function_that_awaits_its_threads_returns_after_them() {
    let mut program = Drawing::new(3);
    let (scope, worker, report) = (program.line(2), program.line(1), program.line(1));
    program.link(Link::Call, (MAIN, 0), scope);
    program.link(Link::Creation, (scope, 0), worker);
    program.link(Link::Call, (MAIN, 1), report);
    assert!(program.before(&[(worker, inside(0))]).has_run(report));
    program.awaiting.push(scope);
    assert!(!program.before(&[(worker, inside(0))]).has_run(report));
}

#[test]
fn the_creator_may_have_returned() {
    let mut program = Drawing::new(3);
    let (start, worker, after, before_it) =
        (program.line(1), program.line(1), program.line(1), program.line(1));
    program.link(Link::Call, (MAIN, 0), before_it);
    program.link(Link::Call, (MAIN, 1), start);
    program.link(Link::Creation, (start, 0), worker);
    program.link(Link::Call, (MAIN, 2), after);
    let destructor = program.line(1);
    program.roots.push((destructor, Root::End));
    let before = program.before(&[(worker, inside(0))]);
    assert!(before.has_run(after) && before.has_run(before_it));
    assert!(before.has_run(destructor), "main returns while the thread runs");
    assert!(!program.before(&[(MAIN, inside(2))]).has_run(destructor));
}

#[test]
fn stacks_of_other_threads_say_how_far_they_got() {
    let (program, [first, failing, work, report, _]) = threads();
    let failing = [Frame {
        function: failing,
        position: inside(0),
    }];
    let main_at = |position| {
        vec![Frame {
            function: MAIN,
            position,
        }]
    };
    let waiting = Before::new(&program, &failing, &[main_at(end_of(3))]);
    assert!(waiting.has_run(first) && waiting.has_run(work) && !waiting.has_run(report));
    let just_created = Before::new(&program, &failing, &[main_at(end_of(1))]);
    assert!(just_created.has_run(first) && !just_created.has_run(work));
}

#[test]
fn the_creator_of_a_running_thread_got_no_further_than_its_own_stack_says() {
    let mut program = Drawing::new(3);
    let (start, worker, late) = (program.line(1), program.line(1), program.line(1));
    program.roots.push((start, Root::Start));
    program.link(Link::Call, (start, 0), MAIN);
    program.link(Link::Creation, (MAIN, 0), worker);
    program.link(Link::Call, (MAIN, 2), late);
    let at = |function, position| Frame { function, position };
    let running = vec![at(worker, inside(0))];
    let before = Before::new(&program, &[at(MAIN, inside(1))], std::slice::from_ref(&running));
    assert!(before.has_run(worker) && !before.has_run(late));
    // The other way round: the thread fails while main stands before the call.
    let before = Before::new(&program, &running, &[vec![at(MAIN, inside(1))]]);
    assert!(!before.has_run(late), "what starts main is no second way into it");
}

#[test]
fn a_taken_address_may_be_called_from_then_on() {
    let mut program = Drawing::new(3);
    let (callback, late) = (program.line(1), program.line(1));
    program.link(Link::Taken, (MAIN, 0), callback);
    program.link(Link::Taken, (MAIN, 2), late);
    let before = program.before(&[(MAIN, inside(1))]);
    assert!(before.has_run(callback) && !before.has_run(late));
    // Inside the callback: whoever passed it on may have gone on since.
    assert!(program.before(&[(callback, inside(0))]).has_run(late));
}

#[test]
fn constructors_run_before_main_and_main_not_before_them() {
    let mut program = Drawing::new(2);
    let (constructor, exported) = (program.line(1), program.line(1));
    program
        .roots
        .extend([(constructor, Root::Start), (exported, Root::Outside)]);
    assert!(program.before(&[(MAIN, inside(0))]).has_run(constructor));
    assert!(program.before(&[(MAIN, inside(0))]).has_run(exported));
    assert!(!program.before(&[(constructor, inside(0))]).has_run(MAIN));
}

#[test]
fn recursion_ends() {
    let mut program = Drawing::new(2);
    let (a, b, lost) = (program.line(2), program.line(2), program.line(1));
    program.link(Link::Call, (MAIN, 0), a);
    program.link(Link::Call, (a, 0), b);
    program.link(Link::Call, (b, 0), a);
    program.link(Link::Call, (lost, 0), lost);
    let before = program.before(&[(b, inside(1))]);
    assert!(before.has_run(a) && before.has_run(b) && before.has_run(MAIN) && !before.has_run(lost));
}

#[test]
fn code_behind_a_taken_address_in_the_same_block_can_have_run() {
    let mut program = Drawing::new(3);
    let callback = program.line(1);
    let site = Site {
        function: MAIN,
        position: inside(1),
        link: Link::Taken,
    };
    program.sites.push((callback, site));
    let before = program.before(&[(callback, inside(0))]);
    assert!(before.has_run_at(MAIN, end_of(1)) && before.has_run_at(MAIN, inside(2)));
}
