//! A client of a remote service over one connection: requests go out in order, replies come back as the
//! server is done with them, and a reader thread gives each one to the call that waits for it.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const CALLERS: usize = 2;
const CALLS: usize = 3;

type CallId = u64;

#[derive(Debug, Clone)]
enum Method {
    Get(String),
    Put(String, i64),
    Count,
}

#[derive(Debug)]
struct Request {
    id: CallId,
    method: Method,
}

#[derive(Debug)]
struct Reply {
    id: CallId,
    result: Result<i64, ServiceError>,
}

#[derive(Debug, Clone, PartialEq)]
enum ServiceError {
    NoSuchKey(String),
    Disconnected,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceError::NoSuchKey(key) => write!(f, "no such key: {key}"),
            ServiceError::Disconnected => write!(f, "disconnected"),
        }
    }
}

/// A random time between two bounds, as disks and peers need.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

/// What a caller hangs up for its reply.
struct Waiter {
    reply: Sender<Result<i64, ServiceError>>,
    caller: usize,
}

/// The calls that have been made and not answered.
#[derive(Default)]
struct Pending {
    waiters: Mutex<HashMap<CallId, Waiter>>,
    delivered: AtomicU64,
}

impl Pending {
    fn register(&self, id: CallId, waiter: Waiter) {
        self.waiters.lock().unwrap().insert(id, waiter); // @insert
    }

    fn complete(&self, reply: Reply) {
        let waiter = self.waiters.lock().unwrap().remove(&reply.id); // @lookup
        let waiter = waiter.expect("a reply to a call that nobody made"); // @fail
        self.delivered.fetch_add(1, Ordering::Relaxed);
        // A caller that has gone away does not want its reply.
        let _ = waiter.reply.send(reply.result);
    }

    fn report(&self) {
        let waiters = self.waiters.lock().unwrap();
        let callers: Vec<usize> = waiters.values().map(|w| w.caller).collect();
        println!(
            "{} delivered, {} pending {:?}",
            self.delivered.load(Ordering::Relaxed),
            waiters.len(),
            callers
        );
    }
}

/// The record of what was sent, for a post mortem.
#[derive(Default)]
struct Journal {
    lines: Mutex<Vec<String>>,
}

impl Journal {
    fn append(&self, line: String) {
        wait_microseconds(50, 1300);
        self.lines.lock().unwrap().push(line);
    }
}

struct Client {
    outgoing: Mutex<Sender<Request>>,
    pending: Arc<Pending>,
    journal: Journal,
    next_id: AtomicU64,
}

impl Client {
    fn new(outgoing: Sender<Request>, pending: Arc<Pending>) -> Client {
        Client {
            outgoing: Mutex::new(outgoing),
            pending,
            journal: Journal::default(),
            next_id: AtomicU64::new(1),
        }
    }

    fn call(&self, caller: usize, method: Method) -> Result<i64, ServiceError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = channel();
        let line = format!("{id} {method:?}");
        self.transmit(Request { id, method })?; // @transmit
        self.journal.append(line);
        self.pending.register(id, Waiter { reply, caller });
        answer.recv().unwrap_or(Err(ServiceError::Disconnected))
    }

    fn transmit(&self, request: Request) -> Result<(), ServiceError> {
        let outgoing = self.outgoing.lock().unwrap();
        outgoing.send(request).map_err(|_| ServiceError::Disconnected) // @send
    }
}

/// The other side: a store of numbers.
fn serve(requests: Receiver<Request>, replies: Sender<Reply>) {
    let mut store = BTreeMap::from([("answers".to_string(), 42)]);
    for request in requests {
        wait_microseconds(450, 3500);
        let result = match request.method {
            Method::Get(key) => store.get(&key).copied().ok_or(ServiceError::NoSuchKey(key)),
            Method::Put(key, value) => Ok(store.insert(key, value).unwrap_or(0)),
            Method::Count => Ok(store.len() as i64),
        };
        if replies.send(Reply { id: request.id, result }).is_err() {
            return;
        }
    }
}

fn read_replies(replies: Receiver<Reply>, pending: Arc<Pending>) {
    for reply in replies {
        pending.complete(reply); // @complete
    }
}

fn run_caller(client: Arc<Client>, number: usize) -> i64 {
    let mut sum = 0;
    for i in 0..CALLS {
        wait_microseconds(200, 1500);
        let method = match i % 3 {
            0 => Method::Put(format!("caller-{number}"), number as i64),
            1 => Method::Get("answers".to_string()),
            _ => Method::Count,
        };
        match client.call(number, method) { // @call
            Ok(value) => sum += value,
            Err(error) => eprintln!("caller {number}: {error}"),
        }
    }
    sum
}

fn main() {
    let (request_in, request_out) = channel();
    let (reply_in, reply_out) = channel();
    let pending = Arc::new(Pending::default());
    let client = Arc::new(Client::new(request_in, pending.clone()));

    let server = thread::spawn(move || serve(request_out, reply_in));
    let for_reader = pending.clone();
    let reader = thread::spawn(move || read_replies(reply_out, for_reader));
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || run_caller(client, number))
        })
        .collect();
    let sum: i64 = callers.into_iter().map(|c| c.join().unwrap()).sum();

    drop(client);
    server.join().unwrap();
    reader.join().unwrap();
    println!("sum {sum}");
    pending.report();
}
