//! A store that takes uploads in parts. Parts come over a channel, are checked
//! by a few threads and put into their upload; whoever has sent all he wanted
//! closes it, and what came is put together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A small generator of its own for each thread.
struct Jitter(u64);

impl Jitter {
    fn new(salt: u64) -> Jitter {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Jitter((u64::from(now.subsec_nanos()) << 17 | salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn sleep(&mut self, least: u64, most: u64) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        thread::sleep(Duration::from_micros(least + (self.0 >> 20) % (most - least)));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Phase {
    Receiving,
    Closed,
}

struct Part {
    number: u32,
    body: Vec<u8>,
}

type Parts = BTreeMap<u32, Vec<u8>>;

/// What is said of an upload, and what came of it, each under its own lock:
/// parts are large, and who only asks for the state is not to wait for them.
struct Upload {
    phase: Mutex<Phase>,
    parts: Mutex<Option<Box<Parts>>>,
    received: AtomicUsize,
    late: AtomicUsize,
}

impl Upload {
    fn new() -> Upload {
        Upload {
            phase: Mutex::new(Phase::Receiving),
            parts: Mutex::new(Some(Box::default())),
            received: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
        }
    }

    fn is_receiving(&self) -> bool {
        let phase = self.phase.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *phase == Phase::Receiving // @phase-check
    }

    fn add(&self, part: Part) {
        let mut parts = self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let parts = parts.as_mut().expect("an upload that receives has parts"); // @fail
        parts.insert(part.number, part.body);
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    fn close(&self) {
        let mut phase = self.phase.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *phase = Phase::Closed; // @phase-close
    }

    fn finish(&self) -> Vec<u8> {
        let mut slot = self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let parts = slot.take(); // @parts-take
        drop(slot);
        parts.map(|parts| parts.into_values().flatten().collect()).unwrap_or_default()
    }

    fn print_state(&self) {
        println!(
            "{} parts, {} too late, {}",
            self.received.load(Ordering::Relaxed),
            self.late.load(Ordering::Relaxed),
            if self.is_receiving() { "open" } else { "closed" }
        );
    }
}

/// The sum is made on another machine.
fn checked(part: &Part, jitter: &mut Jitter) -> bool {
    jitter.sleep(200, 1400);
    part.body.iter().fold(0u8, |sum, byte| sum ^ byte) == part.number as u8
}

fn storer(upload: &Upload, incoming: &Mutex<Receiver<Part>>) {
    let mut jitter = Jitter::new(2);
    loop {
        let next = incoming.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
        let Ok(part) = next else {
            return;
        };
        if !upload.is_receiving() { // @ask
            upload.late.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if checked(&part, &mut jitter) {
            upload.add(part); // @add
        }
    }
}

fn sender(outgoing: Sender<Part>) {
    let mut jitter = Jitter::new(3);
    for number in 0..7u32 {
        jitter.sleep(1500, 6500);
        let body = vec![number as u8, 9, 9];
        if outgoing.send(Part { number, body }).is_err() {
            return;
        }
    }
}

fn closer(upload: &Upload) {
    let mut jitter = Jitter::new(4);
    jitter.sleep(9000, 42000);
    upload.close(); // @close
    let whole = upload.finish(); // @finish
    println!("{} bytes", whole.len());
}

fn main() {
    let upload = Arc::new(Upload::new());
    let (outgoing, incoming) = mpsc::channel();
    let incoming = Arc::new(Mutex::new(incoming));
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (upload, incoming) = (Arc::clone(&upload), Arc::clone(&incoming));
        threads.push(thread::spawn(move || storer(&upload, &incoming)));
    }
    threads.push(thread::spawn(move || sender(outgoing)));
    let closing = Arc::clone(&upload);
    threads.push(thread::spawn(move || closer(&closing)));
    for thread in threads {
        let _ = thread.join();
    }
    upload.print_state();
}
