//! Pages for people, on the port of everything else and behind the same gate.
//!
//! They are made here, whole: a page works without its script, which only keeps it current. Every link stays good: bugs, builds
//! and predictors are named by what they are.
//!
//! - [`list`]: bugs; [`bug`]: one, with its sketch; [`runs`]: the runs behind a predictor; [`files`]: sketches to take along
//! - [`steer`]: having a bug treated differently; [`live`]: news, while somebody looks
//! - [`shown`], [`trend`]: times, states and figures as people read them; [`frame`]: what all pages have
//! - [`assets`], [`policy`], [`refusal`]: what browsers need besides

mod assets;
mod bug;
mod files;
mod frame;
mod list;
mod live;
mod policy;
mod refusal;
mod runs;
mod shown;
mod steer;
mod trend;

use axum::Router;
use axum::extract::Request;
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tonic::Status;

use crate::service::House;
use refusal::Refusal;

/// All pages.
pub fn routes(house: House) -> Router {
    Router::new()
        .route("/", get(list::page))
        .route("/live", get(live::list))
        .route("/bugs/{bug}", get(bug::page))
        .route("/bugs/{bug}/live", get(live::bug))
        .route("/bugs/{bug}/steer", post(steer::act))
        .route("/bugs/{bug}/builds/{build}", get(bug::page_of_build))
        .route("/bugs/{bug}/builds/{build}/predictors/{key}", get(runs::page))
        .route("/bugs/{bug}/builds/{build}/{file}", get(files::file))
        .route("/assets/{name}", get(assets::asset))
        .layer(middleware::map_response(policy::guard))
        .with_state(house)
}

/// What is asked for is not there.
pub async fn missing(request: Request) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Status::unimplemented("there is no such method").into_http();
    }
    let refusal = Refusal(Status::not_found("there is no such page"));
    policy::guard(refusal.into_response()).await
}
