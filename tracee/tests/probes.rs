//! Probes on instructions of real programs.

#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod support;

use std::fs;
use std::process::Command;

use program::{FileOffset, RunAddr};
use support::{Built, Running, build};
use tracee::bpf::{HitProgram, HitRing, Location, ManyProbes, ProbeRead, RawHit, Register, Then};
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Record, Rings, Uprobe};
use tracee::process::ModuleMap;

const RING: usize = 1 << 20;

/// Whether probes and programs can be tried here; says so if not.
fn can_probe(built: &Built) -> bool {
    let process = built.start(0, 0);
    let target = ProbeTarget::Thread(process.tid());
    let probe = probe_step(built, &process, ProbeEnd::Entry, target, Delivery::Silent).map(|_| ());
    let program = HitRing::new(RING, 8).map(|_| ());
    process.end();
    let probe_refused = probe.err().map(|error| error.to_string());
    let refused = probe_refused.or(program.err().map(|error| error.to_string()));
    if let Some(why) = &refused {
        failsketch_tests::skip::skipped(why);
    }
    refused.is_none()
}

/// Probes the function of the file that a process has mapped, wherever that is.
fn probe_mapped(process: &Running) -> Uprobe {
    let modules = ModuleMap::of(process.pid()).unwrap();
    let file = modules.file(modules.executable().unwrap()).unwrap();
    let target = ProbeTarget::Thread(process.tid());
    let offset = FileOffset(process.file_offset(process.step));
    Uprobe::open(
        &ProbeFile::at(&file),
        offset,
        ProbeEnd::Entry,
        target,
        Delivery::Silent,
    )
    .unwrap()
}

fn probe_step(
    built: &Built,
    process: &Running,
    end: ProbeEnd,
    target: ProbeTarget,
    delivery: Delivery<'_>,
) -> Result<Uprobe, PerfError> {
    let offset = process.file_offset(process.step);
    Uprobe::open(
        &ProbeFile::at(&built.exe),
        FileOffset(offset),
        end,
        target,
        delivery,
    )
}

fn read_all(ring: &mut HitRing) -> Vec<RawHit> {
    let mut hits = Vec::new();
    ring.read(|hit| hits.push(hit));
    hits
}

#[test]
fn a_function_s_arguments_in_a_ring() {
    for options in [["-O1", "-pie"], ["-O1", "-no-pie"]] {
        let built = build(&options);
        if !can_probe(&built) {
            return;
        }
        let mut process = built.start(0, 50);
        let mut rings = Rings::open(RING).unwrap();
        let target = ProbeTarget::Thread(process.tid());
        let probe = probe_step(&built, &process, ProbeEnd::Entry, target, Delivery::Ring(&rings)).unwrap();
        process.run();
        assert_eq!(probe.count().unwrap(), 50);
        let records = rings.read_to_end();
        assert_eq!(records.len(), 50);
        for (i, record) in (1_u64..).zip(records) {
            let Record::Sample(sample) = record.record else {
                panic!("{record:?}")
            };
            let registers = sample.registers.unwrap();
            assert_eq!((registers.rdi, registers.rsi), (1 << 32 | i, 1 << 32 | i << 8));
            assert_eq!((sample.ip, registers.rip), (process.step, process.step.0));
            assert_ne!(registers.eflags & 2, 0, "a bit that is always set");
        }
        assert_eq!(process.end().code(), Some(7));
    }
}

#[test]
fn a_program_at_a_probe_sees_all_threads_of_the_process() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let mut process = built.start(20, 10);
    let mut bystander = built.start(2, 10);
    let mut ring = HitRing::new(RING, 8).unwrap();
    let reads = [ProbeRead {
        base: Some(Register::Rsp),
        index: None,
        offset: 0,
        len: 8,
    }];
    let watched = Location {
        addr: process.watched,
        len: 8,
    };
    ring.set_location(1, Some(watched)).unwrap();
    let program = HitProgram::for_probes(&ring, 5, &reads).unwrap();
    let target = ProbeTarget::Thread(process.tid());
    let probe = probe_step(&built, &process, ProbeEnd::Entry, target, Delivery::Bpf(&program)).unwrap();
    process.run();
    bystander.run();
    let hits = read_all(&mut ring);
    assert_eq!((hits.len(), ring.lost()), (200, 0));
    for hit in &hits {
        assert_eq!((hit.pid, hit.cookie, hit.addr), (process.pid(), 5, process.step));
        let returns_to = hit
            .value_at(RunAddr(hit.registers.rsp))
            .unwrap()
            .number()
            .unwrap();
        assert!(
            process.step.0.abs_diff(returns_to) < 4096,
            "{returns_to:#x} is in the caller"
        );
        assert_eq!(hit.value_at(process.watched), None, "nobody asked for it");
    }
    drop(probe);
    process.run();
    assert_eq!(read_all(&mut ring), [], "the probe is gone");
    assert_eq!((process.end().code(), bystander.end().code()), (Some(7), Some(7)));
}

