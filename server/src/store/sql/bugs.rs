//! Bugs: what their cases have in common, and who steered them.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::SqlStore;
use super::rows::{count, int, state, state_columns};
use crate::store::StoreError;
use crate::store::model::{Audit, BugId, BugRow, State};

/// Bugs with sums over their cases. PostgreSQL's sums are of a type of their own unless they are cast.
macro_rules! bugs {
    ($which:literal, $order:literal) => {
        concat!(
            "SELECT bugs.id, bugs.program, bugs.signature, bugs.state, bugs.state_build, \
             MIN(first_seen) AS first_seen, MAX(last_seen) AS last_seen, \
             CAST(SUM(failures) AS BIGINT) AS failures, CAST(SUM(last_seq) AS BIGINT) AS runs, \
             (SELECT COUNT(DISTINCT host) FROM reporters JOIN cases AS of_bug ON of_bug.number = case_number \
             WHERE of_bug.bug = bugs.id) AS hosts FROM bugs JOIN cases ON cases.bug = bugs.id WHERE ",
            $which,
            " GROUP BY bugs.id, bugs.program, bugs.signature, bugs.state, bugs.state_build ",
            $order
        )
    };
}

impl SqlStore {
    pub(super) async fn read_bugs(
        &self,
        program: Option<&str>,
        most: u32,
    ) -> Result<Vec<BugRow>, StoreError> {
        let query = match program {
            Some(program) => sqlx::query(bugs!(
                "bugs.program = $1",
                "ORDER BY last_seen DESC, bugs.id LIMIT $2"
            ))
            .bind(program),
            None => sqlx::query(bugs!("1 = 1", "ORDER BY last_seen DESC, bugs.id LIMIT $1")),
        };
        let rows = query.bind(i64::from(most)).fetch_all(&self.pool).await?;
        rows.iter().map(bug_row).collect()
    }

    pub(super) async fn read_bug(&self, bug: &BugId) -> Result<Option<BugRow>, StoreError> {
        let row = sqlx::query(bugs!("bugs.id = $1", ""))
            .bind(bug.0.as_str())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(bug_row).transpose()
    }

    pub(super) async fn steer_bug(
        &self,
        bug: &BugId,
        to: &State,
        widen: u32,
        audit: &Audit,
    ) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        let (state, build) = state_columns(to);
        let steered =
            sqlx::query("UPDATE bugs SET state = $2, state_build = $3, widened = widened + $4 WHERE id = $1")
                .bind(bug.0.as_str())
                .bind(state)
                .bind(build)
                .bind(i64::from(widen))
                .execute(&mut *writing)
                .await?;
        if steered.rows_affected() == 0 {
            return Err(StoreError::Refused(format!("there is no bug {bug}")));
        }
        sqlx::query("INSERT INTO audit (at, who, bug, what) VALUES ($1, $2, $3, $4)")
            .bind(int(audit.at))
            .bind(audit.who.as_str())
            .bind(audit.bug.0.as_str())
            .bind(audit.what.as_str())
            .execute(&mut *writing)
            .await?;
        writing.commit().await
    }

    pub(super) async fn read_audit(&self, most: u32) -> Result<Vec<Audit>, StoreError> {
        let rows = sqlx::query("SELECT at, who, bug, what FROM audit ORDER BY number DESC LIMIT $1")
            .bind(i64::from(most))
            .fetch_all(&self.pool)
            .await?;
        let audit = |row: &AnyRow| {
            Ok(Audit {
                at: count(row, "at")?,
                who: row.try_get("who")?,
                bug: BugId(row.try_get("bug")?),
                what: row.try_get("what")?,
            })
        };
        rows.iter().map(audit).collect()
    }
}

fn bug_row(row: &AnyRow) -> Result<BugRow, StoreError> {
    Ok(BugRow {
        id: BugId(row.try_get("id")?),
        program: row.try_get("program")?,
        signature: row.try_get("signature")?,
        state: state(row)?,
        first_seen: count(row, "first_seen")?,
        last_seen: count(row, "last_seen")?,
        failures: count(row, "failures")?,
        runs: count(row, "runs")?,
        hosts: count(row, "hosts")?,
    })
}
