use program::{BuildId, FileOffset, RunAddr};
use proptest::prelude::*;

use super::{Mapping, Origin, Record, Sample, Task, parse};
use crate::perf::intel_pt::{AuxFlags, AuxRecord};
use crate::{Pid, Tid};

const ORIGIN: Origin = Origin {
    pid: Pid(7),
    tid: Tid(8),
    time: 9,
    cpu: 1,
};

/// A record as the kernel documents it: header, body and, unless it is a sample, the trailer.
fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend([0, 0]);
    bytes.extend(body);
    if kind != 9 {
        for word in [7_u32, 8] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(9_u64.to_ne_bytes());
        bytes.extend([1_u32, 0].map(u32::to_ne_bytes).concat());
        bytes.extend(77_u64.to_ne_bytes());
    }
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[test]
fn a_trace_that_begins_and_grows() {
    let start = Record::TraceStart {
        pid: Pid(70),
        tid: Tid(71),
    };
    let begun = record(12, 0, &words(&[pair(70, 71)]));
    assert_eq!(parse(&begun), Some((ORIGIN, start)));
    for (bits, [truncated, overwrite, partial, collision]) in [
        (0, [false; 4]),
        (1, [true, false, false, false]),
        (2, [false, true, false, false]),
        (4, [false, false, true, false]),
        (8, [false, false, false, true]),
        // The format's bits say nothing of the data.
        (0xff00, [false; 4]),
    ] {
        let grown = record(11, 0, &words(&[0x1000, 0x200, bits]));
        let flags = AuxFlags(bits);
        let aux = AuxRecord {
            offset: 0x1000,
            size: 0x200,
            flags,
        };
        assert_eq!(parse(&grown), Some((ORIGIN, Record::Aux(aux))));
        assert_eq!(
            [
                flags.truncated(),
                flags.overwrite(),
                flags.partial(),
                flags.collision()
            ],
            [truncated, overwrite, partial, collision]
        );
        assert_eq!(flags.damaged(), partial || collision);
    }
    assert_eq!(parse(&record(11, 0, &words(&[0x1000, 0x200]))), None, "no flags");
}

#[test]
fn a_sample_with_registers() {
    let mut body = vec![77, 0x1234, pair(7, 8), 9, 0x5678, pair(1, 0), 2];
    body.extend(100..118);
    let (origin, parsed) = parse(&record(9, 2, &words(&body))).unwrap();
    assert_eq!(origin, ORIGIN);
    let Record::Sample(sample) = parsed else {
        panic!("{parsed:?}")
    };
    assert_eq!(
        (sample.event, sample.ip, sample.addr),
        (77, RunAddr(0x1234), RunAddr(0x5678))
    );
    let registers = sample.registers.unwrap();
    assert_eq!((registers.rax, registers.rbx, registers.rsp), (100, 101, 107));
    assert_eq!((registers.rip, registers.eflags), (108, 109));
    assert_eq!((registers.r8, registers.r15), (110, 117));
}

#[test]
fn a_sample_of_a_32_bit_thread_has_no_registers_for_us() {
    let body = [77, 0x1234, pair(7, 8), 9, 0x5678, pair(1, 0), 1, 5, 6];
    let expected = Record::Sample(Sample {
        event: 77,
        ip: RunAddr(0x1234),
        addr: RunAddr(0x5678),
        registers: None,
    });
    assert_eq!(parse(&record(9, 2, &words(&body))), Some((ORIGIN, expected)));
}

#[test]
fn threads_names_and_losses() {
    let task = Task {
        pid: Pid(1),
        parent_pid: Pid(2),
        tid: Tid(3),
        parent_tid: Tid(4),
    };
    let task_body = words(&[pair(1, 2), pair(3, 4), 0]);
    let comm_body = [words(&[pair(1, 3)]), b"worker\0\0".to_vec()].concat();
    let comm = Record::Comm {
        pid: Pid(1),
        tid: Tid(3),
        name: "worker".to_owned(),
        exec: true,
    };
    let switch = |out, preempted, other| Record::Switch {
        out,
        preempted,
        other,
    };
    let next = Some((Pid(5), Tid(6)));
    for (kind, misc, body, expected) in [
        (7, 0, task_body.clone(), Record::Fork(task)),
        (4, 0, task_body, Record::Exit(task)),
        (3, 1 << 13, comm_body, comm),
        (2, 0, words(&[77, 12]), Record::Lost { lost: 12 }),
        (13, 0, words(&[13]), Record::LostSamples { lost: 13 }),
        (5, 0, words(&[9, 77, 77]), Record::Throttle),
        (6, 0, words(&[9, 77, 77]), Record::Unthrottle),
        (14, 0, vec![], switch(false, false, None)),
        (14, 1 << 13, vec![], switch(true, false, None)),
        (14, 3 << 13, vec![], switch(true, true, None)),
        (15, 0, words(&[pair(5, 6)]), switch(false, false, next)),
        (15, 3 << 13, words(&[pair(5, 6)]), switch(true, true, next)),
        (99, 0, vec![], Record::Other { kind: 99 }),
    ] {
        assert_eq!(parse(&record(kind, misc, &body)), Some((ORIGIN, expected)));
    }
}

#[test]
fn a_mapping_with_and_without_build_id() {
    let mut body = words(&[pair(1, 3), 0x7000, 0x1000, 0x200]);
    body.push(20);
    body.extend([0; 3]);
    body.extend(1..=20);
    body.extend(words(&[pair(5, 2)]));
    body.extend(b"/lib/x.so\0\0\0\0\0\0\0");
    let mut expected = Mapping {
        pid: Pid(1),
        addr: RunAddr(0x7000),
        len: 0x1000,
        offset: FileOffset(0x200),
        protection: 5,
        path: "/lib/x.so".into(),
        build_id: Some(BuildId((1..=20).collect())),
    };
    let parsed = parse(&record(10, 1 << 14, &body));
    assert_eq!(parsed, Some((ORIGIN, Record::Mmap(expected.clone()))));
    expected.build_id = None;
    assert_eq!(
        parse(&record(10, 0, &body)),
        Some((ORIGIN, Record::Mmap(expected)))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_a_record_or_none(bytes: Vec<u8>, kind in 0_u32..20, misc: u16) {
        let _ = parse(&bytes);
        let _ = parse(&record(kind, misc, &bytes));
    }
}
