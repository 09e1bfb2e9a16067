//! Panics in the way that its argument names.

use std::sync::Mutex;
use std::thread;

#[inline(never)]
fn pick(cells: &[u32], at: usize) -> u32 {
    cells[at] // @index
}

#[inline(never)]
fn agree(one: u32, other: u32) {
    assert_eq!(one, other, "they differ"); // @assert
}

static SHARED: Mutex<u32> = Mutex::new(0);

fn main() {
    let way = std::env::args().nth(1).unwrap_or_default();
    match way.as_str() {
        "index" => println!("{}", pick(&[1, 2, 3], way.len())),
        "assert" => agree(way.len() as u32, 7),
        // The second panic is a consequence of the first.
        "thread" => {
            let _ = thread::spawn(|| {
                let _held = SHARED.lock();
                agree(1, 2);
            })
            .join();
            let _poisoned = SHARED.lock().unwrap();
        }
        _ => std::process::abort(),
    }
}
