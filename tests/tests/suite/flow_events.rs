//! Software PT while the process changes: a library that is loaded later, another program, a ring that is too small.
//! The programs count their own branches.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use failsketch_tests::folder::Folder;
use failsketch_tests::{process, skip};
use failure::FailOn;
use failure::image::Limits;
use program::{ModuleId, Pc, Program, RunAddr};
use pt_driver_client::flow::{Branch, FlowEvent, ThreadFlow};
use pt_driver_client::recorder::software::{Options, SoftwarePt};
use pt_driver_client::recorder::{ControlFlow, Recording, Source, What, choose, sideband};
use slicer::plan::{PcRange, Plan};
use tracee::perf::{News, Rings, Sideband};
use tracee::ptrace::Launch;
use tracee::run::{Output, RunOptions, run};
use tracee::{HostModules, Pid, ProgramFiles};

/// One branch that is taken at every third of `count` turns, and the one that ends the loop.
const CHOOSE: &str = "
    __attribute__((noinline)) int choose(int count) {
        int sum = 0;
        for (int turn = 0; turn < count; turn++) {
            if (turn % 3 == 0)
                sum += 2;
            else
                sum++;
        }
        return sum;
    }
";

/// Loads a library, uses it, and lets it go, so that it is not mapped any more when somebody looks; says where the
/// function was. With a third argument, executes itself to do it once more.
const LOADS: &str = "
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        getchar();
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library)
            return 1;
        int (*choose)(int) = (int (*)(int))dlsym(library, \"choose\");
        printf(\"%p\\n\", (void *)choose);
        fflush(stdout);
        int sum = choose(atoi(argv[2]));
        dlclose(library);
        if (argc > 3)
            execl(argv[0], argv[0], argv[1], argv[2], (char *)0);
        return sum > 0 ? 0 : 2;
    }
";

/// Executes itself with one turn less, until none is left.
const EXECUTES: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        int count = atoi(argv[1]);
        if (choose(count) == 0)
            return 0;
        char less[16];
        snprintf(less, sizeof less, \"%d\", count - 1);
        execl(argv[0], argv[0], less, (char *)0);
        return 1;
    }
";

const CALLS: &str = "
    #include <stdlib.h>
    int main(int argc, char **argv) {
        return choose(atoi(argv[1])) > 0 ? 0 : 2;
    }
";

fn compile(folder: &Folder, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = folder.write(&format!("{name}.c"), source);
    let mut command = Command::new("cc");
    command.args(["-O0", "-g", "-o", name]).arg(source).args(options);
    let _ = process::tool(&mut command, folder.path());
    folder.path().join(name)
}

/// All of the function `choose` in a module.
fn plan(program: &Program<'_>, module: ModuleId) -> Plan {
    let file = program.module(module).unwrap();
    let addr = file.exported("choose").unwrap();
    let function = program.function_at(Pc { module, addr }).unwrap();
    let flow = file.code().flow(function.function);
    let ranges = flow.blocks.iter().map(|block| PcRange {
        module,
        start: block.start,
        end: block.end,
    });
    Plan {
        ranges: slicer::plan::merge(ranges.collect()),
        ..Plan::default()
    }
}

fn record(program: &Program<'_>, plan: &Plan, exe: &Path, arguments: &[&str], options: Options) -> Recording {
    let mut recorder = SoftwarePt::new(program, plan, options);
    let fail_on = FailOn::default();
    let modules = HostModules::of_this_host();
    let options = RunOptions {
        time_limit: None,
        deadlocks: false,
        fail_on: &fail_on,
        stdout: Output::Discard,
        stderr: Output::Discard,
        child_crashes: false,
        subject: None,
        modules: &modules,
        limits: Limits::default(),
        cancel: None,
    };
    let outcome = run(Launch::new(exe).args(arguments), &options, &mut [&mut recorder]).unwrap();
    assert!(outcome.failure.is_none(), "{:?}", outcome.ended);
    recorder.end()
}

fn is_possible() -> bool {
    match choose(ControlFlow::Only(Source::SoftwarePt)) {
        Ok(_) => true,
        Err(error) => {
            skip::skipped(&error.to_string());
            false
        }
    }
}

/// Every turn meets the branch that asks for the third one, and the branch that goes on with the loop; the latter is
/// met once more, and not taken then.
fn check(flow: &ThreadFlow, turns: usize) {
    let outcomes = flow
        .branches()
        .filter_map(|branch| Some((branch.pc, branch.taken()?)));
    let outcomes: Vec<(u64, bool)> = outcomes.collect();
    let places: BTreeSet<u64> = outcomes.iter().map(|(pc, _)| *pc).collect();
    let asks = places.first().filter(|_| turns > 0).copied();
    let goes_on = places.last().copied();
    let of = |place| {
        let of = outcomes.iter().filter(move |(pc, _)| Some(*pc) == place);
        of.map(|(_, taken)| *taken).collect::<Vec<bool>>()
    };
    let not_third: Vec<bool> = (0..turns).map(|turn| turn % 3 != 0).collect();
    let loops: Vec<bool> = (0..=turns).map(|turn| turn < turns).collect();
    assert_eq!((of(asks), of(goes_on)), (not_third, loops));
    assert_eq!(outcomes.len(), 2 * turns + 1);
}

fn start_of(program: &Program<'_>, recording: &Recording, space: usize, module: ModuleId) -> u64 {
    let placed = recording.spaces[space]
        .modules
        .iter()
        .find(|placed| placed.module == module);
    let addr = program.module(module).unwrap().exported("choose").unwrap();
    placed.unwrap().bias.wrapping_add(addr.0)
}

#[test]
fn a_library_that_is_loaded_later_is_recorded_from_its_first_instruction() {
    if !is_possible() {
        return;
    }
    let folder = Folder::new("flow-library");
    let library = compile(&folder, "library.so", CHOOSE, &["-shared", "-fPIC"]);
    let exe = compile(&folder, "loads", LOADS, &["-ldl"]);
    let files = ProgramFiles::default();
    let library = library.display().to_string();
    let program = files.program_of_modules(&exe, [library.as_str()]).unwrap();
    let module = ModuleId(1);
    let plan = plan(&program, module);
    for count in [1, 40] {
        let arguments = [library.as_str(), &count.to_string()];
        let recording = record(&program, &plan, &exe, &arguments, Options::default());
        assert_eq!(recording.missing, [], "{count}");
        let decoded = recording.decode(&program, &plan.ranges);
        let [(thread, flow)] = &decoded[..] else {
            panic!("one thread expected, found {}", decoded.len());
        };
        assert_eq!(flow.gaps().next(), None);
        check(flow, count);
        let space = &recording.spaces[thread.space];
        assert!(space.modules.iter().any(|placed| placed.module == module));
    }
}

#[test]
fn each_program_that_a_process_executes_has_a_space_of_its_own() {
    if !is_possible() {
        return;
    }
    let folder = Folder::new("flow-exec");
    let exe = compile(&folder, "executes", &[CHOOSE, EXECUTES].concat(), &["-rdynamic"]);
    let files = ProgramFiles::default();
    let program = files.program(&exe).unwrap();
    let module = ModuleId(0);
    let plan = plan(&program, module);
    let recording = record(&program, &plan, &exe, &["4"], Options::default());
    assert_eq!(recording.missing, []);
    assert_eq!(recording.spaces.len(), 5, "4, 3, 2, 1 and 0 turns");
    let decoded = recording.decode(&program, &plan.ranges);
    let spaces: Vec<usize> = decoded.iter().map(|(thread, _)| thread.space).collect();
    assert_eq!(spaces, [0, 1, 2, 3, 4]);
    for (thread, flow) in &decoded {
        assert_eq!(flow.gaps().next(), None);
        check(flow, 4 - thread.space);
        let space = &recording.spaces[thread.space];
        assert!(
            flow.branches()
                .all(|branch| space.to_pc(&program, RunAddr(branch.pc)).is_some())
        );
    }
}

#[test]
fn hits_that_find_no_room_are_counted_and_leave_gaps() {
    if !is_possible() {
        return;
    }
    const TURNS: usize = 3_000;
    let folder = Folder::new("flow-overrun");
    let exe = compile(&folder, "calls", &[CHOOSE, CALLS].concat(), &["-rdynamic"]);
    let files = ProgramFiles::default();
    let program = files.program(&exe).unwrap();
    let plan = plan(&program, ModuleId(0));
    let turns = TURNS.to_string();
    let all = record(&program, &plan, &exe, &[&turns], Options::default());
    assert_eq!((all.missing.as_slice(), all.counts.lost), (&[][..], 0));
    // Room for a dozen hits, of several thousand: nobody reads that fast.
    let small = Options {
        ring_bytes: 4096,
        ..Options::default()
    };
    let some = record(&program, &plan, &exe, &[&turns], small);
    let lost = some.counts.lost;
    assert!(lost > 0);
    assert_eq!(
        some.counts.hits + lost,
        all.counts.hits,
        "each hit is recorded or lost"
    );
    assert!(
        some.missing
            .iter()
            .any(|missing| missing.what == What::Hits(lost)),
        "{:?}",
        some.missing
    );
    let decoded = some.decode(&program, &plan.ranges);
    let [(_, flow)] = &decoded[..] else {
        panic!("one thread expected, found {}", decoded.len());
    };
    assert!(flow.gaps().next().is_some(), "losses are gaps");
    // Between two gaps nothing is invented: it is what a part of the whole run did.
    let relative = |recording: &Recording, branch: &Branch| {
        let start = start_of(&program, recording, 0, ModuleId(0));
        (
            branch.pc.wrapping_sub(start),
            branch.to.map(|to| to.wrapping_sub(start)),
        )
    };
    let decoded_whole = all.decode(&program, &plan.ranges);
    let whole: Vec<_> = decoded_whole[0]
        .1
        .branches()
        .map(|branch| relative(&all, branch))
        .collect();
    let stretches = flow.events.split(|event| matches!(event, FlowEvent::Gap { .. }));
    for stretch in stretches {
        let outcomes = stretch.iter().filter_map(|event| match event {
            // Where the last one before a gap went is not known.
            FlowEvent::Branch(branch) if branch.to.is_some() => Some(relative(&some, branch)),
            _ => None,
        });
        let outcomes: Vec<_> = outcomes.collect();
        let is_part = outcomes.is_empty() || whole.windows(outcomes.len()).any(|part| part == outcomes);
        assert!(is_part, "{outcomes:x?}");
    }
}

/// What perf tells of a real process is enough to know where its modules were, however short they were there.
#[test]
fn perf_tells_where_modules_were_in_each_program() {
    let folder = Folder::new("flow-sideband");
    let library = compile(&folder, "library.so", CHOOSE, &["-shared", "-fPIC"]);
    let exe = compile(&folder, "loads", LOADS, &["-ldl"]);
    let rings = Rings::open(1 << 18);
    let mut rings = match rings {
        Ok(rings) => rings,
        Err(error) => return skip::skipped(&error.to_string()),
    };
    let mut child = Command::new(&exe)
        .arg(&library)
        .args(["3", "again"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let news = News {
        tasks: true,
        mappings: true,
        ..News::default()
    };
    let sideband = match Sideband::open(Pid(child.id()).first_thread(), news, &rings) {
        Ok(sideband) => sideband,
        Err(error) => {
            child.kill().unwrap();
            child.wait().unwrap();
            return skip::skipped(&error.to_string());
        }
    };
    child.stdin.take().unwrap().write_all(b"\n\n").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(sideband);
    assert!(output.status.success(), "{}", output.status);
    let printed = String::from_utf8(output.stdout).unwrap();
    let files = ProgramFiles::default();
    let library = library.display().to_string();
    let program = files.program_of_modules(&exe, [library.as_str()]).unwrap();
    let choose = program.module(ModuleId(1)).unwrap().exported("choose").unwrap();
    let records = rings.read_to_end();
    let told = sideband::told(&program, &[ModuleId(0), ModuleId(1)], &records);
    assert_eq!(told.len(), 2, "two programs, one after the other");
    for (told, address) in told.iter().zip(printed.lines()) {
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
        let library = told.modules.iter().filter(|placed| placed.module == ModuleId(1));
        let biases: Vec<u64> = library.map(|placed| placed.bias).collect();
        assert_eq!(biases, [address.wrapping_sub(choose.0)]);
    }
    assert!(told[1].modules.iter().any(|placed| placed.module == ModuleId(0)));
}
