//! The store in a database: SQLite in one file, or PostgreSQL for several servers. The queries are the same.
//!
//! - `connect`: which database, and its settings
//! - `migrate`: tables of older versions
//! - `lane`, `append`: runs into logs, the hot path
//! - `holdings`: how much is stored for whom
//! - `cases`, `bugs`, `hosts`, `modules`, `objects`, `retire`: everything else; `pages`: what pages show
//! - `rows`, `error`: what comes back from a database

mod append;
mod bugs;
mod cases;
mod connect;
mod error;
mod holdings;
mod hosts;
mod lane;
mod migrate;
mod modules;
mod objects;
mod pages;
mod retire;
mod rows;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use program::BuildId;
use sqlx::any::AnyPoolOptions;
use sqlx::{Any, AnyConnection, AnyPool, Connection as _, Transaction};
use tokio::sync::{Mutex, MutexGuard};
use tonic::async_trait;

use super::model::{
    Appended, Audit, BugId, BugRow, Case, CaseRow, Derived, FailureSeen, HostRow, HourOf, ModuleRow, NewCase,
    NewObject, NewRun, Overview, Owner, Quotas, Retention, Retired, RunRow, Standing, State, StoredRun,
};
use super::objects::Objects;
use super::{Store, StoreError};
use connect::{Address, Dialect};
use lane::Lanes;
use migrate::{MIGRATIONS, Migration, migrate};

/// Opens the store at `postgres://…`, `sqlite:PATH` or a path; makes it if there is none, and brings an older one up to date.
///
/// # Errors
/// If it is out of reach, newer than this failsketch, or no store.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    open_within(url, Quotas::default()).await
}

/// The same, where whoever reports may store so much and no more.
///
/// # Errors
/// As [`open`].
pub async fn open_within(url: &str, quotas: Quotas) -> Result<Arc<dyn Store>, StoreError> {
    let mut store = SqlStore::open(url, MIGRATIONS).await?;
    store.quotas = quotas;
    Ok(Arc::new(store))
}

#[derive(Debug)]
struct SqlStore {
    address: Address,
    /// For everything but runs.
    pool: AnyPool,
    lanes: Lanes,
    quotas: Quotas,
    /// SQLite has one writer at a time. Those in this process queue here, in order; its own way of waiting is to try again
    /// now and then, at which a busy lane would nearly always be faster.
    turn: Option<Arc<Mutex<()>>>,
}

/// Whoever asks is told that the database is busy or away rather than kept waiting for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between attempts to open a file that others are about to make.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// Readers at once. PostgreSQL's default is a hundred connections for everybody.
const CONNECTIONS: u32 = 8;

/// Makes the tables, or brings them up to date.
async fn up_to_date(address: &Address, migrations: &[Migration]) -> Result<(), StoreError> {
    let mut connection = address.connect().await?;
    migrate(&mut connection, address.dialect, migrations).await?;
    Ok(connection.close().await?)
}

impl SqlStore {
    async fn open(url: &str, migrations: &[Migration]) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let until = Instant::now() + PATIENCE;
        while let Err(error) = up_to_date(&address, migrations).await {
            // SQLite makes its file in steps at which it tells others that it is busy, whatever they have said of waiting.
            let is_busy = matches!(error, StoreError::Unavailable(_)) && address.dialect == Dialect::Sqlite;
            if !is_busy || Instant::now() >= until {
                return Err(error);
            }
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
        let dialect = address.dialect;
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| Box::pin(connect::prepare(dialect, connection)))
            .connect_lazy_with(address.options.clone());
        let turn = (dialect == Dialect::Sqlite).then(Arc::default);
        Ok(Self {
            lanes: Lanes::open(&address, turn.as_ref()),
            address,
            pool,
            quotas: Quotas::default(),
            turn,
        })
    }

    /// Begins a transaction that writes.
    async fn write(&self) -> Result<Writing<'_>, StoreError> {
        let turn = match &self.turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        Ok(Writing {
            transaction: self.pool.begin_with(self.address.dialect.begin()).await?,
            _turn: turn,
        })
    }
}

/// A transaction that writes. Nothing of it is done unless it is committed.
struct Writing<'a> {
    transaction: Transaction<'static, Any>,
    _turn: Option<MutexGuard<'a, ()>>,
}

impl Writing<'_> {
    async fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit().await?)
    }
}

impl Deref for Writing<'_> {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.transaction
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }
}

#[async_trait]
impl Store for SqlStore {
    async fn host(&self, host: HostRow, owner: &Owner) -> Result<Standing, StoreError> {
        self.note_host(&host, owner).await
    }

    async fn claim(&self, host: &str, owner: &Owner, at: u64) -> Result<Standing, StoreError> {
        self.claim_host(host, owner, at).await
    }

