//! Having a bug treated differently, by a form.
//!
//! Browsers send what they know of somebody along with whatever a page of somebody else makes them send. So a form is taken only if
//! the browser says that it comes from a page of ours.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};
use program::BuildId;
use proto::v1::steer_request::{Fixed, Resume, Stop, What, Widen};
use serde::Deserialize;
use tonic::Status;

use super::refusal::Refusal;
use crate::access::Identity;
use crate::service::House;

/// A form.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    what: String,
    #[serde(default)]
    build: String,
}

/// Does what a form says, and shows the bug.
pub(super) async fn act(
    State(house): State<House>,
    who: Identity,
    Path(bug): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Form(said): Form<Said>,
) -> Result<Response, Refusal> {
    if !is_from_here(&uri, &headers) {
        return Err(Refusal(Status::permission_denied(
            "this form does not come from a page of this server, so nothing was done: open the bug's page here and try again",
        )));
    }
    let (what, did) = match said.what.as_str() {
        "stop" => (What::Stop(Stop {}), "stopped"),
        "resume" => (What::Resume(Resume {}), "resumed"),
        "widen" => (What::Widen(Widen {}), "widened"),
        "fixed" => {
            let build = BuildId::from_hex(said.build.trim()).ok_or_else(|| {
                Status::invalid_argument(
                    "a build-id is hexadecimal, as `file` and `readelf -n` print it: go back and give the one that has the fix",
                )
            })?;
            let build_id = build.0.into();
            (What::Fixed(Fixed { build_id }), "fixed")
        }
        _ => {
            return Err(Refusal(Status::invalid_argument(
                "the form does not say what to do",
            )));
        }
    };
    house.steer(&who, &bug, what).await?;
    Ok(Redirect::to(&format!("/bugs/{bug}?did={did}")).into_response())
}

/// Whether a page of this server sent a request. Where a browser says what it knows of that, its word is taken: a proxy may have
/// given us another name. Otherwise the origin has to be what we were asked as.
fn is_from_here(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &http::HeaderValue| value.to_str().unwrap_or_default())
    };
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let asked = uri.authority().map(http::uri::Authority::as_str).or(text(HOST));
    let origin = text(ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
    let origin = origin
        .as_ref()
        .and_then(Uri::authority)
        .map(http::uri::Authority::as_str);
    matches!((asked, origin), (Some(asked), Some(origin)) if asked.eq_ignore_ascii_case(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let all = all.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, http::HeaderValue::from_str(value).unwrap())
        });
        all.collect()
    }

    #[test]
    fn only_our_own_pages_steer() {
        let uri = Uri::from_static("/bugs/1/steer");
        let from = |all: &[(&'static str, &str)]| is_from_here(&uri, &headers(all));
        assert!(from(&[
            ("host", "a.example:70"),
            ("origin", "https://a.example:70")
        ]));
        assert!(from(&[
            ("host", "inner"),
            ("origin", "https://outer"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!from(&[
            ("host", "a.example:70"),
            ("origin", "https://b.example:70")
        ]));
        assert!(!from(&[
            ("host", "a.example:70"),
            ("origin", "https://a.example")
        ]));
        assert!(!from(&[("host", "a.example"), ("origin", "null")]));
        assert!(!from(&[("host", "a.example")]));
        assert!(!from(&[
            ("host", "a.example"),
            ("origin", "https://a.example"),
            ("sec-fetch-site", "same-site")
        ]));
        assert!(!from(&[("host", "a.example"), ("sec-fetch-site", "none")]));
    }
}
