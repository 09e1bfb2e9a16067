//! Statics of a Rust program, each written once by the line that its mark names.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(1);

mod depot {
    pub static mut LEVEL: u32 = 2;
}

fn main() {
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
    COUNT.store(51, Ordering::SeqCst); // @count
    // SAFETY: there is one thread.
    unsafe { depot::LEVEL = std::env::args().count() as u32 + 51 }; // @level
    let count = COUNT.load(Ordering::SeqCst) as i32;
    // SAFETY: as above.
    std::process::exit(unsafe { depot::LEVEL as i32 } - count + 2);
}
