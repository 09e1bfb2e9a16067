//! Style and script. They are compiled in, and named with what they are, so that browsers keep them.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sha2::{Digest as _, Sha256};
use sketch_render::sketch::html;
use tonic::Status;

use super::refusal::Refusal;

const PAGES_STYLE: &str = include_str!("../../assets/pages.css");
const PAGES_SCRIPT: &str = include_str!("../../assets/pages.js");
const ICON: &str = include_str!("../../assets/icon.svg");

/// Changes when any of them does.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for text in [html::STYLE, html::SCRIPT, PAGES_STYLE, PAGES_SCRIPT, ICON] {
        hash.update(text);
    }
    hex::encode(&hash.finalize()[..6])
});

/// One of them. Whatever version is asked for, the one that there is comes.
pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, Refusal> {
    const STYLE: &str = "text/css; charset=utf-8";
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    let (kind, text) = match name.as_str() {
        "sketch.css" => (STYLE, html::STYLE),
        "sketch.js" => (SCRIPT, html::SCRIPT),
        "pages.css" => (STYLE, PAGES_STYLE),
        "pages.js" => (SCRIPT, PAGES_SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return Err(Refusal(Status::not_found("there is no such file"))),
    };
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "private, max-age=31536000, immutable"),
    ];
    Ok((headers, text).into_response())
}
