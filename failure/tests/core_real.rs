//! Cores of programs that really crashed, held against gdb's view of them.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use std::collections::HashMap;

use failure::core_dump::CoreDump;
use failure::image::{Limits, report};
use failure::{FrameOrigin, Kind, Position, Report, Signal};
use support::real::{Disk, Folder, NoFiles, build, crash, crash_after, gdb_stacks, live_core};

fn addresses(report: &Report) -> HashMap<u64, Vec<u64>> {
    let threads = report.threads.iter();
    threads
        .map(|thread| {
            let frames = thread.frames.iter().filter_map(|frame| Some(frame.address?.0));
            (thread.id.unwrap(), frames.collect())
        })
        .collect()
}

/// Crashes the program in a way, unwinds, compares with gdb, and hands the report to `check`.
fn check(compiler: &str, options: &[&str], arguments: &[&str], check: impl Fn(&Report)) {
    let folder = Folder::new();
    let program = build(&folder, compiler, options);
    let Some(core) = crash(&program, arguments) else {
        return;
    };
    let dump = CoreDump::parse(&core).unwrap();
    let report = report(&dump, &Disk::default(), Limits::default());
    if let Some(expected) = gdb_stacks(&program, &core, Limits::default().frames) {
        assert_eq!(
            addresses(&report),
            expected,
            "{compiler} {options:?} {arguments:?} {:?}",
            report.notes
        );
    }
    let path = program.canonicalize().unwrap();
    assert_eq!(report.program.as_deref(), path.to_str());
    assert!(report.build_id.is_some());
    check(&report);
}

/// Ways to build that differ in what an unwinder has to go by: position-independent or not, no table to
/// search, nothing but (compressed) debug information.
const BUILDS: [(&str, &[&str]); 6] = [
    ("gcc", &["-O2", "-fomit-frame-pointer"]),
    ("gcc", &["-O0", "-no-pie"]),
    ("gcc", &["-O3", "-static"]),
    ("gcc", &["-O2", "-Wl,--no-eh-frame-hdr"]),
    ("clang", &["-O2", "-fomit-frame-pointer"]),
    (
        "clang",
        &[
            "-O1",
            "-fno-asynchronous-unwind-tables",
            "-fno-unwind-tables",
            "-gdwarf-4",
            "-gz",
        ],
    ),
];

fn failing_frames(report: &Report) -> &[failure::Frame] {
    &report.threads[report.failing].frames
}

#[test]
fn a_fault_in_a_thread() {
    for (compiler, options) in BUILDS {
        check(compiler, options, &["fault"], |report| {
            assert_eq!(report.kind, Kind::Signal);
            assert_eq!(report.signal, Some(Signal(11)));
            assert_eq!(report.fault_address, Some(program::RunAddr(0)));
            assert_eq!(report.threads.len(), 4);
            assert_eq!(report.notes, [""; 0]);
            let frames = failing_frames(report);
            assert_eq!(
                (frames[0].position, frames[0].origin),
                (Position::Exact, FrameOrigin::Context)
            );
            assert_eq!(
                (frames[1].position, frames[1].origin),
                (Position::Return, FrameOrigin::Cfi)
            );
        });
    }
}

#[test]
fn a_fault_below_a_realigned_frame() {
    for (compiler, options) in BUILDS {
        check(compiler, options, &["realigned", "main"], |report| {
            assert_eq!(report.notes, [""; 0])
        });
    }
}

#[test]
fn a_division_by_zero() {
    check("gcc", &["-O2"], &["divide"], |report| {
        assert_eq!((report.kind, report.signal), (Kind::Signal, Some(Signal(8))));
        assert_eq!(report.fault_address, failing_frames(report)[0].address);
    });
}

#[test]
fn a_fault_in_a_signal_handler() {
    for (compiler, options) in BUILDS {
        check(compiler, options, &["handler"], |report| {
            let frames = failing_frames(report);
            let interrupted = frames
                .iter()
                .position(|frame| frame.origin == FrameOrigin::SignalFrame)
                .unwrap();
            assert_eq!(frames[interrupted].position, Position::Exact);
            assert_eq!(
                frames[interrupted - 1].position,
                Position::Exact,
                "the trampoline is no call's return"
            );
            assert!(frames.len() > interrupted + 4);
        });
    }
}

#[test]
fn an_abort_in_a_handler_on_a_stack_of_its_own() {
    for (compiler, options) in BUILDS {
        check(compiler, options, &["altstack", "main"], |report| {
            assert_eq!((report.kind, report.fault_address), (Kind::Abort, None));
            assert!(
                failing_frames(report)
                    .iter()
                    .any(|frame| frame.origin == FrameOrigin::SignalFrame)
            );
            assert_eq!(report.notes, [""; 0]);
        });
    }
}

#[test]
fn a_failed_assertion_and_its_text() {
    for options in [&["-O2"][..], &["-O2", "-static"]] {
        check("gcc", options, &["assert"], |report| {
            assert_eq!((report.kind, report.signal), (Kind::Abort, Some(Signal(6))));
            let message = report.message.as_deref().unwrap();
            assert!(
                message.ends_with("fail_assertion: Assertion `n == 42 && \"the answer\"' failed."),
                "{message}"
            );
        });
    }
}

