//! Jobs in a buffer that is filled once; thieves only move its front.

use crate::wait_microseconds;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub struct Job {
    pub number: usize,
    input: Vec<u8>,
    started: AtomicBool,
}

impl Job {
    fn new(number: usize) -> Job {
        let input = (0..40).map(|i| (i * 7 + number) as u8).collect();
        Job {
            number,
            input,
            started: AtomicBool::new(false),
        }
    }

    /// Whether the job was still to be started.
    pub fn start(&self) -> bool {
        !self.started.swap(true, Ordering::AcqRel) // @started
    }

    /// Reads the job's input from the disk, so that it can start at once.
    fn prefetch(&self) -> u32 {
        let sum = self.input.iter().map(|byte| u32::from(*byte)).sum();
        wait_microseconds(200, 700);
        sum
    }
}

pub struct Queue {
    jobs: Vec<Job>,
    front: AtomicUsize,
    fetched: AtomicUsize,
}

impl Queue {
    pub fn new(count: usize) -> Queue {
        Queue {
            jobs: (0..count).map(Job::new).collect(),
            front: AtomicUsize::new(0),
            fetched: AtomicUsize::new(0),
        }
    }

    /// Takes the job at the front.
    pub fn steal(&self) -> Option<&Job> {
        let front = self.front.load(Ordering::Acquire); // @front-read
        let job = self.jobs.get(front)?;
        let sum = job.prefetch();
        self.fetched.fetch_add(sum as usize, Ordering::Relaxed);
        self.front.store(front + 1, Ordering::Release); // @front-write
        Some(job)
    }

    pub fn left(&self) -> usize {
        let front = self.front.load(Ordering::Acquire);
        self.jobs.len() - front
    }
}
