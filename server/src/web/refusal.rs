//! Why there is no page, as a page.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use tonic::Status;

use super::assets::VERSION;
use super::shown::shown;
use crate::access::gate::code;

/// Why somebody does not get what he asked for.
#[derive(Debug)]
pub(super) struct Refusal(pub Status);

#[derive(Template)]
#[template(path = "refusal.html")]
struct Page {
    version: &'static str,
    title: &'static str,
    message: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = code(&self.0);
        let page = Page {
            version: &VERSION,
            title: match code.as_u16() {
                400 => "That cannot be done",
                401 | 403 => "Not allowed",
                404 => "Not here",
                429 | 503 => "Not now",
                _ => "Something is wrong",
            },
            message: shown(self.0.message(), 2000),
        };
        match page.render() {
            Ok(text) => (code, Html(text)).into_response(),
            Err(_) => (code, page.message).into_response(),
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self(status)
    }
}
