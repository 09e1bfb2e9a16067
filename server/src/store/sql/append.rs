//! Runs into logs: one transaction for what came together.
//!
//! A case's row gives its entries their numbers, and who changes it holds it until the commit. So entries of one case become
//! visible in the order of their numbers, and whoever has read the log up to one has missed nothing before it.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use sqlx::AnyConnection;
use sqlx::{Connection as _, Row as _};

use super::connect::Dialect;
use super::objects::{lost, touch_all};
use super::pages::{HOUR, count_in_trend};
use super::rows::{IN_64, int, sixty_four, unsigned};
use crate::store::model::{Appended, Case, NewRun};
use crate::store::{Body, StoreError};

/// Runs of a case that somebody waits for.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) case: Case,
    pub(super) runs: Vec<NewRun>,
}

/// What became of the runs of each call.
pub(super) type Answers = Vec<Result<Vec<Appended>, StoreError>>;

/// Which hosts are noted as reporters of which case, so that they need not be noted with every run.
#[derive(Debug, Default)]
pub(super) struct Noted(HashSet<(i64, String)>);

/// More pairs than a fleet has; past it everything is noted anew.
const MOST_NOTED: usize = 100_000;

/// Stores the runs of some calls, all or none.
pub(super) async fn append(
    connection: &mut AnyConnection,
    dialect: Dialect,
    noted: &mut Noted,
    calls: &[Call],
) -> Result<Answers, StoreError> {
    // Nearly always every run is new, which then need not be asked first.
    if let Some(answers) = attempt(connection, dialect, noted, calls, Trust::AllNew).await? {
        return Ok(answers);
    }
    let answers = attempt(connection, dialect, noted, calls, Trust::Nothing).await?;
    answers.ok_or_else(|| StoreError::Damaged("a run that was not there could not be stored".to_owned()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Runs with different ids in the calls are new to the log.
    AllNew,
    /// The log is asked which of them it has.
    Nothing,
}

/// Nothing, and nothing done, if a run was there although it was trusted to be new.
async fn attempt(
    connection: &mut AnyConnection,
    dialect: Dialect,
    noted: &mut Noted,
    calls: &[Call],
    trust: Trust,
) -> Result<Option<Answers>, StoreError> {
    let mut transaction = connection.begin_with(dialect.begin()).await?;
    let mut answers: Answers = calls
        .iter()
        .map(|call| Ok(vec![Appended::Duplicate; call.runs.len()]))
        .collect();
    let lacking = touch_all(&mut transaction, calls).await?;
    for &call in &lacking {
        answers[call] = Err(lost());
    }
    let mut reporters = Vec::new();
    for (case, mut calls_of_case) in by_case(calls) {
        calls_of_case.retain(|call| !lacking.contains(call));
        let mut fresh = first_of_each_id(calls, &calls_of_case);
        if trust == Trust::Nothing {
            let known = match advance(&mut transaction, case, &[]).await? {
                Some((number, _)) => known(&mut transaction, number, &fresh).await?,
                None => HashSet::new(),
            };
            fresh.retain(|entry| !known.contains(&entry.run.id));
        }
        let Some((number, last)) = advance(&mut transaction, case, &fresh).await? else {
            for &call in &calls_of_case {
                answers[call] = Err(StoreError::no_case(case));
            }
            continue;
        };
        let first = last + 1 - int(fresh.len() as u64);
        if insert(&mut transaction, number, first, &fresh).await? < fresh.len() as u64 {
            transaction.rollback().await?;
            return Ok(None);
        }
        for (hour, failures) in failures_by_hour(&fresh) {
            count_in_trend(&mut transaction, number, hour, failures).await?;
        }
        for (place, entry) in (first..).zip(&fresh) {
            if let Ok(answer) = &mut answers[entry.call] {
                answer[entry.index] = Appended::Stored(unsigned(place)?);
            }
            let reporter = (number, entry.run.host.clone());
            if !noted.0.contains(&reporter) && !reporters.contains(&reporter) {
                reporters.push(reporter);
            }
        }
    }
    for (number, host) in &reporters {
        note_reporter(&mut transaction, *number, host).await?;
    }
    transaction.commit().await?;
    if noted.0.len() > MOST_NOTED {
        noted.0.clear();
    }
    noted.0.extend(reporters);
    Ok(Some(answers))
}

/// A run with the call that it came with, and its place there.
struct Entry<'a> {
    call: usize,
    index: usize,
    run: &'a NewRun,
}

/// In an order that all servers have in common: two that wanted each other's rows would wait forever.
fn by_case(calls: &[Call]) -> BTreeMap<&Case, Vec<usize>> {
    let mut cases: BTreeMap<&Case, Vec<usize>> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        cases.entry(&call.case).or_default().push(index);
    }
    cases
}

