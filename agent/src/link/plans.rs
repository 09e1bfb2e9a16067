//! The stream that says what to track.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
/// How long a server is waited for that kept somebody waiting.
const HURRIED: Duration = Duration::from_millis(50);
/// How long an answer is good that came too late for whoever asked.
const GOOD_FOR: Duration = Duration::from_secs(60);
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
    /// The last answer did not come in time.
    kept_waiting: Arc<AtomicBool>,
}

impl Planner {
    /// What to track next; `None` if the server has nothing to track or does not say so in time. A server that was away
    /// a moment ago is not waited for, and one that kept somebody waiting only for a moment: its answer is there for who
    /// asks next.
    #[must_use]
    pub fn ask(&self, request: PlanRequest, within: Duration) -> Option<Plan> {
        let (answer, answered) = blocking::sync_channel(1);
        self.questions.try_send(Question { request, answer }).ok()?;
        let within = match self.kept_waiting.load(Ordering::Relaxed) {
            true => within.min(HURRIED),
            false => within,
        };
        let answer = answered.recv_timeout(within);
        let late = answer == Err(blocking::RecvTimeoutError::Timeout);
        self.kept_waiting.store(late, Ordering::Relaxed);
        answer.ok().flatten().filter(|plan| !plan.bug.is_empty())
    }
}

/// The other end of [`Planner`].
pub struct Planning {
    link: Link,
    questions: mpsc::Receiver<Question>,
    backoff: Backoff,
    /// Plans that came too late for whoever asked, for whoever asks next.
    late: Vec<(PlanRequest, Plan, Instant)>,
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
            late: Vec::new(),
        };
        let planner = Planner {
            questions: ask,
            kept_waiting: Arc::default(),
        };
        (planner, planning)
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
        self.pose(first, &to_server, &mut waiting);
        let opened = tokio::time::timeout(OPEN_WITHIN, open(self.link.clone(), requests));
        tokio::pin!(opened);
        let mut plans = loop {
            tokio::select! {
                opened = &mut opened => {
                    break opened.unwrap_or_else(|_| Err(Status::deadline_exceeded("the stream did not open")))?;
                }
                question = self.questions.recv() => match question {
                    Some(question) => self.pose(question, &to_server, &mut waiting),
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
                        self.answer(asked, plan);
                    }
                }
                question = self.questions.recv() => match question {
                    Some(question) => self.pose(question, &to_server, &mut waiting),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Answers a question with a plan that is there already, or asks the server.
    fn pose(&mut self, question: Question, to_server: &mpsc::Sender<PlanRequest>, waiting: &mut Waiting) {
        self.late.retain(|(.., since)| since.elapsed() < GOOD_FOR);
        let known = self
            .late
            .iter()
            .position(|(asked, ..)| *asked == question.request);
        if let Some(known) = known {
            let (_, plan, _) = self.late.swap_remove(known);
            return self.answer(question, plan);
        }
        let has_room = waiting.len() < MOST_QUESTIONS;
        if has_room && to_server.try_send(question.request.clone()).is_ok() {
            waiting.push_back(question);
        } else {
            nothing(question);
        }
    }

    fn answer(&mut self, question: Question, plan: Plan) {
        if question.answer.send(Some(plan.clone())).is_err() && !plan.bug.is_empty() {
            self.late.push((question.request, plan, Instant::now()));
        }
    }
}

/// Answers come in the order of the questions. Dropping a waiting one answers it with nothing.
type Waiting = VecDeque<Question>;

fn nothing(question: Question) {
    let _gone = question.answer.send(None);
}

async fn open(mut link: Link, requests: mpsc::Receiver<PlanRequest>) -> Result<Streaming<Plan>, Status> {
    let request = Request::new(ReceiverStream::new(requests));
    Ok(link.client.plans(request).await?.into_inner())
}
