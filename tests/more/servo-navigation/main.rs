//! A browser's constellation: the navigator loads pages and keeps the one in
//! work in a shared place, where the "stop" button may cancel it.

use std::collections::hash_map::RandomState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Debug, Clone)]
struct Load {
    id: u32,
    url: String,
    body: Vec<u8>,
}

#[derive(Default)]
struct Pipeline {
    pending: Mutex<Option<Load>>,
    history: Mutex<Vec<String>>,
    cancelled: Mutex<u32>,
}

/// A random time between two bounds, standing for networks and people.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

impl Pipeline {
    fn start(&self, id: u32, url: &str) {
        let load = Load {
            id,
            url: url.to_string(),
            body: Vec::new(),
        };
        *self.pending.lock().unwrap() = Some(load); // @pending-set
    }

    /// The page replaces the one shown.
    fn commit(&self, body: Vec<u8>) -> usize {
        let pending = self.pending.lock().unwrap().take(); // @pending-take
        let mut load = pending.unwrap(); // @fail
        load.body = body;
        let size = load.body.len();
        self.history.lock().unwrap().push(format!("{}:{}", load.id, load.url));
        size
    }

    /// Whether there was something to stop.
    fn stop(&self) -> bool {
        let mut pending = self.pending.lock().unwrap();
        if pending.is_none() {
            return false;
        }
        *pending = None; // @pending-clear
        *self.cancelled.lock().unwrap() += 1;
        true
    }
}

fn fetch(url: &str) -> Vec<u8> {
    wait_microseconds(300, 2200);
    url.bytes().rev().cycle().take(url.len() * 4).collect()
}

fn navigate(pipeline: Arc<Pipeline>) -> usize {
    let urls = ["https://a.example/", "https://b.example/news", "https://c.example/map"];
    let mut bytes = 0;
    for (id, url) in urls.iter().enumerate() {
        wait_microseconds(1000, 7000);
        pipeline.start(id as u32, url); // @start
        let body = fetch(url);
        bytes += pipeline.commit(body); // @commit
    }
    bytes
}

/// Somebody at the keys: an escape stops what is being loaded.
fn handle_keys(pipeline: Arc<Pipeline>) -> BTreeMap<char, u32> {
    let mut pressed = BTreeMap::new();
    for key in ['j', '\u{1b}', 'k'] {
        wait_microseconds(500, 6500);
        *pressed.entry(key).or_insert(0) += 1;
        if key == '\u{1b}' {
            pipeline.stop(); // @stop
        }
    }
    pressed
}

fn print_history(pipeline: &Pipeline, bytes: usize, keys: u32) {
    let pending = pipeline.pending.lock().unwrap().is_some();
    println!(
        "{bytes} bytes, {keys} keys, pending: {pending}, cancelled: {}",
        pipeline.cancelled.lock().unwrap()
    );
    for entry in pipeline.history.lock().unwrap().iter() {
        println!("  {entry}");
    }
}

fn main() {
    let pipeline = Arc::new(Pipeline::default());
    let for_keys = Arc::clone(&pipeline);
    let for_navigator = Arc::clone(&pipeline);
    let keys = thread::spawn(move || handle_keys(for_keys));
    let navigator = thread::spawn(move || navigate(for_navigator));
    let bytes = navigator.join().unwrap_or(0);
    let pressed = keys.join().unwrap_or_default();
    print_history(&pipeline, bytes, pressed.values().sum());
}
