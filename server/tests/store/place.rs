//! Where a scenario takes place, and what happens in it.

use std::sync::Arc;

use failsketch_tests::folder::Folder;
use failsketch_tests::postgres::Postgres;
use program::BuildId;
use server::store::model::{
    Appended, BugId, Case, FailureSeen, ModuleRow, NewCase, NewObject, NewRun, Owner, StoredRun,
};
use server::store::objects::Objects;
use server::store::objects::folder::FolderObjects;
use server::store::{Body, Store};
use sqlx::{AnyConnection, Connection as _};

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

    /// Changes what is in it past the store, as another version would have it.
    pub async fn change(&self, statements: &[&'static str]) {
        let mut connection = AnyConnection::connect(&self.url()).await.expect("connects");
        for statement in statements {
            let done = sqlx::raw_sql(*statement).execute(&mut connection).await;
            done.expect("changed");
        }
        connection.close().await.expect("closed");
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

/// Who reports, where that does not matter.
pub fn somebody() -> Owner {
    Owner("token agents".to_owned())
}

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
        counted_for: None,
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

/// Objects in a folder.
pub async fn objects(folder: &Folder) -> FolderObjects {
    FolderObjects::open(folder.path()).await.expect("a folder opens")
}

/// Keeps an object as a server does; gives its key.
pub async fn kept(store: &dyn Store, objects: &dyn Objects, content: &'static str, at: u64) -> String {
    let mut staged = objects.stage(u64::MAX).await.expect("staged");
    staged.write(content.into()).await.expect("written");
    let whole = staged.whole().await.expect("on disk");
    let key = whole.key().to_owned();
    store.object(object(&key, at), &somebody()).await.expect("noted");
    objects.keep(whole).await.expect("kept");
    key
}

pub fn object(key: &str, at: u64) -> NewObject {
    NewObject {
        key: key.to_owned(),
        bytes: 1,
        at,
    }
}

/// Notes a file, and its object as one that is stored.
pub async fn uploaded(store: &dyn Store, module: &ModuleRow) {
    store
        .object(object(&module.object, module.seen), &somebody())
        .await
        .expect("noted");
    store.module(module.clone(), &somebody()).await.expect("noted");
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
