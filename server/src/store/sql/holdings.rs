//! How much is stored for whom.
//!
//! What is counted, and what is given back, is in the transaction that stores or removes it, so that servers need not agree on it. The
//! row of an owner is the last that is written before the commit: whoever waits for it holds nothing that others wait for.

use sqlx::AnyConnection;

use super::SqlStore;
use super::rows::{int, unsigned};
use crate::store::StoreError;
use crate::store::model::Owner;

/// What an object or a row takes at least: a file has blocks and a name, and what is small can be many.
pub(super) const LEAST: u64 = 64 << 10;

/// What counts for an object.
pub(super) fn of_object(bytes: u64) -> u64 {
    bytes.saturating_add(LEAST)
}

impl SqlStore {
    pub(super) async fn read_holding(&self, owner: &Owner) -> Result<u64, StoreError> {
        let bytes: Option<i64> = sqlx::query_scalar("SELECT bytes FROM holdings WHERE owner = $1")
            .bind(owner.0.as_str())
            .fetch_optional(&self.pool)
            .await?;
        unsigned(bytes.unwrap_or(0))
    }
}

/// Counts some bytes for their owner, or says that it is too much.
pub(super) async fn count(
    connection: &mut AnyConnection,
    owner: &Owner,
    bytes: u64,
    most: u64,
) -> Result<(), StoreError> {
    let full = || StoreError::Full {
        owner: owner.clone(),
        bytes,
        most,
    };
    if bytes > most {
        return Err(full());
    }
    let counted = sqlx::query(
        "INSERT INTO holdings (owner, bytes) VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE \
         SET bytes = holdings.bytes + excluded.bytes WHERE holdings.bytes + excluded.bytes <= $3",
    )
    .bind(owner.0.as_str())
    .bind(int(bytes))
    .bind(int(most))
    .execute(connection)
    .await?;
    match counted.rows_affected() {
        0 => Err(full()),
        _ => Ok(()),
    }
}

/// Gives back what was counted for somebody, if it was counted for anybody.
pub(super) async fn give_back(
    connection: &mut AnyConnection,
    owner: Option<&str>,
    bytes: u64,
) -> Result<(), StoreError> {
    let Some(owner) = owner else { return Ok(()) };
    sqlx::query(
        "UPDATE holdings SET bytes = CASE WHEN bytes < $2 THEN 0 ELSE bytes - $2 END WHERE owner = $1",
    )
    .bind(owner)
    .bind(int(bytes))
    .execute(connection)
    .await?;
    Ok(())
}
