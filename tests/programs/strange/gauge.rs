//! A gauge that is read by an inlined function: the failing statement is in it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;
use std::time::Duration;

struct Gauge {
    level: u64,
    limit: u64,
}

static CURRENT: AtomicPtr<Gauge> = AtomicPtr::new(std::ptr::null_mut());

/// Waits for a device, for some time between two bounds in microseconds.
fn wait(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least)));
}

#[inline(always)]
fn share(gauge: *const Gauge) -> u64 {
    // SAFETY: none. The caller has looked whether there is one, and that was some time ago.
    unsafe { (*gauge).level * 100 / (*gauge).limit } // @use
}

#[inline(always)]
fn level() -> u64 {
    if CURRENT.load(Ordering::Acquire).is_null() { // @check
        return 0; // @none
    }
    wait(500, 1500);
    share(CURRENT.load(Ordering::Acquire)) // @again
}

fn watcher() -> u64 {
    let mut sum = 0;
    for _ in 0..5 {
        wait(1000, 5000);
        sum += level();
    }
    sum
}

fn changer() {
    wait(1000, 18000);
    let old = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel); // @clear
    wait(2500, 4500);
    let fresh = Box::into_raw(Box::new(Gauge { level: 2, limit: 3 }));
    CURRENT.store(fresh, Ordering::Release);
    let _kept = old;
}

fn main() {
    CURRENT.store(Box::into_raw(Box::new(Gauge { level: 1, limit: 2 })), Ordering::Release);
    let watcher = thread::spawn(watcher);
    let changer = thread::spawn(changer);
    println!("{}", watcher.join().unwrap());
    changer.join().unwrap();
}
