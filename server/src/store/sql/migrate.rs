//! Brings the tables of an older failsketch up to date, and leaves those of a newer one alone.

use sqlx::AnyConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::StoreError;
use super::connect::Dialect;

/// A step from one version of the tables to the next. A step that was released is never changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// What it does, for people who look into the database.
    pub(super) name: &'static str,
    /// In the words of [`Dialect::translate`].
    pub(super) sql: &'static str,
}

/// All steps; the number of a version is how many of them were made.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        name: "log",
        sql: include_str!("../../../migrations/0001_log.sql"),
    },
    Migration {
        name: "modules seen",
        sql: include_str!("../../../migrations/0002_modules_seen.sql"),
    },
    Migration {
        name: "pages",
        sql: include_str!("../../../migrations/0003_pages.sql"),
    },
    Migration {
        name: "modules for programs",
        sql: include_str!("../../../migrations/0004_modules_for_programs.sql"),
    },
    Migration {
        name: "owners of hosts",
        sql: include_str!("../../../migrations/0005_owners.sql"),
    },
    Migration {
        name: "objects",
        sql: include_str!("../../../migrations/0006_objects.sql"),
    },
    Migration {
        name: "holdings",
        sql: include_str!("../../../migrations/0007_holdings.sql"),
    },
    Migration {
        name: "owners of openings",
        sql: include_str!("../../../migrations/0008_openings_owned.sql"),
    },
    Migration {
        name: "owners of reporters",
        sql: include_str!("../../../migrations/0009_reporters_owned.sql"),
    },
];

/// Any number will do, as long as every failsketch takes the same.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7311093425)";

