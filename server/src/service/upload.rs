//! Files of programs, in pieces.

use std::path::Path;

use proto::v1;
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};
use tracee::Part;

use super::{House, build, part, path};
use crate::access::Identity;
use crate::clock::now;
use crate::store::StoreError;
use crate::store::model::{ModuleRow, debug_key};
use crate::store::objects::ObjectError;

/// How many bytes may still be stored for somebody. Who has stored all that he may is told so before he has sent a file.
async fn left(house: &House, who: &Identity) -> Result<u64, Status> {
    let holding = house.store.holding(&who.owner()).await;
    let holding = holding.map_err(|error| house.of_store(error))?;
    match house.limits.stored_bytes.saturating_sub(holding) {
        0 => Err(house.of_store(full(house, who, 1))),
        left => Ok(left),
    }
}

/// Somebody wants to store more than so many bytes, and may not.
fn full(house: &House, who: &Identity, bytes: u64) -> StoreError {
    StoreError::Full {
        owner: who.owner(),
        bytes,
        most: house.limits.stored_bytes,
    }
}

/// Stores a file for the programs that somebody may report on: what a file says of itself anybody can write into one. Says whether
/// it was known before.
pub(super) async fn take(
    house: &House,
    who: &Identity,
    mut pieces: Streaming<v1::ModuleChunk>,
) -> Result<bool, Status> {
    let first = pieces.next().await.transpose()?;
    let first = first.ok_or_else(|| Status::invalid_argument("the upload has no pieces"))?;
    let module = first
        .module
        .ok_or_else(|| Status::invalid_argument("the first piece names the module"))?;
    path(&module.path)?;
    let wanted = build(&module.build_id)?;
    let part = part(module.part());
    let key = part.map_or_else(|| wanted.clone(), |part| debug_key(&wanted, part));
    // Whoever is told that it is there counts on it for a while.
    let known = house.store.modules_seen(std::slice::from_ref(&key), now()).await;
    let known = known.map_err(|error| house.of_store(error))?;
    if known.iter().any(|row| row.programs == who.programs) {
        return Ok(true);
    }
    // Until a file has come nobody knows how much room it takes.
    let _turn = house
        .uploads
        .begin(who.owner(), house.limits.uploads, "uploads")?;
    let left = left(house, who).await?;
    let failed = |error: ObjectError| match error {
        ObjectError::TooLarge { .. } if left < house.limits.module_bytes => {
            house.of_store(full(house, who, left))
        }
        ObjectError::TooLarge { .. } => Status::out_of_range(format!("{}: {error}", module.path)),
        error => house.of_store(error.into()),
    };
    let staged = house.objects.stage(house.limits.module_bytes.min(left)).await;
    let mut staged = staged.map_err(failed)?;
    let mut next = Some(first.data);
    while let Some(piece) = next {
        staged.write(piece).await.map_err(failed)?;
        next = pieces.next().await.transpose()?.map(|chunk| chunk.data);
    }
    let bytes = staged.length();
    // Before it gets the name of its content, by which others may know the same content already.
    let file = staged.path().map(Path::to_owned);
    let found = tokio::task::spawn_blocking(move || file.and_then(|file| tracee::build_id(&file)));
    let found = found.await.map_err(|error| Status::internal(error.to_string()))?;
    // What several debug files have in common has a build-id of its own, which whoever reads it compares.
    if part != Some(Part::Supplementary) && found.as_ref() != Some(&wanted) {
        return Err(Status::invalid_argument(format!(
            "what was uploaded as {} is not build {wanted}",
            module.path
        )));
    }
    let object = house.keep(who, staged).await;
    let object = object.map_err(|error| house.of_store(error))?;
    let row = ModuleRow {
        build: key,
        programs: who.programs.clone(),
        path: module.path,
        bytes,
        object,
        seen: now(),
    };
    house
        .store
        .module(row, &who.owner())
        .await
        .map_err(|error| house.of_store(error))?;
    house.metrics.modules.add(1);
    Ok(false)
}
