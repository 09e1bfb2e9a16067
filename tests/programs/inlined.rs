//! A thread that panics in functions which an optimiser puts into one another.

use std::thread;

fn pick(values: &[usize], at: usize) -> usize {
    values[at] // @fail
}

fn work(values: Vec<usize>, from: usize) -> usize {
    let mut sum = 0;
    for at in from..from + 4 {
        sum += pick(&values, at);
    }
    sum
}

fn main() {
    let values: Vec<usize> = std::env::args().map(|word| word.len()).collect();
    let worker = thread::spawn(move || work(values, 1));
    let _ = worker.join();
}
