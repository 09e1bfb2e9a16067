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

    /// A store of version 1 with a run in it.
    async fn fill(url: &str) {
        let store = SqlStore::open(url, &MIGRATIONS[..1]).await.expect("it opens");
        let seen = FailureSeen {
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
