//! One connection: what it may take, and how long nothing may happen on it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tower::ServiceExt as _;

use super::Peer;
use crate::config::Limits;
use crate::limits::body::Holding;

/// Bytes of all headers of a request.
const HEADERS: u32 = 16 << 10;
/// Bytes of a frame: a stream that is not read holds up as little as possible.
const FRAME: u32 = 16 << 10;
/// Bytes of a stream, and of a connection, that may be on the way to somebody who does not take them yet.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Bytes of answers that are kept for somebody who does not take them.
const SEND: usize = 256 << 10;
/// How often the other end is asked whether it is there, and how long it has to answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

/// What HTTP connections may do.
pub(super) fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.handshake())
        .max_headers(64)
        .max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_frame_size(FRAME)
        .max_header_list_size(HEADERS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    builder
}

/// What goes on on a connection.
struct Activity {
    began: Instant,
    /// Requests that are not answered to the end.
    requests: AtomicUsize,
    /// There has been one.
    any: AtomicBool,
    /// When the last one ended, in milliseconds from the beginning.
    last: AtomicUsize,
}

/// A request that is not answered to the end.
struct Open(Arc<Activity>);

impl Activity {
    fn open(self: &Arc<Self>) -> Open {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.any.store(true, Ordering::Release);
        Open(Arc::clone(self))
    }

    fn millis(&self) -> usize {
        usize::try_from(self.began.elapsed().as_millis()).unwrap_or(usize::MAX)
    }

    /// How long there has been no request; whether there ever was one.
    fn idle(&self) -> (Duration, bool) {
        let since = match self.requests.load(Ordering::Acquire) {
            0 => self.millis().saturating_sub(self.last.load(Ordering::Acquire)),
            _ => 0,
        };
        (
            Duration::from_millis(since as u64),
            self.any.load(Ordering::Acquire),
        )
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.last.store(self.0.millis(), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves a connection until it ends, nothing happens on it, or `drain` says that it is enough.
pub(super) async fn serve<I>(
    io: I,
    peer: Peer,
    app: Router,
    builder: &Builder<TokioExecutor>,
    limits: &Limits,
    mut drain: watch::Receiver<bool>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity {
        began: Instant::now(),
        requests: AtomicUsize::new(0),
        any: AtomicBool::new(false),
        last: AtomicUsize::new(0),
    });
    let address = peer.address;
    let service = service_fn(|request: Request<Incoming>| {
        let (app, peer, open) = (app.clone(), peer.clone(), activity.open());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            let answer: Response = app.oneshot(request).await?;
            Ok::<_, Infallible>(answer.map(|body| Body::new(Holding::new(body, open))))
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut look = interval((limits.handshake() / 4).min(limits.idle() / 4));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_draining = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%address, %error, "a connection ended");
                }
                return;
            }
            _ = drain.wait_for(|drain| *drain), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = look.tick() => match activity.idle() {
                (idle, false) if idle > limits.handshake() => {
                    tracing::info!(%address, "no request came: the connection is closed");
                    return;
                }
                (idle, true) if idle > limits.idle() + limits.handshake() => return,
                // Said first, so that a request that is on the way is not lost.
                (idle, true) if idle > limits.idle() && !is_draining => {
                    tracing::debug!(%address, "nothing happens: the connection is closed");
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ => {}
            }
        }
    }
}
