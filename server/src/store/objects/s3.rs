//! Objects in an S3-compatible store, for servers that share no disk.
//!
//! Content never changes, so what was fetched once is right for ever: a local folder is in front.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_stream::StreamExt as _;
use tonic::async_trait;

use super::folder::FolderObjects;
use super::staged::Complete;
use super::{ObjectError, Objects, Staged, check};

/// A bucket with a cache.
#[derive(Clone, Debug)]
pub struct S3Objects {
    bucket: Arc<dyn ObjectStore>,
    cache: FolderObjects,
}

/// What is in memory of an object that is sent.
const PIECE: usize = 8 << 20;

impl S3Objects {
    /// Opens `s3://BUCKET`. Region, endpoint and credentials are settings by the names that the variables of AWS's own tools
    /// have (`AWS_REGION`, `AWS_ENDPOINT`, …); others are passed over, so that a whole environment may be given.
    ///
    /// # Errors
    /// If the address or the settings cannot be read, or the cache cannot be written.
    pub async fn open(
        url: &str,
        settings: impl IntoIterator<Item = (String, String)>,
        cache: &Path,
    ) -> Result<Self, ObjectError> {
        let mut builder = AmazonS3Builder::new().with_url(url);
        for (name, value) in settings {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let bucket = builder.build()?;
        Ok(Self {
            bucket: Arc::new(bucket),
            cache: FolderObjects::open(cache).await?,
        })
    }

    async fn send(&self, complete: &Complete) -> Result<(), ObjectError> {
        let name = name(&complete.key);
        let mut file = tokio::fs::File::open(&complete.path).await?;
        let mut writer = BufWriter::with_capacity(self.bucket.clone(), name, PIECE);
        let mut piece = vec![0; PIECE];
        loop {
            let read = file.read(&mut piece).await?;
            if read == 0 {
                break;
            }
            if let Err(error) = writer.put(Bytes::copy_from_slice(&piece[..read])).await {
                // What was sent of it would stay, and be paid for.
                let _ = writer.abort().await;
                return Err(error.into());
            }
        }
        Ok(writer.shutdown().await?)
    }

    async fn fetch(&self, key: &str) -> Result<(), ObjectError> {
        let found = self.bucket.get(&name(key)).await?;
        let mut staged = self.cache.stage(found.meta.size).await?;
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            staged.write(piece?).await?;
        }
        let complete = staged.complete().await?;
        match complete.key == key {
            true => self.cache.adopt(complete).await.map(drop),
            false => Err(ObjectError::Damaged(key.to_owned())),
        }
    }
}

fn name(key: &str) -> object_store::path::Path {
    object_store::path::Path::from(format!("{}/{key}", &key[..2]))
}

#[async_trait]
impl Objects for S3Objects {
    async fn stage(&self, most: u64) -> Result<Staged, ObjectError> {
        self.cache.stage(most).await
    }

    async fn keep(&self, staged: Staged) -> Result<String, ObjectError> {
        let complete = staged.complete().await?;
        if !self.exists(&complete.key).await? {
            self.send(&complete).await?;
        }
        self.cache.adopt(complete).await
    }

    async fn get(&self, key: &str) -> Result<PathBuf, ObjectError> {
        check(key)?;
        if !self.cache.exists(key).await? {
            self.fetch(key).await?;
        }
        self.cache.get(key).await
    }

    async fn exists(&self, key: &str) -> Result<bool, ObjectError> {
        check(key)?;
        match self.bucket.head(&name(key)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, key: &str) -> Result<(), ObjectError> {
        check(key)?;
        match self.bucket.delete(&name(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => self.cache.remove(key).await,
            Err(error) => Err(error.into()),
        }
    }
}

impl From<object_store::Error> for ObjectError {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { path, .. } => Self::Missing(path),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
