//! A commit log in segments: a writer appends records and rolls to a new segment when one is full; replicas
//! read what is committed in the active segment, and go on with the next one when it is rolled.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

const SEGMENT_SIZE: usize = 320;
const RECORDS: usize = 26;

/// A random time between two bounds, as disks and peers need.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

struct Segment {
    number: u32,
    bytes: Mutex<Vec<u8>>,
}

impl Segment {
    fn create(number: u32) -> Arc<Segment> {
        Arc::new(Segment {
            number,
            bytes: Mutex::new(Vec::with_capacity(SEGMENT_SIZE)),
        })
    }

    fn has_room(&self, length: usize) -> bool {
        self.bytes.lock().unwrap().len() + length <= SEGMENT_SIZE
    }

    fn append(&self, record: &[u8]) -> usize {
        let mut bytes = self.bytes.lock().unwrap();
        bytes.extend_from_slice(record);
        bytes.len()
    }
}

struct Log {
    active: RwLock<Arc<Segment>>,
    /// How much of the active segment may be read.
    committed: AtomicUsize,
    closed: Mutex<Vec<Arc<Segment>>>,
    finished: AtomicBool,
}

impl Log {
    fn new() -> Arc<Log> {
        Arc::new(Log {
            active: RwLock::new(Segment::create(0)),
            committed: AtomicUsize::new(0),
            closed: Mutex::new(Vec::new()),
            finished: AtomicBool::new(false),
        })
    }

    fn active(&self) -> Arc<Segment> {
        self.active.read().unwrap().clone() // @active-read
    }

    fn append(&self, record: &[u8]) {
        if !self.active().has_room(record.len()) {
            self.roll(); // @roll
        }
        let end = self.active().append(record);
        self.sync();
        self.committed.store(end, Ordering::Release); // @committed-set
    }

    /// Closes the active segment and starts the next one.
    fn roll(&self) {
        let old = self.active();
        let next = Segment::create(old.number + 1);
        self.closed.lock().unwrap().push(old);
        *self.active.write().unwrap() = next; // @active-write
        self.sync();
        self.committed.store(0, Ordering::Release); // @committed-reset
    }

    /// The disk has it.
    fn sync(&self) {
        wait_microseconds(20, 350);
    }

    fn report(&self) {
        let closed: usize = self.closed.lock().unwrap().iter().map(|s| s.bytes.lock().unwrap().len()).sum();
        let segment = self.active();
        println!(
            "{closed} bytes in closed segments, {} in segment {}",
            self.committed.load(Ordering::Acquire),
            segment.number
        );
    }
}

/// A follower's copy of the log, and how far it has come in which segment.
struct Replica {
    log: Arc<Log>,
    segment: u32,
    position: usize,
    copied: usize,
    checksum: u32,
}

impl Replica {
    fn new(log: Arc<Log>) -> Replica {
        Replica {
            log,
            segment: 0,
            position: 0,
            copied: 0,
            checksum: 0,
        }
    }

    fn apply(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.checksum = self.checksum.rotate_left(5) ^ u32::from(*byte);
        }
        self.copied += bytes.len();
    }

    /// What was rolled away before it could be read here.
    fn catch_up(&mut self, until: u32) {
        let closed: Vec<Arc<Segment>> = self.log.closed.lock().unwrap().clone();
        let missed = self.segment..until;
        for segment in closed.iter().filter(|s| missed.contains(&s.number)) {
            let bytes = segment.bytes.lock().unwrap().clone();
            self.apply(&bytes[self.position.min(bytes.len())..]);
            self.position = 0;
        }
        self.segment = until;
        self.position = 0;
    }

    fn fetch(&mut self) {
        let segment = self.log.active(); // @active
        if segment.number != self.segment {
            self.catch_up(segment.number);
        }
        let end = self.log.committed.load(Ordering::Acquire); // @committed-read
        if end <= self.position {
            return;
        }
        let part = {
            let bytes = segment.bytes.lock().unwrap();
            bytes[self.position..end].to_vec() // @fail
        };
        self.apply(&part);
        self.position = end;
    }
}

fn replicate(log: Arc<Log>) -> (usize, u32) {
    let mut replica = Replica::new(log);
    while !replica.log.finished.load(Ordering::Acquire) {
        wait_microseconds(1500, 5000);
        replica.fetch(); // @fetch
    }
    replica.fetch();
    (replica.copied, replica.checksum)
}

fn write_records(log: Arc<Log>) {
    for number in 0..RECORDS {
        let record = format!("record {number:04} {}", "x".repeat(10 + number % 7));
        wait_microseconds(100, 900);
        log.append(record.as_bytes()); // @append
    }
    log.finished.store(true, Ordering::Release);
}

fn main() {
    let log = Log::new();
    let for_replica = log.clone();
    let for_writer = log.clone();

    let replica = thread::spawn(move || replicate(for_replica));
    let writer = thread::spawn(move || write_records(for_writer));
    writer.join().unwrap();
    let (copied, checksum) = replica.join().unwrap();
    println!("replica has {copied} bytes, checksum {checksum:08x}");
    log.report();
}
