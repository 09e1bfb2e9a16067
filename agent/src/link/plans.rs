//! The stream that says what to track.

use std::collections::VecDeque;
use std::sync::mpsc as blocking;
use std::time::Duration;

use proto::v1::{Plan, PlanRequest};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use super::Link;
use super::retry::{Backoff, LONGEST_PAUSE, Remedy, remedy};

/// Questions that may wait for an answer at once: one for each process that is followed.
const MOST_QUESTIONS: usize = 1024;
/// How long a stream may take to be there.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

struct Question {
    request: PlanRequest,
    answer: blocking::SyncSender<Option<Plan>>,
}

/// Asks for plans, from threads that run programs. Clones ask on the same stream.
#[derive(Clone)]
pub struct Planner {
    questions: mpsc::Sender<Question>,
}

impl Planner {
    /// What to track next; `None` if the server has nothing to track or does not say so in time. A server that was away
    /// a moment ago is not waited for.
    #[must_use]
    pub fn ask(&self, request: PlanRequest, within: Duration) -> Option<Plan> {
        let (answer, answered) = blocking::sync_channel(1);
        self.questions.try_send(Question { request, answer }).ok()?;
        let plan = answered.recv_timeout(within).ok().flatten()?;
        (!plan.bug.is_empty()).then_some(plan)
    }
}

/// The other end of [`Planner`].
pub struct Planning {
    link: Link,
    questions: mpsc::Receiver<Question>,
    backoff: Backoff,
}

impl Planning {
    /// Plans over a connection.
    #[must_use]
    pub fn new(link: Link, backoff: Backoff) -> (Planner, Self) {
        let (ask, questions) = mpsc::channel(MOST_QUESTIONS);
        let planning = Self {
            link,
            questions,
            backoff,
        };
        (Planner { questions: ask }, planning)
    }

    /// Has questions answered until nobody asks any more. The stream is opened with the first one, and again when it
    /// breaks, after a pause in which every answer is that there is no plan.
    pub async fn serve(mut self) {
        while let Some(first) = self.questions.recv().await {
            let Err(status) = self.converse(first).await else {
                return;
            };
            let pause = match remedy(&status) {
                Remedy::Later => self.backoff.pause(),
                // An older server, or one that does not want us: it may be another one some time.
                Remedy::Without | Remedy::Never => LONGEST_PAUSE,
            };
            let (code, message) = (status.code(), status.message());
            tracing::warn!(?code, message, ?pause, "no plans: runs go on untracked");
            let until = Instant::now() + pause;
            loop {
                match tokio::time::timeout_at(until, self.questions.recv()).await {
                    Ok(Some(question)) => nothing(question),
                    Ok(None) => return,
                    Err(_) => break,
                }
            }
        }
    }

    /// One stream, from its first question until it breaks (an error) or nobody asks any more.
    async fn converse(&mut self, first: Question) -> Result<(), Status> {
        let (to_server, requests) = mpsc::channel(MOST_QUESTIONS);
        let mut waiting = VecDeque::new();
        send(first, &to_server, &mut waiting);
        let opened = tokio::time::timeout(OPEN_WITHIN, open(self.link.clone(), requests));
        tokio::pin!(opened);
        let mut plans = loop {
            tokio::select! {
                opened = &mut opened => {
                    break opened.unwrap_or_else(|_| Err(Status::deadline_exceeded("the stream did not open")))?;
                }
                question = self.questions.recv() => match question {
                    Some(question) => send(question, &to_server, &mut waiting),
                    None => return Ok(()),
                },
            }
        };
        loop {
            tokio::select! {
                plan = plans.next() => {
                    let plan = plan.unwrap_or_else(|| Err(Status::unavailable("the stream of plans ended")))?;
                    self.backoff.reset();
                    if let Some(asked) = waiting.pop_front() {
                        // Whoever waited no longer runs without it; the plan is not kept for another program.
                        let _late = asked.send(Some(plan));
                    }
                }
                question = self.questions.recv() => match question {
                    Some(question) => send(question, &to_server, &mut waiting),
                    None => return Ok(()),
                },
            }
        }
    }
}

type Waiting = VecDeque<blocking::SyncSender<Option<Plan>>>;

/// Answers come in the order of the questions. Dropping a waiting one answers it with nothing.
fn send(question: Question, to_server: &mpsc::Sender<PlanRequest>, waiting: &mut Waiting) {
    match to_server.try_send(question.request.clone()) {
        Ok(()) => waiting.push_back(question.answer),
        Err(_) => nothing(question),
    }
}

fn nothing(question: Question) {
    let _gone = question.answer.send(None);
}

async fn open(mut link: Link, requests: mpsc::Receiver<PlanRequest>) -> Result<Streaming<Plan>, Status> {
    let request = Request::new(ReceiverStream::new(requests));
    Ok(link.client.plans(request).await?.into_inner())
}
