//! Debug registers on real threads.

#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program::RunAddr;
use support::{Running, build};
use tracee::bpf::{HitProgram, HitRing, Location, RawHit};
use tracee::perf::{
    Breakpoint, DEBUG_REGISTERS, Delivery, Follow, PerfError, Range, Record, Rings, Stamped, Start, Trigger,
    free_registers, free_registers_on,
};
use tracee::{Tid, monotonic_ns};

const RING: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// Skips a test where the host does not give what it needs.
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => {
                failsketch_tests::skip::skipped(&error.to_string());
                return;
            }
        }
    };
}

fn write_to(addr: RunAddr) -> Trigger {
    Trigger::Write(Range::new(addr, 8).unwrap())
}

fn silent(process: &Running, trigger: Trigger, start: Start) -> Result<Breakpoint, PerfError> {
    Breakpoint::open(process.tid(), trigger, Delivery::Silent, Follow::Threads, start)
}

fn read_all(ring: &mut HitRing) -> Vec<RawHit> {
    let mut hits = Vec::new();
    ring.read(|hit| hits.push(hit));
    hits
}

#[test]
fn every_write_counts_in_threads_that_come_and_go() {
    let built = build(&["-O1"]);
    let mut process = built.start(200, 5);
    let breakpoint = or_skip!(silent(&process, write_to(process.watched), Start::Enabled));
    process.run();
    assert_eq!(breakpoint.count().unwrap(), 1000);
    assert_eq!(process.end().code(), Some(7));
    assert_eq!(breakpoint.count().unwrap(), 1000, "also when the process is gone");
}

#[test]
fn four_registers_and_no_fifth() {
    let built = build(&["-O1"]);
    let process = built.start(0, 1);
    let breakpoint = or_skip!(silent(&process, write_to(process.watched), Start::Disabled));
    let tid = process.tid();
    assert_eq!(free_registers(tid).unwrap(), DEBUG_REGISTERS - 1);
    let others: Vec<_> = (1..4)
        .map(|n| silent(&process, write_to(RunAddr(n * 0x1000)), Start::Disabled).unwrap())
        .collect();
    assert_eq!(free_registers(tid).unwrap(), 0);
    let fifth = silent(&process, write_to(process.other), Start::Disabled).unwrap_err();
    assert!(matches!(fifth, PerfError::NoRegister { .. }), "{fifth:?}");
    drop(others);
    drop(breakpoint);
    all_become_free(tid);
    assert_eq!(process.end().code(), Some(7));
}

/// All registers are free again at once, unless another test starts a process at this moment: until it executes its program, that has copies of
/// our files.
fn all_become_free(tid: Tid) {
    let started = Instant::now();
    while free_registers(tid).unwrap() < DEBUG_REGISTERS {
        assert!(started.elapsed() < LIMIT, "a register is not given back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn looking_at_registers_takes_none() {
    let built = build(&["-O1"]);
    let process = built.start(0, 1);
    let _held = or_skip!(silent(&process, write_to(process.watched), Start::Disabled));
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| {
            for _ in 0..100 {
                Command::new("true").status().unwrap();
            }
        });
        while !starting.is_finished() {
            assert_eq!(free_registers(process.tid()).unwrap(), DEBUG_REGISTERS - 1);
        }
    });
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn disabled_moved_and_enabled() {
    let built = build(&["-O1"]);
    let mut process = built.start(8, 10);
    let unused = RunAddr(0x1000);
    let mut breakpoint = or_skip!(silent(&process, write_to(unused), Start::Disabled));
    breakpoint.move_to(write_to(process.watched)).unwrap();
    assert_eq!(breakpoint.count().unwrap(), 0);
    breakpoint.enable().unwrap();
    breakpoint.move_to(write_to(process.other)).unwrap();
    process.run();
    assert_eq!(breakpoint.count().unwrap(), 80);
    breakpoint.disable().unwrap();
    breakpoint.move_to(write_to(process.watched)).unwrap();
    assert_eq!(process.end().code(), Some(7));
    breakpoint.move_to(write_to(unused)).unwrap();
    assert_eq!(breakpoint.count().unwrap(), 80);
}

