//! Hosts, and whose they are.

use std::sync::LazyLock;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row as _};

use super::SqlStore;
use super::rows::{IN_64, bytes, count, int, sixty_four, unsigned};
use crate::store::StoreError;
use crate::store::model::{HostRow, Owner, Standing};

impl SqlStore {
    /// One statement decides whose the host is, so that of two servers that are told of it at once only one succeeds.
    pub(super) async fn note_host(&self, host: &HostRow, owner: &Owner) -> Result<Standing, StoreError> {
        let mut writing = self.write().await?;
        if self.is_one_too_many(&mut writing, &host.id, owner).await? {
            return Ok(Standing::TooMany);
        }
        let noted = sqlx::query(
            "INSERT INTO hosts (id, registration, seen, owner) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET \
             registration = CASE WHEN excluded.seen >= hosts.seen THEN excluded.registration ELSE hosts.registration END, \
             seen = CASE WHEN excluded.seen >= hosts.seen THEN excluded.seen ELSE hosts.seen END, owner = excluded.owner \
             WHERE hosts.owner IS NULL OR hosts.owner = excluded.owner",
        )
        .bind(host.id.as_str())
        .bind(&host.registration[..])
        .bind(int(host.seen))
        .bind(owner.0.as_str())
        .execute(&mut *writing)
        .await?;
        writing.commit().await?;
        Ok(match noted.rows_affected() {
            0 => Standing::Taken,
            _ => Standing::Own,
        })
    }

    /// Most of those who report have said before that they are there: then nothing is written.
    pub(super) async fn claim_host(&self, id: &str, owner: &Owner, at: u64) -> Result<Standing, StoreError> {
        let known: Option<Option<String>> = sqlx::query_scalar("SELECT owner FROM hosts WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        match known.flatten() {
            Some(known) if known == owner.0 => return Ok(Standing::Own),
            Some(_) => return Ok(Standing::Taken),
            None => {}
        }
        let mut writing = self.write().await?;
        if self.is_one_too_many(&mut writing, id, owner).await? {
            return Ok(Standing::TooMany);
        }
        let claimed = sqlx::query(
            "INSERT INTO hosts (id, registration, seen, owner) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE \
             SET owner = excluded.owner WHERE hosts.owner IS NULL OR hosts.owner = excluded.owner",
        )
        .bind(id)
        .bind(&b""[..])
        .bind(int(at))
        .bind(owner.0.as_str())
        .execute(&mut *writing)
        .await?;
        writing.commit().await?;
        Ok(match claimed.rows_affected() {
            0 => Standing::Taken,
            _ => Standing::Own,
        })
    }

    /// Whether a host would be one more of an owner who has as many as he may. Servers that ask at once may each let one in.
    async fn is_one_too_many(
        &self,
        connection: &mut AnyConnection,
        id: &str,
        owner: &Owner,
    ) -> Result<bool, StoreError> {
        let known: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM hosts WHERE id = $1 AND owner IS NOT NULL")
            .bind(id)
            .fetch_one(&mut *connection)
            .await?;
        if known > 0 {
            return Ok(false);
        }
        let all: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM hosts WHERE owner = $1")
            .bind(owner.0.as_str())
            .fetch_one(connection)
            .await?;
        Ok(unsigned(all)? >= self.quotas.hosts)
    }

    pub(super) async fn release_host(&self, id: &str) -> Result<bool, StoreError> {
        let mut writing = self.write().await?;
        let released = sqlx::query("UPDATE hosts SET owner = NULL WHERE id = $1 AND owner IS NOT NULL")
            .bind(id)
            .execute(&mut *writing)
            .await?;
        writing.commit().await?;
        Ok(released.rows_affected() > 0)
    }

    pub(super) async fn count_hosts(&self) -> Result<u64, StoreError> {
        let all: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM hosts")
            .fetch_one(&self.pool)
            .await?;
        unsigned(all)
    }

    pub(super) async fn read_hosts(&self) -> Result<Vec<HostRow>, StoreError> {
        let rows = sqlx::query("SELECT id, registration, seen FROM hosts ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        let mut hosts = rows.iter().map(host).collect::<Result<Vec<_>, StoreError>>()?;
        // Databases have orders of their own for text.
        hosts.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(hosts)
    }

    pub(super) async fn read_hosts_named(&self, ids: &[String]) -> Result<Vec<HostRow>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT id, registration, seen FROM hosts WHERE id IN ({})",
                *IN_64
            )
        });
        let mut hosts = Vec::new();
        for some in ids.chunks(64) {
            let mut query = sqlx::query(SQL.as_str());
            for id in sixty_four(some) {
                query = query.bind(id.as_str());
            }
            for row in &query.fetch_all(&self.pool).await? {
                hosts.push(host(row)?);
            }
        }
        Ok(hosts)
    }
}

/// Whose a host is, if anybody has spoken for it.
pub(super) async fn owner_of(
    connection: &mut AnyConnection,
    host: &str,
) -> Result<Option<Owner>, StoreError> {
    let owner: Option<Option<String>> = sqlx::query_scalar("SELECT owner FROM hosts WHERE id = $1")
        .bind(host)
        .fetch_optional(connection)
        .await?;
    Ok(owner.flatten().map(Owner))
}

/// Forgets hosts that were not seen since. Whoever comes by such a name then is its owner.
pub(super) async fn forget_hosts(writing: &mut AnyConnection, before: i64) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM hosts WHERE seen < $1")
        .bind(before)
        .execute(writing)
        .await?;
    Ok(())
}

fn host(row: &AnyRow) -> Result<HostRow, StoreError> {
    Ok(HostRow {
        id: row.try_get("id")?,
        registration: bytes(row, "registration")?,
        seen: count(row, "seen")?,
    })
}
