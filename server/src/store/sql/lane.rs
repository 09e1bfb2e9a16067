//! Appends that wait for the disk together.
//!
//! A commit takes as long for a hundred runs as for one, and entries of one case can only be committed one after the other.
//! So what comes while a transaction is under way is stored by the next one, whoever it came from. The runs of one case
//! are all in one lane; with PostgreSQL there are several.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use sqlx::AnyConnection;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::StoreError;
use super::append::{Answers, Call, Noted, append};
use super::connect::{Address, Dialect};
use crate::store::Body;
use crate::store::model::{Appended, Case, NewRun};

/// One transaction stores no more than this, so that those who wait for it do not wait long.
const MOST_CALLS: usize = 256;
const MOST_RUNS: usize = 512;
const MOST_BYTES: usize = 8 << 20;

/// Calls that may wait in a lane; others wait outside.
const WAITING: usize = 512;

/// Cases that are reported on at once share transactions from there on. More connections do not make a disk faster.
const POSTGRES_LANES: usize = 8;

type Answer = oneshot::Sender<Result<Vec<Appended>, StoreError>>;

/// The way into the logs.
#[derive(Debug)]
pub(super) struct Lanes(Vec<mpsc::Sender<(Call, Answer)>>);

impl Lanes {
    /// `turn`: held by whoever writes, where only one may.
    pub(super) fn open(address: &Address, turn: Option<&Arc<Mutex<()>>>) -> Self {
        let lanes = match address.dialect {
            Dialect::Sqlite => 1,
            Dialect::Postgres => POSTGRES_LANES,
        };
        let lane = |_| {
            let (sender, receiver) = mpsc::channel(WAITING);
            let lane = Lane {
                address: address.clone(),
                turn: turn.cloned(),
                connection: None,
                noted: Noted::default(),
            };
            tokio::spawn(lane.serve(receiver));
            sender
        };
        Self((0..lanes).map(lane).collect())
    }

    /// Stores runs of a case. Once this has begun they may be stored even if nobody waits for the answer.
    pub(super) async fn append(&self, case: &Case, runs: Vec<NewRun>) -> Result<Vec<Appended>, StoreError> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(case);
        let lane = &self.0[(hash % self.0.len() as u64) as usize];
        let (answer, answered) = oneshot::channel();
        let call = Call {
            case: case.clone(),
            runs,
        };
        let gone = || StoreError::Unavailable("it is being closed".to_owned());
        lane.send((call, answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

struct Lane {
    address: Address,
    turn: Option<Arc<Mutex<()>>>,
    connection: Option<AnyConnection>,
    noted: Noted,
}

impl Lane {
    async fn serve(mut self, mut waiting: mpsc::Receiver<(Call, Answer)>) {
        while let Some(first) = waiting.recv().await {
            let (calls, answers): (Vec<Call>, Vec<Answer>) =
                together(first, &mut waiting).into_iter().unzip();
            let results = match self.store(&calls).await {
                Ok(results) => results,
                Err(error) => calls.iter().map(|_| Err(error.clone())).collect(),
            };
            for (answer, result) in answers.into_iter().zip(results) {
                // Whoever does not wait any more sends the same again and learns that it is there.
                let _ = answer.send(result);
            }
        }
    }

    async fn store(&mut self, calls: &[Call]) -> Result<Answers, StoreError> {
        match self.attempt(calls).await {
            // One of them has something that the database does not take: the others are not to suffer for it.
            Err(StoreError::Refused(_)) if calls.len() > 1 => {
                let mut answers = Vec::with_capacity(calls.len());
                for call in calls.chunks(1) {
                    match self.attempt(call).await {
                        Ok(alone) => answers.extend(alone),
                        Err(error) => answers.push(Err(error)),
                    }
                }
                Ok(answers)
            }
            result => result,
        }
    }

    async fn attempt(&mut self, calls: &[Call]) -> Result<Answers, StoreError> {
        let _turn = match &self.turn {
            Some(turn) => Some(turn.clone().lock_owned().await),
            None => None,
        };
        // A connection that was idle may be one to a database that was started again since. To repeat is safe: what was
        // stored after all is found by its id.
        let kept = self.connection.take();
        let was_kept = kept.is_some();
        match self.attempt_on(kept, calls).await {
            Err(StoreError::Unavailable(_)) if was_kept => self.attempt_on(None, calls).await,
            result => result,
        }
    }

    async fn attempt_on(
        &mut self,
        kept: Option<AnyConnection>,
        calls: &[Call],
    ) -> Result<Answers, StoreError> {
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.address.connect().await?,
        };
        let answers = append(&mut connection, self.address.dialect, &mut self.noted, calls).await?;
        // Only one that has done well is kept.
        self.connection = Some(connection);
        Ok(answers)
    }
}

/// What waits already, as far as it goes into one transaction.
fn together(first: (Call, Answer), waiting: &mut mpsc::Receiver<(Call, Answer)>) -> Vec<(Call, Answer)> {
    let (mut runs, mut bytes) = size(&first.0);
    let mut calls = vec![first];
    while calls.len() < MOST_CALLS && runs < MOST_RUNS && bytes < MOST_BYTES {
        let Ok(next) = waiting.try_recv() else { break };
        let (more_runs, more_bytes) = size(&next.0);
        (runs, bytes) = (runs + more_runs, bytes + more_bytes);
        calls.push(next);
    }
    calls
}

fn size(call: &Call) -> (usize, usize) {
    let bytes = call.runs.iter().map(|run| match &run.body {
        Body::Inline(bytes) => bytes.len(),
        Body::Object(_) => 0,
    });
    (call.runs.len(), bytes.sum())
}
