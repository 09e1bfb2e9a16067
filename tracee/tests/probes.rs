//! Probes on instructions of real programs.

#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod support;

use std::fs;
use std::process::Command;

use program::{FileOffset, RunAddr};
use support::{Built, Running, build};
use tracee::bpf::{HitProgram, HitRing, Location, ProbeRead, RawHit, Register};
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Record, Rings, Uprobe};

const RING: usize = 1 << 20;

/// Skips a test where the host does not give what it needs.
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error @ (PerfError::NotPermitted { .. } | PerfError::NotSupported { .. })) => {
                failsketch_tests::skip::skipped(&error.to_string());
                return;
            }
            Err(other) => panic!("{other}"),
        }
    };
}

fn probe_step(
    built: &Built,
    process: &Running,
    end: ProbeEnd,
    target: ProbeTarget,
    delivery: Delivery<'_>,
) -> Result<Uprobe, PerfError> {
    let (_, offset) = process.file_offset(process.step);
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
        let mut process = built.start(0, 50);
        let mut rings = Rings::open(RING).unwrap();
        let target = ProbeTarget::Thread(process.tid());
        let probe = or_skip!(probe_step(
            &built,
            &process,
            ProbeEnd::Entry,
            target,
            Delivery::Ring(&rings)
        ));
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
    let mut process = built.start(20, 10);
    let mut bystander = built.start(2, 10);
    let mut ring = HitRing::new(RING, 8).unwrap();
    let reads = [ProbeRead {
        base: Register::Rsp,
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
    let probe = or_skip!(probe_step(
        &built,
        &process,
        ProbeEnd::Entry,
        target,
        Delivery::Bpf(&program)
    ));
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
        assert!(hit.value_at(process.watched).is_some());
    }
    drop(probe);
    process.run();
    assert_eq!(read_all(&mut ring), [], "the probe is gone");
    assert_eq!((process.end().code(), bystander.end().code()), (Some(7), Some(7)));
}

#[test]
fn a_program_sees_every_process_of_a_file() {
    let built = build(&["-O1"]);
    let mut ring = HitRing::new(RING, 8).unwrap();
    let program = HitProgram::for_probes(&ring, 5, &[]).unwrap();
    let first = built.start(3, 10);
    let target = ProbeTarget::Everybody;
    let _probe = or_skip!(probe_step(
        &built,
        &first,
        ProbeEnd::Entry,
        target,
        Delivery::Bpf(&program)
    ));
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
fn returns_are_seen_after_the_function() {
    let built = build(&["-O1"]);
    let mut process = built.start(3, 10);
    let mut ring = HitRing::new(RING, 8).unwrap();
    let watched = Location {
        addr: process.watched,
        len: 4,
    };
    ring.set_location(0, Some(watched)).unwrap();
    let program = HitProgram::for_probes(&ring, 0, &[]).unwrap();
    let target = ProbeTarget::Thread(process.tid());
    let _probe = or_skip!(probe_step(
        &built,
        &process,
        ProbeEnd::Return,
        target,
        Delivery::Bpf(&program)
    ));
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
    let mut process = built.start(0, 10);
    fs::remove_file(&built.exe).unwrap();
    let (range, offset) = process.file_offset(process.step);
    let file = ProbeFile::mapped(process.pid(), range, &built.exe).unwrap();
    let target = ProbeTarget::Thread(process.tid());
    let probe = or_skip!(Uprobe::open(
        &file,
        FileOffset(offset),
        ProbeEnd::Entry,
        target,
        Delivery::Silent
    ));
    process.run();
    assert_eq!(probe.count().unwrap(), 10);
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn what_takes_no_probe_is_said() {
    let built = build(&["-O1"]);
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
    let (_, start) = process.file_offset(process.refused);
    let error = open(exe, start).unwrap_err();
    assert!(matches!(error, PerfError::ProbeRefused { .. }), "{error:?}");
    let error = open("/nowhere/at/all", 0x1000).unwrap_err();
    assert!(matches!(error, PerfError::NoFile { .. }), "{error:?}");
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn a_file_that_only_the_process_sees_can_be_probed() {
    let built = build(&["-O1"]);
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
    let (range, offset) = process.file_offset(process.step);
    let by_mapping = ProbeFile::mapped(process.pid(), range, &folder.join("accesses")).unwrap();
    // As without the capability to follow mappings.
    let nowhere = RunAddr(0)..RunAddr(1);
    let by_path = ProbeFile::mapped(process.pid(), nowhere, &folder.join("accesses")).unwrap();
    assert_ne!(by_mapping, by_path);
    let target = ProbeTarget::Thread(process.tid());
    let probes = [by_mapping, by_path].map(|file| {
        Uprobe::open(
            &file,
            FileOffset(offset),
            ProbeEnd::Entry,
            target,
            Delivery::Silent,
        )
    });
    process.run();
    for probe in probes {
        assert_eq!(or_skip!(probe).count().unwrap(), 10);
    }
    assert_eq!(process.end().code(), Some(7));
}
