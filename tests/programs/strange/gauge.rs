//! A gauge that is read by an inlined function: the failing statement is in it.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;
use std::time::Duration;

struct Gauge {
    level: u64,
    limit: u64,
}

static CURRENT: AtomicPtr<Gauge> = AtomicPtr::new(std::ptr::null_mut());

#[inline(always)]
fn share(gauge: *const Gauge) -> u64 {
    // SAFETY: none. The caller has looked whether there is one, and that was some time ago.
    unsafe { (*gauge).level * 100 / (*gauge).limit } // @use
}

#[inline(always)]
fn level() -> u64 {
    if CURRENT.load(Ordering::Acquire).is_null() {
        return 0; // @none
    }
    thread::yield_now();
    share(CURRENT.load(Ordering::Acquire)) // @again
}

fn watcher() -> u64 {
    let mut sum = 0;
    for _ in 0..40 {
        sum += level();
        thread::sleep(Duration::from_micros(30));
    }
    sum
}

fn changer() {
    for limit in 1..40 {
        let old = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel); // @clear
        thread::sleep(Duration::from_micros(5));
        let fresh = Box::into_raw(Box::new(Gauge { level: limit, limit }));
        CURRENT.store(fresh, Ordering::Release);
        let _kept = old;
        thread::sleep(Duration::from_micros(30));
    }
}

fn main() {
    CURRENT.store(Box::into_raw(Box::new(Gauge { level: 1, limit: 2 })), Ordering::Release);
    let watcher = thread::spawn(watcher);
    let changer = thread::spawn(changer);
    println!("{}", watcher.join().unwrap());
    changer.join().unwrap();
}
