//! Panics in the way that its argument names.

use std::io::{PipeReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::panic::{self, catch_unwind};
use std::process;
use std::sync::{Mutex, mpsc};
use std::thread;

#[inline(never)]
fn pick(cells: &[u32], at: usize) -> u32 {
    cells[at] // @index
}

#[inline(never)]
fn agree(one: u32, other: u32) {
    assert_eq!(one, other, "they differ"); // @assert
}

static SHARED: Mutex<u32> = Mutex::new(0);

#[repr(C, packed)]
struct Event {
    events: u32,
    data: u64,
}

unsafe extern "C" {
    safe fn gettid() -> i32;
    safe fn epoll_create1(flags: i32) -> i32;
    fn epoll_ctl(epoll: i32, operation: i32, fd: i32, event: *mut Event) -> i32;
    fn epoll_wait(epoll: i32, events: *mut Event, most: i32, timeout: i32) -> i32;
}

/// How many events there were; less than none if it was disturbed.
fn events(pipe: &PipeReader, epoll: i32) -> i32 {
    const ADD: i32 = 1;
    const READABLE: u32 = 1;
    let mut event = Event { events: READABLE, data: 0 };
    // SAFETY: the event lives as long as the calls.
    unsafe {
        epoll_ctl(epoll, ADD, pipe.as_raw_fd(), &raw mut event);
        epoll_wait(epoll, &raw mut event, 1, -1)
    }
}

/// Panics, and goes on, while another thread waits in a call that the kernel does not restart.
fn catch_while_one_waits() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (tell, told) = mpsc::channel();
    let waiting = thread::spawn(move || {
        tell.send(gettid()).unwrap();
        events(&reader, epoll_create1(0))
    });
    let call = format!("/proc/self/task/{}/syscall", told.recv().unwrap());
    while !std::fs::read_to_string(&call).unwrap().starts_with("232 ") {
        thread::yield_now();
    }
    for _ in 0..3 {
        assert!(catch_unwind(|| agree(1, 2)).is_err());
    }
    writer.write_all(b"x").unwrap();
    if waiting.join().unwrap() != 1 {
        process::exit(9);
    }
}

fn main() {
    let way = std::env::args().nth(1).unwrap_or_default();
    match way.as_str() {
        "index" => println!("{}", pick(&[1, 2, 3], way.len())),
        "assert" => agree(way.len() as u32, 7),
        // The second panic is a consequence of the first.
        "thread" => {
            let _ = thread::spawn(|| {
                let _held = SHARED.lock();
                agree(1, 2);
            })
            .join();
            let _poisoned = SHARED.lock().unwrap();
        }
        "any" => panic::panic_any(format!("code {}", way.len())), // @any
        "resumed" => {
            let caught = catch_unwind(|| agree(1, 2)).unwrap_err();
            panic::resume_unwind(caught);
        }
        "caught" => catch_while_one_waits(),
        "exits" => {
            let _caught = catch_unwind(|| agree(1, 2));
            process::exit(3); // @exit
        }
        _ => process::abort(),
    }
}
