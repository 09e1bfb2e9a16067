//! Watches that are set where an address becomes known.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Register};
use program::code::InstrIx;
use program::{FunctionRef, LinkAddr, Module, ModuleId, Pc, Program as Model};
use slicer::dependence::passed::Library;
use slicer::plan::{Early, Plan, Planner};
use slicer::threads::ThreadModel;
use tracee::HostFiles;
use watchpoint::arm::{Armament, after_allocation, arm, given_to, handing_out};
use watchpoint::watcher::{Expression, Probe};
use watchpoint::{Address, Hit, Mode, Trigger, WatchSpec};

use crate::riding::ride;
use crate::support::can_watch;
use crate::watched::{Outcome, Program, attach, launch};

/// The compiled program as a model, which lives as long as the test process.
fn model(program: &Program) -> &'static Model<'static> {
    let files: &'static HostFiles = Box::leak(Box::new(HostFiles::of(&program.path())));
    let bytes = files.binary().expect("the compiler wrote it");
    let module = Module::load("program", bytes, files).expect("a compiler wrote it");
    Box::leak(Box::new(Model::new(vec![module])))
}

fn function(model: &Model<'_>, name: &str) -> FunctionRef {
    let module = ModuleId(0);
    let functions = model.module(module).expect("there is one").code().functions();
    let function = functions.named(name)[0];
    FunctionRef { module, function }
}

/// A probe at an address, for `register + disp`.
fn probe(model: &Model<'_>, at: LinkAddr, base: Register, disp: i64, late: bool) -> Probe {
    let segments = model.module(ModuleId(0)).expect("there is one").elf().segments();
    Probe {
        module: None,
        addr: at,
        offset: segments.to_file_offset(at).expect("code is in the file"),
        expression: Expression {
            base: Some(base),
            index: None,
            disp,
        },
        late,
        nth: None,
    }
}

fn entry_of(model: &Model<'_>, name: &str) -> LinkAddr {
    let functions = model
        .module(ModuleId(0))
        .expect("there is one")
        .code()
        .functions();
    let function = functions.get(function(model, name).function);
    function.expect("it was just found").entry
}

fn watch(probes: Vec<Probe>) -> Vec<WatchSpec> {
    vec![WatchSpec {
        address: Address::Probed(probes),
        len: 8,
        trigger: Trigger::ReadWrite,
        places: 1,
    }]
}

fn values(outcome: &Outcome) -> Vec<(String, u64)> {
    shown(&outcome.hits)
}

fn shown(hits: &[Hit]) -> Vec<(String, u64)> {
    let shown = |hit: &Hit| {
        let access = hit.access.map_or("?".to_owned(), |access| access.to_string());
        (access, hit.value.map_or(u64::MAX, |value| value.bits))
    };
    hits.iter().map(shown).collect()
}

fn expect(accesses: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = accesses
        .iter()
        .map(|(access, value)| ((*access).to_owned(), *value));
    owned.collect()
}

#[test]
fn at_a_functions_entry() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("arming.c", "-O1");
    let model = model(&program);
    let at_entry = probe(model, entry_of(model, "finish"), Register::RDI, 8, true);
    let outcome = launch(&program, &[], watch(vec![at_entry]), Mode::Exact);
    assert_eq!(outcome.output, "2 42\n");
    // The first call is in the worker, the second in main, which prints it; what `make` wrote came before.
    assert_eq!(values(&outcome), expect(&[("RW", 1), ("RW", 2), ("R", 2)]));
    assert_eq!((outcome.summary.late_armed, outcome.summary.lost), (1, 0));
    assert_eq!(outcome.summary.spans.len(), 1, "the same address is armed once");
}

/// The instruction after the call of `malloc` in `make`.
fn after_malloc(model: &Model<'_>) -> LinkAddr {
    let make = function(model, "make");
    let flow = model
        .module(make.module)
        .expect("there is one")
        .code()
        .flow(make.function);
    let call = flow
        .instructions
        .iter()
        .find(|instruction| instruction.flow_control() == FlowControl::Call);
    LinkAddr(call.expect("it calls malloc").next_ip())
}

