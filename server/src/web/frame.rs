//! What all pages have.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};
use tonic::Status;

use super::assets::VERSION;
use super::refusal::Refusal;
use super::shown::shown;

/// What is around a page.
pub(super) struct Frame {
    /// The version of style and script.
    pub version: &'static str,
    /// Who looks.
    pub who: String,
    /// What is in the field for words to search.
    pub words: String,
}

impl Frame {
    /// For somebody.
    pub(super) fn new(who: &str, words: &str) -> Self {
        Self {
            version: &VERSION,
            who: shown(who, 80),
            words: words.to_owned(),
        }
    }
}

/// A template as an answer.
pub(super) fn answer(page: &impl Template) -> Result<Response, Refusal> {
    match page.render() {
        Ok(text) => Ok(Html(text).into_response()),
        // Templates write to a string, which does not fail.
        Err(error) => Err(Refusal(Status::internal(format!(
            "the page cannot be made: {error}"
        )))),
    }
}
