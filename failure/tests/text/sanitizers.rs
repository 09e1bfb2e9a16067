use failure::{Kind, Signal, Source};
use program::{BuildId, RunAddr};

use super::*;

#[test]
fn use_after_free_with_its_other_stacks() {
    let report = read("asan-use-after-free-clang.txt");
    assert_eq!(
        (report.source, report.kind, report.signal),
        (Source::AddressSanitizer, Kind::Abort, None)
    );
    assert_eq!(
        report.message.as_deref(),
        Some("AddressSanitizer: heap-use-after-free on address 0x602000000033")
    );
    assert_eq!(report.fault_address, Some(RunAddr(0x6020_0000_0033)));
    assert_eq!(report.program.as_deref(), Some("/src/app/casan_uaf"));
    assert_eq!(
        report.build_id,
        BuildId::from_hex("c47ef7dc938835d0a2c4f0cbdaa463c2154cf904")
    );
    assert_eq!(
        stack_names(&report),
        [
            "READ of size 1 at 0x602000000033 thread T0",
            "freed by thread T1",
            "previously allocated by thread T0",
            "Thread T1 created by T0",
        ]
    );
    let ids: Vec<_> = report.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(ids, [Some(0), Some(1), Some(0), Some(0)]);
    // Printed as 0x55555563212d, which lies inside the call.
    assert_eq!(
        lines(&report.threads[1])[..2],
        [
            "0x5555555f6ea3 free (/src/app/casan_uaf 0xa2ea3)",
            "0x55555563212e release /src/app/src/uaf.c:4:38",
        ]
    );
}

#[test]
fn colours_change_nothing() {
    let (plain, colour) = (read("asan-use-after-free-clang.txt"), read("asan-colour.txt"));
    assert_eq!(stack_names(&plain), stack_names(&colour));
    let all = |report: &Report| {
        report
            .threads
            .iter()
            .map(|thread| symbols(thread).join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&plain), all(&colour));
    assert_eq!(plain.message, colour.message);
}

#[test]
fn without_symbols_or_debug_information() {
    assert_eq!(
        failing_line(&read("asan-no-symbols.txt")),
        "0x564c22285061 (/src/app/casan_uaf 0xde061)"
    );
    let report = read("asan-no-debug-info.txt");
    assert_eq!(
        failing_line(&report),
        "0x555555632061 main (/src/app/casan_nodbg 0xde061)"
    );
    assert_eq!(symbols(&report.threads[1])[1], "release");
}

#[test]
fn a_program_linked_to_a_fixed_address() {
    let report = read("asan-fixed-address.txt");
    assert_eq!(
        line(&report.threads[0].frames[3]),
        "0x4010f1 _start (/src/app/asan_np 0x4010f1)"
    );
}

#[test]
fn a_fault_is_a_signal_at_the_instruction_itself() {
    let report = read("asan-segv.txt");
    assert_eq!((report.kind, report.signal), (Kind::Signal, Some(Signal(11))));
    assert_eq!(report.fault_address, Some(RunAddr(0x10)));
    assert_eq!(
        report.message.as_deref(),
        Some("AddressSanitizer: SEGV on unknown address 0x000000000010")
    );
    assert_eq!(
        lines(failing(&report))[0],
        "0x7ffff76aa370! ___pthread_mutex_lock nptl/pthread_mutex_lock.c:80"
    );
    assert_eq!(failing_line(&report), "0x555555555219 drain src/queue.c:6");
}

#[test]
fn other_errors() {
    for (name, kind, message, frame) in [
        (
            "asan-double-free.txt",
            Kind::Abort,
            "AddressSanitizer: attempting double-free on 0x602000000030 in thread T0",
            "0x5555555551fa release src/dfree.c:4",
        ),
        (
            "asan-stack-overflow.txt",
            Kind::Abort,
            "AddressSanitizer: stack-buffer-overflow on address 0x7fffffffe6d8",
            "0x5555555551d9 fill src/sbo.c:2",
        ),
        (
            "asan-use-after-free-gcc.txt",
            Kind::Abort,
            "AddressSanitizer: heap-use-after-free on address 0x602000000033",
            "0x55555555539e main src/uaf.c:6",
        ),
        (
            "lsan-leak.txt",
            Kind::Oracle,
            "LeakSanitizer: detected memory leaks",
            "0x555555555167 make src/leak.c:2",
        ),
        (
            "ubsan-overflow.txt",
            Kind::Oracle,
            "runtime error: signed integer overflow: 1 + 2147483647 cannot be represented in type 'int'",
            "0x5649ef6a616d add src/ub.c:2",
        ),
    ] {
        let report = read(name);
        assert_eq!(
            (report.kind, report.message.as_deref()),
            (kind, Some(message)),
            "{name}"
        );
        assert_eq!(failing_line(&report), frame);
    }
}

#[test]
fn data_races() {
    let report = read("tsan-race-clang.txt");
    assert_eq!(
        (report.source, report.kind),
        (Source::ThreadSanitizer, Kind::Oracle)
    );
    assert_eq!(report.message.as_deref(), Some("ThreadSanitizer: data race"));
    assert_eq!(report.fault_address, Some(RunAddr(0x5555_569c_a258)));
    assert_eq!(
        stack_names(&report),
        [
            "Write of size 8 at 0x5555569ca258 by main thread",
            "Previous write of size 8 at 0x5555569ca258 by thread T1",
            "Thread T1 (tid=7556, finished) created by main thread",
        ]
    );
    assert_eq!(
        lines(&report.threads[1]),
        [
            "- bump /src/app/src/race.c:4:36 (ctsan_race 0xd01b8)",
            "- worker /src/app/src/race.c:5:32 (ctsan_race 0xd0167)",
        ]
    );
    assert_eq!(
        failing_line(&read("tsan-race-gcc.txt")),
        "- bump src/race.c:4 (tsan_race 0x11c1)"
    );
}

#[test]
fn lock_order() {
    let report = read("tsan-lock-order.txt");
    assert_eq!(
        report.message.as_deref(),
        Some("ThreadSanitizer: lock-order-inversion (potential deadlock)")
    );
    assert_eq!(report.threads.len(), 3);
    assert_eq!(
        failing_line(&report),
        "- both /src/app/src/order.c:3:83 (ctsan_order 0xd01cb)"
    );
}

#[test]
fn of_several_reports_the_first() {
    let mut text = fixture("tsan-race-clang.txt");
    text.extend(fixture("tsan-lock-order.txt"));
    let report = failure::text::parse(&text).unwrap();
    assert_eq!(report.threads, read("tsan-race-clang.txt").threads);
    assert_eq!(
        report.notes,
        ["further reports left out, as this is the first: 1"]
    );
}
