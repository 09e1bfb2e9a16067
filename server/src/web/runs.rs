//! The runs behind a predictor.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use diagnosis::sketch::Predictor;
use sketch_render::sketch::{html, view, words};
use tonic::Status;

use super::bug::hosts::called;
use super::bug::{address, open, sketch};
use super::frame::{Frame, answer};
use super::refusal::Refusal;
use super::shown::{Moment, shown};
use crate::access::Identity;
use crate::clock::now;
use crate::service::House;
use crate::store::model::RunRow;

#[derive(Template)]
#[template(path = "runs.html")]
struct Page {
    frame: Frame,
    program: String,
    bug: String,
    back: String,
    sentence: String,
    title: String,
    statements: Vec<Place>,
    kinds: [Kind; 2],
}

/// A statement of the predictor.
struct Place {
    role: String,
    access: &'static str,
    place: String,
}

/// Failing or successful runs.
struct Kind {
    name: &'static str,
    class: &'static str,
    with: u64,
    all: u64,
    runs: Vec<Run>,
}

struct Run {
    seq: u64,
    id: String,
    host: String,
    host_id: String,
    at: Moment,
    is_kept: bool,
}

/// What a predictor is called in addresses: the same as long as it is about the same, whatever its rank.
pub(super) fn key(predictor: &Predictor) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&format!("{:?}", predictor.kind));
    for text in [&predictor.pattern, &predictor.variable, &predictor.predicate] {
        add(text.as_deref().unwrap_or_default());
    }
    for place in &predictor.statements {
        add(&place.thread_role);
        add(place.access.map_or("", view::letter));
        add(&view::position(&place.statement, usize::MAX));
    }
    format!("{hash:016x}")
}

/// The page.
pub(super) async fn page(
    State(house): State<House>,
    who: Identity,
    Path((bug, build, wanted)): Path<(String, String, String)>,
) -> Result<Response, Refusal> {
    let opened = open(&house, &who, &bug, Some(&build)).await?;
    let sketch = sketch(&house, &opened).await?;
    let back = address(&opened.bug.id, &opened.case().case.build);
    let found = sketch.as_ref().and_then(|sketch| {
        let predictor = sketch
            .predictors
            .iter()
            .find(|predictor| key(predictor) == wanted)?;
        Some((sketch, predictor))
    });
    let (sketch, predictor) = found.ok_or_else(|| {
        Status::not_found(
            "this predictor is no longer among those of the sketch: the runs since then spoke against it",
        )
    })?;
    let numbers = [&predictor.runs.failing, &predictor.runs.successful];
    let all: Vec<u64> = numbers
        .iter()
        .flat_map(|numbers| numbers.iter().copied())
        .collect();
    let rows = house.store.runs_numbered(&opened.case().case, &all).await;
    let rows = rows.map_err(|error| house.of_store(error))?;
    let hosts = called(&house, rows.iter().map(|row| row.host.clone()).collect()).await?;
    let now = now();
    let runs = |numbers: &[u64]| {
        let known = numbers
            .iter()
            .filter_map(|seq| rows.iter().find(|row| row.seq == *seq));
        known.map(|row| run(row, &hosts, now)).collect()
    };
    let said = words::predictor(sketch, predictor);
    answer(&Page {
        frame: Frame::new(&who.name, ""),
        program: shown(&opened.bug.program, 80),
        bug: opened.bug.id.to_string(),
        back,
        sentence: html::phrased(&said),
        title: said.plain(),
        statements: predictor
            .statements
            .iter()
            .map(|place| Place {
                role: shown(&view::role(&place.thread_role, 60), 60),
                access: place.access.map_or("", view::letter),
                place: shown(&view::position(&place.statement, 80), 160),
            })
            .collect(),
        kinds: [
            Kind {
                name: "Failing",
                class: "f",
                with: predictor.failing_with,
                all: predictor.failing,
                runs: runs(&predictor.runs.failing),
            },
            Kind {
                name: "Successful",
                class: "s",
                with: predictor.successful_with,
                all: predictor.successful,
                runs: runs(&predictor.runs.successful),
            },
        ],
    })
}

fn run(row: &RunRow, hosts: &HashMap<String, String>, now: u64) -> Run {
    Run {
        seq: row.seq,
        id: shown(&row.id, 60),
        host: shown(hosts.get(&row.host).unwrap_or(&row.host), 60),
        host_id: shown(&row.host, 60),
        at: Moment::new(row.at, now),
        is_kept: row.is_kept,
    }
}
