use failure::{Kind, Signal, Source};
use program::BuildId;

use super::*;

#[test]
fn lldb_with_all_threads() {
    let report = read("lldb-threads.txt");
    assert_eq!(
        (report.source, report.kind, report.signal),
        (Source::Lldb, Kind::Signal, Some(Signal(11)))
    );
    assert_eq!((report.threads.len(), report.failing), (2, 0));
    assert_eq!(failing(&report).name.as_deref(), Some("prog"));
    assert_eq!(
        lines(failing(&report)),
        [
            "0x5584632b22d2! worker nullfield.c:13:29 (prog) inlined",
            "0x5584632b22d2! worker nullfield.c:20:18 (prog)",
            "0x7f59a80621f5 start_thread pthread_create.c:442:8 (libc.so.6)",
            "0x7f59a80e28ec __clone3 clone3.S:81 (libc.so.6)",
        ]
    );
    // What lldb prints as the address of `main` is where the inlined code begins.
    assert_eq!(
        lines(&report.threads[1])[3..5],
        [
            "0x5584632b2157 main nullfield.c:36:5 (prog) inlined",
            "0x5584632b2157 main nullfield.c:45:5 (prog)",
        ]
    );
}

#[test]
fn eu_stack_with_addresses_and_names() {
    let report = read("eu-stack.txt");
    assert_eq!(
        (report.source, report.threads.len(), report.failing),
        (Source::EuStack, 2, 0)
    );
    let ids: Vec<_> = report.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(ids, [Some(32051), Some(32050)]);
    assert_eq!(failing_line(&report), "0x5584632b22d2! worker");
}

#[test]
fn eu_stack_with_everything_that_it_can_tell() {
    let report = read("eu-stack-full.txt");
    assert_eq!(
        lines(failing(&report)),
        [
            "0x5584632b22d2! apply /src/nullfield.c:13:29 (prog 0x12d2) inlined",
            "0x5584632b22d2 worker /src/nullfield.c:20:18 (prog 0x12d3)",
            "0x7f59a80621f5 start_thread ./nptl/pthread_create.c:442:8 (libc.so.6 0x891f5)",
            "0x7f59a80e28ec __clone3 ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81 (libc.so.6 0x1098ec)",
        ]
    );
    let module = failing(&report).frames[0].module.as_ref().unwrap();
    assert_eq!(
        module.build_id,
        BuildId::from_hex("1e8354fb8657a9725b049074cd88fef366430bee")
    );
}
