//! Sketches to take along: every form that the command has.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use diagnosis::sketch::Sketch;
use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use sketch_render::sketch;
use sketch_render::term::Terminal;
use tonic::Status;

use super::bug::{self, open};
use super::refusal::Refusal;
use crate::access::Identity;
use crate::service::House;

/// Text is read elsewhere than on a terminal.
const IN_A_FILE: Terminal = Terminal {
    width: 100,
    colour: false,
};

/// A sketch as a file.
pub(super) async fn file(
    State(house): State<House>,
    who: Identity,
    Path((bug, build, file)): Path<(String, String, String)>,
) -> Result<Response, Refusal> {
    let form = file.strip_prefix("sketch.").unwrap_or_default().to_owned();
    let kind = match form.as_str() {
        "html" => "text/html; charset=utf-8",
        "json" | "sarif" => "application/json",
        "md" | "txt" => "text/plain; charset=utf-8",
        _ => {
            return Err(Refusal(Status::not_found(
                "there is no such form of a sketch: html, json, md, sarif and txt are there",
            )));
        }
    };
    let opened = open(&house, &who, &bug, Some(&build)).await?;
    let sketch = bug::sketch(&house, &opened).await?;
    let sketch = sketch.ok_or_else(|| Status::not_found("there is no sketch of this bug yet: try again"))?;
    let is_page = form == "html";
    let made = tokio::task::spawn_blocking(move || render(&sketch, &form)).await;
    let text = made.map_err(|error| Status::internal(error.to_string()))?;
    let text = text.map_err(|error| Status::internal(error.to_string()))?;
    let mut answer = ([(CONTENT_TYPE, kind)], text).into_response();
    if is_page && let Ok(policy) = HeaderValue::from_str(&sketch::html::policy()) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(answer)
}

fn render(of: &Sketch, form: &str) -> serde_json::Result<String> {
    Ok(match form {
        "html" => sketch::html(of),
        "json" => sketch::json(of)?,
        "md" => sketch::markdown(of),
        "sarif" => sketch::sarif(of)?,
        _ => sketch::term(of, IN_A_FILE),
    })
}
