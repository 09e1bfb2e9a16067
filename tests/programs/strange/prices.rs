//! A table of prices behind a lock. A quote finds the row of an article, and takes it a moment later.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

struct Row {
    article: u32,
    cents: u64,
}

struct Table {
    rows: Mutex<Vec<Row>>,
}

fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

fn find(table: &Table, article: u32) -> Option<usize> {
    let rows = table.rows.lock().unwrap();
    rows.iter().position(|row| row.article == article)
}

fn price(table: &Table, at: usize) -> u64 {
    let rows = table.rows.lock().unwrap();
    rows[at].cents // @fail
}

fn quote(table: &Table) -> u64 {
    let mut sum = 0;
    for _ in 0..3 {
        wait_microseconds(0, 4000);
        if let Some(at) = find(table, 7) {
            wait_microseconds(100, 1500);
            sum += price(table, at);
        }
    }
    sum
}

/// Articles that are not sold any more are at the end.
fn discontinue(table: &Table) {
    wait_microseconds(1000, 22000);
    let mut rows = table.rows.lock().unwrap();
    rows.truncate(5); // @truncate
}

fn print_summary(table: &Table, sum: u64) {
    let rows = table.rows.lock().unwrap();
    println!("{} rows, {sum} cents quoted", rows.len());
}

fn main() {
    let rows = (0..8).map(|n| Row { article: n, cents: 100 + u64::from(n) }).collect();
    let table = Arc::new(Table { rows: Mutex::new(rows) });
    let (one, two) = (table.clone(), table.clone());
    let quoting = thread::spawn(move || quote(&one));
    let pruning = thread::spawn(move || discontinue(&two));
    let sum = quoting.join().unwrap_or(0);
    let _ = pruning.join();
    print_summary(&table, sum);
}
