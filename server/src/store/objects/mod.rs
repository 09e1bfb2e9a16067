//! Modules and large runs: bytes that are named by their content.
//!
//! Whoever has something to store stages it first: it is written to a local file as it comes, so that nothing large is ever in
//! memory, and nothing is kept of what was never finished. A key is the SHA-256 of the content. So an object never changes, is
//! stored once however often it is sent, and can be mapped while others add to the store.
//!
//! - [`folder`]: files in a folder
//! - [`place`]: which of them, as it is written down
//! - [`s3`]: an S3-compatible store with such a folder as its cache
//! - [`staged`]: what is on its way

pub mod folder;
pub mod place;
pub mod s3;
pub mod staged;

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use thiserror::Error;
use tonic::async_trait;

pub use staged::{Staged, Whole};

/// Why an object was not stored or found.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// It may work later: the disk is full, the store is out of reach.
    #[error("objects cannot be stored or read just now ({0}): try again")]
    Unavailable(String),
    /// More than the caller wants to take.
    #[error("it is larger than {most} bytes")]
    TooLarge {
        /// What may be stored.
        most: u64,
    },
    /// There is no such object.
    #[error("there is no object {0}")]
    Missing(String),
    /// What came is not what was asked for.
    #[error("object {0} is damaged")]
    Damaged(String),
}

impl From<io::Error> for ObjectError {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Where objects are kept. What was put is there after the machine lost its power.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Begins an object of at most so many bytes.
    async fn stage(&self, most: u64) -> Result<Staged, ObjectError>;
    /// Keeps what came whole. What is there already stays.
    async fn keep(&self, whole: Whole) -> Result<(), ObjectError>;
    /// A file with the object's content, to be read or mapped.
    async fn get(&self, key: &str) -> Result<PathBuf, ObjectError>;
    /// Whether it is there.
    async fn exists(&self, key: &str) -> Result<bool, ObjectError>;
    /// Removes it if it is there. Whoever has opened it keeps it.
    async fn remove(&self, key: &str) -> Result<(), ObjectError>;

    /// Stores bytes that are in memory anyway; gives their key.
    async fn put(&self, content: Bytes) -> Result<String, ObjectError> {
        let mut staged = self.stage(content.len() as u64).await?;
        staged.write(content).await?;
        let whole = staged.whole().await?;
        let key = whole.key().to_owned();
        self.keep(whole).await?;
        Ok(key)
    }
}

/// Keys come from databases and requests, and become paths: only what [`Staged`] makes is one.
fn check(key: &str) -> Result<(), ObjectError> {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match key.len() == 64 && key.bytes().all(digit) {
        true => Ok(()),
        false => Err(ObjectError::Missing(key.to_owned())),
    }
}
