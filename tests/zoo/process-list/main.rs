//! A database server that lists its connections: each one tells, through an
//! atomic, which stage its statement is in; the monitor prints the names.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const STAGES: [&str; 4] = ["parsing", "optimizing", "reading rows", "sending"];
const IDLE: usize = usize::MAX;

struct Connection {
    stage: AtomicUsize,
    statements: AtomicU64,
}

static CONNECTION: Connection = Connection {
    stage: AtomicUsize::new(IDLE),
    statements: AtomicU64::new(0),
};

/// A random time between two bounds, standing for disks and networks.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

fn checksum(text: &str) -> u64 {
    text.bytes()
        .fold(5381, |sum, byte| sum.wrapping_mul(33) ^ u64::from(byte))
}

fn execute(statement: &str) -> u64 {
    let mut result = checksum(statement);
    for stage in 0..STAGES.len() {
        CONNECTION.stage.store(stage, Ordering::Relaxed); // @stage-set
        wait_microseconds(200, 1800);
        result ^= checksum(STAGES[stage]);
    }
    CONNECTION.stage.store(IDLE, Ordering::Relaxed); // @stage-clear
    CONNECTION.statements.fetch_add(1, Ordering::Relaxed);
    result
}

fn serve() -> u64 {
    let mut result = 0;
    for number in 0..3 {
        let statement = format!("SELECT * FROM orders WHERE id = {number}");
        wait_microseconds(0, 6000);
        result ^= execute(&statement); // @execute
    }
    result
}

/// The line that a client of the monitor gets; the answer goes out in two
/// parts, the number of statements first.
fn describe(connection: &Connection) -> String {
    let idle = connection.stage.load(Ordering::Relaxed) == IDLE; // @stage-check
    if idle {
        return String::from("idle");
    }
    let mut line = format!("{} done, ", connection.statements.load(Ordering::Relaxed));
    wait_microseconds(50, 700);
    let stage = connection.stage.load(Ordering::Relaxed); // @stage-read
    line.push_str(STAGES[stage]); // @fail
    line
}

fn monitor() -> usize {
    let mut shown = 0;
    for _ in 0..5 {
        wait_microseconds(0, 7000);
        shown += describe(&CONNECTION).len(); // @describe
    }
    shown
}

fn print_summary(result: u64, shown: usize) {
    let idle = CONNECTION.stage.load(Ordering::Relaxed) == IDLE;
    let statements = CONNECTION.statements.load(Ordering::Relaxed);
    println!("{statements} statements, result {result:016x}, {shown} bytes shown, idle: {idle}");
}

fn main() {
    let server = thread::spawn(serve);
    let watcher = thread::spawn(monitor);
    let result = server.join().unwrap_or(0);
    let shown = watcher.join().unwrap_or(0);
    print_summary(result, shown);
}
