//! A query service for several tenants. A pool of workers takes jobs from a
//! channel; whoever logs or audits finds the tenant in the context.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type TenantId = u32;

/// What the code below the handlers knows about the request.
struct Context {
    tenant: AtomicU32,
    depth: AtomicUsize,
}

static CONTEXT: Context = Context {
    tenant: AtomicU32::new(0),
    depth: AtomicUsize::new(0),
};

#[derive(Debug, Clone)]
enum Query {
    Count { table: String },
    Sum { table: String },
    Largest { table: String },
}

struct Job {
    tenant: TenantId,
    query: Query,
    sent: Instant,
}

struct Answer {
    tenant: TenantId,
    value: i64,
    waited: Duration,
}

struct Database {
    tables: HashMap<(TenantId, String), Vec<i64>>,
}

thread_local! {
    static DICE: RefCell<u64> = const { RefCell::new(0) };
}

fn sleep_between(least: u64, most: u64) {
    let micros = DICE.with(|dice| {
        let mut dice = dice.borrow_mut();
        if *dice == 0 {
            let here = &raw const *dice as u64;
            let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            *dice = here ^ u64::from(clock.map_or(7, |d| d.subsec_nanos())) << 21 | 1;
        }
        *dice ^= *dice >> 12;
        *dice ^= *dice << 25;
        *dice ^= *dice >> 27;
        least + (dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % (most - least)
    });
    thread::sleep(Duration::from_micros(micros));
}

impl Database {
    fn open() -> Database {
        let mut tables = HashMap::new();
        for tenant in 1..=3 {
            for (number, table) in ["orders", "visits"].iter().enumerate() {
                let rows = (0..40).map(|row| row * i64::from(tenant) + number as i64).collect();
                tables.insert((tenant, table.to_string()), rows);
            }
        }
        Database { tables }
    }

    /// The rows of a tenant's table, once they are off the disk.
    fn rows(&self, tenant: TenantId, table: &str) -> &[i64] {
        sleep_between(300, 1900);
        self.tables
            .get(&(tenant, table.to_string()))
            .map_or(&[], Vec::as_slice)
    }

    fn run(&self, tenant: TenantId, query: &Query) -> i64 {
        match query {
            Query::Count { table } => self.rows(tenant, table).len() as i64,
            Query::Sum { table } => self.rows(tenant, table).iter().sum(),
            Query::Largest { table } => self.rows(tenant, table).iter().copied().max().unwrap_or(0),
        }
    }
}

#[derive(Default)]
struct AuditLog {
    entries: Mutex<BTreeMap<TenantId, u64>>,
}

impl AuditLog {
    /// Whose data was looked at is for the context to say; it must be his who asked.
    fn record(&self, asked_by: TenantId) {
        let tenant = CONTEXT.tenant.load(Ordering::Relaxed); // @tenant-read
        assert_eq!(tenant, asked_by, "audit of the wrong tenant"); // @fail
        *self.entries.lock().unwrap().entry(tenant).or_insert(0) += 1;
    }

    fn print(&self) {
        for (tenant, count) in self.entries.lock().unwrap().iter() {
            println!("tenant {tenant}: {count} queries");
        }
        println!("last was {}", CONTEXT.tenant.load(Ordering::Relaxed));
    }
}

struct Service {
    database: Database,
    audit: AuditLog,
}

impl Service {
    fn handle(&self, job: &Job) -> Answer {
        CONTEXT.tenant.store(job.tenant, Ordering::Relaxed); // @tenant-set
        CONTEXT.depth.fetch_add(1, Ordering::Relaxed);
        let value = self.database.run(job.tenant, &job.query);
        self.audit.record(job.tenant); // @record
        CONTEXT.depth.fetch_sub(1, Ordering::Relaxed);
        Answer {
            tenant: job.tenant,
            value,
            waited: job.sent.elapsed(),
        }
    }
}

fn worker(service: Arc<Service>, jobs: Arc<Mutex<Receiver<Job>>>, answers: Sender<Answer>) {
    loop {
        let next = jobs.lock().unwrap().recv();
        let Ok(job) = next else { return };
        let answer = service.handle(&job); // @handle
        if answers.send(answer).is_err() {
            return;
        }
    }
}

fn print_answers(answers: Receiver<Answer>) {
    let mut sums: BTreeMap<TenantId, (i64, Duration)> = BTreeMap::new();
    for answer in answers {
        let sum = sums.entry(answer.tenant).or_default();
        sum.0 += answer.value;
        sum.1 = sum.1.max(answer.waited);
    }
    for (tenant, (sum, waited)) in sums {
        println!("tenant {tenant}: {sum}, at most {waited:?}");
    }
}

fn main() {
    let service = Arc::new(Service {
        database: Database::open(),
        audit: AuditLog::default(),
    });
    let (send_job, jobs) = mpsc::channel();
    let (send_answer, answers) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (service, jobs, answers) = (service.clone(), jobs.clone(), send_answer.clone());
            thread::spawn(move || worker(service, jobs, answers))
        })
        .collect();
    drop(send_answer);

    for number in 0..4u32 {
        sleep_between(500, 14000);
        let table = if number % 2 == 0 { "orders" } else { "visits" }.to_string();
        let query = match number % 3 {
            0 => Query::Count { table },
            1 => Query::Sum { table },
            _ => Query::Largest { table },
        };
        let tenant = number % 3 + 1;
        let sent = Instant::now();
        if send_job.send(Job { tenant, query, sent }).is_err() {
            break;
        }
    }
    drop(send_job);
    for worker in workers {
        let _ = worker.join();
    }
    print_answers(answers);
    service.audit.print();
}
