use failure::text::TextError;
use failure::{FrameOrigin, InCode, Kind, Signal, Source};
use program::{BuildId, RunAddr};

use super::*;

#[test]
fn coredumpctl_info() {
    let report = read("coredumpctl-info.txt");
    assert_eq!(
        (report.source, report.kind, report.signal),
        (Source::Coredumpctl, Kind::Signal, Some(Signal(11)))
    );
    assert_eq!(report.program.as_deref(), Some("/usr/bin/indexer"));
    assert_eq!(
        report.build_id,
        BuildId::from_hex("c47ef7dc938835d0a2c4f0cbdaa463c2154cf904")
    );
    assert_eq!(
        (report.threads.len(), report.failing, failing(&report).id),
        (2, 0, Some(4244))
    );
    assert_eq!(
        lines(failing(&report)),
        [
            "0x7f1f5b88e370! pthread_mutex_lock (libc.so.6 0x8c370)",
            "0x55d4c0a011a7 drain (indexer 0x11a7)",
            "0x55d4c0a01202 (indexer 0x1202)",
            "0x7f1f5b88b1f5 (libc.so.6 0x891f5)",
            "0x7f1f5b90b8ec (libc.so.6 0x1098ec)",
        ]
    );
    assert_eq!(
        failing(&report).frames[1].module.as_ref().unwrap().build_id,
        report.build_id
    );
    assert_eq!(failing_line(&report), "0x55d4c0a011a7 drain (indexer 0x11a7)");
}

#[test]
fn systemd_coredump_in_the_journal_between_other_lines() {
    let report = read("coredumpctl-journal.txt");
    assert_eq!((report.kind, report.signal), (Kind::Assertion, Some(Signal(6))));
    assert_eq!(report.program.as_deref(), Some("indexer"));
    assert_eq!((report.threads.len(), failing(&report).frames.len()), (1, 7));
    // Linked to a fixed address: the distance from its first byte is no link-time address.
    assert_eq!(failing_line(&report), "0x401191 check (indexer 0x401191)");
}

#[test]
fn a_handler_that_prints_its_backtrace() {
    let report = read("glibc-double-free.txt");
    assert_eq!((report.source, report.kind), (Source::Glibc, Kind::Abort));
    assert_eq!(
        report.message.as_deref(),
        Some("free(): double free detected in tcache 2")
    );
    assert_eq!(failing(&report).frames.len(), 15);
    assert_eq!(failing(&report).frames[1].origin, FrameOrigin::SignalFrame);
    assert_eq!(failing_line(&report), "0x561d87888258 (./bts 0x1258)");
    assert_eq!(lines(failing(&report))[10], "0x561d87888296 release+0x27 (./bts)");

    let report = read("glibc-segv-handler.txt");
    assert_eq!(report.kind, Kind::Signal);
    assert_eq!(failing_line(&report), "0x557cfa7bd30f! main+0x62 (./bts)");
    assert_eq!(
        report.notes,
        ["the text does not name a signal: taken as a fault in the innermost frame"]
    );
}

#[test]
fn a_listing_of_a_program_linked_to_a_fixed_address() {
    assert_eq!(
        failing_line(&read("glibc-fixed-address.txt")),
        "0x4011fd (./bts_np 0x4011fd)"
    );
}

#[test]
fn the_memory_map_gives_positions_in_files() {
    let report = read("glibc-memory-map.txt");
    assert_eq!(
        report.message.as_deref(),
        Some("double free or corruption (fasttop): 0x0000000001a2b010")
    );
    assert_eq!(
        (report.program.as_deref(), report.signal),
        (Some("./server"), Some(Signal(6)))
    );
    assert_eq!(
        lines(failing(&report))[2..6],
        [
            "0x7f2f6a4b453c cfree+0x4c (/lib/x86_64-linux-gnu/libc.so.6 0x8453c at 0x8453c)",
            "0x7f2f6a80171f plugin_close+0x1f (/opt/server/plugin.so 0x171f at 0x171f)",
            "0x4005a4 (./server 0x4005a4 at 0x5a4)",
            "0x4005d4 main+0x2e (./server 0x4005d4 at 0x5d4)",
        ]
    );
}

