//! Where a scenario takes place, and what happens in it.

use std::sync::Arc;

use failsketch_tests::folder::Folder;
use failsketch_tests::postgres::Postgres;
use program::BuildId;
use server::store::model::{Appended, BugId, Case, FailureSeen, NewCase, NewRun, StoredRun};
use server::store::{Body, Store};

/// A database.
pub enum Place {
    Sqlite(Folder),
    Postgres(Postgres),
}

impl Place {
    pub fn sqlite() -> Self {
        Self::Sqlite(Folder::new("store"))
    }

    pub fn postgres() -> Self {
        Self::Postgres(Postgres::start())
    }

    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("store.db").display()),
            Self::Postgres(postgres) => postgres.url(),
        }
    }

    /// Opens the store, as another server would.
    pub async fn open(&self) -> Arc<dyn Store> {
        server::store::open(&self.url()).await.expect("the store opens")
    }
}

/// Makes a test of each scenario (`async fn(&Place)`) for each database.
macro_rules! on_both {
    ($($scenario:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $scenario() {
                super::$scenario(&$crate::place::Place::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $scenario() {
                super::$scenario(&$crate::place::Place::postgres()).await;
            })*
        }
    };
}
pub(crate) use on_both;

/// Whose cases there are.
pub const PROGRAM: &str = "compress";

pub fn build(number: u8) -> BuildId {
    BuildId(vec![number; 20])
}

pub fn case(bug: &str) -> Case {
    Case {
        bug: BugId(bug.to_owned()),
        build: build(1),
    }
}

pub fn seen(id: &str, at: u64) -> FailureSeen {
    FailureSeen {
        id: id.to_owned(),
        host: "host-1".to_owned(),
        at,
    }
}

pub fn new_case(case: &Case, at: u64) -> NewCase {
    NewCase {
        case: case.clone(),
        program: PROGRAM.to_owned(),
        signature: "SIGSEGV queue_take:82 < consumer".to_owned(),
        modules: "[]".into(),
        report: "{}".into(),
        runs: 7,
        seen: seen(&format!("opening-{at}"), at),
    }
}

/// Opens a case at time 1000.
pub async fn opened(store: &dyn Store, bug: &str) -> Case {
    let case = case(bug);
    assert!(store.open(new_case(&case, 1000)).await.expect("a case opens"));
    case
}

pub fn run(id: impl Into<String>) -> NewRun {
    let id = id.into();
    NewRun {
        host: "host-2".to_owned(),
        at: 1001,
        failed: false,
        body: Body::Inline(format!("{{\"run\":\"{id}\"}}").into()),
        id,
    }
}

pub fn runs<const N: usize>(ids: [&str; N]) -> Vec<NewRun> {
    ids.into_iter().map(run).collect()
}

/// The whole log, read in small steps.
pub async fn log(store: &dyn Store, case: &Case) -> Vec<StoredRun> {
    let mut log: Vec<StoredRun> = Vec::new();
    loop {
        let last = log.last().map_or(0, |run| run.seq);
        let more = store
            .runs_after(case, last, 100)
            .await
            .expect("the log can be read");
        if more.is_empty() {
            return log;
        }
        log.extend(more);
    }
}

/// Numbers and ids of the whole log.
pub async fn entries(store: &dyn Store, case: &Case) -> Vec<(u64, String)> {
    let log = log(store, case).await;
    log.into_iter().map(|run| (run.seq, run.id)).collect()
}

pub fn stored(appended: &[Appended]) -> Vec<u64> {
    let numbers = appended.iter().filter_map(|appended| match appended {
        Appended::Stored(seq) => Some(*seq),
        Appended::Duplicate => None,
    });
    numbers.collect()
}
