//! A link checker: workers take addresses from a shared list and send what
//! they find to the main thread, which collects until its time is over.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const BUDGET: Duration = Duration::from_micros(14_500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    Found,
    Moved,
    Gone,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Status::Found => "200",
            Status::Moved => "301",
            Status::Gone => "410",
        })
    }
}

#[derive(Debug)]
struct Finding {
    url: &'static str,
    status: Status,
}

type WorkList = Arc<Mutex<VecDeque<&'static str>>>;

/// A random time between two bounds, standing for networks.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

fn request(url: &str) -> Status {
    wait_microseconds(500, 6000);
    match url.bytes().map(usize::from).sum::<usize>() % 3 {
        0 => Status::Found,
        1 => Status::Moved,
        _ => Status::Gone,
    }
}

fn report(results: &Sender<Finding>, url: &'static str, status: Status) {
    let sent = results.send(Finding { url, status }); // @send
    sent.unwrap(); // @fail
}

fn check_links(work: WorkList, results: Sender<Finding>) -> usize {
    let mut checked = 0;
    loop {
        let next = work.lock().unwrap().pop_front();
        let Some(url) = next else { break };
        let status = request(url);
        report(&results, url, status); // @report
        checked += 1;
    }
    checked
}

/// Collects until every worker is done, or for as long as the budget says.
fn collect(results: Receiver<Finding>, budget: Duration) -> HashMap<Status, u32> {
    let end = Instant::now() + budget;
    let mut counts = HashMap::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match results.recv_timeout(left) {
            Ok(finding) if finding.url.is_empty() => continue,
            Ok(finding) => *counts.entry(finding.status).or_insert(0) += 1,
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(results); // @drop
    counts
}

fn print_counts(counts: &HashMap<Status, u32>, checked: usize) {
    for status in [Status::Found, Status::Moved, Status::Gone] {
        println!("{status}: {}", counts.get(&status).unwrap_or(&0));
    }
    println!("{checked} links checked");
}

fn main() {
    let urls = ["/", "/about", "/news", "/news/1", "/contact", "/feed"];
    let work: WorkList = Arc::new(Mutex::new(urls.into_iter().collect()));
    let (sender, receiver) = mpsc::channel();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (work, sender) = (Arc::clone(&work), sender.clone());
            thread::spawn(move || check_links(work, sender)) // @spawn
        })
        .collect();
    drop(sender);
    let counts = collect(receiver, BUDGET); // @collect
    let checked = workers.into_iter().map(|w| w.join().unwrap_or(0)).sum();
    print_counts(&counts, checked);
}