#[test]
fn after_an_allocation() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("arming.c", "-O1");
    let model = model(&program);
    for mode in [Mode::Exact, Mode::Observe] {
        let allocated = probe(model, after_malloc(model), Register::RAX, 8, false);
        let outcome = launch(&program, &[], watch(vec![allocated]), mode);
        assert_eq!(
            values(&outcome),
            expect(&[("W", 0), ("RW", 1), ("RW", 2), ("R", 2)]),
            "{mode}"
        );
        assert_eq!(outcome.summary.late_armed, 0);
    }
}

/// The third of five boxes is used as often as the others, which are found at each use.
#[test]
fn one_of_the_objects_that_a_call_makes() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("shelf.c", "-O1");
    let model = model(&program);
    let allocated = probe(model, after_malloc(model), Register::RAX, 8, false);
    let third = Probe {
        nth: Some(3),
        ..allocated
    };
    let used = probe(model, entry_of(model, "use"), Register::RDI, 8, true);
    let of_the_third = expect(&[("W", 0), ("RW", 3), ("RW", 6)]);
    let alone = watch(vec![third.clone(), used.clone()]);
    let outcome = launch(&program, &[], alone, Mode::Exact);
    assert_eq!(outcome.output, "15\n");
    assert_eq!(values(&outcome), of_the_third);
    // With a second register, that one follows the others.
    let mut beside = watch(vec![third, used]);
    beside[0].places = 2;
    let outcome = launch(&program, &[], beside, Mode::Exact);
    let numbers = |number: u64| [("RW", number), ("RW", 2 * number)];
    let others = [1, 2, 4, 5].into_iter().flat_map(numbers);
    let mut all: Vec<_> = [("W", 0), ("RW", 3), ("RW", 6)]
        .into_iter()
        .chain(others)
        .collect();
    all.sort_unstable();
    let mut found = values(&outcome);
    found.sort_unstable();
    assert_eq!(found, expect(&all));
}

#[test]
fn whoever_returns_what_an_allocator_gave_hands_it_out() {
    for level in ["-O0", "-O1"] {
        let program = Program::compile("arming.c", level);
        let model = model(&program);
        let call_in = |name: &str, callee: &str| {
            let function = function(model, name);
            let code = model.module(function.module).expect("there is one").code();
            let flow = code.flow(function.function);
            let call = flow
                .calls()
                .find(|(_, target, _)| code.target_name(*target) == Some(callee));
            let (at, ..) = call.unwrap_or_else(|| panic!("{name} calls {callee}"));
            let addr = flow.addr(at).expect("it is in the code");
            Pc {
                module: function.module,
                addr,
            }
        };
        let (allocates, makes) = (call_in("make", "malloc"), call_in("main", "make"));
        assert_eq!(handing_out(&[allocates, makes], model), 2, "{level}");
        assert_eq!(
            handing_out(&[allocates, makes, makes], model),
            2,
            "main returns a number"
        );
        assert_eq!(handing_out(&[], model), 0);
        let early = after_allocation(allocates, 8, false, model);
        let expected = probe(model, after_malloc(model), Register::RAX, 8, false);
        assert_eq!(
            early.map(|probe| (probe.expression, probe.late)),
            Some((expected.expression, false))
        );
    }
}

#[test]
fn what_a_thread_reaches_through_its_argument_was_given_to_it() {
    for level in ["-O0", "-O1"] {
        let program = Program::compile("arming.c", level);
        let model = model(&program);
        let threads = ThreadModel::new(model);
        // The routines that the accesses of a function reach memory through, of all that they access.
        let reached_in = |name: &str| {
            let function = function(model, name);
            let module = function.module;
            let flow = model
                .module(module)
                .expect("there is one")
                .code()
                .flow(function.function);
            let instructions = flow.instructions.iter().map(|instruction| Pc {
                module,
                addr: LinkAddr(instruction.ip()),
            });
            instructions
                .flat_map(|at| given_to(at, model, &threads))
                .collect::<BTreeSet<_>>()
        };
        let worker = BTreeSet::from([function(model, "worker")]);
        assert_eq!(reached_in("worker"), worker, "{level}");
        assert_eq!(
            reached_in("finish"),
            worker,
            "{level}: it is called with the argument"
        );
        assert_eq!(reached_in("make"), BTreeSet::new(), "{level}");
    }
}