#[test]
fn an_assertion_alone_names_its_place() {
    let report = read("glibc-assertion.txt");
    assert_eq!(
        (report.kind, report.program.as_deref()),
        (Kind::Assertion, Some("assert"))
    );
    assert_eq!(
        report.message.as_deref(),
        Some(r#"Assertion `count > 0 && "a, (b)"' failed."#)
    );
    assert_eq!(lines(failing(&report)), ["-! check src/assert.c:3"]);
}

#[test]
fn samples_of_perf() {
    let report = read("perf-script.txt");
    // The second sample is of the same thread, later.
    assert_eq!((report.source, report.threads.len()), (Source::Perf, 1));
    assert_eq!(
        report.notes[0],
        "further samples left out, as these are the first of their threads: 1"
    );
    assert_eq!(
        (report.threads[0].id, report.threads[0].name.as_deref()),
        (Some(24962), Some("spin"))
    );
    assert_eq!(
        lines(&report.threads[0]),
        [
            "-! lookup+0x230 (/src/app/spin)",
            "- main+0x68 (/src/app/spin)",
            "- __libc_start_call_main+0x7a (/usr/lib/x86_64-linux-gnu/libc.so.6)",
        ]
    );
}

#[test]
fn a_stack_of_bpftrace() {
    let report = read("bpftrace-ustack.txt");
    assert_eq!(
        lines(failing(&report)),
        [
            "-! drain+0x1d",
            "- worker+0x22",
            "- start_thread+0x304",
            "- clone3+0x2c"
        ]
    );
}

#[test]
fn the_kernels_line_about_a_fault() {
    let report = read("kernel-segfault.txt");
    assert_eq!(
        (report.kind, report.signal, report.fault_address),
        (Kind::Signal, Some(Signal(11)), Some(RunAddr(0)))
    );
    assert_eq!(lines(failing(&report)), ["0x5621b4ad936b! (templates at 0x236b)"]);

    let report = read("kernel-journal.txt");
    assert_eq!(
        (report.program.as_deref(), report.fault_address),
        (Some("indexer"), Some(RunAddr(0x10)))
    );
    assert_eq!(lines(failing(&report)), ["0x55d4c0a011a7! (indexer)"]);
    let in_code = failing(&report).frames[0].module.as_ref().unwrap().in_code;
    assert_eq!(
        in_code,
        Some(InCode {
            into: 0x1a7,
            length: 0x1000
        })
    );
}

#[test]
fn of_several_faults_that_the_kernel_tells_of_the_first() {
    let text = b"\
[  1.0] traps: first[10] trap divide error ip:401139 sp:7ffd error:0 in first[401000+1000]\n\
[  2.0] second[11]: segfault at 10 ip 000055d0c0de1139 sp 00007ffd error 4 in second[55d0c0de1000+1000]\n\
[  2.1] Code: 48 8b 45 f8\n\
[  3.0] traps: third[12] general protection fault ip:401139 sp:7ffd error:0 in third[401000+1000]\n";
    let report = failure::text::parse(text).unwrap();
    assert_eq!(
        (
            report.threads.len(),
            failing(&report).id,
            report.program.as_deref()
        ),
        (1, Some(10), Some("first"))
    );
    assert_eq!((report.signal, report.fault_address), (Some(Signal(8)), None));
    assert_eq!(lines(failing(&report)), ["0x401139! (first 0x401139)"]);
    assert_eq!(
        report.notes,
        ["further failures left out, as this is the first in the text: 2"]
    );
}

#[test]
fn a_stack_tells_more_than_the_kernels_line_about_the_same_thread() {
    let of = |tid: u32| {
        let line = format!(
            "kernel: indexer[{tid}]: segfault at 18 ip 00007f1f5b88e370 sp 7ffd error 4 in libc.so.6[8c370,7f1f5b828000+155000]\n"
        );
        let text = [line.as_bytes(), &fixture("coredumpctl-info.txt")].concat();
        failure::text::parse(&text).unwrap()
    };
    let alone = read("coredumpctl-info.txt");
    let same = of(4244);
    assert_eq!(same.threads, alone.threads);
    assert_eq!(same.fault_address, Some(RunAddr(0x18)));
    let other = of(7);
    assert_eq!((other.threads, other.fault_address), (alone.threads, None));
}

#[test]
fn traces_of_other_languages_are_refused() {
    for (name, language) in [("python.txt", "Python"), ("go.txt", "Go")] {
        assert_eq!(
            failure::text::parse(&fixture(name)),
            Err(TextError::NotATrace { language })
        );
    }
}

#[test]
fn errors_say_what_to_do() {
    let text = |bytes: &[u8]| failure::text::parse(bytes).unwrap_err().to_string();
    assert!(text(b"").starts_with("the text is empty; give"));
    let error = text(b"hello\nfree(): invalid pointer\n");
    assert!(
        error.starts_with(
            "no stack frames found in 2 lines (but the message `free(): invalid pointer`); give"
        ),
        "{error}"
    );
}
