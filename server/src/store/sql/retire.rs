//! Forgetting.

use std::collections::{BTreeMap, BTreeSet};

use diagnosis::tracking::ModuleName;
use program::BuildId;
use sqlx::AnyConnection;
use sqlx::Row as _;

use super::holdings::{LEAST, give_back};
use super::hosts::forget_hosts;
use super::rows::{count, int, unsigned};
use super::{SqlStore, Writing};
use crate::store::StoreError;
use crate::store::model::{PARTS, Retention, Retired, debug_key};

/// Files that are forgotten in one transaction.
const TOGETHER: usize = 500;

impl SqlStore {
    /// Each log and each bug in a transaction of its own: others want to write in between.
    pub(super) async fn forget(&self, retention: Retention, now: u64) -> Result<Retired, StoreError> {
        let mut retired = Retired::default();
        let before = int(now.saturating_sub(retention.seconds));
        for bug in self.bugs_before(before).await? {
            self.forget_bug(&bug, before, &mut retired).await?;
        }
        self.forget_places(before).await?;
        self.forget_modules(before, &mut retired).await?;
        for number in self.long_logs(retention.runs_of_a_case).await? {
            self.shorten(number, retention.runs_of_a_case, &mut retired)
                .await?;
        }
        Ok(retired)
    }

    async fn bugs_before(&self, before: i64) -> Result<Vec<String>, StoreError> {
        let bugs =
            sqlx::query_scalar("SELECT bug FROM cases GROUP BY bug HAVING MAX(last_seen) < $1 ORDER BY bug")
                .bind(before)
                .fetch_all(&self.pool);
        Ok(bugs.await?)
    }

    async fn forget_bug(&self, bug: &str, before: i64, retired: &mut Retired) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        // Holds the cases: nobody adds to them any more. One that failed since they were looked for saves its bug.
        let cases =
            sqlx::query("UPDATE cases SET last_seq = last_seq WHERE bug = $1 RETURNING number, last_seen")
                .bind(bug)
                .fetch_all(&mut *writing)
                .await?;
        let mut runs = 0;
        let mut owners: BTreeMap<String, u64> = BTreeMap::new();
        for case in &cases {
            if case.try_get::<i64, _>("last_seen")? >= before {
                return Ok(());
            }
            let number: i64 = case.try_get("number")?;
            let opening = sqlx::query("SELECT owner, counted FROM openings WHERE case_number = $1")
                .bind(number)
                .fetch_optional(&mut *writing)
                .await?;
            if let Some(opening) = opening
                && let Some(owner) = opening.try_get::<Option<String>, _>("owner")?
            {
                *owners.entry(owner).or_default() += count(&opening, "counted")?;
            }
            let bodies = "SELECT COUNT(*) FROM runs WHERE case_number = $1 AND (body IS NOT NULL OR object IS NOT NULL)";
            let some: i64 = sqlx::query_scalar(bodies)
                .bind(number)
                .fetch_one(&mut *writing)
                .await?;
            runs += unsigned(some)?;
            for sql in [
                "DELETE FROM runs WHERE case_number = $1",
                "DELETE FROM cases WHERE number = $1",
            ] {
                sqlx::query(sql).bind(number).execute(&mut *writing).await?;
            }
        }
        let gone = sqlx::query("DELETE FROM bugs WHERE id = $1")
            .bind(bug)
            .execute(&mut *writing)
            .await;
        let gone = match gone {
            Ok(gone) => gone,
            // It was seen in another build this moment.
            Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for (owner, bytes) in &owners {
            give_back(&mut writing, Some(owner), *bytes).await?;
        }
        writing.commit().await?;
        retired.runs += runs;
        retired.bugs += gone.rows_affected();
        Ok(())
    }

