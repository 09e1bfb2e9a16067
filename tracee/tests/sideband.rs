//! News of a process through the rings.

#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod support;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use support::build;
use tracee::Pid;
use tracee::perf::{News, Record, Rings, Sideband, original_file_limit};

const RING: usize = 1 << 20;

#[test]
fn threads_come_and_go() {
    let built = build(&["-O1"]);
    let mut process = built.start(30, 1);
    let mut rings = Rings::open(RING).unwrap();
    let news = News {
        tasks: true,
        ..News::default()
    };
    let _sideband = match Sideband::open(process.tid(), news, &rings) {
        Ok(sideband) => sideband,
        Err(error) => return failsketch_tests::skip::skipped(&error.to_string()),
    };
    process.run();
    let mut alive = HashSet::new();
    let mut ended = 0;
    for record in rings.read_to_end() {
        match record.record {
            Record::Fork(task) => {
                assert_eq!((task.pid, task.parent_tid), (process.pid(), process.tid()));
                assert!(alive.insert(task.tid));
            }
            Record::Exit(task) => {
                assert!(alive.remove(&task.tid), "{task:?} ended before it began");
                ended += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((ended, alive.len()), (30, 0));
    process.end();
}

#[test]
fn an_exec_tells_its_name_and_files() {
    let mut child = Command::new("sh")
        .args(["-c", "read line; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut rings = Rings::open(RING).unwrap();
    let news = News {
        tasks: true,
        mappings: true,
        build_ids: true,
        switches: false,
    };
    let sideband = Sideband::open(Pid(child.id()).first_thread(), news, &rings);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
    if let Err(error) = sideband {
        return failsketch_tests::skip::skipped(&error.to_string());
    }
    let records = rings.read_to_end();
    let named = records
        .iter()
        .any(|record| matches!(&record.record, Record::Comm { name, exec: true, .. } if name == "cat"));
    assert!(named, "{records:?}");
    let libc = records.iter().find_map(|record| match &record.record {
        Record::Mmap(mapping) if mapping.path.ends_with("libc.so.6") => Some(mapping),
        _ => None,
    });
    let libc = libc.unwrap_or_else(|| panic!("{records:?}"));
    assert_eq!(libc.pid, Pid(child.id()));
    assert!(
        libc.build_id.as_ref().is_some_and(|id| id.0.len() == 20),
        "{libc:?}"
    );
}

#[test]
fn a_thread_that_waits_loses_the_processor_and_gets_it_again() {
    const WAITS: usize = 5;
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rings = Rings::open(RING).unwrap();
    let news = News {
        switches: true,
        ..News::default()
    };
    let tid = Pid(child.id()).first_thread();
    let sideband = Sideband::open(tid, news, &rings);
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for _ in 0..WAITS {
        // The state follows the name, which is in parentheses.
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
            .unwrap()
            .contains(") S ")
        {
            std::thread::yield_now();
        }
        input.write_all(b"\n").unwrap();
        output.read_exact(&mut [0]).unwrap();
    }
    drop(input);
    child.wait().unwrap();
    if let Err(error) = sideband {
        return failsketch_tests::skip::skipped(&error.to_string());
    }
    let records = rings.read_to_end();
    let switches: Vec<bool> = records
        .iter()
        .map(|record| match record.record {
            Record::Switch { out, other: None, .. } => {
                assert_eq!(record.origin.tid, tid);
                out
            }
            _ => panic!("{record:?}"),
        })
        .collect();
    // Woken up on the way to sleep it does not lose the processor at all, but hardly every time.
    assert!(
        switches.contains(&true) && switches.contains(&false),
        "{records:?}"
    );
    assert!(switches.windows(2).all(|two| two[0] != two[1]), "{records:?}");
}

/// For the test below: many events, with few files allowed.
#[test]
fn many() {
    if std::env::var_os("FAILSKETCH_MANY").is_none() {
        return;
    }
    let started_with = original_file_limit().unwrap();
    let rings = Rings::open(4096).unwrap();
    let us = Pid(std::process::id()).first_thread();
    let opened: Result<Vec<_>, _> = (0..100)
        .map(|_| Sideband::open(us, News::default(), &rings))
        .collect();
    let said = match opened {
        Ok(_) => "all".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        original_file_limit(),
        Some(started_with),
        "for programs that we launch"
    );
    // Past the harness, which keeps what a test prints.
    writeln!(std::io::stdout(), "\nresult: {said}").unwrap();
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
    let with_limit = |limit: &str| {
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--nofile={limit}"))
            .arg(std::env::current_exe().unwrap());
        let output = command
            .args(["--exact", "many"])
            .env("FAILSKETCH_MANY", "1")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = with_limit("40:4096");
    assert!(said.contains("result: all"), "{said}");
    let said = with_limit("40:40");
    assert!(
        said.contains("result: too many open files") && said.contains("now 40"),
        "{said}"
    );
}
