//! Cases: opening them, counting their failures, reading their logs, and what was derived from those.

use diagnosis::tracking::ModuleName;
use program::BuildId;
use sqlx::AnyConnection;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::append::note_reporter;
use super::holdings::{self, LEAST};
use super::hosts::owner_of;
use super::modules::hold_modules;
use super::pages::{HOUR, count_in_trend};
use super::rows::{bytes, count, int, state, state_columns, unsigned, widened};
use super::{SqlStore, Writing};
use crate::store::model::{BugId, Case, CaseRow, Derived, FailureSeen, NewCase, Owner, State, StoredRun};
use crate::store::{Body, StoreError};

/// A case with its bug and what it was opened with.
macro_rules! cases {
    ($rest:literal) => {
        concat!(
            "SELECT bug, build, program, state, state_build, widened, modules, report, runs_until, last_seq, \
             retired_seq, failures, first_seen, last_seen FROM cases JOIN bugs ON bugs.id = cases.bug \
             JOIN openings ON openings.case_number = cases.number ",
            $rest
        )
    };
}

impl SqlStore {
    pub(super) async fn open_case(&self, new: NewCase) -> Result<bool, StoreError> {
        let mut writing = self.write().await?;
        let (state, build) = state_columns(&State::Tracking);
        sqlx::query(
            "INSERT INTO bugs (id, program, signature, state, state_build, widened) \
             VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT DO NOTHING",
        )
        .bind(new.case.bug.0.as_str())
        .bind(new.program.as_str())
        .bind(new.signature.as_str())
        .bind(state)
        .bind(build)
        .execute(&mut *writing)
        .await?;
        let opened = sqlx::query(
            "INSERT INTO cases (bug, build, last_seq, retired_seq, failures, first_seen, last_seen) \
             VALUES ($1, $2, 0, 0, 0, $3, $3) ON CONFLICT DO NOTHING RETURNING number",
        )
        .bind(new.case.bug.0.as_str())
        .bind(new.case.build.0.as_slice())
        .bind(int(new.seen.at))
        .fetch_optional(&mut *writing)
        .await?;
        if let Some(row) = &opened {
            let modules: Vec<ModuleName> = serde_json::from_slice(&new.modules)
                .map_err(|error| StoreError::Refused(format!("the files of the process: {error}")))?;
            let builds: Vec<BuildId> = modules.into_iter().filter_map(|module| module.build_id).collect();
            if !hold_modules(&mut writing, &new.program, &builds, new.seen.at).await? {
                return Err(StoreError::Unavailable(
                    "a file of the process was forgotten since it was uploaded".to_owned(),
                ));
            }
            let number: i64 = row.try_get(0)?;
            let owner = owner_of(&mut writing, &new.seen.host).await?;
            let counted = LEAST + (new.modules.len() + new.report.len()) as u64;
            sqlx::query(
                "INSERT INTO openings (case_number, modules, report, runs_until, owner, counted) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(number)
            .bind(&new.modules[..])
            .bind(&new.report[..])
            .bind(int(new.runs))
            .bind(owner.as_ref().map(|owner| owner.0.as_str()))
            .bind(int(counted))
            .execute(&mut *writing)
            .await?;
            count_failure(&mut writing, &new.case, &new.seen).await?;
            if let Some(owner) = owner {
                self.leave_room(&mut writing, &new.case.build, &owner).await?;
                holdings::count(&mut writing, &owner, counted, self.quotas.bytes).await?;
            }
            writing.commit().await?;
            return Ok(true);
        }
        count_failure(&mut writing, &new.case, &new.seen).await?;
        writing.commit().await?;
        Ok(false)
    }

    /// Fails if an owner's hosts have opened more cases of a build than they may, with those that are not committed.
    async fn leave_room(
        &self,
        connection: &mut AnyConnection,
        build: &BuildId,
        owner: &Owner,
    ) -> Result<(), StoreError> {
        let opened: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM cases JOIN openings ON openings.case_number = cases.number \
             WHERE cases.build = $1 AND openings.owner = $2",
        )
        .bind(build.0.as_slice())
        .bind(owner.0.as_str())
        .fetch_one(connection)
        .await?;
        match unsigned(opened)? > self.quotas.bugs {
            true => Err(StoreError::TooManyBugs {
                owner: owner.clone(),
                build: build.clone(),
                most: self.quotas.bugs,
            }),
            false => Ok(()),
        }
    }

