//! Cores that no test program can be made to leave.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use std::collections::HashMap;

use failure::core_dump::{CoreDump, CoreError};
use failure::image::{Limits, Memory as _, ModuleFiles, ProcessImage as _, report};
use failure::{FrameOrigin, Kind, Report, Signal};
use program::{BuildId, FileOffset, LinkAddr, RunAddr};
use support::real::NoFiles;
use support::synth::{CODE, Core, R, RW, RX, Regs, library};

struct Files(HashMap<&'static str, Vec<u8>>);

impl ModuleFiles for Files {
    fn module(&self, path: &str, _: Option<&BuildId>) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice)
    }
}

fn unwound(core: &Core) -> Report {
    let bytes = core.build();
    report(&CoreDump::parse(&bytes).unwrap(), &NoFiles, Limits::default())
}

fn frames(report: &Report) -> Vec<(u64, FrameOrigin)> {
    let frames = report.threads[report.failing].frames.iter();
    frames
        .map(|frame| (frame.address.unwrap().0, frame.origin))
        .collect()
}

fn one_thread() -> Core {
    Core::default().thread(7, 11, Regs::default())
}

#[test]
fn what_is_no_core_is_told_in_a_line() {
    let whole = one_thread().build();
    let changed = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        CoreDump::parse(&bytes).unwrap_err()
    };
    let wrong_machine = |machine: &str| CoreError::WrongMachine {
        machine: machine.to_owned(),
    };
    assert_eq!(CoreDump::parse(b"").unwrap_err(), CoreError::NotElf);
    assert_eq!(CoreDump::parse(b"#!/bin/sh\n").unwrap_err(), CoreError::NotElf);
    assert_eq!(
        changed(16, 2),
        CoreError::NotCore {
            what: "an executable"
        }
    );
    assert_eq!(
        changed(16, 3),
        CoreError::NotCore {
            what: "an executable or a shared library"
        }
    );
    assert_eq!(changed(18, 183), wrong_machine("64-bit Arm (aarch64)"));
    assert_eq!(changed(4, 1), wrong_machine("32-bit"));
    assert_eq!(changed(5, 2), wrong_machine("big-endian"));
    let packed = CoreDump::parse(b"\x28\xb5\x2f\xfd packed").unwrap_err();
    assert_eq!(
        packed.to_string(),
        "the core is compressed with zstd: unpack it first (zstd -d)"
    );
    let threadless = Core::default().load(0x1000, 0x1000, RW, &[0; 4096]).build();
    assert_eq!(CoreDump::parse(&threadless).unwrap_err(), CoreError::NoThreads);
    for cut in 6..64 + 56 {
        let error = CoreDump::parse(&whole[..cut]).unwrap_err();
        assert!(matches!(error, CoreError::HeadersCut { .. }), "{cut}: {error}");
    }
}

#[test]
fn a_core_that_was_cut_is_read_as_far_as_it_goes() {
    let whole = one_thread().load(0x1000, 0x2000, RW, &[7; 0x2000]).build();
    let cut = &whole[..whole.len() - 0x1800];
    let dump = CoreDump::parse(cut).unwrap();
    assert!(
        dump.notes()[0].starts_with("the core is cut off: 6144 of "),
        "{:?}",
        dump.notes()
    );
    assert_eq!(dump.read(RunAddr(0x1000), 0x800).unwrap().len(), 0x800);
    assert_eq!(dump.read(RunAddr(0x1000), 0x801), None);
}

#[test]
fn more_segments_than_the_header_can_count() {
    let mut core = one_thread();
    for index in 0..70_000_u64 {
        core = core.load(0x10_0000 + index * 0x1000, 0x1000, R, &[]);
    }
    core = core.words(0x1000, &[42]);
    core.extended_count = true;
    let bytes = core.build();
    let without_section_header = &bytes[..bytes.len() - 64];
    for bytes in [&bytes, without_section_header] {
        let dump = CoreDump::parse(bytes).unwrap();
        assert_eq!(
            dump.read(RunAddr(0x1000), 8).as_deref(),
            Some(&42_u64.to_le_bytes()[..])
        );
    }
}

#[test]
fn memory_is_joined_across_segments_and_not_made_up() {
    let core = one_thread()
        .load(0x1000, 0x1000, RW, &[1; 0x1000])
        .load(0x2000, 0x1000, RW, &[2; 0x800])
        .load(0x1800, 0x800, RW, &[9; 0x800]);
    let bytes = core.build();
    let dump = CoreDump::parse(&bytes).unwrap();
    let joined = dump.read(RunAddr(0x1fff), 2).unwrap();
    assert_eq!(&*joined, [1, 2], "the first of two that overlap keeps its bytes");
    assert_eq!(dump.notes().len(), 1);
    assert_eq!(
        dump.read(RunAddr(0x27ff), 2),
        None,
        "what was not dumped is not zero"
    );
    assert_eq!(dump.read(RunAddr(0x1000), usize::MAX), None);
    assert_eq!(dump.read(RunAddr(u64::MAX), 2), None);
}