    /// Hosts that are gone, and ids of failures that nobody will send again.
    async fn forget_places(&self, before: i64) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        forget_hosts(&mut writing, before).await?;
        sqlx::query("DELETE FROM failures WHERE at < $1")
            .bind(before)
            .execute(&mut *writing)
            .await?;
        writing.commit().await
    }

    /// Files that no bug is about and no host was seen to have since. What bugs are about is asked again when the files' rows are held:
    /// who opens a case meanwhile waits for them, and is told that they are gone.
    async fn forget_modules(&self, before: i64, retired: &mut Retired) -> Result<(), StoreError> {
        let Some(needed) = needed(&mut *self.pool.acquire().await?).await? else {
            return Ok(());
        };
        let rows =
            sqlx::query("SELECT build, programs FROM modules WHERE seen < $1 ORDER BY build, programs")
                .bind(before)
                .fetch_all(&self.pool)
                .await?;
        let mut old: Vec<(BuildId, String)> = Vec::new();
        for row in rows {
            let build = BuildId(row.try_get("build")?);
            if !needed.contains(&build) {
                old.push((build, row.try_get("programs")?));
            }
        }
        for old in old.chunks(TOGETHER) {
            retired.modules += self.forget_some_modules(old, before).await?;
        }
        Ok(())
    }

    async fn forget_some_modules(&self, old: &[(BuildId, String)], before: i64) -> Result<u64, StoreError> {
        const HOLD: &str = "UPDATE modules SET seen = seen WHERE build = $1 AND programs = $2 AND seen < $3";
        let mut writing = self.write().await?;
        let mut held = Vec::new();
        for (build, programs) in old {
            let found = sqlx::query(HOLD)
                .bind(build.0.as_slice())
                .bind(programs.as_str())
                .bind(before)
                .execute(&mut *writing)
                .await?;
            if found.rows_affected() > 0 {
                held.push((build, programs));
            }
        }
        if held.is_empty() {
            return Ok(0);
        }
        let Some(needed) = needed(&mut writing).await? else {
            return Ok(0);
        };
        held.retain(|(build, _)| !needed.contains(build));
        let mut owners: BTreeMap<String, u64> = BTreeMap::new();
        for (build, programs) in &held {
            let owner: Option<Option<String>> =
                sqlx::query_scalar("DELETE FROM modules WHERE build = $1 AND programs = $2 RETURNING owner")
                    .bind(build.0.as_slice())
                    .bind(programs.as_str())
                    .fetch_optional(&mut *writing)
                    .await?;
            if let Some(owner) = owner.flatten() {
                *owners.entry(owner).or_default() += LEAST;
            }
        }
        for (owner, bytes) in &owners {
            give_back(&mut writing, Some(owner), *bytes).await?;
        }
        writing.commit().await?;
        Ok(held.len() as u64)
    }

    async fn long_logs(&self, most: u64) -> Result<Vec<i64>, StoreError> {
        let numbers = sqlx::query_scalar(
            "SELECT number FROM cases JOIN derived ON derived.case_number = cases.number \
             WHERE last_seq - retired_seq > $1 AND derived.seq > retired_seq ORDER BY number",
        )
        .bind(int(most))
        .fetch_all(&self.pool);
        Ok(numbers.await?)
    }

    async fn shorten(&self, number: i64, most: u64, retired: &mut Retired) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        let Some(until) = advance_retired(&mut writing, number, most).await? else {
            return Ok(());
        };
        // The ids stay: a run that is sent again is to be known.
        let forgotten = sqlx::query(
            "UPDATE runs SET body = NULL, object = NULL WHERE case_number = $1 AND seq <= $2 \
             AND (body IS NOT NULL OR object IS NOT NULL)",
        )
        .bind(number)
        .bind(until)
        .execute(&mut *writing)
        .await?;
        writing.commit().await?;
        retired.runs += forgotten.rows_affected();
        Ok(())
    }
}

/// Moves the beginning of a log to where only so many are left, or to the last entry that a sketch knows if that comes first.
/// Where that is, unless it is where it was.
async fn advance_retired(
    writing: &mut Writing<'_>,
    number: i64,
    most: u64,
) -> Result<Option<i64>, StoreError> {
    let until: Option<i64> = sqlx::query_scalar(
        "UPDATE cases SET retired_seq = (SELECT CASE WHEN seq < last_seq - $2 THEN seq ELSE last_seq - $2 END \
         FROM derived WHERE case_number = number) WHERE number = $1 AND retired_seq < \
         (SELECT CASE WHEN seq < last_seq - $2 THEN seq ELSE last_seq - $2 END \
         FROM derived WHERE case_number = number) RETURNING retired_seq",
    )
    .bind(number)
    .bind(int(most))
    .fetch_optional(&mut **writing)
    .await?;
    Ok(until)
}

/// Files that bugs are about, with their debug information; nothing if nobody knows what one of them needs.
async fn needed(connection: &mut AnyConnection) -> Result<Option<BTreeSet<BuildId>>, StoreError> {
    let openings: Vec<Vec<u8>> = sqlx::query_scalar("SELECT modules FROM openings")
        .fetch_all(connection)
        .await?;
    let mut needed = BTreeSet::new();
    for modules in &openings {
        let Ok(modules) = serde_json::from_slice::<Vec<ModuleName>>(modules) else {
            return Ok(None);
        };
        for build in modules.into_iter().filter_map(|module| module.build_id) {
            needed.extend(PARTS.map(|part| debug_key(&build, part)));
            needed.insert(build);
        }
    }
    Ok(Some(needed))
}