    async fn release(&self, host: &str) -> Result<bool, StoreError> {
        self.release_host(host).await
    }

    async fn host_count(&self) -> Result<u64, StoreError> {
        self.count_hosts().await
    }

    async fn hosts(&self) -> Result<Vec<HostRow>, StoreError> {
        self.read_hosts().await
    }

    async fn open(&self, case: NewCase) -> Result<bool, StoreError> {
        self.open_case(case).await
    }

    async fn failed(&self, case: &Case, seen: FailureSeen) -> Result<bool, StoreError> {
        self.count_failure(case, &seen).await
    }

    async fn append(&self, case: &Case, runs: Vec<NewRun>) -> Result<Vec<Appended>, StoreError> {
        self.lanes.append(case, runs).await
    }

    async fn runs_after(&self, case: &Case, seq: u64, most: u32) -> Result<Vec<StoredRun>, StoreError> {
        self.read_runs(case, seq, most).await
    }

    async fn case(&self, case: &Case) -> Result<Option<CaseRow>, StoreError> {
        self.read_case(case).await
    }

    async fn cases_of_build(&self, program: &str, build: &BuildId) -> Result<Vec<CaseRow>, StoreError> {
        self.read_cases_of_build(program, build).await
    }

    async fn derive(&self, case: &Case, derived: Derived) -> Result<bool, StoreError> {
        self.keep_derived(case, &derived).await
    }

    async fn derived(&self, case: &Case) -> Result<Option<Derived>, StoreError> {
        self.read_derived(case).await
    }

    async fn bugs(&self, program: Option<&str>, most: u32) -> Result<Vec<BugRow>, StoreError> {
        self.read_bugs(program, most).await
    }

    async fn bug(&self, bug: &BugId) -> Result<Option<BugRow>, StoreError> {
        self.read_bug(bug).await
    }

    async fn cases_of_bug(&self, bug: &BugId) -> Result<Vec<CaseRow>, StoreError> {
        self.read_cases_of_bug(bug).await
    }

    async fn steer(&self, bug: &BugId, state: State, widen: u32, audit: Audit) -> Result<(), StoreError> {
        self.steer_bug(bug, &state, widen, &audit).await
    }

    async fn audit(&self, most: u32) -> Result<Vec<Audit>, StoreError> {
        self.read_audit(most).await
    }

    async fn object(&self, object: NewObject, owner: &Owner) -> Result<(), StoreError> {
        self.note_object(&object, owner).await
    }

    async fn holding(&self, owner: &Owner) -> Result<u64, StoreError> {
        self.read_holding(owner).await
    }

    async fn remove_objects(&self, objects: &dyn Objects, before: u64) -> Result<u64, StoreError> {
        SqlStore::remove_objects(self, objects, before).await
    }

    async fn module(&self, module: ModuleRow, owner: &Owner) -> Result<(), StoreError> {
        self.note_module(&module, owner).await
    }

    async fn modules(&self, builds: &[BuildId]) -> Result<Vec<ModuleRow>, StoreError> {
        self.read_modules(builds).await
    }

    async fn modules_seen(&self, builds: &[BuildId], at: u64) -> Result<Vec<ModuleRow>, StoreError> {
        self.note_modules_seen(builds, at).await?;
        self.read_modules(builds).await
    }

    async fn retire(&self, retention: Retention, now: u64) -> Result<Retired, StoreError> {
        self.forget(retention, now).await
    }

    async fn overview(&self, words: &[String], most: u32) -> Result<Vec<Overview>, StoreError> {
        self.read_overview(words, most).await
    }

    async fn overview_of(&self, bug: &BugId) -> Result<Option<Overview>, StoreError> {
        self.read_overview_of(bug).await
    }

    async fn trend(&self, bugs: &[BugId], from_hour: u64) -> Result<Vec<HourOf>, StoreError> {
        self.read_trend(bugs, from_hour).await
    }

    async fn reporters(&self, bugs: &[BugId]) -> Result<Vec<(BugId, u64)>, StoreError> {
        self.read_reporters(bugs).await
    }

    async fn hosts_named(&self, ids: &[String]) -> Result<Vec<HostRow>, StoreError> {
        self.read_hosts_named(ids).await
    }

    async fn runs_numbered(&self, case: &Case, seqs: &[u64]) -> Result<Vec<RunRow>, StoreError> {
        self.read_runs_numbered(case, seqs).await
    }

    async fn audit_of(&self, bug: &BugId, most: u32) -> Result<Vec<Audit>, StoreError> {
        self.read_audit_of(bug, most).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let one: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM migrations WHERE version = 1")
            .fetch_one(&self.pool)
            .await?;
        match one {
            1 => Ok(()),
            _ => Err(StoreError::Damaged("its tables are gone".to_owned())),
        }
    }
}
