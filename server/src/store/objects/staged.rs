//! An object on its way: a file without a name that others look for.

use std::io::Write as _;
use std::path::Path;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempPath};
use tokio::task::spawn_blocking;

use super::ObjectError;

/// Bytes that came so far. They go away with it unless they are kept.
#[derive(Debug)]
pub struct Staged {
    /// Nobody's while a write is under way; lost if that was given up.
    open: Option<Open>,
    length: u64,
    most: u64,
}

#[derive(Debug)]
struct Open {
    file: NamedTempFile,
    hash: Sha256,
}

/// All bytes, on disk, under a name that nobody looks for. They go away with it unless they are kept.
#[derive(Debug)]
pub struct Whole {
    pub(super) path: TempPath,
    pub(super) key: String,
    bytes: u64,
}

impl Whole {
    /// What it will be called.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Staged {
    /// Begins one in a folder.
    pub(super) async fn new(folder: &Path, most: u64) -> Result<Self, ObjectError> {
        let folder = folder.to_owned();
        let file = blocking(move || Ok(NamedTempFile::new_in(folder)?)).await?;
        let hash = Sha256::new();
        Ok(Self {
            open: Some(Open { file, hash }),
            length: 0,
            most,
        })
    }

    /// Bytes that came so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The file that the bytes are in so far; nothing once a write has failed.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        Some(self.open.as_ref()?.file.path())
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// When it gets too large, or the disk is full. Nothing more can be added then.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ObjectError> {
        let mut open = self.open.take().ok_or_else(given_up)?;
        self.length = self.length.saturating_add(bytes.len() as u64);
        if self.length > self.most {
            return Err(ObjectError::TooLarge { most: self.most });
        }
        let open = blocking(move || {
            open.hash.update(&bytes);
            open.file.write_all(&bytes)?;
            Ok(open)
        });
        self.open = Some(open.await?);
        Ok(())
    }

    /// Brings it to disk and learns its key.
    ///
    /// # Errors
    /// When it cannot be brought to disk, or a write has failed before.
    pub async fn whole(self) -> Result<Whole, ObjectError> {
        let bytes = self.length;
        let Open { file, hash } = self.open.ok_or_else(given_up)?;
        blocking(move || {
            file.as_file().sync_all()?;
            let key = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            let path = file.into_temp_path();
            Ok(Whole { path, key, bytes })
        })
        .await
    }
}

fn given_up() -> ObjectError {
    ObjectError::Unavailable("a write to it failed before".to_owned())
}

/// Does what waits for a disk where nobody else waits.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ObjectError> + Send + 'static,
) -> Result<T, ObjectError> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| ObjectError::Unavailable(error.to_string()))?
}
