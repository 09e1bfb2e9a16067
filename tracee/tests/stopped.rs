//! What can be done with stopped threads: registers, steps, debug registers, traps of perf events.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use failsketch_tests::folder::Folder;
use failsketch_tests::process::tool;
use failsketch_tests::skip::skipped;
use program::{LinkAddr, RunAddr};
use traced::{LONG, compile, end_of, until};
use tracee::perf::{Breakpoint, Delivery, Follow, Range, Start, Trigger};
use tracee::process::{ModuleMap, Process};
use tracee::ptrace::{
    DebugAccess, DebugLength, DebugSlot, DebugWatch, End, Launch, Resume, Stream, TraceError, Tracer, What,
    on_own_thread,
};
use tracee::{Pid, Tid};

const COOKIE: u64 = 0x5eed;

fn nm(program: &Path, name: &str) -> LinkAddr {
    let text = tool(Command::new("nm").arg(program), Path::new("/"));
    let line = text
        .lines()
        .find(|line| line.ends_with(&format!(" {name}")))
        .unwrap();
    LinkAddr(u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap())
}

fn watched(pid: Pid, program: &Path) -> RunAddr {
    ModuleMap::of(pid)
        .unwrap()
        .to_run(nm(program, "watched"))
        .unwrap()
}

#[test]
fn a_program_goes_on_after_an_interrupt() {
    let folder = Folder::new("stopped");
    let program = compile(&folder, "hangs.c", &[]);
    on_own_thread(|| {
        let launch = Launch::new(&program).stdin(Stream::Pipe).stdout(Stream::Pipe);
        let (mut tracer, mut pipes) = Tracer::launch(launch).unwrap();
        tracer
            .resume(tracer.pid().first_thread(), Resume::Deliver)
            .unwrap();
        while tracer.threads().count() < 4 {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            tracer.resume(stop.tid, Resume::Deliver).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(tracer.interrupt_all(LONG).unwrap(), []);
            let map = ModuleMap::of(tracer.pid()).unwrap();
            let threads: Vec<Tid> = tracer.threads().map(|(_, tid)| tid).collect();
            assert_eq!(threads.len(), 4);
            for tid in threads {
                let registers = tracer.registers(tid).unwrap();
                assert!(map.find(RunAddr(registers.rip)).is_some());
                assert_ne!(registers.fs_base, 0);
            }
            tracer.resume_interrupted().unwrap();
            let first = tracer.pid().first_thread();
            assert!(matches!(tracer.registers(first), Err(TraceError::NotStopped(_))));
        }
        pipes.stdin.take().unwrap().write_all(b"x").unwrap();
        let end = loop {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            match stop.what {
                What::ProcessExited(end) => break end,
                _ if stop.is_stopped() => tracer.resume(stop.tid, Resume::Deliver).unwrap(),
                _ => (),
            }
        };
        assert_eq!(end, End::Exited(4));
        assert!(matches!(tracer.wait(LONG), Err(TraceError::NothingLeft)));
    });
}

#[test]
fn a_launched_program_can_be_killed_or_let_go() {
    let folder = Folder::new("stopped");
    let program = compile(&folder, "hangs.c", &[]);
    let launch = || Launch::new(&program).stdin(Stream::Pipe).stdout(Stream::Pipe);
    let killed = on_own_thread(|| {
        let (mut tracer, _pipes) = Tracer::launch(launch()).unwrap();
        tracer
            .resume(tracer.pid().first_thread(), Resume::Deliver)
            .unwrap();
        tracer.kill().unwrap()
    });
    assert!(matches!(killed, End::Killed { signal, .. } if signal.0 == libc::SIGKILL));

    let (dropped, pipes) = on_own_thread(|| {
        let (tracer, pipes) = Tracer::launch(launch()).unwrap();
        (tracer.pid(), pipes)
    });
    assert!(Process::new(dropped).status().is_err());
    drop(pipes);

    // Let go, it survives the thread that launched it.
    let (pid, mut pipes) = on_own_thread(|| {
        let (mut tracer, pipes) = Tracer::launch(launch()).unwrap();
        let pid = tracer.pid();
        tracer.resume(pid.first_thread(), Resume::Deliver).unwrap();
        while tracer.threads().count() < 3 {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            tracer.resume(stop.tid, Resume::Deliver).unwrap();
        }
        tracer.let_go(LONG).unwrap();
        (pid, pipes)
    });
    assert_eq!(Process::new(pid).status().unwrap().tracer, None);
    pipes.stdin.take().unwrap().write_all(b"x").unwrap();
    let mut said = String::new();
    pipes.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "ready\ndone\n");
}

