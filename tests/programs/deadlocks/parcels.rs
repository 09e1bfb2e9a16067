//! Parcels go from depot to depot. `ring`: as many depots and carriers as the second argument says, each of whom locks where he is and then
//! where he goes. `twice`: a clerk who counts while he holds what counting locks.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

struct Depot {
    parcels: u32,
}

fn work(most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(random % most));
}

fn carry(from: &Mutex<Depot>, to: &Mutex<Depot>) {
    work(8000);
    let mut here = from.lock().unwrap(); // @ring-takes
    here.parcels -= 1;
    work(5000);
    let mut there = to.lock().unwrap(); // @ring-waits
    there.parcels += 1;
}

fn ring(count: usize) {
    let depots: Vec<Arc<Mutex<Depot>>> = (0..count).map(|_| Arc::new(Mutex::new(Depot { parcels: 9 }))).collect();
    let carriers: Vec<_> = (0..count)
        .map(|at| {
            let (from, to) = (Arc::clone(&depots[at]), Arc::clone(&depots[(at + 1) % count]));
            thread::spawn(move || carry(&from, &to))
        })
        .collect();
    for carrier in carriers {
        carrier.join().unwrap();
    }
}

fn count(depot: &RwLock<Depot>) -> u32 {
    depot.read().unwrap().parcels // @twice-waits
}

fn sort(depot: &RwLock<Depot>) {
    work(3000);
    let mut mine = depot.write().unwrap(); // @twice-takes
    if mine.parcels > 3 {
        mine.parcels = count(depot) - 3;
    }
    mine.parcels += 2;
}

fn twice() {
    let depot = Arc::new(RwLock::new(Depot { parcels: 2 }));
    let clerks: Vec<_> = (0..2)
        .map(|at| {
            let depot = Arc::clone(&depot);
            thread::spawn(move || match at {
                0 => sort(&depot),
                _ => {
                    work(3000);
                    depot.write().unwrap().parcels += 2;
                }
            })
        })
        .collect();
    for clerk in clerks {
        clerk.join().unwrap();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("twice") => twice(),
        _ => ring(arguments.next().and_then(|count| count.parse().ok()).unwrap_or(2)),
    }
}
