//! Which database, and how to talk to it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::str::FromStr as _;

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, ConnectOptions as _, Connection as _};

use super::StoreError;

/// What kind of database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Begins a transaction that writes. SQLite's is to wait for its turn here, where it may, and not at its first write, where
    /// another one's commit in between would make it fail.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }

    /// What each connection is told first.
    fn settings(self) -> &'static str {
        match self {
            // What was committed is on disk. A checkpoint takes a while, and at the default of 4 MB comes every two hundred runs.
            Self::Sqlite => {
                "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                 PRAGMA wal_autocheckpoint = 8000"
            }
            // Somebody may have switched it off for other databases of the same server; stricter settings stay.
            Self::Postgres => {
                "SELECT set_config('synchronous_commit', 'on', false) \
                 WHERE current_setting('synchronous_commit') = 'off'"
            }
        }
    }

    /// A migration in this database's words.
    pub(super) fn translate(self, sql: &str) -> String {
        let (bytes, number, postgres) = match self {
            Self::Sqlite => ("BLOB", "INTEGER PRIMARY KEY AUTOINCREMENT", "--"),
            Self::Postgres => ("BYTEA", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", ""),
        };
        sql.replace("{bytes}", bytes)
            .replace("{number}", number)
            .replace("{postgres}", postgres)
    }
}

/// Where a database is.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) dialect: Dialect,
    pub(super) options: AnyConnectOptions,
}

impl Address {
    /// `postgres://…`, `sqlite:PATH` or a path.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            return Ok(Self {
                dialect: Dialect::Postgres,
                options: options(url)?,
            });
        }
        let path = url.strip_prefix("sqlite:").unwrap_or(url);
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.starts_with(":memory:") {
            return Err(StoreError::Refused(format!(
                "{url:?} names no file: give a path, sqlite:PATH or postgres://…"
            )));
        }
        make_private(path)?;
        Ok(Self {
            dialect: Dialect::Sqlite,
            options: options(&format!("sqlite:{}?mode=rw", escape(path)))?,
        })
    }

    /// A connection of its own.
    pub(super) async fn connect(&self) -> Result<AnyConnection, StoreError> {
        let mut connection = AnyConnection::connect_with(&self.options).await?;
        prepare(self.dialect, &mut connection).await?;
        Ok(connection)
    }
}

/// Settles how a new connection behaves.
pub(super) async fn prepare(dialect: Dialect, connection: &mut AnyConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(dialect.settings()).execute(connection).await?;
    Ok(())
}

fn options(url: &str) -> Result<AnyConnectOptions, StoreError> {
    Ok(AnyConnectOptions::from_str(url)?.disable_statement_logging())
}

/// Values of other people's programs are in it: the file, and those that SQLite puts beside it with the same rights, are for its
/// owner alone.
fn make_private(path: &str) -> Result<(), StoreError> {
    let made = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    made.map(drop)
        .map_err(|error| StoreError::Unavailable(format!("cannot open {path}: {error}")))
}

/// A path in a URL: `?`, `#` and `%` are characters like others in it.
fn escape(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    path.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use failsketch_tests::folder::Folder;
    use failsketch_tests::postgres::Postgres;

    use super::*;

    #[tokio::test]
    async fn sqlite_waits_for_the_disk_with_every_commit() {
        let folder = Folder::new("connect");
        let address = Address::parse(&folder.path().join("store.db").display().to_string()).unwrap();
        let mut connection = address.connect().await.unwrap();
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        // 2 is FULL.
        assert_eq!((mode.as_str(), synchronous), ("wal", 2));
    }

    #[tokio::test]
    async fn postgres_waits_for_the_disk_even_where_that_was_switched_off() {
        let postgres = Postgres::start();
        let address = Address::parse(&postgres.url()).unwrap();
        for (set, expected) in [("off", "on"), ("remote_apply", "remote_apply")] {
            let sql = format!("ALTER DATABASE postgres SET synchronous_commit = {set}");
            let mut before = address.connect().await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
                .execute(&mut before)
                .await
                .unwrap();
            let mut connection = address.connect().await.unwrap();
            let found: String = sqlx::query_scalar("SELECT current_setting('synchronous_commit')")
                .fetch_one(&mut connection)
                .await
                .unwrap();
            assert_eq!(found, expected);
        }
    }
}
