//! Forgetting.

use std::collections::BTreeSet;

use diagnosis::tracking::ModuleName;
use program::BuildId;
use sqlx::AnyConnection;
use sqlx::Row as _;

use super::rows::{int, unsigned};
use super::{SqlStore, Writing};
use crate::store::StoreError;
use crate::store::model::{PARTS, Retention, Retired, debug_key};

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
        let mut objects = BTreeSet::new();
        for case in &cases {
            if case.try_get::<i64, _>("last_seen")? >= before {
                return Ok(());
            }
            let number: i64 = case.try_get("number")?;
            objects.extend(objects_until(&mut writing, number, i64::MAX).await?);
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
        let objects = unreferenced(&mut writing, objects).await?;
        writing.commit().await?;
        retired.runs += runs;
        retired.bugs += gone.rows_affected();
        retired.objects.extend(objects);
        Ok(())
    }

    /// Hosts that are gone, and ids of failures that nobody will send again.
    async fn forget_places(&self, before: i64) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        for sql in [
            "DELETE FROM hosts WHERE seen < $1",
            "DELETE FROM failures WHERE at < $1",
        ] {
            sqlx::query(sql).bind(before).execute(&mut *writing).await?;
        }
        writing.commit().await
    }

    /// Files that no bug is about and no host was seen to have since. A host that reports a failure has its files noted as seen
    /// before its bug is opened, so none is forgotten in between.
    async fn forget_modules(&self, before: i64, retired: &mut Retired) -> Result<(), StoreError> {
        let openings: Vec<Vec<u8>> = sqlx::query_scalar("SELECT modules FROM openings")
            .fetch_all(&self.pool)
            .await?;
        let mut needed: BTreeSet<BuildId> = BTreeSet::new();
        for modules in &openings {
            let Ok(modules) = serde_json::from_slice::<Vec<ModuleName>>(modules) else {
                // Nobody knows what it needs.
                return Ok(());
            };
            for build in modules.into_iter().filter_map(|module| module.build_id) {
                needed.extend(PARTS.map(|part| debug_key(&build, part)));
                needed.insert(build);
            }
        }
        let old = sqlx::query("SELECT build, programs, object FROM modules WHERE seen < $1 ORDER BY build")
            .bind(before)
            .fetch_all(&self.pool)
            .await?;
        for row in old {
            let (build, object): (Vec<u8>, String) = (row.try_get("build")?, row.try_get("object")?);
            let programs: String = row.try_get("programs")?;
            if needed.contains(&BuildId(build.clone())) {
                continue;
            }
            let mut writing = self.write().await?;
            let gone = sqlx::query("DELETE FROM modules WHERE build = $1 AND seen < $2 AND programs = $3")
                .bind(build.as_slice())
                .bind(before)
                .bind(programs)
                .execute(&mut *writing)
                .await?;
            let objects = unreferenced(&mut writing, BTreeSet::from([object])).await?;
            writing.commit().await?;
            if gone.rows_affected() > 0 {
                retired.modules += 1;
                retired.objects.extend(objects);
            }
        }
        Ok(())
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
        let objects = objects_until(&mut writing, number, until).await?;
        // The ids stay: a run that is sent again is to be known.
        let forgotten = sqlx::query(
            "UPDATE runs SET body = NULL, object = NULL WHERE case_number = $1 AND seq <= $2 \
             AND (body IS NOT NULL OR object IS NOT NULL)",
        )
        .bind(number)
        .bind(until)
        .execute(&mut *writing)
        .await?;
        let objects = unreferenced(&mut writing, objects).await?;
        writing.commit().await?;
        retired.runs += forgotten.rows_affected();
        retired.objects.extend(objects);
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

async fn objects_until(
    connection: &mut AnyConnection,
    number: i64,
    until: i64,
) -> Result<BTreeSet<String>, StoreError> {
    let objects: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT object FROM runs WHERE case_number = $1 AND seq <= $2 AND object IS NOT NULL",
    )
    .bind(number)
    .bind(until)
    .fetch_all(connection)
    .await?;
    Ok(objects.into_iter().collect())
}

/// Objects are named by their content, so others may mean the same one.
async fn unreferenced(
    connection: &mut AnyConnection,
    objects: BTreeSet<String>,
) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "SELECT (SELECT COUNT(*) FROM runs WHERE object = $1) + \
         (SELECT COUNT(*) FROM modules WHERE object = $1)";
    let mut gone = Vec::new();
    for object in objects {
        let references: i64 = sqlx::query_scalar(SQL)
            .bind(object.as_str())
            .fetch_one(&mut *connection)
            .await?;
        if references == 0 {
            gone.push(object);
        }
    }
    Ok(gone)
}