#[test]
fn a_program_sees_every_process_of_a_file() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let mut ring = HitRing::new(RING, 8).unwrap();
    let program = HitProgram::for_probes(&ring, 5, &[]).unwrap();
    let first = built.start(3, 10);
    let target = ProbeTarget::Everybody;
    let _probe = probe_step(&built, &first, ProbeEnd::Entry, target, Delivery::Bpf(&program)).unwrap();
    let second = built.start(3, 10);
    for mut process in [first, second] {
        process.run();
        let hits = read_all(&mut ring);
        assert_eq!(hits.len(), 30);
        assert!(hits.iter().all(|hit| hit.pid == process.pid()));
        process.end();
    }
}

#[test]
fn many_returns_are_seen_with_a_stretch_of_the_stack() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let mut process = built.start(3, 10);
    let mut ring = HitRing::new(RING, 64).unwrap();
    ring.only(Some(process.pid()));
    let piece = |offset| ProbeRead {
        base: Some(Register::Rsp),
        index: None,
        offset,
        len: 64,
    };
    let called = HitProgram::for_many_probes(&ring, 1, &[], Then::GoOn).unwrap();
    let returned = HitProgram::for_many_probes(&ring, 2, &[piece(0), piece(64)], Then::GoOn).unwrap();
    let file = ProbeFile::at(&built.exe);
    let step = [FileOffset(process.file_offset(process.step))];
    let Ok(_calls) = ManyProbes::open(&called, &file, &step, process.pid()) else {
        return failsketch_tests::skip::skipped("the kernel sets no probes on many instructions");
    };
    let _returns = ManyProbes::at_returns(&returned, &file, &step, process.pid()).unwrap();
    process.run();
    let hits = read_all(&mut ring);
    assert_eq!((hits.len(), ring.lost()), (60, 0));
    let (calls, returns): (Vec<RawHit>, Vec<RawHit>) = hits.into_iter().partition(|hit| hit.cookie == 1);
    assert_eq!(calls.len(), returns.len());
    assert!(
        calls
            .iter()
            .all(|hit| hit.addr == process.step && hit.values.is_empty())
    );
    for hit in &returns {
        let above = |call: &&RawHit| call.tid == hit.tid && call.registers.rsp + 8 == hit.registers.rsp;
        assert!(
            calls.iter().any(|call| above(&call)),
            "the return address is gone"
        );
        assert!(
            process.step.0.abs_diff(hit.addr.0) < 4096,
            "{} is in the caller",
            hit.addr
        );
        let stack = hit
            .values
            .iter()
            .map(|piece| (piece.addr.0 - hit.registers.rsp, piece.bytes().len()));
        assert!(stack.eq([(0, 64), (64, 64)]));
    }
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn returns_are_seen_after_the_function() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let mut process = built.start(3, 10);
    let mut ring = HitRing::new(RING, 8).unwrap();
    let reads = [ProbeRead {
        base: Some(Register::Rsp),
        index: None,
        offset: 0,
        len: 4,
    }];
    let program = HitProgram::for_probes(&ring, 0, &reads).unwrap();
    let target = ProbeTarget::Thread(process.tid());
    let _probe = probe_step(
        &built,
        &process,
        ProbeEnd::Return,
        target,
        Delivery::Bpf(&program),
    )
    .unwrap();
    process.run();
    let hits = read_all(&mut ring);
    assert_eq!(hits.len(), 30);
    assert!(
        hits.iter()
            .all(|hit| hit.values.len() == 1 && hit.values[0].bytes().len() == 4)
    );
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn a_deleted_file_can_be_probed_through_its_mapping() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let mut process = built.start(0, 10);
    fs::remove_file(&built.exe).unwrap();
    let probe = probe_mapped(&process);
    process.run();
    assert_eq!(probe.count().unwrap(), 10);
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn what_takes_no_probe_is_said() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let process = built.start(0, 10);
    let target = ProbeTarget::Thread(process.tid());
    let open = |path: &str, offset| {
        let file = ProbeFile::at(path.as_ref());
        Uprobe::open(
            &file,
            FileOffset(offset),
            ProbeEnd::Entry,
            target,
            Delivery::Silent,
        )
    };
    let exe = built.exe.to_str().unwrap();
    let start = process.file_offset(process.refused);
    let error = open(exe, start).unwrap_err();
    assert!(matches!(error, PerfError::ProbeRefused { .. }), "{error:?}");
    let error = open("/nowhere/at/all", 0x1000).unwrap_err();
    assert!(matches!(error, PerfError::NoFile { .. }), "{error:?}");
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn a_file_that_only_the_process_sees_can_be_probed() {
    let built = build(&["-O1"]);
    if !can_probe(&built) {
        return;
    }
    let folder = built.folder.path().join("private");
    fs::create_dir(&folder).unwrap();
    let script = "mount -t tmpfs none private && cp accesses private && exec private/accesses \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "sh", "-c", script, "sh"])
        .current_dir(built.folder.path());
    if !Command::new("unshare")
        .args(["--mount", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        return failsketch_tests::skip::skipped("no new namespace of mounts can be made");
    }
    let mut process = built.start_as(unshare, 0, 10);
    assert!(!folder.join("accesses").exists());
    let probe = probe_mapped(&process);
    process.run();
    assert_eq!(probe.count().unwrap(), 10);
    assert_eq!(process.end().code(), Some(7));
}
