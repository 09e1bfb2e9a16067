//! Runs: checked, stored, acknowledged, in this order.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use diagnosis::record::RunEnd;
use proto::v1;
use proto::v1::run_receipt::Outcome;
use tonic::Status;

use super::{House, id, program, refused};
use crate::access::Identity;
use crate::clock::now;
use crate::limits;
use crate::store::model::{Appended, BugId, Case, NewRun};
use crate::store::{Body, MOST_INLINE, StoreError};

/// Cases that runs came for lately: which programs they are of.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<Case, String>>);

impl Known {
    /// More are forgotten, and looked up again.
    const MOST: usize = 4096;

    fn is_of(&self, case: &Case, program: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(case).is_some_and(|known| known == program)
    }

    fn learn(&self, case: Case, program: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(case, program);
    }
}

/// Stores the runs of a report; gives a receipt for each, in their order.
pub(super) async fn take(
    house: &House,
    who: &Identity,
    said: v1::ReportRunsRequest,
) -> Result<Vec<v1::RunReceipt>, Status> {
    who.may_report_something()?;
    id("host", &said.host)?;
    let most = house.limits.runs.min(proto::MOST_RUNS);
    if said.runs.len() > most {
        return Err(Status::invalid_argument(format!(
            "a report has at most {most} runs"
        )));
    }
    house.speaks_for(who, &said.host).await?;
    house.metrics.runs_dropped.add(said.dropped);
    let mut receipts: Vec<Option<v1::RunReceipt>> = vec![None; said.runs.len()];
    let mut by_case: BTreeMap<(String, Case), Vec<(usize, NewRun)>> = BTreeMap::new();
    for (number, run) in said.runs.into_iter().enumerate() {
        let id = run.id.clone();
        match check(house, who, &said.host, run).await {
            Ok((of, run)) => by_case.entry(of).or_default().push((number, run)),
            Err(status) if is_final(&status) => {
                house.metrics.runs_refused.add(1);
                receipts[number] = Some(receipt(id, Outcome::Refused, status.message()));
            }
            // Nothing of this report is acknowledged: all of it is sent again.
            Err(status) => return Err(status),
        }
    }
    for ((name, case), runs) in by_case {
        let (numbers, runs): (Vec<usize>, Vec<NewRun>) = runs.into_iter().unzip();
        for (number, receipt) in numbers.into_iter().zip(append(house, &name, &case, runs).await?) {
            receipts[number] = Some(receipt);
        }
    }
    Ok(receipts.into_iter().flatten().collect())
}

/// Checks a run, and finds its program and its case.
async fn check(
    house: &House,
    who: &Identity,
    host: &str,
    run: v1::Run,
) -> Result<((String, Case), NewRun), Status> {
    let (name, build) = program(run.program)?;
    who.may_report(&name)?;
    id("run", &run.id)?;
    let case = Case {
        bug: BugId(run.bug),
        build,
    };
    is_of(house, &case, &name).await?;
    let record = limits::run(&run.record).map_err(refused)?;
    let body = match run.record.len() <= MOST_INLINE {
        true => Body::Inline(run.record),
        false => {
            let kept = large(house, who, run.record).await;
            Body::Object(kept.map_err(|error| house.of_store(error))?)
        }
    };
    let run = NewRun {
        id: run.id,
        host: host.to_owned(),
        at: now(),
        failed: matches!(record.end, RunEnd::Failed(_)),
        body,
    };
    Ok(((name, case), run))
}

/// Keeps the record of a large run; gives its key.
async fn large(house: &House, who: &Identity, record: Bytes) -> Result<String, StoreError> {
    let mut staged = house.objects.stage(record.len() as u64).await?;
    staged.write(record).await?;
    house.keep(who, staged).await
}

/// Whether a case is of a program: whoever may report on one must not do so under another's name.
async fn is_of(house: &House, case: &Case, name: &str) -> Result<(), Status> {
    if house.known.is_of(case, name) {
        return Ok(());
    }
    let row = house.store.case(case).await;
    let row = row.map_err(|error| house.of_store(error))?;
    if row.is_none_or(|row| row.program != name) {
        return Err(Status::not_found(format!(
            "{name} has no bug {} in build {}",
            case.bug, case.build
        )));
    }
    house.known.learn(case.clone(), name.to_owned());
    Ok(())
}

async fn append(
    house: &House,
    name: &str,
    case: &Case,
    runs: Vec<NewRun>,
) -> Result<Vec<v1::RunReceipt>, Status> {
    let ids: Vec<String> = runs.iter().map(|run| run.id.clone()).collect();
    let length = |run: &NewRun| match &run.body {
        Body::Inline(bytes) => bytes.len() as u64,
        Body::Object(_) => 0,
    };
    let bytes = runs.iter().map(length).sum();
    let appended = house.store.append(case, runs).await;
    let appended = appended.map_err(|error| house.of_store(error))?;
    let metrics = &house.metrics;
    metrics.run_bytes.add(bytes);
    let receipts = ids
        .into_iter()
        .zip(appended)
        .map(|(id, appended)| match appended {
            Appended::Stored(_) => {
                metrics.runs_stored.add(1);
                receipt(id, Outcome::Stored, "")
            }
            Appended::Duplicate => {
                metrics.runs_repeated.add(1);
                receipt(id, Outcome::Duplicate, "")
            }
        });
    let receipts = receipts.collect();
    // They are stored, whatever becomes of the inquiry.
    if let Err(error) = house.room.look(name, case).await {
        tracing::warn!(bug = %case.bug, %error, "runs wait in the log");
    }
    Ok(receipts)
}

/// Whether sending the same again would end the same way.
fn is_final(status: &Status) -> bool {
    use tonic::Code::{FailedPrecondition, InvalidArgument, NotFound, OutOfRange, PermissionDenied};
    matches!(
        status.code(),
        FailedPrecondition | InvalidArgument | NotFound | OutOfRange | PermissionDenied
    )
}

fn receipt(id: String, outcome: Outcome, reason: &str) -> v1::RunReceipt {
    v1::RunReceipt {
        id,
        outcome: outcome.into(),
        reason: reason.to_owned(),
    }
}
