//! Files of programs, in pieces.

use program::elf::Elf;
use proto::v1;
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};

use super::{House, build};
use crate::clock::now;
use crate::store::model::ModuleRow;
use crate::store::objects::ObjectError;

/// Stores a file. Says whether it was known before.
pub(super) async fn take(house: &House, mut pieces: Streaming<v1::ModuleChunk>) -> Result<bool, Status> {
    let first = pieces.next().await.transpose()?;
    let first = first.ok_or_else(|| Status::invalid_argument("the upload has no pieces"))?;
    let module = first
        .module
        .ok_or_else(|| Status::invalid_argument("the first piece names the module"))?;
    let wanted = build(&module.build_id)?;
    let known = house.store.modules(std::slice::from_ref(&wanted)).await;
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
    let found = tokio::task::spawn_blocking(move || {
        let file = tracee::MappedFile::open(&path).ok()?;
        Elf::parse(&file).ok()?.build_id()
    });
    let found = found.await.map_err(|error| Status::internal(error.to_string()))?;
    if found.as_ref() != Some(&wanted) {
        // Nobody refers to it: what is wrong with it will be wrong again.
        let removed = house.objects.remove(&object).await;
        removed.map_err(failed)?;
        return Err(Status::invalid_argument(format!(
            "what was uploaded as {} is not build {wanted}",
            module.path
        )));
    }
    let row = ModuleRow {
        build: wanted,
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
