//! What of a request is received.
//!
//! gRPC says of each message how long it is before it comes. So memory is taken for it before it is received, and what there
//! is no room for is refused first. Once it began it has to come, at some rate at least: who sends a byte now and then holds
//! memory for nothing. The next one, or the end, has to come as well, unless the stream is one that is open all the time: there
//! nothing may come for as long as it likes, between messages, which are small.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::hosts::{Host, Taken};
use crate::config::Limits;

/// Bytes of what is sent to a page at most: a form's few fields.
const PAGE: usize = 64 << 10;
/// Bytes of a message on a stream that is open all the time.
const SMALL: usize = 64 << 10;
/// Flag and length before each message.
const HEADER: usize = 5;

/// Memory of a request: as long as somebody works on its last message.
pub type Held = Arc<Mutex<Option<Taken>>>;

/// A request's body that is watched while it comes.
#[derive(Debug)]
pub struct Metered<B> {
    inner: B,
    meter: Meter,
    /// How long may still be waited, of what is open.
    patience: Option<Duration>,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    failed: bool,
}

/// What counts what came.
#[derive(Debug)]
struct Meter {
    limits: BodyLimits,
    kind: Kind,
    /// How long the next message, or the end, may take.
    between: Option<Duration>,
    host: Host,
    held: Held,
}

/// What holds for a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes of a message.
    pub message: usize,
    /// How long nothing may come at first, and at last.
    pub idle: Duration,
    /// What every message gets.
    pub grace: Duration,
    /// Bytes a second.
    pub slowest: u32,
}

/// What kind of request it is the body of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A form of a page.
    Page,
    /// gRPC messages, one or several, and then the end.
    Messages,
    /// gRPC messages, now and then.
    NowAndThen,
}

impl From<&Limits> for BodyLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            message: limits.message_bytes,
            idle: limits.idle(),
            grace: limits.handshake(),
            slowest: limits.slowest_bytes,
        }
    }
}

#[derive(Debug)]
enum Kind {
    Page { bytes: usize },
    Message(Message),
}

/// Where in the messages of a body we are.
#[derive(Debug)]
enum Message {
    /// Inside a header, or before it.
    Header { bytes: [u8; HEADER], have: usize },
    /// So many bytes of it are to come.
    Content { left: usize },
}

const BETWEEN: Message = Message::Header {
    bytes: [0; HEADER],
    have: 0,
};

impl<B> Metered<B> {
    /// A body. What it takes memory for is in `held` and has to stay there until the request was answered.
    pub fn new(inner: B, sent: Sent, limits: BodyLimits, host: Host, held: Held) -> Self {
        let kind = match sent {
            Sent::Page => Kind::Page { bytes: 0 },
            Sent::Messages | Sent::NowAndThen => Kind::Message(BETWEEN),
        };
        let limits = match sent {
            Sent::NowAndThen => BodyLimits {
                message: limits.message.min(SMALL),
                ..limits
            },
            _ => limits,
        };
        Self {
            inner,
            meter: Meter {
                limits,
                kind,
                between: (sent != Sent::NowAndThen).then_some(limits.grace),
                host,
                held,
            },
            patience: Some(limits.idle),
            waiting: None,
            failed: false,
        }
    }

    fn waited(&mut self) {
        if let (Some((since, _)), Some(patience)) = (self.waiting.take(), &mut self.patience) {
            *patience = patience.saturating_sub(since.elapsed());
        }
    }

    fn too_slow(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(patience) = self.patience else {
            return false;
        };
        let (_, timer) = self.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + patience)))
        });
        timer.as_mut().poll(cx).is_ready()
    }
}

impl Meter {
    /// Counts what came. What may be waited for the rest, if a message began or ended.
    fn count(&mut self, mut data: Bytes) -> Result<Option<Option<Duration>>, Status> {
        let mut patience = None;
        match &mut self.kind {
            Kind::Page { bytes } => {
                *bytes = bytes.saturating_add(data.len());
                if *bytes > PAGE {
                    return Err(Status::out_of_range(format!(
                        "more than {PAGE} bytes are not taken here"
                    )));
                }
            }
            Kind::Message(at) => {
                while data.has_remaining() {
                    match at {
                        Message::Header { bytes, have } => {
                            let part = data.len().min(HEADER - *have);
                            let room = bytes.get_mut(*have..*have + part).unwrap_or_default();
                            data.copy_to_slice(room);
                            *have += part;
                            patience = Some(Some(self.limits.grace));
                            if *have == HEADER {
                                let [flag, length @ ..] = *bytes;
                                let length = u32::from_be_bytes(length) as usize;
                                let room = expected(length, flag, &self.limits)?;
                                let taken = self.host.take(room)?;
                                *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
                                patience = Some(Some(self.limits.for_bytes(length)));
                                *at = Message::Content { left: length };
                            }
                        }
                        Message::Content { left } => {
                            let part = data.len().min(*left);
                            data.advance(part);
                            *left -= part;
                        }
                    }
                    if matches!(at, Message::Content { left: 0 }) {
                        *at = BETWEEN;
                        patience = Some(self.between);
                    }
                }
            }
        }
        Ok(patience)
    }
}

/// The memory that a message takes. What a packed one unpacks to is not known before; tonic stops at a message's limit.
fn expected(length: usize, flag: u8, limits: &BodyLimits) -> Result<usize, Status> {
    const UNPACKED: usize = 8;
    if length > limits.message {
        return Err(Status::out_of_range(format!(
            "a message of {length} bytes: at most {} are taken (`limits.message_bytes`)",
            limits.message
        )));
    }
    Ok(match flag {
        0 => length,
        _ => length.saturating_mul(UNPACKED).min(limits.message),
    })
}

impl BodyLimits {
    fn for_bytes(&self, bytes: usize) -> Duration {
        let rate = u64::from(self.slowest.max(1));
        self.grace + Duration::from_secs(bytes as u64 / rate)
    }
}

impl<B> Body for Metered<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.failed {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) else {
            if this.too_slow(cx) {
                this.failed = true;
                let status = Status::deadline_exceeded(
                    "what was to be sent did not come: a request begins at once, and a message that began comes at \
                     `limits.slowest_bytes` a second at least",
                );
                return Poll::Ready(Some(Err(status.into())));
            }
            return Poll::Pending;
        };
        this.waited();
        let Some(frame) = frame else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into);
        if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
            match this.meter.count(data.clone()) {
                Ok(patience) => this.patience = patience.unwrap_or(this.patience),
                Err(status) => {
                    this.failed = true;
                    return Poll::Ready(Some(Err(status.into())));
                }
            }
        }
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.failed || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer that holds something until it was sent or nobody wants it any more.
#[derive(Debug)]
pub struct Holding<B, T> {
    inner: B,
    _held: T,
}

impl<B, T> Holding<B, T> {
    /// Both.
    pub fn new(inner: B, held: T) -> Self {
        Self { inner, _held: held }
    }
}

impl<B: Body + Unpin, T: Unpin> Body for Holding<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
