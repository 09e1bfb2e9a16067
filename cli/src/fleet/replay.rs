//! Recorded runs sent again, in the name of many hosts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent::link::{Access, Backoff, Link, Remedy, UploadError, patiently, remedy};
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use diagnosis::record::{ModuleRecord, RunEnd, RunRecord};
use proto::v1::run_receipt::Outcome;
use proto::v1::{
    GetBugRequest, Module, Program, RegisterRequest, ReportFailureRequest, ReportRunsRequest, Run,
};

use crate::args::FleetArgs;
use crate::people;
use crate::run::keep;

/// How often files that the server lacks are uploaded before the failure is given up.
const MOST_UPLOADS: usize = 3;

/// What the hosts did.
#[derive(Default)]
struct Tally {
    stored: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
}

/// What all hosts send.
struct Replayed {
    bug: String,
    program: Program,
    records: Vec<Bytes>,
    /// Tells the runs of one replay from those of another.
    label: String,
}

/// Replays the runs of a folder; says what came of it.
pub async fn run(args: &FleetArgs, folder: &Path, access: &Access) -> Result<String> {
    let started = Instant::now();
    let (series, records) = keep::open(folder)?;
    let records: Vec<RunRecord> = records.collect::<Result<_>>()?;
    // The failure that was looked into need not be the first that there was.
    let first = records
        .iter()
        .position(|record| record.number >= series.from && matches!(record.end, RunEnd::Failed(_)));
    let first = first.with_context(|| format!("none of the runs in {} failed", folder.display()))?;
    let tracked: Vec<Bytes> = records[first + 1..]
        .iter()
        .filter(|record| record.sigma > 0 && record.end != RunEnd::Inconclusive)
        .map(|record| Ok(Bytes::from(serde_json::to_vec(record)?)))
        .collect::<Result<_>>()?;
    if tracked.is_empty() {
        bail!("{} has no tracked runs to replay", folder.display());
    }
    let link = Link::new(access)?;
    let label = format!("{:x}", std::process::id());
    let (program, bug) = report(&link, &records[first], first as u64 + 1, &label).await?;
    let replayed = Arc::new(Replayed {
        bug,
        program,
        records: tracked,
        label,
    });
    let tally = Arc::new(Tally::default());
    let agents = u64::from(args.agents.max(1));
    let runs = args.runs.unwrap_or(agents * 10);
    let pace = args
        .rate
        .map(|rate| Duration::from_secs_f64(agents as f64 / rate.max(0.001)));
    let hosts = (0..agents).map(|number| {
        // The first hosts take what cannot be divided.
        let own = runs / agents + u64::from(number < runs % agents);
        let (link, replayed, tally) = (link.clone(), Arc::clone(&replayed), Arc::clone(&tally));
        tokio::spawn(async move { host(number, own, pace, &link, &replayed, &tally).await })
    });
    for host in hosts.collect::<Vec<_>>() {
        host.await.context("a host ended early")??;
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let request = GetBugRequest {
        bug: replayed.bug.clone(),
    };
    let bug = people::connect(access)?
        .get_bug(request)
        .await
        .map_err(people::said)?;
    let bug = bug.into_inner();
    Ok(format!(
        "bug {}: {runs} runs of {agents} hosts in {:.1} s: {} stored, {} had been stored before, {} refused; the server has {}\n",
        bug.id,
        started.elapsed().as_secs_f64(),
        count(&tally.stored),
        count(&tally.repeated),
        count(&tally.refused),
        bug.runs,
    ))
}

/// One host: says that it is there, and sends its runs one after the other until each is acknowledged.
async fn host(
    number: u64,
    runs: u64,
    pace: Option<Duration>,
    link: &Link,
    replayed: &Replayed,
    tally: &Tally,
) -> Result<()> {
    let host = format!("fleet-{}-{number}", replayed.label);
    let mut backoff = Backoff::default();
    let registration = RegisterRequest {
        host: host.clone(),
        hostname: host.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: proto::PROTOCOL,
        programs: vec![replayed.program.clone()],
        ..RegisterRequest::default()
    };
    patiently("a host", &mut backoff, || link.register(registration.clone()))
        .await
        .map_err(people::said)?;
    for run in 0..runs {
        if let Some(pace) = pace {
            tokio::time::sleep(pace).await;
        }
        let at = usize::try_from(number + run).unwrap_or(0) % replayed.records.len();
        let request = ReportRunsRequest {
            host: host.clone(),
            runs: vec![Run {
                id: format!("{host}-{run}"),
                bug: replayed.bug.clone(),
                program: Some(replayed.program.clone()),
                record: replayed.records[at].clone(),
            }],
            dropped: 0,
        };
        let answer = patiently("a run", &mut backoff, || link.report_runs(request.clone()));
        let answer = answer.await.map_err(people::said)?;
        for receipt in answer.receipts {
            let counter = match receipt.outcome() {
                Outcome::Stored => &tally.stored,
                Outcome::Duplicate => &tally.repeated,
                Outcome::Refused | Outcome::Unspecified => {
                    tracing::warn!(reason = receipt.reason, "a run was refused");
                    &tally.refused
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Reports the failure that the runs are about, with the files of its program. Gives the program and the bug.
async fn report(link: &Link, record: &RunRecord, runs: u64, label: &str) -> Result<(Program, String)> {
    let RunEnd::Failed(report) = &record.end else {
        bail!("the run did not fail");
    };
    let executable = record.modules.iter().find(|module| module.executable);
    let executable = executable.context("the recorded run does not say which program it was of")?;
    let program = Program {
        name: file_name(&executable.path).to_owned(),
        build_id: build(executable),
    };
    let failure = ReportFailureRequest {
        host: format!("fleet-{label}"),
        id: format!("first-{label}"),
        program: Some(program.clone()),
        modules: record
            .modules
            .iter()
            // The kernel's page is no file.
            .filter(|module| module.path.starts_with('/'))
            .map(|module| Module {
                path: module.path.clone(),
                build_id: build(module),
                executable: module.executable,
                ..Module::default()
            })
            .collect(),
        runs,
        report: serde_json::to_vec(report)?.into(),
        ..ReportFailureRequest::default()
    };
    let mut backoff = Backoff::default();
    for _ in 0..=MOST_UPLOADS {
        let answer = patiently("a failure", &mut backoff, || link.report_failure(failure.clone()));
        let answer = answer.await.map_err(people::said)?;
        if answer.lacking.is_empty() {
            return Ok((program, answer.bug));
        }
        for module in &answer.lacking {
            upload(link, &failure, module, &mut backoff).await?;
        }
    }
    bail!("the server still lacks files of {}", program.name)
}

/// A file, until the server has it or does not want it: it may be killed in the middle, as it may with a run.
async fn upload(
    link: &Link,
    failure: &ReportFailureRequest,
    module: &Module,
    backoff: &mut Backoff,
) -> Result<()> {
    loop {
        match link.upload(failure, module).await {
            Err(UploadError::Refused { status, .. }) if remedy(&status) == Remedy::Later => {
                tokio::time::sleep(backoff.pause()).await;
            }
            other => return Ok(other.map(drop)?),
        }
    }
}

fn build(module: &ModuleRecord) -> Bytes {
    let build = module.build_id.as_ref();
    build.map_or_else(Bytes::new, |build| Bytes::from(build.0.clone()))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