#[test]
fn a_double_free_and_its_text() {
    check("clang", &["-O1"], &["free", "main"], |report| {
        assert_eq!(report.kind, Kind::Abort);
        assert_eq!(
            report.message.as_deref(),
            Some("free(): double free detected in tcache 2")
        );
    });
}

#[test]
fn calls_to_where_no_code_is() {
    let null = BUILDS.iter().map(|build| (build, "null", 0));
    let wild = BUILDS.iter().take(2).map(|build| (build, "wild", 0x1_2345_6000));
    for ((compiler, options), way, target) in null.chain(wild) {
        check(compiler, options, &[way], |report| {
            assert_eq!(report.fault_address, Some(program::RunAddr(target)));
            let frames = failing_frames(report);
            assert_eq!(frames[0].address, Some(program::RunAddr(target)));
            assert_eq!(frames[0].module, None);
            assert_eq!(
                (frames[1].position, frames[1].origin),
                (Position::Return, FrameOrigin::Context)
            );
            assert_eq!(report.notes, [""; 0]);
        });
    }
}

#[test]
fn a_fault_in_the_vdso() {
    check("gcc", &["-O2"], &["vdso", "main"], |report| {
        let module = failing_frames(report)[0].module.as_ref().unwrap();
        assert_eq!(module.path, "[vdso]");
        assert!(module.addr.is_some() && module.build_id.is_some());
        assert_eq!(report.notes, [""; 0]);
    });
}

#[test]
fn a_process_that_was_told_to_quit_hangs() {
    check("gcc", &["-O2"], &["quit"], |report| {
        assert_eq!((report.kind, report.signal), (Kind::Hang, Some(Signal(3))));
    });
}

#[test]
fn a_core_of_a_live_process() {
    let folder = Folder::new();
    let program = build(&folder, "gcc", &["-O2"]);
    let Some(core) = live_core(&program, &["hang"]) else {
        return;
    };
    let dump = CoreDump::parse(&core).unwrap();
    let report = report(&dump, &Disk::default(), Limits::default());
    if let Some(expected) = gdb_stacks(&program, &core, Limits::default().frames) {
        assert_eq!(addresses(&report), expected, "{:?}", report.notes);
    }
    assert_eq!((report.kind, report.signal), (Kind::Hang, None));
    assert_eq!(report.threads.len(), 4);
    assert_eq!(
        report.program.as_deref(),
        program.canonicalize().unwrap().to_str()
    );
    assert_eq!(
        report.notes,
        ["no fatal signal: the core was taken from a live process"]
    );
}

#[test]
fn an_endless_recursion_is_cut() {
    check("gcc", &["-O1"], &["overflow"], |report| {
        assert_eq!(failing_frames(report).len(), 256);
        assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
        assert!(
            report.notes[0].contains("deeper than 256 frames"),
            "{:?}",
            report.notes
        );
    });
}

#[test]
fn a_core_without_the_modules_first_pages() {
    let folder = Folder::new();
    let program = build(&folder, "gcc", &["-O2"]);
    let only_private_memory = "echo 0x1 > /proc/self/coredump_filter";
    let Some(core) = crash_after(only_private_memory, &program, &["fault"]) else {
        return;
    };
    let dump = CoreDump::parse(&core).unwrap();
    let report = report(&dump, &Disk::default(), Limits::default());
    if let Some(expected) = gdb_stacks(&program, &core, Limits::default().frames) {
        assert_eq!(addresses(&report), expected, "{:?}", report.notes);
    }
    let module = failing_frames(&report)[0].module.as_ref().unwrap();
    assert!(module.addr.is_some(), "the file tells where its segments go");
}

#[test]
fn an_overwritten_return_address_ends_the_stack() {
    let folder = Folder::new();
    let program = build(&folder, "gcc", &["-O1", "-fno-omit-frame-pointer"]);
    let Some(core) = crash(&program, &["smash"]) else {
        return;
    };
    let dump = CoreDump::parse(&core).unwrap();
    let report = report(&dump, &Disk::default(), Limits::default());
    let frames = failing_frames(&report);
    assert_eq!(frames[0].address, Some(program::RunAddr(0x4141_4148)));
    assert!(frames.iter().all(|frame| frame.origin != FrameOrigin::Scan));
    assert!(
        report.notes.iter().any(|note| note.contains("no code")),
        "{:?}",
        report.notes
    );
}

#[test]
fn without_files_the_innermost_frames_name_their_modules() {
    let folder = Folder::new();
    let program = build(&folder, "gcc", &["-O2"]);
    let Some(core) = crash(&program, &["fault"]) else {
        return;
    };
    let dump = CoreDump::parse(&core).unwrap();
    let report = report(&dump, &NoFiles, Limits::default());
    let module = failing_frames(&report)[0].module.as_ref().unwrap();
    assert_eq!(Some(module.path.as_str()), report.program.as_deref());
    assert!(module.addr.is_some() && module.build_id.is_some());
    assert!(
        report.notes.iter().any(|note| note.contains("is not there")),
        "{:?}",
        report.notes
    );
}