#[test]
fn mapped_files_count_in_pages_or_bytes() {
    for (unit, offset) in [(4096, 3), (1, 3 * 4096)] {
        let bytes = one_thread()
            .files(unit, &[(0x1000, 0x3000, offset, "/bin/a b")])
            .build();
        let dump = CoreDump::parse(&bytes).unwrap();
        let mapping = &dump.mappings()[0];
        assert_eq!(
            (mapping.offset, mapping.path.as_str()),
            (FileOffset(0x3000), "/bin/a b")
        );
        assert_eq!(mapping.range, RunAddr(0x1000)..RunAddr(0x3000));
    }
    for count in [2, u64::MAX, 1 << 60] {
        let content = [count.to_le_bytes(), 4096_u64.to_le_bytes(), [0; 8]].concat();
        let bytes = one_thread()
            .note("CORE", u32::from_be_bytes(*b"FILE"), &content)
            .build();
        assert_eq!(CoreDump::parse(&bytes).unwrap().mappings(), []);
    }
}

#[test]
fn a_note_that_claims_too_much_ends_the_notes() {
    let bytes = one_thread().note("CORE", 1, &[0; 16]).build();
    let mut endless = bytes.clone();
    let at = bytes.len() - 16 - 8 - 8;
    endless[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(CoreDump::parse(&endless).unwrap().threads().len(), 1);
}

#[test]
fn who_ran_and_what_happened() {
    let bytes = Core::default()
        .thread(
            7,
            11,
            Regs {
                rip: 1,
                rsp: 2,
                rbp: 3,
            },
        )
        .thread(8, 11, Regs::default())
        .program(6, "a-name", "a-name --flag value")
        .signal(11, 1, 0xdead)
        .build();
    let dump = CoreDump::parse(&bytes).unwrap();
    let program = dump.program().unwrap();
    assert_eq!(
        (program.pid, program.name.as_str(), program.arguments.as_str()),
        (6, "a-name", "a-name --flag value")
    );
    let registers = dump.threads()[0].registers;
    assert_eq!(
        (registers.rip, registers.rsp, registers.rbp, registers.fs_base),
        (1, 2, 3, 0xf5)
    );
    let report = report(
        &dump,
        &NoFiles,
        Limits {
            threads: 1,
            ..Limits::default()
        },
    );
    assert_eq!(
        (report.kind, report.fault_address),
        (Kind::Signal, Some(RunAddr(0xdead)))
    );
    assert_eq!(report.program.as_deref(), Some("a-name"));
    assert_eq!(report.threads.len(), 1);
    assert!(
        report.notes[0].contains("first 1 of 2 threads"),
        "{:?}",
        report.notes
    );
}

#[test]
fn an_address_is_told_only_where_the_kernel_knew_one() {
    let general_protection = unwound(&one_thread().signal(11, 0x80, 0));
    assert_eq!(general_protection.fault_address, None);
    assert!(general_protection.notes[0].contains("did not tell the address"));
    let sent = unwound(&one_thread().program(6, "x", "x").signal(11, 0, 999));
    assert_eq!((sent.kind, sent.fault_address), (Kind::Signal, None));
    assert_eq!(sent.notes[0], "signal 11 was sent by process 999");
}

#[test]
fn an_abort_from_outside_ends_a_hang() {
    let outside = unwound(&one_thread().program(6, "x", "x").signal(6, 0, 999));
    assert_eq!((outside.kind, outside.signal), (Kind::Hang, Some(Signal(6))));
    let own = unwound(&one_thread().program(6, "x", "x").signal(6, -6, 6));
    assert_eq!(own.kind, Kind::Abort);
    let stopped = unwound(&Core::default().thread(7, 19, Regs::default()));
    assert_eq!((stopped.kind, stopped.signal), (Kind::Hang, None));
}

const BASE: u64 = 0x7000_0000;
const STACK: u64 = 0x8000_0000;
/// call +0; nop; call +0; nop
const CALLS: &[u8] = b"\xe8\0\0\0\0\x90\xe8\0\0\0\0\x90";
const AFTER_FIRST: u64 = BASE + CODE + 5;
const AFTER_SECOND: u64 = BASE + CODE + 11;

/// A library without unwind information, mapped and dumped, and one thread in it.
fn in_library(path: &str, rbp: u64, stack: &[u64]) -> Core {
    Core::default()
        .thread(
            7,
            11,
            Regs {
                rip: BASE + CODE,
                rsp: STACK,
                rbp,
            },
        )
        .signal(11, 1, 0)
        .files(4096, &[(BASE, BASE + 4096, 0, path)])
        .load(BASE, 4096, RX, &library(&[0xab; 20], CALLS))
        .words(STACK, stack)
}

#[test]
fn without_unwind_information_frame_pointers_lead() {
    let stack = [0, 0, STACK + 40, AFTER_FIRST, 0, 0, AFTER_SECOND];
    let report = unwound(&in_library("/lib/x.so (deleted)", STACK + 16, &stack));
    let expected = [
        (BASE + CODE, FrameOrigin::Context),
        (AFTER_FIRST, FrameOrigin::FramePointer),
        (AFTER_SECOND, FrameOrigin::FramePointer),
    ];
    assert_eq!(frames(&report), expected);
    let module = report.threads[0].frames[1].module.as_ref().unwrap();
    assert_eq!(
        (module.path.as_str(), module.addr),
        ("/lib/x.so", Some(LinkAddr(CODE + 5)))
    );
    assert_eq!(module.build_id, Some(BuildId(vec![0xab; 20])));
}

#[test]
fn a_guess_from_the_stack_says_so() {
    let stack = [1, BASE + CODE, AFTER_SECOND - 1, AFTER_SECOND, 0];
    let report = unwound(&in_library("/lib/x.so", 1, &stack));
    assert_eq!(
        frames(&report),
        [
            (BASE + CODE, FrameOrigin::Context),
            (AFTER_SECOND, FrameOrigin::Scan)
        ]
    );
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("nothing tells who called")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_chain_that_bites_its_tail_ends() {
    let stack = [STACK, AFTER_FIRST, STACK, AFTER_FIRST];
    let report = unwound(&in_library("/lib/x.so", STACK, &stack));
    assert!(frames(&report).len() <= 3, "{:?}", frames(&report));
}

#[test]
fn a_file_of_another_build_is_not_used() {
    let core = in_library("/lib/x.so", 0, &[0; 4]).build();
    let dump = CoreDump::parse(&core).unwrap();
    for (id, complains) in [([0xab; 20], false), ([0xcd; 20], true)] {
        let files = Files(HashMap::from([("/lib/x.so", library(&id, CALLS))]));
        let report = report(&dump, &files, Limits::default());
        let found = report
            .notes
            .iter()
            .any(|note| note.contains("/lib/x.so is another build"));
        assert_eq!(found, complains, "{:?}", report.notes);
    }
}

#[test]
fn a_library_that_is_loaded_twice_is_two_modules() {
    let image = library(&[1; 20], CALLS);
    let second = BASE + 0x10_0000;
    let files = [
        (BASE, BASE + 4096, 0, "/lib/x.so"),
        (second, second + 4096, 0, "/lib/x.so"),
    ];
    let bytes = one_thread()
        .files(4096, &files)
        .load(BASE, 4096, RX, &image)
        .load(second, 4096, RX, &image)
        .build();
    let dump = CoreDump::parse(&bytes).unwrap();
    let biases: Vec<_> = dump.modules().iter().map(|module| module.bias).collect();
    assert_eq!(biases, [Some(BASE), Some(second)]);
}

#[test]
fn the_executable_is_where_the_kernel_says() {
    let image = library(&[1; 20], CALLS);
    let files = [
        (BASE, BASE + 4096, 0, "/bin/prog"),
        (BASE + 0x2000, BASE + 0x3000, 0, "/lib/x.so"),
    ];
    let core = one_thread()
        .files(4096, &files)
        .load(BASE, 4096, RX, &image)
        .load(BASE + 0x2000, 4096, RX, &image);
    let with_headers = core.clone().auxv(&[(3, BASE + 64)]).build();
    assert_eq!(
        CoreDump::parse(&with_headers)
            .unwrap()
            .executable_path()
            .as_deref(),
        Some("/bin/prog")
    );
    let with_name = core
        .auxv(&[(31, 0x5000)])
        .load(0x5000, 4096, RW, b"./prog\0")
        .build();
    assert_eq!(
        CoreDump::parse(&with_name).unwrap().executable_path().as_deref(),
        Some("./prog")
    );
}

#[test]
fn a_call_out_of_all_code_shows_its_caller_only_if_there_was_a_call() {
    let core = |top: u64| {
        Core::default()
            .thread(
                7,
                11,
                Regs {
                    rip: 0x41,
                    rsp: STACK,
                    rbp: 0,
                },
            )
            .signal(11, 1, 0x41)
            .files(4096, &[(BASE, BASE + 4096, 0, "/lib/x.so")])
            .load(BASE, 4096, RX, &library(&[1; 20], CALLS))
            .words(STACK, &[top, 0])
    };
    let called = [(0x41, FrameOrigin::Context), (AFTER_FIRST, FrameOrigin::Context)];
    assert_eq!(frames(&unwound(&core(AFTER_FIRST))), called);
    for top in [0, 0x41, AFTER_FIRST + 1, STACK] {
        let report = unwound(&core(top));
        assert_eq!(frames(&report), [(0x41, FrameOrigin::Context)]);
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.contains("0x41") && note.contains("no code"))
        );
    }
}