fn first_of_each_id<'a>(calls: &'a [Call], of_case: &[usize]) -> Vec<Entry<'a>> {
    let mut ids = HashSet::new();
    let runs = of_case.iter().flat_map(|&call| {
        let runs = calls[call].runs.iter().enumerate();
        runs.map(move |(index, run)| Entry { call, index, run })
    });
    runs.filter(|entry| ids.insert(entry.run.id.as_str())).collect()
}

fn failures_by_hour(fresh: &[Entry<'_>]) -> BTreeMap<u64, u64> {
    let mut hours = BTreeMap::new();
    for run in fresh.iter().map(|entry| entry.run).filter(|run| run.failed) {
        *hours.entry(run.at / HOUR).or_default() += 1;
    }
    hours
}

/// Takes numbers for entries: the case's own number and the last of theirs, if there is such a case. Its row is ours until the commit.
async fn advance(
    connection: &mut AnyConnection,
    case: &Case,
    fresh: &[Entry<'_>],
) -> Result<Option<(i64, i64)>, StoreError> {
    const SQL: &str = "UPDATE cases SET last_seq = last_seq + $3, failures = failures + $4, \
         last_seen = CASE WHEN last_seen < $5 THEN $5 ELSE last_seen END \
         WHERE bug = $1 AND build = $2 RETURNING number, last_seq";
    let failed = || fresh.iter().map(|entry| entry.run).filter(|run| run.failed);
    let row = sqlx::query(SQL)
        .bind(case.bug.0.as_str())
        .bind(case.build.0.as_slice())
        .bind(int(fresh.len() as u64))
        .bind(int(failed().count() as u64))
        .bind(int(failed().map(|run| run.at).max().unwrap_or(0)))
        .fetch_optional(connection)
        .await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

/// Which of some runs the log of a case has.
async fn known(
    connection: &mut AnyConnection,
    number: i64,
    fresh: &[Entry<'_>],
) -> Result<HashSet<String>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT id FROM runs WHERE id IN ({}) AND case_number = $65",
            *IN_64
        )
    });
    let mut found = HashSet::new();
    for some in fresh.chunks(64) {
        let mut query = sqlx::query_scalar::<_, String>(SQL.as_str());
        for entry in sixty_four(some) {
            query = query.bind(entry.run.id.as_str());
        }
        found.extend(query.bind(number).fetch_all(&mut *connection).await?);
    }
    Ok(found)
}

/// Statements that insert 1, 2, 4, … 64 runs: few enough that each stays prepared.
static INSERTS: LazyLock<Vec<String>> = LazyLock::new(|| (0..7).map(|power| insert_of(1 << power)).collect());

const COLUMNS: usize = 7;

fn insert_of(rows: usize) -> String {
    let row = |row: usize| {
        let columns: Vec<String> = (1..=COLUMNS)
            .map(|column| format!("${}", row * COLUMNS + column))
            .collect();
        format!("({})", columns.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO runs (case_number, seq, id, host, at, body, object) VALUES {} ON CONFLICT DO NOTHING",
        rows.join(", ")
    )
}

/// How many of the entries were new.
async fn insert(
    connection: &mut AnyConnection,
    number: i64,
    first: i64,
    fresh: &[Entry<'_>],
) -> Result<u64, StoreError> {
    let mut inserted = 0;
    let mut rest = fresh;
    let mut places = first..;
    while !rest.is_empty() {
        let power = (rest.len().ilog2() as usize).min(INSERTS.len() - 1);
        let (some, others) = rest.split_at(1 << power);
        rest = others;
        let mut query = sqlx::query(INSERTS[power].as_str());
        for (entry, place) in some.iter().zip(&mut places) {
            let (body, object) = match &entry.run.body {
                Body::Inline(bytes) => (Some(&bytes[..]), None),
                Body::Object(key) => (None, Some(key.as_str())),
            };
            query = query
                .bind(number)
                .bind(place)
                .bind(entry.run.id.as_str())
                .bind(entry.run.host.as_str());
            query = query.bind(int(entry.run.at)).bind(body).bind(object);
        }
        inserted += query.execute(&mut *connection).await?.rows_affected();
    }
    Ok(inserted)
}

/// Notes that a host reported on a case.
pub(super) async fn note_reporter(
    connection: &mut AnyConnection,
    number: i64,
    host: &str,
) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO reporters (case_number, host, owner) \
         VALUES ($1, $2, (SELECT owner FROM hosts WHERE id = $2)) ON CONFLICT DO NOTHING";
    sqlx::query(SQL)
        .bind(number)
        .bind(host)
        .execute(connection)
        .await?;
    Ok(())
}
