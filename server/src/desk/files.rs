//! The program of a build, from what hosts uploaded.

use std::path::{Path, PathBuf};

use diagnosis::tracking::ModuleName;
use program::BuildId;
pub(super) use tracee::ProgramFiles;

use super::{DeskError, Shelf};
use crate::store::StoreError;

/// Where the files of a program are here, in their order.
pub(super) async fn paths(shelf: &Shelf, modules: &[ModuleName]) -> Result<Vec<PathBuf>, DeskError> {
    let builds: Vec<BuildId> = modules
        .iter()
        .filter_map(|module| module.build_id.clone())
        .collect();
    let known = shelf.store.modules(&builds).await?;
    let mut paths = Vec::new();
    for module in modules {
        let row = known
            .iter()
            .find(|row| Some(&row.build) == module.build_id.as_ref());
        let row = row.ok_or_else(|| StoreError::Unavailable(format!("{} was not uploaded", module.path)))?;
        let path = shelf.objects.get(&row.object).await;
        paths.push(path.map_err(StoreError::from)?);
    }
    Ok(paths)
}

/// Files with the names that the failing process had for them.
pub(super) fn named<'m>(
    modules: &'m [ModuleName],
    paths: &'m [PathBuf],
) -> impl Iterator<Item = (&'m str, &'m Path)> {
    let names = modules.iter().map(|module| module.path.as_str());
    names.zip(paths.iter().map(PathBuf::as_path))
}
