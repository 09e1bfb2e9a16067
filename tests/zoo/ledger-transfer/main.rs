//! Two ledgers and the clerks who move money between them. A transfer locks
//! the ledger it takes from, then the one it gives to.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

struct Ledger {
    balance: i64,
    entries: Vec<String>,
}

static SAVINGS: Mutex<Ledger> = Mutex::new(Ledger {
    balance: 900,
    entries: Vec::new(),
});
static CURRENT: Mutex<Ledger> = Mutex::new(Ledger {
    balance: 400,
    entries: Vec::new(),
});

/// A random time between two bounds, standing for disks and networks.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

/// The audit trail is on disk: the entry is there before the money moves.
fn record(ledger: &mut Ledger, text: String) {
    ledger.entries.push(text);
    wait_microseconds(1000, 4000);
}

fn save(amount: i64) {
    let mut current = CURRENT.lock().unwrap(); // @save-first
    record(&mut current, format!("to savings {amount}"));
    let mut savings = SAVINGS.lock().unwrap(); // @fail
    current.balance -= amount;
    savings.balance += amount;
    savings.entries.push(format!("from current {amount}"));
}

fn withdraw(amount: i64) {
    let mut savings = SAVINGS.lock().unwrap(); // @withdraw-first
    record(&mut savings, format!("to current {amount}"));
    let mut current = CURRENT.lock().unwrap(); // @withdraw-second
    savings.balance -= amount;
    current.balance += amount;
    current.entries.push(format!("from savings {amount}"));
}

fn saver() {
    for amount in [50, 75] {
        wait_microseconds(0, 30000);
        save(amount); // @save
    }
}

fn spender() {
    wait_microseconds(0, 60000);
    withdraw(30); // @withdraw
}

fn print_balance(name: &str, ledger: &Mutex<Ledger>) {
    let ledger = ledger.lock().unwrap();
    println!(
        "{name}: {} after {} entries",
        ledger.balance,
        ledger.entries.len()
    );
}

fn main() {
    let clerks = [thread::spawn(saver), thread::spawn(spender)];
    for clerk in clerks {
        clerk.join().unwrap();
    }
    print_balance("savings", &SAVINGS);
    print_balance("current", &CURRENT);
}
