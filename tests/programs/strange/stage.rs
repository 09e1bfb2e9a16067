//! A stage between two threads whose two parts are set one after the other: whoever takes the item in between finds none and
//! panics. The other thread panics on the lock that is poisoned then, and `main` on the thread that it joins.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

struct Stage {
    len: usize,
    item: Option<Box<u64>>,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage { len: 0, item: None });

fn produce(number: u64) {
    STAGE.lock().unwrap().len = 1; // @announce
    thread::yield_now();
    STAGE.lock().unwrap().item = Some(Box::new(number)); // @poisoned
}

fn consume() -> u64 {
    let mut stage = STAGE.lock().unwrap();
    if stage.len == 0 {
        return 0; // @empty
    }
    stage.len = 0;
    *stage.item.take().unwrap() // @take
}

fn producer() {
    for number in 1..8 {
        produce(number);
        thread::sleep(Duration::from_micros(90));
    }
}

fn consumer() -> u64 {
    let mut sum = 0;
    for _ in 0..12 {
        sum += consume();
        thread::sleep(Duration::from_micros(40));
    }
    sum
}

fn main() {
    if std::env::args().any(|argument| argument == "caught") {
        let none: Option<u64> = std::env::args().nth(2).map(|text| text.len() as u64);
        assert!(catch_unwind(|| none.unwrap()).is_err());
        return;
    }
    let producer = thread::spawn(producer);
    let consumer = thread::spawn(consumer);
    producer.join().unwrap(); // @join
    println!("{}", consumer.join().unwrap());
}