#[test]
fn an_instruction_can_be_watched() {
    let built = build(&["-O1"]);
    let mut process = built.start(3, 10);
    let breakpoint = or_skip!(silent(&process, Trigger::Execute(process.step), Start::Enabled));
    process.run();
    assert_eq!(breakpoint.count().unwrap(), 30);
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn ranges_are_those_of_the_processor() {
    for (addr, len, good) in [
        (0x1000, 8, true),
        (0x1004, 8, false),
        (0x1004, 4, true),
        (0x1001, 1, true),
        (0x1001, 2, false),
        (0x1000, 3, false),
        (0x1000, 0, false),
        (0x1000, 16, false),
    ] {
        assert_eq!(Range::new(RunAddr(addr), len).is_ok(), good, "{len} at {addr:#x}");
    }
}

#[test]
fn a_thread_that_is_gone_is_said_to_be() {
    let process = build(&["-O1"]).start(0, 1);
    let (tid, trigger) = (process.tid(), write_to(process.watched));
    process.end();
    let error =
        Breakpoint::open(tid, trigger, Delivery::Silent, Follow::Threads, Start::Enabled).unwrap_err();
    assert!(error.is_gone(), "{error:?}");
}

#[test]
fn a_program_sees_each_value() {
    let built = build(&["-O1"]);
    let mut process = built.start(0, 100);
    let mut ring = or_skip!(HitRing::new(RING, 8));
    for (slot, addr) in [(0, process.watched), (1, process.other), (3, RunAddr(0x10))] {
        ring.set_location(slot, Some(Location { addr, len: 8 })).unwrap();
    }
    ring.only(Some(process.pid()));
    let program = HitProgram::for_breakpoints(&ring, 42).unwrap();
    let tid = process.tid();
    let trigger = write_to(process.watched);
    let breakpoint = Breakpoint::open(
        tid,
        trigger,
        Delivery::Bpf(&program),
        Follow::Threads,
        Start::Enabled,
    )
    .unwrap();
    process.run();
    assert!(ring.wait(Duration::ZERO).unwrap());
    let hits = read_all(&mut ring);
    assert_eq!(breakpoint.count().unwrap(), 100);
    assert_eq!((hits.len(), ring.lost(), ring.malformed()), (100, 0, 0));
    let mut before = 0;
    for (i, hit) in (1_u64..).zip(&hits) {
        assert_eq!((hit.pid, hit.tid, hit.cookie), (process.pid(), tid, 42));
        assert_eq!(hit.addr, process.watched);
        assert_eq!(hit.value_at(process.watched).unwrap().number(), Some(1 << 32 | i));
        assert_eq!(
            hit.value_at(process.other).unwrap().number(),
            Some(1 << 32 | i << 8)
        );
        assert_eq!(hit.values.len(), 2, "nothing is at 0x10");
        assert_eq!(
            (hit.registers.rdi, hit.registers.rsi),
            (1 << 32 | i, 1 << 32 | i << 8)
        );
        assert!((process.step.0..process.step.0 + 64).contains(&hit.registers.rip));
        assert!(hit.time_ns > before);
        before = hit.time_ns;
    }
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn another_process_is_filtered_out() {
    let built = build(&["-O1"]);
    let mut process = built.start(2, 10);
    let mut ring = or_skip!(HitRing::new(RING, 8));
    ring.only(Some(tracee::Pid(std::process::id())));
    let program = HitProgram::for_breakpoints(&ring, 0).unwrap();
    let trigger = write_to(process.watched);
    let breakpoint = Breakpoint::open(
        process.tid(),
        trigger,
        Delivery::Bpf(&program),
        Follow::Threads,
        Start::Enabled,
    )
    .unwrap();
    process.run();
    assert_eq!(breakpoint.count().unwrap(), 20);
    assert_eq!(read_all(&mut ring), []);
    process.end();
}

#[test]
fn what_finds_no_room_is_counted() {
    let built = build(&["-O1"]);
    let mut process = built.start(4, 100);
    let mut ring = or_skip!(HitRing::new(4096, 64));
    let program = HitProgram::for_breakpoints(&ring, 0).unwrap();
    let trigger = write_to(process.watched);
    let breakpoint = Breakpoint::open(
        process.tid(),
        trigger,
        Delivery::Bpf(&program),
        Follow::Threads,
        Start::Enabled,
    )
    .unwrap();
    process.run();
    let hits = read_all(&mut ring).len() as u64;
    assert!(hits > 0 && ring.lost() > 0);
    assert_eq!(hits + ring.lost(), 400);
    assert_eq!(breakpoint.count().unwrap(), 400);
    process.end();
}

#[test]
fn a_ring_has_registers_in_order_of_time() {
    let built = build(&["-O1"]);
    let mut process = built.start(5, 100);
    let mut rings = or_skip!(Rings::open(RING));
    let breakpoint = or_skip!(Breakpoint::open(
        process.tid(),
        write_to(process.watched),
        Delivery::Ring(&rings),
        Follow::Threads,
        Start::Enabled,
    ));
    process.go();
    let mut records = rings.read();
    process.done();
    rings.wait(Duration::ZERO).unwrap();
    records.extend(rings.read());
    records.extend(rings.read_to_end());
    assert_eq!(breakpoint.count().unwrap(), 500);
    assert_eq!(rings.malformed(), 0);
    assert!(records.is_sorted_by_key(|record| record.origin.time));
    let ids = breakpoint.ids().unwrap();
    let mut next = [1; 6];
    for Stamped { origin, record } in &records {
        let Record::Sample(sample) = record else {
            panic!("{record:?}")
        };
        assert!(ids.contains(&sample.event));
        assert_eq!((origin.pid, sample.addr), (process.pid(), process.watched));
        let value = sample.registers.unwrap().rdi;
        let (thread, i) = ((value >> 32) as usize, value & 0xffff_ffff);
        assert_eq!(i, next[thread], "thread {thread}");
        next[thread] += 1;
    }
    assert_eq!(next[1..], [101; 5]);
    process.end();
}

#[test]
fn a_full_perf_ring_says_what_it_lost_when_there_is_room_again() {
    let built = build(&["-O1"]);
    // On one processor, as each ring speaks for its own.
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(&built.exe);
    let mut process = built.start_as(command, 4, 100);
    let mut rings = or_skip!(Rings::open(4096));
    let breakpoint = or_skip!(Breakpoint::open(
        process.tid(),
        write_to(process.watched),
        Delivery::Ring(&rings),
        Follow::Threads,
        Start::Enabled,
    ));
    process.run();
    let samples = rings.read_to_end().len() as u64;
    assert!((1..400).contains(&samples), "{samples} samples");
    assert_eq!(
        breakpoint.count().unwrap(),
        400,
        "the count tells the loss at once"
    );
    process.run();
    let lost = rings
        .read_to_end()
        .into_iter()
        .find_map(|record| match record.record {
            Record::Lost { lost } => Some(lost),
            _ => None,
        });
    assert_eq!(lost, Some(400 - samples));
    process.end();
}

#[test]
fn a_stop_is_a_trap_with_the_cookie() {
    let built = build(&["-O1", "-DHANDLE_TRAPS"]);
    let mut process = built.start(40, 10);
    let breakpoint = or_skip!(Breakpoint::open(
        process.tid(),
        write_to(process.watched),
        Delivery::stop(99),
        Follow::Threads,
        Start::Enabled,
    ));
    assert_eq!(process.run(), 400, "traps that the program handled");
    assert_eq!(breakpoint.count().unwrap(), 400);
    assert_eq!(process.end().code(), Some(7));
}

/// A breakpoint that stops and leaves a sample: each hit is both, in whatever thread and on whatever processor.
#[test]
fn stops_and_times_of_the_same_accesses() {
    let built = build(&["-O1", "-DHANDLE_TRAPS"]);
    let mut process = built.start(40, 10);
    let mut rings = or_skip!(Rings::open(RING));
    let stops = or_skip!(Breakpoint::open(
        process.tid(),
        write_to(process.watched),
        Delivery::Stop {
            cookie: 99,
            times: Some(&rings),
        },
        Follow::Threads,
        Start::Enabled,
    ));
    let before = monotonic_ns();
    assert_eq!(process.run(), 400, "traps that the program handled");
    let after = monotonic_ns();
    assert_eq!(stops.count().unwrap(), 400);
    let mut threads: BTreeMap<Tid, Vec<u64>> = BTreeMap::new();
    for stamped in rings.read_to_end() {
        assert!(matches!(stamped.record, Record::Sample(_)), "{stamped:?}");
        let times = threads.entry(stamped.origin.tid).or_default();
        times.push(stamped.origin.time);
    }
    assert_eq!(threads.values().map(Vec::len).sum::<usize>(), 400);
    for times in threads.values() {
        assert!(times.is_sorted() && times[0] > before && times[times.len() - 1] < after);
    }
    assert_eq!(process.end().code(), Some(7));
}

/// What a thread lacks that has inherited a breakpoint on some processors only.
#[test]
fn the_rest_of_a_breakpoint_on_other_processors() {
    let built = build(&["-O1"]);
    let process = built.start(1, 1);
    let rings = or_skip!(Rings::open(RING));
    let open = |missing: &dyn Fn(u32) -> bool| {
        Breakpoint::open_where(
            process.tid(),
            write_to(process.watched),
            Delivery::Ring(&rings),
            Follow::Nobody,
            Start::Disabled,
            missing,
        )
    };
    let cpus: Vec<u32> = rings.cpus().collect();
    let free = || {
        let free = free_registers_on(&cpus, process.tid()).unwrap();
        free.into_values()
    };
    let _first = or_skip!(open(&|cpu| cpu == cpus[0]));
    let others = cpus.len() - 1;
    let expected = std::iter::once(DEBUG_REGISTERS - 1).chain(std::iter::repeat_n(DEBUG_REGISTERS, others));
    assert!(free().eq(expected));
    let _rest = open(&|cpu| cpu != cpus[0]).unwrap();
    assert!(free().all(|free| free == DEBUG_REGISTERS - 1));
}

#[test]
fn what_the_kernel_writes_is_seen_at_its_system_call() {
    const SYS_READ: u64 = 0;
    let built = build(&["-O1"]);
    let mut process = built.start_with_kernel(0, 10);
    let mut ring = or_skip!(HitRing::new(RING, 8));
    let addr = process.watched;
    ring.set_location(0, Some(Location { addr, len: 8 })).unwrap();
    let program = HitProgram::for_breakpoints(&ring, 0).unwrap();
    let (tid, trigger) = (process.tid(), write_to(addr));
    let delivery = Delivery::Bpf(&program);
    let own = Breakpoint::open(tid, trigger, delivery, Follow::Threads, Start::Enabled).unwrap();
    process.run();
    assert_eq!(
        (own.count().unwrap(), read_all(&mut ring).len()),
        (0, 0),
        "not its own code's"
    );
    drop(own);
    let all = Breakpoint::open_with_kernel(tid, trigger, delivery, Follow::Threads, Start::Enabled).unwrap();
    process.run();
    let hits = read_all(&mut ring);
    assert_eq!(hits.len() as u64 + ring.lost(), all.count().unwrap());
    if hits.is_empty() && ring.lost() > 0 {
        return failsketch_tests::skip::skipped("the kernel has no type information");
    }
    let mut values = Vec::new();
    for hit in hits {
        assert!(hit.in_kernel);
        assert_eq!(
            (hit.registers.orig_rax, hit.registers.rsi),
            (SYS_READ, addr.0),
            "the arguments of read"
        );
        values.extend(hit.value_at(addr).unwrap().number());
    }
    // The kernel may copy in pieces, each of them a hit.
    values.dedup();
    values.retain(|value| value >> 32 == 1);
    let expected: Vec<_> = (1..=10).map(|i| 1 << 32 | i).collect();
    assert!(values.ends_with(&expected), "{values:x?}");
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn what_the_kernel_writes_stops_the_thread_after_its_system_call() {
    let built = build(&["-O1", "-DHANDLE_TRAPS"]);
    let mut process = built.start_with_kernel(4, 10);
    let breakpoint = Breakpoint::open_with_kernel(
        process.tid(),
        write_to(process.watched),
        Delivery::stop(99),
        Follow::Threads,
        Start::Enabled,
    );
    let breakpoint = or_skip!(breakpoint);
    assert_eq!(process.run(), 40, "one trap for each system call");
    assert!(breakpoint.count().unwrap() >= 40);
    assert_eq!(process.end().code(), Some(7));
}

/// For the test below: holds all registers of a thread until it is killed.
#[test]
fn holder() {
    let Ok(target) = std::env::var("FAILSKETCH_HOLD") else {
        return;
    };
    let numbers: Vec<u64> = target.split(' ').map(|number| number.parse().unwrap()).collect();
    let tid = Tid(numbers[0] as u32);
    let ring = HitRing::new(RING, 8).unwrap();
    let program = HitProgram::for_breakpoints(&ring, 0).unwrap();
    let _held: Vec<_> = [0, 8, 0x1000, 0x2000]
        .map(|offset| {
            let trigger = write_to(RunAddr(numbers[1] + offset));
            Breakpoint::open(
                tid,
                trigger,
                Delivery::Bpf(&program),
                Follow::Threads,
                Start::Enabled,
            )
            .unwrap()
        })
        .into();
    // Past the harness, which keeps what a test prints.
    writeln!(std::io::stdout(), "armed").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_killed_holder_leaves_nothing() {
    let built = build(&["-O1"]);
    let mut process = built.start(8, 100);
    let tid = process.tid();
    or_skip!(HitRing::new(RING, 8));
    or_skip!(free_registers(tid));
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder"])
        .env("FAILSKETCH_HOLD", format!("{tid} {}", process.watched.0))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(holder.stdout.take().unwrap()).lines();
    let armed = said.map_while(Result::ok).any(|line| line.ends_with("armed"));
    assert!(armed, "it could not open them");
    assert_eq!(free_registers(tid).unwrap(), 0);
    process.go();
    holder.kill().unwrap();
    holder.wait().unwrap();
    process.done();
    all_become_free(tid);
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn in_a_container_the_numbers_are_those_of_the_container() {
    // A shell in between, as the first process of a namespace is a special one.
    let again = "\"$0\" --exact a_program_sees_each_value; exit $?";
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "sh", "-c", again]);
    let inside = unshare.arg(std::env::current_exe().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&inside.stdout).into_owned();
    if !said.contains("running 1 test") {
        return failsketch_tests::skip::skipped("no new namespace of processes can be made");
    }
    assert!(inside.status.success(), "{said}");
}
