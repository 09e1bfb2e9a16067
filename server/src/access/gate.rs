//! The layer before everything: who is it, may he ask so often, and what does his request take.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::{Access, Identity, Peer};
use crate::limits::body::{BodyLimits, Held, Holding, Metered, Sent};
use crate::limits::{Hosts, retry_after};

/// What is answered without knowing who asks: whether the server is there. No identity comes with such a request, so that
/// nothing else can be had through these.
const OPEN: [&str; 2] = ["/grpc.health.v1.Health/", "/healthz"];

/// The stream on which agents ask for plans, as long as they run.
const PLANS: &str = "/failsketch.v1.Agents/Plans";

/// Puts a gate before a service.
#[derive(Clone, Debug)]
pub struct Gate {
    access: Arc<Access>,
    hosts: Arc<Hosts>,
    body: BodyLimits,
}

impl Gate {
    /// A gate that asks `access` who somebody is.
    #[must_use]
    pub fn new(access: Arc<Access>, hosts: Arc<Hosts>, body: BodyLimits) -> Self {
        Self { access, hosts, body }
    }

    fn open(&self, request: &mut Request<Body>) -> Result<Held, Status> {
        // Nothing that came with the request can have put one there, but nothing shall depend on that.
        request.extensions_mut().remove::<Identity>();
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            return Err(Status::unauthenticated(
                "it is not known where this request comes from",
            ));
        };
        let path = request.uri().path();
        let is_open = OPEN
            .iter()
            .any(|open| path == *open || open.ends_with('/') && path.starts_with(open));
        let identity = self.access.identify(request.uri(), request.headers(), &peer);
        let identity = match identity {
            Err(_) if is_open => None,
            identity => Some(identity?),
        };
        let host = match &identity {
            Some(person) if person.is_behind_proxy() => Some(person.name.clone()),
            // Whoever is on this host is not kept from anything by counting his requests.
            _ if peer.address.ip().to_canonical().is_loopback() => None,
            Some(identity) => Some(format!("{}@{}", identity.name, peer.address.ip())),
            None => Some(peer.address.ip().to_string()),
        };
        let host = self.hosts.request(host.as_deref())?;
        let held = Held::default();
        let body = std::mem::take(request.body_mut());
        let sent = match is_grpc(request.headers()) {
            true if request.uri().path() == PLANS => Sent::NowAndThen,
            true => Sent::Messages,
            false => Sent::Page,
        };
        *request.body_mut() = Body::new(Metered::new(body, sent, self.body, host, Arc::clone(&held)));
        if let Some(identity) = identity {
            request.extensions_mut().insert(identity);
        }
        Ok(held)
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            inner,
            gate: self.clone(),
        }
    }
}

/// A service behind a gate.
#[derive(Clone, Debug)]
pub struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.gate.open(&mut request) {
            Ok(held) => {
                let answer = self.inner.call(request);
                Box::pin(async move {
                    let answer = answer.await?;
                    Ok(answer.map(|body| Body::new(Holding::new(body, held))))
                })
            }
            Err(status) => {
                let path = request.uri().path();
                tracing::info!(code = ?status.code(), path, "refused: {}", status.message());
                let answer = match is_grpc(request.headers()) {
                    true => status.into_http(),
                    false => page(&status),
                };
                Box::pin(async move { Ok(answer) })
            }
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// A status as HTTP has it.
pub(crate) fn code(status: &Status) -> StatusCode {
    match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A status as a page has it.
pub(super) fn page(status: &Status) -> Response {
    let code = code(status);
    let mut answer = (code, format!("{}\n", status.message())).into_response();
    if code == StatusCode::UNAUTHORIZED {
        let ask = HeaderValue::from_static("Basic realm=\"failsketch\", charset=\"UTF-8\"");
        answer.headers_mut().insert(WWW_AUTHENTICATE, ask);
    }
    if let Some(after) = retry_after(status) {
        let seconds = after.as_secs_f64().ceil().max(1.0);
        if let Ok(value) = HeaderValue::from_str(&format!("{seconds:.0}")) {
            answer.headers_mut().insert(RETRY_AFTER, value);
        }
    }
    answer
}
