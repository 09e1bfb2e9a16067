//! Objects as files in a folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::{PathPersistError, TempPath};
use tonic::async_trait;

use super::staged::blocking;
use super::{ObjectError, Objects, Staged, Whole, check};

/// What a server left that was killed goes away when one starts, unless another one may still write it.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A folder with a file for each object: `ab/abcd…`.
#[derive(Clone, Debug)]
pub struct FolderObjects {
    folder: PathBuf,
    /// In the same file system, so that a file gets its name in one step.
    incoming: PathBuf,
}

impl FolderObjects {
    /// Opens a folder, and makes it if there is none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn open(folder: &Path) -> Result<Self, ObjectError> {
        let objects = Self {
            folder: folder.to_owned(),
            incoming: folder.join("incoming"),
        };
        let incoming = objects.incoming.clone();
        blocking(move || {
            fs::create_dir_all(&incoming)?;
            sweep(&incoming)?;
            Ok(objects)
        })
        .await
    }

    /// Gives a complete file its name.
    pub(super) async fn adopt(&self, whole: Whole) -> Result<(), ObjectError> {
        let target = self.path(&whole.key);
        blocking(move || settle(whole.path, &target)).await
    }

    /// The path of an object, there or not.
    pub(super) fn path(&self, key: &str) -> PathBuf {
        self.folder.join(&key[..2]).join(key)
    }
}

#[async_trait]
impl Objects for FolderObjects {
    async fn stage(&self, most: u64) -> Result<Staged, ObjectError> {
        Staged::new(&self.incoming, most).await
    }

    async fn keep(&self, whole: Whole) -> Result<(), ObjectError> {
        self.adopt(whole).await
    }

    async fn get(&self, key: &str) -> Result<PathBuf, ObjectError> {
        match self.exists(key).await? {
            true => Ok(self.path(key)),
            false => Err(ObjectError::Missing(key.to_owned())),
        }
    }

    async fn exists(&self, key: &str) -> Result<bool, ObjectError> {
        check(key)?;
        Ok(tokio::fs::try_exists(self.path(key)).await?)
    }

    async fn remove(&self, key: &str) -> Result<(), ObjectError> {
        check(key)?;
        match tokio::fs::remove_file(self.path(key)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Renames a file that is on disk, and brings the name to disk as well.
fn settle(path: TempPath, target: &Path) -> Result<(), ObjectError> {
    let shelf = target.parent().unwrap_or(target);
    if let Err(error) = fs::create_dir(shelf)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error.into());
    }
    // One that is there already has the same content: it is replaced by its like.
    path.persist(target)
        .map_err(|PathPersistError { error, .. }| error)?;
    for folder in [Some(shelf), shelf.parent()].into_iter().flatten() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn sweep(incoming: &Path) -> io::Result<()> {
    let now = SystemTime::now();
    for entry in fs::read_dir(incoming)? {
        let entry = entry?;
        let written = entry.metadata()?.modified()?;
        if now.duration_since(written).is_ok_and(|age| age > ABANDONED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
