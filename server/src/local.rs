//! One page for whoever sits at this machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{Html, IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY};
use http::{HeaderValue, StatusCode};
use sketch_render::sketch::html;
use tokio::net::TcpListener;

use crate::access::{Secret, leads_here};

/// A page that is served on loopback.
pub struct Served {
    listener: TcpListener,
    page: Arc<str>,
    path: String,
}

impl Served {
    /// Gets a port ready; 0 for any. The address has a secret in it: others use this machine as well.
    ///
    /// # Errors
    /// When the port is taken, or there are no random numbers.
    pub async fn new(page: String, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let secret = Secret::new().map_err(|error| std::io::Error::other(error.to_string()))?;
        let start = secret.text().len().saturating_sub(32);
        Ok(Self {
            listener,
            page: page.into(),
            path: format!("/{}/", &secret.text()[start..]),
        })
    }

    /// Where the page is.
    ///
    /// # Errors
    /// When the system does not tell the port.
    pub fn link(&self) -> std::io::Result<String> {
        Ok(format!("http://{}{}", self.listener.local_addr()?, self.path))
    }

    /// Serves it until `until` ends.
    ///
    /// # Errors
    /// When the port goes away.
    pub async fn serve(self, until: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let (page, path) = (self.page, self.path);
        let answer = move |request: Request| {
            let answer = answer(&request, &path, &page);
            async move { answer }
        };
        let router = Router::new().fallback(answer);
        axum::serve(self.listener, router)
            .with_graceful_shutdown(until)
            .await
    }
}

fn answer(request: &Request, path: &str, page: &str) -> Response {
    // A page of somebody else may have its own name lead here.
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(leads_here) || request.uri().path() != path {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    }
    let mut answer = Html(page.to_owned()).into_response();
    let headers = answer.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&html::policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
