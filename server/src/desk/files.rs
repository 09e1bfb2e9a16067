//! The program of a build, from what hosts uploaded.

use std::path::PathBuf;

use diagnosis::tracking::ModuleName;
use program::BuildId;
pub(super) use tracee::ProgramFiles;
use tracee::{Parts, Stored};

use super::{DeskError, Shelf};
use crate::store::StoreError;
use crate::store::model::{ModuleRow, PARTS, debug_key};

/// Where a file is here, and its debug information.
pub(super) struct Place {
    path: PathBuf,
    parts: Parts,
}

/// Where the files of a program are here, in their order, as somebody uploaded them who may report on it.
pub(super) async fn places(
    shelf: &Shelf,
    name: &str,
    modules: &[ModuleName],
) -> Result<Vec<Place>, DeskError> {
    let builds = modules.iter().filter_map(|module| module.build_id.as_ref());
    let keys: Vec<BuildId> = builds
        .flat_map(|build| {
            let debug_files = PARTS.map(|part| debug_key(build, part));
            std::iter::once(build.clone()).chain(debug_files)
        })
        .collect();
    let known = shelf.store.modules(&keys).await?;
    let known: Vec<ModuleRow> = known
        .into_iter()
        .filter(|row| row.programs.contain(name))
        .collect();
    let find = |key: &BuildId| known.iter().find(|row| row.build == *key);
    let mut places = Vec::new();
    for module in modules {
        let build = module.build_id.as_ref();
        let row = build.and_then(find);
        let row = row.ok_or_else(|| StoreError::Unavailable(format!("{} was not uploaded", module.path)))?;
        let path = shelf.objects.get(&row.object).await.map_err(StoreError::from)?;
        let mut parts = Parts::new();
        for part in PARTS {
            if let Some(row) = build.and_then(|build| find(&debug_key(build, part))) {
                let path = shelf.objects.get(&row.object).await.map_err(StoreError::from)?;
                parts.insert(part, path);
            }
        }
        places.push(Place { path, parts });
    }
    Ok(places)
}

/// Files with the names that the failing process had for them.
pub(super) fn named<'m>(modules: &'m [ModuleName], places: &'m [Place]) -> impl Iterator<Item = Stored<'m>> {
    modules.iter().zip(places).map(|(module, place)| Stored {
        name: &module.path,
        path: &place.path,
        parts: place.parts.clone(),
    })
}
