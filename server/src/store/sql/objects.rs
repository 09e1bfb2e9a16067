//! Which objects there are.
//!
//! Between storing an object and referring to it there is a moment in which nothing refers to it. So it is noted before it is stored;
//! who refers to it touches its row in the same transaction, and fails if it is gone; and who removes it holds its row until it is
//! removed. A content that comes again meanwhile waits for the row, and is stored anew.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{AnyConnection, Row as _};

use super::SqlStore;
use super::append::Call;
use super::holdings::{count, give_back, of_object};
use super::rows::{int, unsigned};
use crate::store::model::{NewObject, Owner};
use crate::store::objects::Objects;
use crate::store::{Body, StoreError};

/// Objects that are looked at in one go.
const PAGE: i64 = 1000;

/// How often an object may be removed while it is noted.
const ATTEMPTS: usize = 5;

/// What says whether something refers to an object.
macro_rules! unless_referred_to {
    ($sql:literal) => {
        concat!(
            $sql,
            " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.object = objects.key) \
             AND NOT EXISTS (SELECT 1 FROM modules WHERE modules.object = objects.key)"
        )
    };
}

impl SqlStore {
    pub(super) async fn note_object(&self, object: &NewObject, owner: &Owner) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        // One that is there may be removed between the two statements: then it is new after all, at the next attempt.
        for _ in 0..ATTEMPTS {
            let new = sqlx::query(
                "INSERT INTO objects (key, bytes, touched, owner) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            )
            .bind(object.key.as_str())
            .bind(int(object.bytes))
            .bind(int(object.at))
            .bind(owner.0.as_str())
            .execute(&mut *writing)
            .await?;
            if new.rows_affected() > 0 {
                count(&mut writing, owner, of_object(object.bytes), self.quotas.bytes).await?;
                return writing.commit().await;
            }
            if touch(&mut writing, &object.key, object.at).await? {
                return writing.commit().await;
            }
        }
        Err(StoreError::Unavailable(format!(
            "object {} is being removed",
            object.key
        )))
    }

    /// Each in a transaction of its own, for one that cannot be removed keeps its row.
    pub(super) async fn remove_objects(&self, objects: &dyn Objects, before: u64) -> Result<u64, StoreError> {
        let mut removed = 0;
        let mut after = String::new();
        loop {
            let keys: Vec<String> = sqlx::query_scalar(concat!(
                unless_referred_to!("SELECT key FROM objects WHERE touched < $1 AND key > $2"),
                " ORDER BY key LIMIT $3"
            ))
            .bind(int(before))
            .bind(after.as_str())
            .bind(PAGE)
            .fetch_all(&self.pool)
            .await?;
            let Some(last) = keys.last() else {
                return Ok(removed);
            };
            after.clone_from(last);
            for key in &keys {
                removed += u64::from(self.remove_object(objects, key, before).await?);
            }
        }
    }

    async fn remove_object(&self, objects: &dyn Objects, key: &str, before: u64) -> Result<bool, StoreError> {
        let mut writing = self.write().await?;
        // Holds the row. What refers to it is asked afterwards: whoever was about to has done so by now.
        let held = sqlx::query("UPDATE objects SET touched = touched WHERE key = $1 AND touched < $2")
            .bind(key)
            .bind(int(before))
            .execute(&mut *writing)
            .await?;
        if held.rows_affected() == 0 {
            return Ok(false);
        }
        let gone = sqlx::query(concat!(
            unless_referred_to!("DELETE FROM objects WHERE key = $1"),
            " RETURNING bytes, owner"
        ))
        .bind(key)
        .fetch_optional(&mut *writing)
        .await?;
        let Some(gone) = gone else { return Ok(false) };
        let (bytes, owner): (i64, Option<String>) = (gone.try_get("bytes")?, gone.try_get("owner")?);
        give_back(&mut writing, owner.as_deref(), of_object(unsigned(bytes)?)).await?;
        // If the commit fails, the row is there and the object is not: it is removed again some time, or stored again by who needs it.
        objects.remove(key).await?;
        writing.commit().await?;
        Ok(true)
    }
}

/// Says that an object is referred to by what is being written. Says whether it is there.
pub(super) async fn touch(connection: &mut AnyConnection, key: &str, at: u64) -> Result<bool, StoreError> {
    let touched = sqlx::query(
        "UPDATE objects SET touched = CASE WHEN touched < $2 THEN $2 ELSE touched END WHERE key = $1",
    )
    .bind(key)
    .bind(int(at))
    .execute(connection)
    .await?;
    Ok(touched.rows_affected() > 0)
}

/// The same for the runs of some calls: gives the calls of which one is not there. In an order that all servers have in common.
pub(super) async fn touch_all(
    connection: &mut AnyConnection,
    calls: &[Call],
) -> Result<BTreeSet<usize>, StoreError> {
    let mut referring: BTreeMap<&str, (u64, BTreeSet<usize>)> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        for run in &call.runs {
            if let Body::Object(key) = &run.body {
                let (at, calls) = referring.entry(key).or_default();
                *at = run.at.max(*at);
                calls.insert(index);
            }
        }
    }
    let mut lacking = BTreeSet::new();
    for (key, (at, calls)) in referring {
        if !touch(connection, key, at).await? {
            lacking.extend(calls);
        }
    }
    Ok(lacking)
}

/// Whoever was told that it is stored took too long to refer to it.
pub(super) fn lost() -> StoreError {
    StoreError::Unavailable("what was stored for it has been removed since".to_owned())
}
