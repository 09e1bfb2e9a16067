//! A crawler with a pool of workers. A site allows only so many connections at a time, so each site
//! has permits that a worker takes before it connects and gives back afterwards.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const WORKERS: usize = 3;
const MOST_CONNECTIONS: usize = 2;

/// A random time between two bounds, as peers and disks need.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

#[derive(Debug)]
struct Site {
    name: &'static str,
    in_use: AtomicUsize,
    refusals: AtomicUsize,
}

impl Site {
    fn new(name: &'static str) -> Arc<Site> {
        Arc::new(Site {
            name,
            in_use: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
        })
    }

    /// Takes a permit if there is one left and the site answers.
    fn try_acquire(self: &Arc<Site>) -> Option<Permit> {
        let now = self.in_use.load(Ordering::SeqCst); // @load
        if now >= MOST_CONNECTIONS {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.resolve();
        self.in_use.store(now + 1, Ordering::SeqCst); // @store
        Some(Permit { site: self.clone() })
    }

    /// The name server needs a moment, most often a short one.
    fn resolve(&self) {
        wait_microseconds(20, 45 * self.name.len() as u64);
    }

    fn release(&self) {
        let before = self.in_use.fetch_sub(1, Ordering::SeqCst); // @release
        assert!(before > 0, "{}: more permits back than out", self.name); // @fail
    }
}

/// One connection's worth of permission; it goes back when it is dropped.
struct Permit {
    site: Arc<Site>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.site.release(); // @drop
    }
}

#[derive(Debug, Clone)]
struct Page {
    site: Arc<Site>,
    path: String,
}

#[derive(Debug)]
struct Fetched {
    path: String,
    bytes: usize,
    worker: usize,
}

/// The pages that are still to be fetched.
#[derive(Default)]
struct Frontier {
    pages: Mutex<VecDeque<Page>>,
    changed: Condvar,
}

impl Frontier {
    fn push(&self, page: Page) {
        self.pages.lock().unwrap().push_back(page);
        self.changed.notify_one();
    }

    fn pop(&self) -> Option<Page> {
        let pages = self.pages.lock().unwrap();
        let wait = Duration::from_millis(4);
        let (mut pages, _) = self.changed.wait_timeout_while(pages, wait, |p| p.is_empty()).unwrap();
        pages.pop_front()
    }
}

fn fetch(page: &Page, worker: usize) -> Option<Fetched> {
    let _permit = page.site.try_acquire()?; // @acquire
    wait_microseconds(300, 2500);
    Some(Fetched {
        path: format!("{}{}", page.site.name, page.path),
        bytes: 1000 + page.path.len() * 37,
        worker,
    })
}

fn crawl(frontier: Arc<Frontier>, results: Sender<Fetched>, worker: usize) {
    while let Some(page) = frontier.pop() {
        wait_microseconds(100, 3000); // robots.txt, and good manners
        match fetch(&page, worker) { // @fetch
            Some(fetched) => results.send(fetched).unwrap(),
            None => frontier.push(page),
        }
    }
}

fn print_sites(sites: &[Arc<Site>]) {
    for site in sites {
        println!(
            "{}: {} in use, {} refusals",
            site.name,
            site.in_use.load(Ordering::SeqCst),
            site.refusals.load(Ordering::Relaxed)
        );
    }
}

fn main() {
    let sites = [Site::new("news.example"), Site::new("wiki.example")];
    let frontier = Arc::new(Frontier::default());
    for i in 0..5 {
        let site = sites[i % sites.len()].clone();
        frontier.push(Page { site, path: format!("/page/{i}") });
    }

    let (results, fetched) = channel();
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let frontier = frontier.clone();
            let results = results.clone();
            thread::spawn(move || crawl(frontier, results, number))
        })
        .collect();
    drop(results);

    let mut by_worker: HashMap<usize, usize> = HashMap::new();
    let mut longest = 0;
    for page in fetched {
        *by_worker.entry(page.worker).or_default() += page.bytes;
        longest = longest.max(page.path.len());
    }
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{} bytes, longest path {longest}", by_worker.values().sum::<usize>());
    print_sites(&sites);
}
