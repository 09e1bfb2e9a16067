//! Takes what waits on disk to the server.

use std::sync::Arc;

use proto::v1::run_receipt::Outcome;
use proto::v1::{Module, ReportFailureRequest, ReportRunsRequest, Run};
use tonic::Status;

use crate::link::{Backoff, Link, Remedy, UploadError, patiently, remedy};
use crate::spool::{Item, Spool, Ticket};

/// How often a failure is reported again because the server lacks files: one may be asked for that another leads to.
const MOST_UPLOADS: usize = 3;

/// Sends what the spool has, oldest first, until it is dropped. Nothing leaves the spool before the server has said that it
/// has it, or that it never wants it.
pub struct Courier {
    /// The way to the server.
    pub link: Link,
    /// What is to be sent.
    pub spool: Arc<Spool>,
    /// Who sends it.
    pub host: String,
    /// Pauses between attempts.
    pub backoff: Backoff,
}

impl Courier {
    /// Sends whatever comes.
    pub async fn serve(mut self) {
        loop {
            self.deliver_all().await;
            let spool = Arc::clone(&self.spool);
            spool.filled.notified().await;
        }
    }

    /// Sends what is there.
    pub async fn deliver_all(&mut self) {
        loop {
            let spool = Arc::clone(&self.spool);
            let taken = tokio::task::spawn_blocking(move || spool.oldest()).await;
            let mut runs = Vec::new();
            match taken {
                Ok(taken) if taken.is_empty() => return,
                Ok(taken) => {
                    for (ticket, item) in taken {
                        match item {
                            Item::Failure(failure) => self.deliver_failure(ticket, failure).await,
                            Item::Run(run) => runs.push((ticket, run)),
                        }
                    }
                }
                // The agent ends.
                Err(error) if error.is_cancelled() => return,
                Err(error) => {
                    tracing::error!(%error, "cannot read what waits to be sent");
                    return;
                }
            }
            if !runs.is_empty() {
                self.deliver_runs(runs).await;
            }
        }
    }

    /// Runs in one message; one by one if the server does not like the message, to find the one that it does not like.
    async fn deliver_runs(&mut self, runs: Vec<(Ticket, Run)>) {
        let tickets: Vec<Ticket> = runs.iter().map(|(ticket, _)| *ticket).collect();
        let messages: Vec<Run> = runs.into_iter().map(|(_, run)| run).collect();
        match self.report(messages.clone()).await {
            Ok(()) => self.spool.remove(tickets),
            Err(status) if messages.len() > 1 && remedy(&status) == Remedy::Never => {
                for (ticket, run) in tickets.into_iter().zip(messages) {
                    let id = run.id.clone();
                    if let Err(status) = self.report(vec![run]).await {
                        refused("a run", &id, &status);
                    }
                    self.spool.remove([ticket]);
                }
            }
            Err(status) => {
                refused("runs", &messages.len().to_string(), &status);
                self.spool.remove(tickets);
            }
        }
    }

    async fn report(&mut self, runs: Vec<Run>) -> Result<(), Status> {
        let dropped = self.spool.losses().dropped;
        let request = ReportRunsRequest {
            host: self.host.clone(),
            runs,
            dropped,
        };
        let link = &self.link;
        let answer = patiently("runs", &mut self.backoff, || link.report_runs(request.clone())).await?;
        for receipt in &answer.receipts {
            if matches!(receipt.outcome(), Outcome::Refused | Outcome::Unspecified) {
                tracing::warn!(
                    id = receipt.id,
                    reason = receipt.reason,
                    "the server refused a run"
                );
            }
        }
        self.spool.told(dropped);
        Ok(())
    }

    /// A failure, with the files that the server lacks.
    async fn deliver_failure(&mut self, ticket: Ticket, failure: ReportFailureRequest) {
        for _ in 0..=MOST_UPLOADS {
            let link = &self.link;
            let report = || link.report_failure(failure.clone());
            match patiently("a failure", &mut self.backoff, report).await {
                Ok(answer) if answer.lacking.is_empty() => {
                    tracing::info!(bug = answer.bug, new = answer.is_new, "the failure is reported");
                    break;
                }
                Ok(answer) => {
                    for module in &answer.lacking {
                        self.upload(&failure, module).await;
                    }
                }
                Err(status) => {
                    refused("a failure", &failure.id, &status);
                    break;
                }
            }
        }
        self.spool.remove([ticket]);
    }

    /// A file that the server asked for, as often as it takes. What it does not get it can do without, or ask for again.
    async fn upload(&mut self, failure: &ReportFailureRequest, module: &Module) {
        loop {
            match self.link.upload(failure, module).await {
                Ok(_) => {
                    tracing::info!(path = module.path, "uploaded");
                    self.backoff.reset();
                    return;
                }
                Err(UploadError::Refused { path, status }) if remedy(&status) == Remedy::Later => {
                    let pause = self.backoff.pause();
                    tracing::warn!(path, %status, ?pause, "the server could not take a file: trying again");
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    let error = crate::causes(&error);
                    tracing::warn!(error, "the server does not get a file that it lacks");
                    return;
                }
            }
        }
    }
}

fn refused(what: &str, which: &str, status: &Status) {
    let (code, message) = (status.code(), status.message());
    tracing::error!(
        what,
        which,
        ?code,
        message,
        "the server refused it for good: dropped"
    );
}
