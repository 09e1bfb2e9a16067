//! Modules and large runs, by what is in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tonic::async_trait;

use super::StoreError;

/// Where objects are kept.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Begins an object.
    async fn begin(&self) -> Result<Box<dyn Writing>, StoreError>;
    /// Where an object can be read.
    async fn get(&self, key: &str) -> Result<PathBuf, StoreError>;
    /// Forgets an object.
    async fn remove(&self, key: &str) -> Result<(), StoreError>;

    /// Keeps some bytes; gives their key.
    async fn put(&self, bytes: Bytes) -> Result<String, StoreError> {
        let mut writing = self.begin().await?;
        writing.write(bytes).await?;
        writing.finish().await
    }
}

/// An object that is being written; nothing of it stays when it is dropped.
#[async_trait]
pub trait Writing: Send {
    /// Adds some bytes.
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError>;
    /// Keeps it; gives its key.
    async fn finish(self: Box<Self>) -> Result<String, StoreError>;
}

/// Opens a folder of objects.
pub async fn open(folder: &Path) -> Result<Arc<dyn Objects>, StoreError> {
    tokio::fs::create_dir_all(folder).await.map_err(failed(folder))?;
    Ok(Arc::new(Folder(folder.to_owned())))
}

struct Folder(PathBuf);

struct File {
    folder: PathBuf,
    file: tokio::fs::File,
    partial: tempfile::TempPath,
    hash: Sha256,
}

#[async_trait]
impl Objects for Folder {
    async fn begin(&self) -> Result<Box<dyn Writing>, StoreError> {
        let partial = tempfile::NamedTempFile::new_in(&self.0).map_err(failed(&self.0))?;
        let (file, partial) = partial.into_parts();
        Ok(Box::new(File {
            folder: self.0.clone(),
            file: file.into(),
            partial,
            hash: Sha256::new(),
        }))
    }

    async fn get(&self, key: &str) -> Result<PathBuf, StoreError> {
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(StoreError::Damaged(format!("{key:?} is no object's key")));
        }
        let path = self.0.join(key);
        match tokio::fs::try_exists(&path).await {
            Ok(true) => Ok(path),
            Ok(false) => Err(StoreError::Damaged(format!("{} is missing", path.display()))),
            Err(error) => Err(failed(&path)(error)),
        }
    }

    async fn remove(&self, key: &str) -> Result<(), StoreError> {
        let path = self.get(key).await?;
        tokio::fs::remove_file(&path).await.map_err(failed(&path))
    }
}

#[async_trait]
impl Writing for File {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.hash.update(&bytes);
        self.file.write_all(&bytes).await.map_err(failed(&self.partial))
    }

    async fn finish(mut self: Box<Self>) -> Result<String, StoreError> {
        self.file.flush().await.map_err(failed(&self.partial))?;
        self.file.sync_all().await.map_err(failed(&self.partial))?;
        let key: String = self
            .hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = self.folder.join(&key);
        self.partial
            .persist(&path)
            .map_err(|error| failed(&path)(error.error))?;
        // The name is there after a crash when the folder is.
        let folder = tokio::fs::File::open(&self.folder)
            .await
            .map_err(failed(&self.folder))?;
        folder.sync_all().await.map_err(failed(&self.folder))?;
        Ok(key)
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.display().to_string();
    move |error| StoreError::Unavailable(format!("{path}: {error}"))
}
