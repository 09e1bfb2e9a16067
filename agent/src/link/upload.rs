//! Files that the server lacks, in pieces.

use std::io;
use std::path::Path;
use std::time::Duration;

use proto::CHUNK;
use proto::v1::module::Part;
use proto::v1::{Module, ModuleChunk, ReportFailureRequest, UploadModuleResponse};
use thiserror::Error;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

use super::Link;

/// How long a file may take on its way. Programs of gigabytes go over slow lines.
const DEADLINE: Duration = Duration::from_secs(600);

/// Why a file did not reach the server.
#[derive(Debug, Error)]
pub enum UploadError {
    /// The server asks for a file that the failure is not about.
    #[error("the server asks for {0}, which the failure did not name: it does not get it")]
    NotNamed(String),
    /// The file is another build by now, or no program.
    #[error("{0} is not the build any more that failed")]
    OtherBuild(String),
    /// It cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The server did not take it.
    #[error("the server did not take {path}: {status}")]
    Refused {
        /// Which file.
        path: String,
        /// Its answer.
        status: Status,
    },
}

impl Link {
    /// Uploads a module that the server lacks of a failure. Only what the failure names is given away, and only if it
    /// is the same build still: a server cannot ask for any file of the host.
    ///
    /// # Errors
    /// When it may not or cannot be had, or the server did not take it.
    pub async fn upload(
        &self,
        failure: &ReportFailureRequest,
        lacking: &Module,
    ) -> Result<UploadModuleResponse, UploadError> {
        let path = &lacking.path;
        let same = |module: &&Module| {
            module.path == *path && module.build_id == lacking.build_id && module.part == lacking.part
        };
        let mut named = failure.modules.iter().chain(&failure.debug_files);
        let module = named.find(same);
        let module = module.ok_or_else(|| UploadError::NotNamed(path.clone()))?;
        if !is_build(module).await {
            return Err(UploadError::OtherBuild(path.clone()));
        }
        let unreadable = |source| UploadError::File {
            path: path.clone(),
            source,
        };
        let file = File::open(path).await.map_err(unreadable)?;
        let (to_server, pieces) = mpsc::channel(2);
        let mut request = Request::new(ReceiverStream::new(pieces));
        request.set_timeout(DEADLINE);
        let mut client = self.client.clone();
        let call = client.upload_module(request);
        tokio::pin!(call);
        let refused = |status| UploadError::Refused {
            path: path.clone(),
            status,
        };
        tokio::select! {
            // A file that cannot be read to its end must not look like one that ended there: the call is dropped, with
            // which the stream is broken off, before the pieces are.
            poured = pour(module.clone(), file, &to_server) => poured.map_err(unreadable)?,
            // It has it already, or does not want it.
            answer = &mut call => return Ok(answer.map_err(refused)?.into_inner()),
        }
        drop(to_server);
        Ok(call.await.map_err(refused)?.into_inner())
    }
}

async fn pour(module: Module, mut file: File, to_server: &mpsc::Sender<ModuleChunk>) -> io::Result<()> {
    let mut module = Some(module);
    loop {
        let mut data = Vec::with_capacity(CHUNK);
        let read = (&mut file).take(CHUNK as u64).read_to_end(&mut data).await?;
        if read == 0 && module.is_none() {
            return Ok(());
        }
        let chunk = ModuleChunk {
            module: module.take(),
            data: data.into(),
        };
        if to_server.send(chunk).await.is_err() {
            // The call has ended and tells why.
            return std::future::pending().await;
        }
    }
}

/// Whether the file is still the build that was running. What several have in common has a build-id of its own, which
/// whoever reads it compares.
async fn is_build(module: &Module) -> bool {
    if module.part() == Part::Supplementary {
        return true;
    }
    let path = module.path.clone();
    let looked = tokio::task::spawn_blocking(move || tracee::build_id(Path::new(&path)));
    let here = looked.await.ok().flatten();
    here.is_some_and(|here| here.0 == module.build_id)
}
