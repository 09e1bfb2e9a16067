//! What pages show, at a price that does not grow with the number of runs.

use std::sync::LazyLock;

use program::BuildId;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row as _};

use super::SqlStore;
use super::rows::{IN_64, count, int, sixty_four, state, widened};
use crate::store::StoreError;
use crate::store::model::{Audit, BugId, Case, HourOf, Overview, RunRow};

/// Seconds.
pub(super) const HOUR: u64 = 3600;
/// Words of a search; more are left out.
const MOST_WORDS: usize = 4;

/// Bugs with sums over their cases, and what was derived from the log of the one that was active last.
macro_rules! overview {
    ($which:literal) => {
        concat!(
            "SELECT bugs.id, bugs.program, bugs.signature, bugs.state, bugs.state_build, bugs.widened, \
             whole.first_seen, whole.last_seen, whole.failures, whole.runs, whole.builds, latest.build, \
             COALESCE(derived.seq, 0) AS seq, derived.summary FROM bugs \
             JOIN (SELECT bug, MIN(first_seen) AS first_seen, MAX(last_seen) AS last_seen, \
             CAST(SUM(failures) AS BIGINT) AS failures, CAST(SUM(last_seq) AS BIGINT) AS runs, \
             COUNT(*) AS builds FROM cases GROUP BY bug) AS whole ON whole.bug = bugs.id \
             JOIN cases AS latest ON latest.number = (SELECT of_bug.number FROM cases AS of_bug \
             WHERE of_bug.bug = bugs.id ORDER BY of_bug.last_seen DESC, of_bug.number DESC LIMIT 1) \
             LEFT JOIN derived ON derived.case_number = latest.number ",
            $which
        )
    };
}

impl SqlStore {
    pub(super) async fn read_overview(
        &self,
        words: &[String],
        most: u32,
    ) -> Result<Vec<Overview>, StoreError> {
        const SQL: &str = overview!(
            "WHERE LOWER(bugs.program || ' ' || bugs.signature || ' ' || bugs.id || ' ' || \
             COALESCE(derived.words, '')) LIKE $1 ESCAPE '!' \
             AND LOWER(bugs.program || ' ' || bugs.signature || ' ' || bugs.id || ' ' || \
             COALESCE(derived.words, '')) LIKE $2 ESCAPE '!' \
             AND LOWER(bugs.program || ' ' || bugs.signature || ' ' || bugs.id || ' ' || \
             COALESCE(derived.words, '')) LIKE $3 ESCAPE '!' \
             AND LOWER(bugs.program || ' ' || bugs.signature || ' ' || bugs.id || ' ' || \
             COALESCE(derived.words, '')) LIKE $4 ESCAPE '!' \
             ORDER BY whole.last_seen DESC, bugs.id LIMIT $5"
        );
        let mut query = sqlx::query(SQL);
        for place in 0..MOST_WORDS {
            query = query.bind(
                words
                    .get(place)
                    .map_or_else(|| "%".to_owned(), |word| containing(word)),
            );
        }
        let rows = query.bind(i64::from(most)).fetch_all(&self.pool).await?;
        rows.iter().map(overview).collect()
    }

    pub(super) async fn read_overview_of(&self, bug: &BugId) -> Result<Option<Overview>, StoreError> {
        let row = sqlx::query(overview!("WHERE bugs.id = $1"))
            .bind(bug.0.as_str())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(overview).transpose()
    }