#[test]
fn steps_are_single_instructions() {
    on_own_thread(|| {
        let launch = Launch::new("true").stdin(Stream::Null);
        let (mut tracer, _) = Tracer::launch(launch).unwrap();
        let tid = tracer.pid().first_thread();
        let mut before = tracer.registers(tid).unwrap();
        // The first ends the system call that started the program.
        for number in 0..2000 {
            tracer.step(tid, Resume::Deliver).unwrap();
            let stop = tracer.wait(LONG).unwrap().unwrap();
            assert_eq!((stop.tid, stop.what), (tid, What::Step));
            let after = tracer.registers(tid).unwrap();
            let moved = after.rip != before.rip || after.rcx != before.rcx;
            assert!(moved != (number == 0), "{after:?}");
            before = after;
        }
        let mut changed = before;
        changed.r15 = 0x1234_5678_9abc_def0;
        tracer.set_registers(tid, &changed).unwrap();
        assert_eq!(tracer.registers(tid).unwrap(), changed);
        tracer.set_registers(tid, &before).unwrap();
        tracer.resume(tid, Resume::Deliver).unwrap();
        let end = tracer.wait(LONG).unwrap().unwrap();
        assert_eq!(end.what, What::ProcessExited(End::Exited(0)));
    });
}

#[test]
fn debug_registers_count_every_write() {
    let folder = Folder::new("stopped");
    let program = compile(&folder, "watched.c", &[]);
    on_own_thread(|| {
        let launch = Launch::new(&program).stdin(Stream::Pipe).stdout(Stream::Null);
        let (mut tracer, mut pipes) = Tracer::launch(launch).unwrap();
        pipes.stdin.take().unwrap().write_all(b"x\nx\n").unwrap();
        let watch = DebugWatch {
            address: watched(tracer.pid(), &program),
            length: DebugLength::Eight,
            access: DebugAccess::Write,
        };
        let first = tracer.pid().first_thread();
        tracer
            .set_debug_register(first, DebugSlot::Two, Some(watch))
            .unwrap();
        tracer.resume(first, Resume::Deliver).unwrap();
        let mut hits = 0;
        loop {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            let mut how = Resume::Deliver;
            match stop.what {
                What::ProcessExited(end) => {
                    assert_eq!(end, End::Exited(8));
                    break;
                }
                What::NewThread { .. } => {
                    tracer
                        .set_debug_register(stop.tid, DebugSlot::Two, Some(watch))
                        .unwrap();
                }
                What::Signal(info) if info.is_debug_register() => {
                    assert_eq!(tracer.take_debug_hits(stop.tid).unwrap(), [DebugSlot::Two]);
                    hits += 1;
                    how = Resume::Suppress;
                }
                _ => (),
            }
            if stop.is_stopped() {
                tracer.resume(stop.tid, how).unwrap();
            }
        }
        assert_eq!(hits, 5 * 50);
    });
}

/// Leaves while hits come, and while one waits behind a mask: the program must not die of a trap of ours.
#[test]
fn traps_of_perf_events_are_ours_until_we_are_gone() {
    let folder = Folder::new("stopped");
    let program = compile(&folder, "watched.c", &[]);
    for mode in ["threads", "blocked"] {
        let mut child = Command::new(&program)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let pid = Pid(child.id());
        let trigger = Trigger::Write(Range::new(watched(pid, &program), 8).unwrap());
        let watched = on_own_thread(|| {
            let mut tracer = Tracer::attach(pid, false).unwrap();
            let delivery = Delivery::stop(COOKIE);
            let opened = Breakpoint::open(
                pid.first_thread(),
                trigger,
                delivery,
                Follow::Threads,
                Start::Enabled,
            );
            let Ok(breakpoint) = opened else {
                return false;
            };
            stdin.write_all(b"x\n").unwrap();
            let ours = |info: &tracee::ptrace::SigInfo| info.perf().is_some_and(|trap| trap.data == COOKIE);
            let mut hits = 0;
            if mode == "blocked" {
                let process = Process::new(pid);
                until("the trap waits", || {
                    process.status().unwrap().has_pending(libc::SIGTRAP)
                });
            }
            while mode == "threads" && hits < 100 {
                let stop = tracer.wait(LONG).unwrap().unwrap();
                let how = match stop.what {
                    What::Signal(info) if ours(&info) => {
                        hits += 1;
                        Resume::Suppress
                    }
                    _ => Resume::Deliver,
                };
                if stop.is_stopped() {
                    tracer.resume(stop.tid, how).unwrap();
                }
            }
            drop(breakpoint);
            tracer.detach(LONG, ours).unwrap();
            true
        });
        if !watched {
            let _ = child.kill().and_then(|()| child.wait());
            return skipped("no perf breakpoints here");
        }
        let status = Process::new(pid).status().unwrap();
        assert!(!status.has_pending(libc::SIGTRAP) && status.tracer.is_none());
        if mode == "blocked" {
            assert!(status.blocked.contains(libc::SIGTRAP));
        }
        stdin.write_all(b"x\n").unwrap();
        line.clear();
        stdout.read_to_string(&mut line).unwrap();
        assert!(line.contains("done"), "{line}");
        assert_eq!(end_of(child.wait().unwrap()), End::Exited(8));
    }
}