    pub(super) async fn count_failure(&self, case: &Case, seen: &FailureSeen) -> Result<bool, StoreError> {
        let mut writing = self.write().await?;
        let new = count_failure(&mut writing, case, seen).await?;
        writing.commit().await?;
        Ok(new)
    }

    pub(super) async fn read_runs(
        &self,
        case: &Case,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredRun>, StoreError> {
        let rows = sqlx::query(
            "SELECT seq, id, runs.host, at, body, object, owner FROM runs LEFT JOIN reporters \
             ON reporters.case_number = runs.case_number AND reporters.host = runs.host \
             WHERE runs.case_number = (SELECT number FROM cases WHERE bug = $1 AND build = $2) \
             AND seq > $3 AND (body IS NOT NULL OR object IS NOT NULL) ORDER BY seq LIMIT $4",
        )
        .bind(case.bug.0.as_str())
        .bind(case.build.0.as_slice())
        .bind(int(after))
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(stored_run).collect()
    }

    pub(super) async fn read_case(&self, case: &Case) -> Result<Option<CaseRow>, StoreError> {
        let row = sqlx::query(cases!("WHERE bug = $1 AND build = $2"))
            .bind(case.bug.0.as_str())
            .bind(case.build.0.as_slice())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(case_row).transpose()
    }

    pub(super) async fn read_cases_of_build(
        &self,
        program: &str,
        build: &BuildId,
    ) -> Result<Vec<CaseRow>, StoreError> {
        let rows = sqlx::query(cases!("WHERE build = $1 AND program = $2 ORDER BY number"))
            .bind(build.0.as_slice())
            .bind(program)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(case_row).collect()
    }

    pub(super) async fn read_cases_of_bug(&self, bug: &BugId) -> Result<Vec<CaseRow>, StoreError> {
        let rows = sqlx::query(cases!("WHERE bug = $1 ORDER BY last_seen DESC, number DESC"))
            .bind(bug.0.as_str())
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(case_row).collect()
    }

    pub(super) async fn keep_derived(&self, case: &Case, derived: &Derived) -> Result<bool, StoreError> {
        let mut writing = self.write().await?;
        let kept = sqlx::query(
            "INSERT INTO derived (case_number, seq, widened, sketch, summary, course, words) \
             SELECT number, $3, $4, $5, $6, $7, $8 FROM cases WHERE bug = $1 AND build = $2 \
             ON CONFLICT (case_number) DO UPDATE SET seq = excluded.seq, widened = excluded.widened, \
             sketch = excluded.sketch, summary = excluded.summary, course = excluded.course, words = excluded.words \
             WHERE (excluded.widened, excluded.seq) > (derived.widened, derived.seq)",
        )
        .bind(case.bug.0.as_str())
        .bind(case.build.0.as_slice())
        .bind(int(derived.seq))
        .bind(i64::from(derived.widened))
        .bind(&derived.sketch[..])
        .bind(&derived.summary[..])
        .bind(derived.course.as_deref())
        .bind(derived.words.as_str())
        .execute(&mut *writing)
        .await?;
        writing.commit().await?;
        Ok(kept.rows_affected() > 0)
    }

    pub(super) async fn read_derived(&self, case: &Case) -> Result<Option<Derived>, StoreError> {
        let row = sqlx::query(
            "SELECT seq, widened, sketch, summary, course, words FROM derived \
             WHERE case_number = (SELECT number FROM cases WHERE bug = $1 AND build = $2)",
        )
        .bind(case.bug.0.as_str())
        .bind(case.build.0.as_slice())
        .fetch_optional(&self.pool)
        .await?;
        let derived = |row: AnyRow| {
            Ok(Derived {
                seq: count(&row, "seq")?,
                widened: widened(&row)?,
                sketch: bytes(&row, "sketch")?,
                summary: bytes(&row, "summary")?,
                course: row.try_get::<Option<Vec<u8>>, _>("course")?.map(Into::into),
                words: row.try_get("words")?,
            })
        };
        row.map(derived).transpose()
    }
}

/// Counts a failure if it was not counted before.
async fn count_failure(
    writing: &mut Writing<'_>,
    case: &Case,
    seen: &FailureSeen,
) -> Result<bool, StoreError> {
    let (number, counted) = lock_both(writing, case, seen.counted_for.as_ref()).await?;
    let new =
        sqlx::query("INSERT INTO failures (case_number, id, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
            .bind(number)
            .bind(seen.id.as_str())
            .bind(int(seen.at))
            .execute(&mut **writing)
            .await?;
    if new.rows_affected() == 0 {
        return Ok(false);
    }
    // Reports may come late, and in any order.
    sqlx::query(
        "UPDATE cases SET failures = failures + 1, \
         first_seen = CASE WHEN first_seen > $2 THEN $2 ELSE first_seen END, \
         last_seen = CASE WHEN last_seen < $2 THEN $2 ELSE last_seen END WHERE number = $1",
    )
    .bind(number)
    .bind(int(seen.at))
    .execute(&mut **writing)
    .await?;
    count_in_trend(writing, number, seen.at / HOUR, 1).await?;
    note_reporter(writing, number, &seen.host).await?;
    if let Some(counted) = counted {
        discount(writing, counted, seen.at / HOUR).await?;
    }
    Ok(true)
}

/// Takes back a failing run that counted for a case. When the case was last seen to fail is known to the hour from then on.
async fn discount(writing: &mut Writing<'_>, number: i64, hour: u64) -> Result<(), StoreError> {
    sqlx::query("UPDATE trend SET failures = failures - 1 WHERE case_number = $1 AND hour = $2")
        .bind(number)
        .bind(int(hour))
        .execute(&mut **writing)
        .await?;
    sqlx::query("DELETE FROM trend WHERE case_number = $1 AND failures <= 0")
        .bind(number)
        .execute(&mut **writing)
        .await?;
    let last: Option<i64> = sqlx::query_scalar("SELECT MAX(hour) FROM trend WHERE case_number = $1")
        .bind(number)
        .fetch_one(&mut **writing)
        .await?;
    let end = last.map_or(i64::MAX, |hour| (hour + 1) * int(HOUR) - 1);
    sqlx::query(
        "UPDATE cases SET failures = failures - 1, \
         last_seen = CASE WHEN last_seen > $2 THEN $2 ELSE last_seen END WHERE number = $1",
    )
    .bind(number)
    .bind(end)
    .execute(&mut **writing)
    .await?;
    Ok(())
}

/// The numbers of two cases of which there may be one only, whose rows are ours until the commit. They are taken in an order that all servers
/// have in common: two that wanted each other's would wait forever.
async fn lock_both(
    writing: &mut Writing<'_>,
    case: &Case,
    other: Option<&Case>,
) -> Result<(i64, Option<i64>), StoreError> {
    let Some(other) = other else {
        return Ok((lock(writing, case).await?, None));
    };
    if case <= other {
        let number = lock(writing, case).await?;
        Ok((number, Some(lock(writing, other).await?)))
    } else {
        let other = lock(writing, other).await?;
        Ok((lock(writing, case).await?, Some(other)))
    }
}

/// A case's number. Its row is ours until the commit: it cannot be forgotten before.
async fn lock(connection: &mut AnyConnection, case: &Case) -> Result<i64, StoreError> {
    let row =
        sqlx::query("UPDATE cases SET last_seq = last_seq WHERE bug = $1 AND build = $2 RETURNING number")
            .bind(case.bug.0.as_str())
            .bind(case.build.0.as_slice())
            .fetch_optional(connection)
            .await?;
    let row = row.ok_or_else(|| StoreError::no_case(case))?;
    Ok(row.try_get(0)?)
}

fn case_row(row: &AnyRow) -> Result<CaseRow, StoreError> {
    Ok(CaseRow {
        case: Case {
            bug: BugId(row.try_get("bug")?),
            build: BuildId(row.try_get("build")?),
        },
        program: row.try_get("program")?,
        state: state(row)?,
        widened: widened(row)?,
        modules: bytes(row, "modules")?,
        report: bytes(row, "report")?,
        runs_until: count(row, "runs_until")?,
        last_seq: count(row, "last_seq")?,
        retired_seq: count(row, "retired_seq")?,
        failures: count(row, "failures")?,
        first_seen: count(row, "first_seen")?,
        last_seen: count(row, "last_seen")?,
    })
}

fn stored_run(row: &AnyRow) -> Result<StoredRun, StoreError> {
    let body = match row.try_get::<Option<String>, _>("object")? {
        Some(key) => Body::Object(key),
        None => Body::Inline(bytes(row, "body")?),
    };
    Ok(StoredRun {
        seq: count(row, "seq")?,
        id: row.try_get("id")?,
        host: row.try_get("host")?,
        owner: row.try_get::<Option<String>, _>("owner")?.map(Owner),
        at: count(row, "at")?,
        body,
    })
}
