use std::sync::{Arc, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};

pub struct Stats {
    pub hits: u32,
    pub misses: u64,
}

pub struct Node {
    pub value: u64,
    pub next: Option<Box<Node>>,
}

pub struct Queue {
    pub head: usize,
    pub slots: [u64; 8],
    pub stats: Stats,
    pub count: AtomicUsize,
    pub first: Box<Node>,
}

static mut OPENED: u32 = 0;

impl Queue {
    #[inline(never)]
    pub fn push(&mut self, value: u64) {
        self.head += 1; // = self.head
        self.stats.hits = 3; // = self.stats.hits
        self.slots[2] = value; // = self.slots[2]
        self.first.value = value; // = self.first self.first.value
        unsafe { OPENED += 1 }; // = paths::OPENED
    }

    #[inline(never)]
    pub fn at(&self, index: usize) -> u64 {
        self.slots[index & 7] // = self.slots[…]
    }
}

#[inline(never)]
pub fn sum(values: &[u64], stats: &mut Stats) -> u64 {
    let mut total = 0; // =
    let mut i = 0; // =
    while i < values.len() { // =
        total += values[i]; // = | values[i] values[…] values[0] values[1] values[2] values[3] values[4] values[5] values[6] values[7]
        i += 1; // =
    }
    stats.misses = total; // = stats.misses
    *(&mut stats.hits) = 2; // = stats.hits
    total // =
}

#[inline(never)]
pub fn raw(node: *mut Node, number: &mut u64) {
    unsafe { (*node).value = 4 }; // = (*node).value
    *number = 3; // = *number
}

#[inline(never)]
pub fn shared(queue: &Arc<Queue>) -> u64 {
    let whole: &Queue = queue; // = | *queue queue
    let more = whole.head as u64; // = whole.head | queue.head
    more + whole.stats.misses // = whole.stats.misses | whole.head queue.head queue.stats.misses
}

#[inline(never)]
pub fn through(queue: &Arc<Queue>, nodes: &Vec<Node>) -> u64 {
    let misses = queue.stats.misses; // = queue.stats.misses
    misses + nodes[1].value // = nodes[…].value | nodes[1].value queue.stats.misses
}

#[inline(never)]
pub fn locked(stats: &Mutex<Stats>) {
    let mut guard = stats.lock().unwrap(); // = | guard
    guard.misses = 7; // = stats.misses
} // = | guard

pub struct Order {
    pub count: u64,
    pub text: String,
}

pub enum Desk {
    Closed,
    Idle(u32),
    Busy(Order),
}

#[inline(never)]
pub fn is_open(desk: &Desk) -> bool {
    match desk { // = *desk
        Desk::Closed => false,
        Desk::Idle(_) => true,
        Desk::Busy(order) => order.count > 0, // = order.count | *desk desk.__0.count
    }
}

pub struct Till {
    pub opened: u32,
    pub next: Mutex<Option<Order>>,
}

#[inline(never)]
pub fn has_next(till: &Till) -> bool {
    let next = till.next.lock().unwrap(); // = | next
    match *next { // = till.next
        Some(_) => true,
        None => false,
    }
} // = | next

fn main() {
    let start = std::env::args().count() as u64;
    let mut queue = Queue {
        head: 0,
        slots: [start; 8],
        stats: Stats { hits: 1, misses: 2 },
        count: AtomicUsize::new(0),
        first: Box::new(Node { value: 1, next: None }),
    };
    queue.push(start);
    let total = queue.at(start as usize);
    let total = total + sum(&queue.slots, &mut Stats { hits: 0, misses: 0 });
    let mut number = 0;
    raw(&mut *queue.first, &mut number);
    queue.count.fetch_add(1, Ordering::Relaxed);
    let queue = Arc::new(queue);
    let nodes = vec![Node { value: start, next: None }, Node { value: 2, next: None }];
    let till = Till { opened: 0, next: Mutex::new(None) };
    *till.next.lock().unwrap() = Some(Order { count: start, text: String::new() });
    let open = is_open(&Desk::Idle(start as u32)) && is_open(&Desk::Busy(Order { count: start, text: String::new() }));
    let total = total + (open && has_next(&till)) as u64;
    locked(&Mutex::new(Stats { hits: 0, misses: 0 }));
    std::process::exit((total + shared(&queue) + through(&queue, &nodes)) as i32);
}