    pub(super) async fn read_trend(&self, bugs: &[BugId], from: u64) -> Result<Vec<HourOf>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT bug, hour, CAST(SUM(trend.failures) AS BIGINT) AS failures FROM trend JOIN cases \
                 ON cases.number = case_number WHERE bug IN ({}) AND hour >= $65 GROUP BY bug, hour ORDER BY bug, hour",
                *IN_64
            )
        });
        let mut hours = Vec::new();
        for some in bugs.chunks(64) {
            let mut query = sqlx::query(SQL.as_str());
            for bug in sixty_four(some) {
                query = query.bind(bug.0.as_str());
            }
            let rows = query.bind(int(from)).fetch_all(&self.pool).await?;
            for row in &rows {
                hours.push(HourOf {
                    bug: BugId(row.try_get("bug")?),
                    hour: count(row, "hour")?,
                    failures: count(row, "failures")?,
                });
            }
        }
        Ok(hours)
    }

    pub(super) async fn read_reporters(&self, bugs: &[BugId]) -> Result<Vec<(BugId, u64)>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT bug, COUNT(DISTINCT host) AS hosts FROM reporters JOIN cases ON cases.number = case_number \
                 WHERE bug IN ({}) GROUP BY bug",
                *IN_64
            )
        });
        let mut hosts = Vec::new();
        for some in bugs.chunks(64) {
            let mut query = sqlx::query(SQL.as_str());
            for bug in sixty_four(some) {
                query = query.bind(bug.0.as_str());
            }
            for row in &query.fetch_all(&self.pool).await? {
                hosts.push((BugId(row.try_get("bug")?), count(row, "hosts")?));
            }
        }
        Ok(hosts)
    }

    pub(super) async fn read_runs_numbered(
        &self,
        case: &Case,
        seqs: &[u64],
    ) -> Result<Vec<RunRow>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT seq, id, host, at, CAST(CASE WHEN body IS NULL AND object IS NULL THEN 0 ELSE 1 END AS BIGINT) \
                 AS kept FROM runs WHERE seq IN ({}) AND case_number = \
                 (SELECT number FROM cases WHERE bug = $65 AND build = $66) ORDER BY seq DESC",
                *IN_64
            )
        });
        let mut runs = Vec::new();
        for some in seqs.chunks(64) {
            let mut query = sqlx::query(SQL.as_str());
            for seq in sixty_four(some) {
                query = query.bind(int(*seq));
            }
            let query = query.bind(case.bug.0.as_str()).bind(case.build.0.as_slice());
            for row in &query.fetch_all(&self.pool).await? {
                runs.push(RunRow {
                    seq: count(row, "seq")?,
                    id: row.try_get("id")?,
                    host: row.try_get("host")?,
                    at: count(row, "at")?,
                    is_kept: count(row, "kept")? > 0,
                });
            }
        }
        Ok(runs)
    }

    pub(super) async fn read_audit_of(&self, bug: &BugId, most: u32) -> Result<Vec<Audit>, StoreError> {
        let rows =
            sqlx::query("SELECT at, who, what FROM audit WHERE bug = $1 ORDER BY number DESC LIMIT $2")
                .bind(bug.0.as_str())
                .bind(i64::from(most))
                .fetch_all(&self.pool)
                .await?;
        let audit = |row: &AnyRow| {
            Ok(Audit {
                at: count(row, "at")?,
                who: row.try_get("who")?,
                bug: bug.clone(),
                what: row.try_get("what")?,
            })
        };
        rows.iter().map(audit).collect()
    }
}

/// Counts failures of a case that came in an hour. Its row is the caller's until the commit.
pub(super) async fn count_in_trend(
    connection: &mut AnyConnection,
    number: i64,
    hour: u64,
    failures: u64,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO trend (case_number, hour, failures) VALUES ($1, $2, $3) ON CONFLICT (case_number, hour) \
         DO UPDATE SET failures = trend.failures + excluded.failures",
    )
    .bind(number)
    .bind(int(hour))
    .bind(int(failures))
    .execute(connection)
    .await?;
    Ok(())
}

/// What text with a word in it is like.
fn containing(word: &str) -> String {
    let mut pattern = String::from("%");
    for letter in word.to_lowercase().chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

fn overview(row: &AnyRow) -> Result<Overview, StoreError> {
    Ok(Overview {
        id: BugId(row.try_get("id")?),
        program: row.try_get("program")?,
        signature: row.try_get("signature")?,
        state: state(row)?,
        widened: widened(row)?,
        first_seen: count(row, "first_seen")?,
        last_seen: count(row, "last_seen")?,
        failures: count(row, "failures")?,
        runs: count(row, "runs")?,
        builds: count(row, "builds")?,
        build: BuildId(row.try_get("build")?),
        seq: count(row, "seq")?,
        summary: row.try_get::<Option<Vec<u8>>, _>("summary")?.map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_looked_for_as_it_is() {
        assert_eq!(containing("Queue_take"), "%queue!_take%");
        assert_eq!(containing("100%!"), "%100!%!!%");
    }
}
