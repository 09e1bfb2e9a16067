//! Objects in an S3-compatible store, for servers that share no disk.
//!
//! Content never changes, so what was fetched once is right for ever: a local folder is in front.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt as _, RetryConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_stream::StreamExt as _;
use tonic::async_trait;

use super::folder::FolderObjects;
use super::{ObjectError, Objects, Staged, Whole, check};

/// A bucket with a cache.
#[derive(Clone, Debug)]
pub struct S3Objects {
    bucket: Arc<dyn ObjectStore>,
    cache: FolderObjects,
}

/// What is in memory of an object that is sent.
const PIECE: usize = 8 << 20;
/// How often, and how long, a request is tried again before whoever waits for it is told so: agents try again by themselves.
const RETRIES: usize = 3;
const RETRIES_WITHIN: Duration = Duration::from_secs(15);

/// Characters of what others say that are passed on.
const LONGEST_REASON: usize = 200;

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// It is not named.
    #[error("{0} is no address of a bucket: write s3://BUCKET or s3://BUCKET/PREFIX")]
    Address(String),
    /// The settings cannot be used.
    #[error("cannot use {url}: {why}")]
    Settings {
        /// The address.
        url: String,
        /// Why.
        why: String,
    },
    /// Nobody is named who may use it.
    #[error(
        "there are no credentials for {url}: write `access_key_id` and `secret_access_key_file` in `[s3]`, set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or, where the machine itself has a role, `instance_role = true`"
    )]
    NoCredentials {
        /// The address.
        url: String,
    },
    /// Nobody answers, or with a refusal.
    #[error(
        "cannot list {url}: {why}. Check `endpoint` and `region` in `[s3]` (or AWS_ENDPOINT_URL, AWS_REGION), that the bucket \
         exists, and that the credentials may list, read, write and delete in it"
    )]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        why: String,
    },
    /// There is no secret.
    #[error("cannot read the secret key in {path}: {source}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What is fetched cannot be stored.
    #[error("cannot write to the cache {path}: {source}")]
    Cache {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: ObjectError,
    },
}

impl S3Objects {
    /// Opens `s3://BUCKET/PREFIX` and looks whether it is there. Region, endpoint and credentials are settings by the names that the
    /// variables of AWS's own tools have (`AWS_REGION`, `AWS_ENDPOINT`, …), the last one of a name counts; others are passed over, so
    /// that a whole environment may be given.
    ///
    /// # Errors
    /// If the address or the settings cannot be read, the bucket cannot be listed, or the cache cannot be written.
    pub async fn open(
        url: &str,
        settings: impl IntoIterator<Item = (String, String)>,
        cache: &Path,
    ) -> Result<Self, S3Error> {
        let named = url.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = named.split_once('/').unwrap_or((named, ""));
        if bucket.is_empty() {
            return Err(S3Error::Address(url.to_owned()));
        }
        // There may be one already: gRPC's connections use the same.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRIES_WITHIN,
            ..RetryConfig::default()
        };
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket).with_retry(retry);
        for (name, value) in settings {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let url = || url.to_owned();
        let settings = |error: object_store::Error| S3Error::Settings {
            url: url(),
            why: in_short(&error),
        };
        let bucket = builder.build().map_err(settings)?;
        let prefix = object_store::path::Path::parse(prefix.trim_end_matches('/'));
        let prefix = prefix.map_err(|error| settings(error.into()))?;
        let bucket: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(bucket, prefix));
        let first = bucket.list(None).next().await;
        first.transpose().map_err(|error| S3Error::Unreachable {
            url: url(),
            why: in_short(&error),
        })?;
        let cached = FolderObjects::open(cache).await;
        let cached = cached.map_err(|source| S3Error::Cache {
            path: cache.to_owned(),
            source,
        });
        Ok(Self {
            bucket,
            cache: cached?,
        })
    }

    async fn send(&self, whole: &Whole) -> Result<(), ObjectError> {
        let name = name(&whole.key);
        let mut file = tokio::fs::File::open(&whole.path).await?;
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
        let whole = staged.whole().await?;
        match whole.key == key {
            true => self.cache.adopt(whole).await,
            false => Err(ObjectError::Damaged(key.to_owned())),
        }
    }
}

/// What went wrong at the bottom of it, or what the store itself says, which it does in XML.
fn in_short(error: &object_store::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let said = text.split_once("<Message>");
    let said = said.and_then(|(_, rest)| Some(rest.split_once("</Message>")?.0));
    let said = said.unwrap_or(&text).chars().filter(|c| !c.is_control());
    said.take(LONGEST_REASON).collect()
}

fn name(key: &str) -> object_store::path::Path {
    object_store::path::Path::from(format!("{}/{key}", &key[..2]))
}

#[async_trait]
impl Objects for S3Objects {
    async fn stage(&self, most: u64) -> Result<Staged, ObjectError> {
        self.cache.stage(most).await
    }

    async fn keep(&self, whole: Whole) -> Result<(), ObjectError> {
        if !self.exists(&whole.key).await? {
            self.send(&whole).await?;
        }
        self.cache.adopt(whole).await
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
