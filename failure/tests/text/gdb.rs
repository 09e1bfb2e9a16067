use failure::{FrameOrigin, Kind, Signal, Source};

use super::*;

#[test]
fn all_threads_of_a_core_with_locals() {
    let report = read("gdb-core-threads-bt-full.txt");
    assert_eq!(
        (report.source, report.kind, report.signal),
        (Source::Gdb, Kind::Signal, Some(Signal(11)))
    );
    assert_eq!(report.program.as_deref(), Some("./queue"));
    let ids: Vec<_> = report.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(ids, [Some(7407), Some(7408)], "the stack told twice counts once");
    assert_eq!(report.failing, 1);
    assert_eq!(
        lines(failing(&report)),
        [
            "-! ___pthread_mutex_lock ./nptl/pthread_mutex_lock.c:80",
            "0x55c5e03a71a7 drain src/queue.c:6",
            "0x55c5e03a7202 worker src/queue.c:7",
            "0x7fcbdfa2e1f5 start_thread ./nptl/pthread_create.c:442",
            "0x7fcbdfaae8ec clone3 ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81",
        ]
    );
    assert_eq!(failing_line(&report), "0x55c5e03a71a7 drain src/queue.c:6");
    assert_eq!(report.notes, Vec::<String>::new());
}

#[test]
fn a_live_program_stopped_by_a_signal() {
    let report = read("gdb-run-threads.txt");
    assert_eq!((report.kind, report.failing), (Kind::Signal, 0));
    assert_eq!(
        (failing(&report).id, failing(&report).name.as_deref()),
        (Some(7423), Some("queue"))
    );
    assert_eq!(symbols(&report.threads[1])[4], "main");
}

#[test]
fn templates_lambdas_and_a_signal_frame() {
    let report = read("gdb-templates.txt");
    let names = symbols(failing(&report));
    assert_eq!(names.len(), 13);
    assert_eq!(names[1], "<signal handler called>");
    assert_eq!(names[5], "Job::operator()");
    assert!(
        names[6].starts_with("apply<Job, std::map<") && names[6].ends_with("> > > > >"),
        "{}",
        names[6]
    );
    assert_eq!(names[7], "operator()");
    assert_eq!(
        names[8],
        "std::__invoke_impl<void, main()::<lambda(int)>&, int>(std::__invoke_other, struct {...} &)"
    );
    assert_eq!(names[11], "std::function<void (int)>::operator()(int) const");
    let frames = &failing(&report).frames;
    assert_eq!(frames[1].origin, FrameOrigin::SignalFrame);
    assert_eq!(
        line(&frames[2]),
        "-! __pthread_kill_implementation ./nptl/pthread_kill.c:44"
    );
    assert_eq!(failing_line(&report), "0x55e4fc63836b! on_usr1 src/tmpl.cc:9");
}

#[test]
fn a_frame_without_address_is_what_the_one_before_is_inlined_into() {
    let report = read("gdb-inlined.txt");
    assert_eq!(
        lines(failing(&report)),
        [
            "0x55f95e77115e! value src/inl.c:4 inlined",
            "0x55f95e77115e! sum src/inl.c:4",
            "0x55f95e77105c main src/inl.c:5",
        ]
    );
}

#[test]
fn messages_come_from_arguments_of_runtime_frames() {
    for (name, kind, message, frame) in [
        (
            "gdb-assertion.txt",
            Kind::Assertion,
            r#"Assertion `count > 0 && "a, (b)"' failed."#,
            "0x5647d23ec191 check src/assert.c:3",
        ),
        (
            "gdb-double-free.txt",
            Kind::Abort,
            "free(): double free detected in tcache 2",
            "0x561d87888258 hidden src/bts.c:7",
        ),
        (
            "gdb-stack-smash.txt",
            Kind::Abort,
            "stack smashing detected",
            "0x55bbb3c7d190 copy src/smash.c:2",
        ),
    ] {
        let report = read(name);
        assert_eq!(
            (report.kind, report.message.as_deref(), report.signal),
            (kind, Some(message), Some(Signal(6))),
            "{name}"
        );
        assert_eq!(failing_line(&report), frame);
    }
}

#[test]
fn an_exception_nobody_caught() {
    let report = read("gdb-exception.txt");
    assert_eq!(report.kind, Kind::Abort);
    let message = "terminate called after throwing an instance of 'std::out_of_range': no entry 3";
    assert_eq!(report.message.as_deref(), Some(message));
    assert_eq!(
        line(&failing(&report).frames[5]),
        "0x7ffff7ca8e1a (/lib/x86_64-linux-gnu/libstdc++.so.6)"
    );
    assert_eq!(failing_line(&report), "0x5555555551e9 Config::at src/throw.cc:2");
}

#[test]
fn threads_that_all_wait_hang() {
    let report = read("gdb-deadlock.txt");
    assert_eq!(
        (report.kind, report.signal, report.message.as_deref()),
        (Kind::Hang, None, None)
    );
    assert_eq!(stack_names(&report), ["flusher", "dead"]);
    assert_eq!(
        lines(&report.threads[0])[2..5],
        [
            "0x7fade878a482 lll_mutex_lock_optimized ./nptl/pthread_mutex_lock.c:48 inlined",
            "0x7fade878a482 ___pthread_mutex_lock ./nptl/pthread_mutex_lock.c:93",
            "0x5628ebb741ea both src/dead.c:4",
        ]
    );
}

#[test]
fn a_stripped_program_keeps_its_addresses() {
    let report = read("gdb-stripped.txt");
    assert_eq!(failing_line(&report), "0x55793b5f71a7");
}

#[test]
fn quoted_wrapped_and_old() {
    let report = read("gdb-old-wrapped-quoted.txt");
    assert_eq!(
        (report.kind, report.failing, failing(&report).id),
        (Kind::Abort, 1, Some(3119))
    );
    assert_eq!(
        lines(failing(&report)),
        [
            "0x7f12aa3bb425! raise (/lib/x86_64-linux-gnu/libc.so.6)",
            "0x7f12aa3beb8b abort (/lib/x86_64-linux-gnu/libc.so.6)",
            "0x402a10 store::Table<std::pair<int, char const*>, 16ul>::insert src/table.cc:120",
            "0x402b77 store::Table<std::pair<int, char const*>, 16ul>::operator[] /src/app/src/table.h:57",
            "0x402c00 main src/main.cc:12",
        ]
    );
}
