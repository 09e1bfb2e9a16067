//! Where objects are, as it is written down: a folder, or `s3://BUCKET/PREFIX`.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::folder::FolderObjects;
use super::s3::{S3Error, S3Objects};
use super::{ObjectError, Objects};

const SCHEME: &str = "s3://";

/// Where objects are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ObjectsAt {
    /// Files of this host.
    Folder(PathBuf),
    /// A bucket, and the beginning of the names in it.
    Bucket(String),
}

/// A store that is reached over the network. What is not here is taken from the environment, by the names that AWS's own tools
/// have for it (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, …).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3 {
    /// Where it answers, if it is not Amazon's: `https://…`. Only one that is written as `http://…` is talked to in the clear.
    pub endpoint: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// Who asks.
    pub access_key_id: Option<String>,
    /// The file with his secret: secrets are not for a file that people show around.
    pub secret_access_key_file: Option<PathBuf>,
    /// Whether the machine itself may be asked who it is, as machines of a cloud can. Nobody is asked unless that is said.
    pub instance_role: bool,
    /// The folder of what was fetched.
    pub cache: PathBuf,
}

/// Settings that say who asks.
const CREDENTIALS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

impl Default for S3 {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access_key_id: None,
            secret_access_key_file: None,
            instance_role: false,
            cache: "objects-cache".into(),
        }
    }
}

impl S3 {
    /// The settings by the names that the environment has for them, this host's environment first.
    fn settings(&self, url: &str) -> Result<Vec<(String, String)>, S3Error> {
        let mut settings: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("AWS_"))
            .collect();
        let mut set = |name: &str, value: &str| settings.push((name.to_owned(), value.to_owned()));
        if let Some(endpoint) = &self.endpoint {
            set("AWS_ENDPOINT", endpoint);
            set("AWS_ALLOW_HTTP", &endpoint.starts_with("http://").to_string());
        }
        if let Some(region) = &self.region {
            set("AWS_REGION", region);
        }
        if let Some(key) = &self.access_key_id {
            set("AWS_ACCESS_KEY_ID", key);
        }
        if let Some(path) = &self.secret_access_key_file {
            let secret = std::fs::read_to_string(path).map_err(|source| S3Error::Secret {
                path: path.clone(),
                source,
            })?;
            set("AWS_SECRET_ACCESS_KEY", secret.trim());
        }
        let known = settings
            .iter()
            .any(|(name, _)| CREDENTIALS.contains(&name.as_str()));
        match known || self.instance_role {
            true => Ok(settings),
            false => Err(S3Error::NoCredentials { url: url.to_owned() }),
        }
    }
}

impl ObjectsAt {
    /// The same, where a folder that is relative is relative to another one.
    pub(crate) fn be_relative_to(&mut self, folder: &Path) {
        if let Self::Folder(path) = self {
            *path = folder.join(&path);
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// If it cannot be written or reached.
    pub async fn open(&self, s3: &S3) -> Result<Arc<dyn Objects>, OpenError> {
        match self {
            Self::Folder(folder) => Ok(Arc::new(FolderObjects::open(folder).await?)),
            Self::Bucket(url) => Ok(Arc::new(
                S3Objects::open(url, s3.settings(url)?, &s3.cache).await?,
            )),
        }
    }
}

/// Why objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder.
    #[error(transparent)]
    Folder(#[from] ObjectError),
    /// The bucket.
    #[error(transparent)]
    Bucket(#[from] S3Error),
}

impl From<String> for ObjectsAt {
    fn from(text: String) -> Self {
        match text.starts_with(SCHEME) {
            true => Self::Bucket(text),
            false => Self::Folder(text.into()),
        }
    }
}

impl FromStr for ObjectsAt {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

impl From<PathBuf> for ObjectsAt {
    fn from(path: PathBuf) -> Self {
        Self::Folder(path)
    }
}

impl From<ObjectsAt> for String {
    fn from(at: ObjectsAt) -> Self {
        at.to_string()
    }
}

impl fmt::Display for ObjectsAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Bucket(url) => f.write_str(url),
        }
    }
}
