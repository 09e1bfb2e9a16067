//! A gateway that checks every request against settings which an operator may
//! change at any time. The settings are behind one atomic pointer, so that
//! requests read them without a lock.

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, PartialEq)]
enum Access {
    Open,
    Limited { per_minute: u32 },
    Closed,
}

struct Settings {
    revision: u32,
    routes: HashMap<String, Access>,
}

#[derive(Debug)]
enum ParseError {
    NoColon(usize),
    BadLimit(usize),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::NoColon(line) => write!(f, "line {line}: no colon"),
            ParseError::BadLimit(line) => write!(f, "line {line}: bad limit"),
        }
    }
}

impl Settings {
    fn parse(revision: u32, text: &str) -> Result<Settings, ParseError> {
        let mut routes = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let (route, access) = line.split_once(':').ok_or(ParseError::NoColon(number))?;
            let access = match access.trim() {
                "open" => Access::Open,
                "closed" => Access::Closed,
                limit => Access::Limited {
                    per_minute: limit.parse().map_err(|_| ParseError::BadLimit(number))?,
                },
            };
            routes.insert(route.trim().to_string(), access);
        }
        Ok(Settings { revision, routes })
    }
}

const FILES: [&str; 2] = [
    "/login: 30\n/search: open\n/admin: closed\n/export: 5",
    "/login: 60\n/search: open\n/admin: closed\n/export: 2",
];

struct Gateway {
    settings: AtomicPtr<Settings>,
    answered: AtomicUsize,
    refused: AtomicUsize,
}

/// A small generator of its own for each thread.
struct Jitter(u64);

impl Jitter {
    fn new(salt: u64) -> Jitter {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Jitter((u64::from(now.subsec_nanos()) << 17 | salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn sleep(&mut self, least: u64, most: u64) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        thread::sleep(Duration::from_micros(least + (self.0 >> 20) % (most - least)));
    }
}

impl Gateway {
    fn new(text: &str) -> Result<Gateway, ParseError> {
        let settings = Box::into_raw(Box::new(Settings::parse(1, text)?));
        Ok(Gateway {
            settings: AtomicPtr::new(settings),
            answered: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        })
    }

    /// Without settings everything is closed.
    fn allows(&self, route: &str) -> bool {
        let current = self.settings.load(Ordering::Acquire); // @settings-read
        if current.is_null() { // @no-settings
            return false;
        }
        // Old settings are never freed: a request may still look at them.
        let settings = unsafe { &*current };
        !matches!(settings.routes.get(route), None | Some(Access::Closed))
    }

    /// Takes the old settings out, so that nobody goes by them any more, and
    /// puts the new ones in when they are read.
    fn reload(&self, jitter: &mut Jitter, text: &str) {
        let old = self.settings.swap(ptr::null_mut(), Ordering::AcqRel); // @settings-take
        let revision = unsafe { (*old).revision } + 1;
        jitter.sleep(1500, 4500); // the file comes from another host
        let fresh = match Settings::parse(revision, text) {
            Ok(settings) => Box::into_raw(Box::new(settings)),
            Err(error) => {
                eprintln!("settings kept: {error}");
                old
            }
        };
        self.settings.store(fresh, Ordering::Release); // @settings-put
    }

    fn print_state(&self) {
        let current = self.settings.load(Ordering::Acquire);
        let revision = if current.is_null() { 0 } else { unsafe { (*current).revision } };
        println!(
            "revision {revision}, {} answered, {} refused",
            self.answered.load(Ordering::Relaxed),
            self.refused.load(Ordering::Relaxed)
        );
    }
}

/// A client that only asks for what is open to everybody.
fn client(gateway: &Gateway) {
    let mut jitter = Jitter::new(2);
    for _ in 0..4 {
        jitter.sleep(500, 9000);
        let allowed = gateway.allows("/search"); // @ask
        if allowed {
            gateway.answered.fetch_add(1, Ordering::Relaxed);
        } else {
            gateway.refused.fetch_add(1, Ordering::Relaxed);
        }
        jitter.sleep(5500, 7000);
        assert!(allowed, "an open route was refused"); // @fail
    }
}

fn operator(gateway: &Gateway) {
    let mut jitter = Jitter::new(3);
    jitter.sleep(1000, 70000);
    gateway.reload(&mut jitter, FILES[1]); // @reload
}

fn main() {
    let gateway = match Gateway::new(FILES[0]) {
        Ok(gateway) => Arc::new(gateway),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let for_client = Arc::clone(&gateway);
    let for_operator = Arc::clone(&gateway);
    let threads = [
        thread::spawn(move || client(&for_client)),
        thread::spawn(move || operator(&for_operator)),
    ];
    for thread in threads {
        let _ = thread.join();
    }
    gateway.print_state();
}
