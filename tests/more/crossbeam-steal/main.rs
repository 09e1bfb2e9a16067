//! A pool of workers that share one queue of jobs: every worker takes the job
//! at the front, decodes its input, and moves the front on.

mod queue;

use queue::{Job, Queue};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const WORKERS: usize = 2;
const JOBS: usize = 4;

static TILES: AtomicUsize = AtomicUsize::new(0);

/// A random time between two bounds, standing for disks.
pub fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

/// Renders a tile. The pixels belong to the job, so that it can run only once.
fn run_job(job: &Job) -> usize {
    let queued = job.start(); // @start
    assert!(queued, "job {} ran before", job.number); // @fail
    let pixels = job.number * 64 + 16;
    TILES.fetch_add(1, Ordering::Relaxed);
    pixels
}

fn work(queue: &Queue) -> usize {
    let mut pixels = 0;
    loop {
        wait_microseconds(500, 22000);
        match queue.steal() { // @steal
            Some(job) => pixels += run_job(job), // @run
            None => return pixels,
        }
    }
}

fn print_tiles(queue: &Queue, pixels: usize) {
    let tiles = TILES.load(Ordering::Relaxed);
    println!("{tiles} tiles, {pixels} pixels, {} left", queue.left());
}

fn main() {
    let queue = Arc::new(Queue::new(JOBS));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || work(&queue))
        })
        .collect();
    let pixels = workers.into_iter().map(|w| w.join().unwrap_or(0)).sum();
    print_tiles(&queue, pixels);
}
