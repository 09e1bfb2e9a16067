//! Files of programs, in pieces.

use proto::v1;
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};
use tracee::Part;

use super::{House, build, part};
use crate::clock::now;
use crate::store::model::{ModuleRow, debug_key};
use crate::store::objects::ObjectError;

/// Stores a file. Says whether it was known before.
pub(super) async fn take(house: &House, mut pieces: Streaming<v1::ModuleChunk>) -> Result<bool, Status> {
    let first = pieces.next().await.transpose()?;
    let first = first.ok_or_else(|| Status::invalid_argument("the upload has no pieces"))?;
    let module = first
        .module
        .ok_or_else(|| Status::invalid_argument("the first piece names the module"))?;
    let wanted = build(&module.build_id)?;
    let part = part(module.part());
    let key = part.map_or_else(|| wanted.clone(), |part| debug_key(&wanted, part));
    let known = house.store.modules(std::slice::from_ref(&key)).await;
    if !known.map_err(|error| house.of_store(error))?.is_empty() {
        return Ok(true);
    }
    let failed = |error: ObjectError| match error {
        ObjectError::TooLarge { .. } => Status::out_of_range(format!("{}: {error}", module.path)),
        error => house.of_store(error.into()),
    };
    let staged = house.objects.stage(house.limits.module_bytes).await;
    let mut staged = staged.map_err(failed)?;
    let mut next = Some(first.data);
    while let Some(piece) = next {
        staged.write(piece).await.map_err(failed)?;
        next = pieces.next().await.transpose()?.map(|chunk| chunk.data);
    }
    let bytes = staged.length();
    let object = house.objects.keep(staged).await.map_err(failed)?;
    let path = house.objects.get(&object).await.map_err(failed)?;
    let found = tokio::task::spawn_blocking(move || tracee::build_id(&path));
    let found = found.await.map_err(|error| Status::internal(error.to_string()))?;
    // What several debug files have in common has a build-id of its own, which whoever reads it compares.
    if part != Some(Part::Supplementary) && found.as_ref() != Some(&wanted) {
        // Nobody refers to it: what is wrong with it will be wrong again.
        let removed = house.objects.remove(&object).await;
        removed.map_err(failed)?;
        return Err(Status::invalid_argument(format!(
            "what was uploaded as {} is not build {wanted}",
            module.path
        )));
    }
    let row = ModuleRow {
        build: key,
        path: module.path,
        bytes,
        object,
        seen: now(),
    };
    house
        .store
        .module(row)
        .await
        .map_err(|error| house.of_store(error))?;
    house.metrics.modules.add(1);
    Ok(false)
}