/// Makes the steps that were not made yet, all or none. Servers that start together do it one after the other.
pub(super) async fn migrate(
    connection: &mut AnyConnection,
    dialect: Dialect,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    let mut transaction = connection.begin_with(dialect.begin()).await?;
    if dialect == Dialect::Postgres {
        sqlx::raw_sql(LOCK).execute(&mut *transaction).await?;
    }
    let table = "CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY, name TEXT NOT NULL)";
    sqlx::raw_sql(table).execute(&mut *transaction).await?;
    let found: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM migrations")
        .fetch_one(&mut *transaction)
        .await?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    let made = usize::try_from(found).map_err(|_| StoreError::Damaged(format!("its version is {found}")))?;
    for (version, migration) in (found + 1..).zip(&migrations[made..]) {
        let sql = dialect.translate(migration.sql);
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO migrations (version, name) VALUES ($1, $2)")
            .bind(version)
            .bind(migration.name)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use failsketch_tests::folder::Folder;
    use failsketch_tests::postgres::Postgres;

    use super::*;
    use crate::store::Store as _;
    use crate::store::model::{BugId, Case, FailureSeen, NewCase, NewRun};
    use crate::store::sql::SqlStore;
    use crate::store::{Body, model::Appended};

    const FURTHER: Migration = Migration {
        name: "further",
        sql: "ALTER TABLE runs ADD COLUMN weight BIGINT NOT NULL DEFAULT 7; CREATE TABLE more (content {bytes});",
    };
    const WRONG: Migration = Migration {
        name: "wrong",
        sql: "CREATE TABLE half (id TEXT); ALTER TABLE nothing ADD COLUMN id TEXT;",
    };

    fn case() -> Case {
        Case {
            bug: BugId("b".to_owned()),
            build: program::BuildId(vec![1; 20]),
        }
    }

    fn run(id: &str) -> NewRun {
        NewRun {
            id: id.to_owned(),
            host: "host".to_owned(),
            at: 1,
            failed: false,
            body: Body::Inline("{}".into()),
        }
    }

    /// A store of our version with a run in it.
    async fn fill(url: &str) {
        let store = SqlStore::open(url, MIGRATIONS).await.expect("it opens");
        let seen = FailureSeen {
            counted_for: None,
            id: "f".to_owned(),
            host: "host".to_owned(),
            at: 1,
        };
        let new = NewCase {
            case: case(),
            program: "p".to_owned(),
            signature: "s".to_owned(),
            modules: "[]".into(),
            report: "{}".into(),
            runs: 1,
            seen,
        };
        store.open(new).await.expect("a case opens");
        store
            .append(&case(), vec![run("a")])
            .await
            .expect("a run is stored");
    }

    async fn an_upgrade_keeps_what_is_there(url: &str) {
        fill(url).await;
        let mut migrations = MIGRATIONS.to_vec();
        migrations.push(WRONG);
        // A step that fails is not made by half: the next attempt begins where this one did.
        let failed = SqlStore::open(url, &migrations).await;
        assert!(matches!(failed, Err(StoreError::Damaged(_))), "{failed:?}");
        migrations.pop();
        migrations.push(FURTHER);
        let store = SqlStore::open(url, &migrations)
            .await
            .expect("it is brought up to date");
        let half = sqlx::raw_sql("SELECT * FROM half").execute(&store.pool).await;
        assert!(half.is_err(), "a table of the failed step is there");
        let weight: i64 = sqlx::query_scalar("SELECT weight FROM runs")
            .fetch_one(&store.pool)
            .await
            .expect("the step was made");
        assert_eq!(weight, 7);
        let again = store
            .append(&case(), vec![run("a"), run("b")])
            .await
            .expect("stored");
        assert_eq!(again, [Appended::Duplicate, Appended::Stored(2)]);
        // The one that we were before does not touch it any more.
        let older = SqlStore::open(url, MIGRATIONS).await;
        let known = MIGRATIONS.len() as i64;
        assert!(
            matches!(older, Err(StoreError::Newer { found, known: ours }) if found == known + 1 && ours == known)
        );
    }

    /// What was counted before there were pages is on them.
    async fn a_store_without_pages_gets_them(url: &str) {
        let old = SqlStore::open(url, &MIGRATIONS[..1]).await.expect("it opens");
        let build = case().build.0;
        for sql in [
            "INSERT INTO bugs (id, program, signature, state, widened) VALUES ('b', 'p', 's', 'tracking', 0)",
            "INSERT INTO failures (case_number, id, at) VALUES (1, 'f', 3600)",
            "INSERT INTO failures (case_number, id, at) VALUES (1, 'g', 7199)",
            "INSERT INTO derived (case_number, seq, widened, sketch, summary) VALUES (1, 0, 0, $1, $1)",
        ] {
            if sql.contains("'f'") {
                let case = "INSERT INTO cases (bug, build, last_seq, retired_seq, failures, first_seen, last_seen) \
                            VALUES ('b', $1, 0, 0, 2, 3600, 7199)";
                let inserted = sqlx::query(case).bind(build.as_slice()).execute(&old.pool).await;
                inserted.expect("written");
            }
            let query = sqlx::query(sql);
            let query = match sql.contains("$1") {
                true => query.bind(&b"{}"[..]),
                false => query,
            };
            query.execute(&old.pool).await.expect("written");
        }
        old.pool.close().await;
        let store = SqlStore::open(url, MIGRATIONS)
            .await
            .expect("it is brought up to date");
        let hours = store.trend(&[case().bug], 0).await.expect("read");
        assert_eq!(
            hours
                .iter()
                .map(|hour| (hour.hour, hour.failures))
                .collect::<Vec<_>>(),
            [(1, 2)]
        );
        let all = store.overview(&[], 5).await.expect("read");
        assert_eq!((all.len(), all[0].failures), (1, 2));
        let derived = store.derived(&case()).await.expect("read").expect("there");
        assert_eq!((derived.course, derived.words.as_str()), (None, ""));
    }

    #[tokio::test]
    async fn a_store_in_sqlite_without_pages_gets_them() {
        let folder = Folder::new("migrate");
        a_store_without_pages_gets_them(&folder.path().join("store.db").display().to_string()).await;
    }

    #[tokio::test]
    async fn a_store_in_postgres_without_pages_gets_them() {
        a_store_without_pages_gets_them(&Postgres::start().url()).await;
    }

    #[tokio::test]
    async fn an_upgrade_keeps_what_is_in_sqlite() {
        let folder = Folder::new("migrate");
        an_upgrade_keeps_what_is_there(&folder.path().join("store.db").display().to_string()).await;
    }

    #[tokio::test]
    async fn an_upgrade_keeps_what_is_in_postgres() {
        an_upgrade_keeps_what_is_there(&Postgres::start().url()).await;
    }
}