#[test]
fn an_instruction_that_finds_what_is_watched_already_is_told_of_once() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("arming.c", "-O1");
    let model = model(&program);
    // `finish` begins with its access: the probe of the second location is on the instruction that the first tells of.
    let mut specs = watch(vec![probe(model, after_malloc(model), Register::RAX, 8, false)]);
    specs.extend(watch(vec![probe(
        model,
        entry_of(model, "finish"),
        Register::RDI,
        8,
        true,
    )]));
    let (hits, ..) = ride(&program, &specs, Mode::Exact);
    assert_eq!(shown(&hits), expect(&[("W", 0), ("RW", 1), ("RW", 2), ("R", 2)]));
}

#[test]
fn of_a_running_process() {
    if !can_watch() {
        return;
    }
    let program = Program::compile("arming.c", "-O1");
    let model = model(&program);
    let allocated = probe(model, after_malloc(model), Register::RAX, 8, false);
    let outcome = attach(&program, &[], watch(vec![allocated]), Mode::Exact);
    assert_eq!(
        values(&outcome),
        expect(&[("W", 0), ("RW", 1), ("RW", 2), ("R", 2)])
    );
}

/// The plan for all accesses of one function.
fn plan(model: &Model<'static>, name: &str) -> Plan {
    let id = function(model, name);
    let flow = model
        .module(id.module)
        .expect("there is one")
        .code()
        .flow(id.function);
    let tracked: Vec<(u32, InstrIx)> = (0..u32::try_from(flow.instructions.len()).expect("few"))
        .map(|ix| (0, InstrIx(ix)))
        .collect();
    let (library, threads) = (Library::new(model), ThreadModel::new(model));
    let mut planner = Planner::new(model, &library, &threads, false);
    planner.add(id, &tracked);
    planner.finish()
}

fn armament(model: &'static Model<'static>, plan: &Plan) -> Armament {
    arm(plan, model, &ThreadModel::new(model))
}

/// The first location of a plan that is `offset` bytes behind an argument.
fn behind_argument(plan: &Plan, armament: &Armament, behind: i64) -> WatchSpec {
    let wanted = |site: &usize| {
        let early = plan.watch_sites.get(*site).and_then(|site| site.early);
        matches!(early, Some(Early::Argument { offset, .. }) if offset == behind)
    };
    let found = armament
        .locations
        .iter()
        .find(|armed| armed.sites.iter().any(wanted));
    found.expect("the plan has such a site").spec.clone()
}

#[test]
fn a_threads_argument_is_known_where_it_was_allocated() {
    if !can_watch() {
        return;
    }
    for flags in ["-O0", "-O1 -fno-inline"] {
        let program = Program::compile("arming.c", flags);
        let model = model(&program);
        let plan = plan(model, "worker");
        let spec = behind_argument(&plan, &armament(model, &plan), 16);
        let Address::Probed(probes) = &spec.address else {
            panic!("{spec:?} has no probes")
        };
        // In the function that allocates it, where the thread is created, and where it starts.
        let is_in = |name: &str| {
            let at = |probe: &Probe| Pc {
                module: ModuleId(0),
                addr: probe.addr,
            };
            let wanted = Some(function(model, name));
            probes.iter().any(|probe| model.function_at(at(probe)) == wanted)
        };
        assert!(is_in("make") && is_in("main"), "{flags}: {probes:?}");
        assert!(probes.iter().any(|probe| probe.addr == entry_of(model, "worker")));
        let outcome = launch(&program, &[], vec![spec], Mode::Exact);
        assert_eq!(
            values(&outcome),
            expect(&[("W", 0), ("W", 42), ("R", 42)]),
            "{flags}"
        );
        assert_eq!(outcome.summary.late_armed, 0, "{flags}");
    }
}
