//! The connection to the server.
//!
//! - `access`: who the server is, and who we are to it
//! - `retry`: when to try again
//! - `upload`: files that the server lacks, in pieces
//! - `plans`: the stream that says what to track
//!
//! Nobody who runs a program waits for any of this: what is to be sent goes to the spool, and a plan that does not
//! come in time is a run without one.

mod access;
mod plans;
mod retry;
mod upload;

use std::time::Duration;

use proto::v1::agents_client::AgentsClient;
use proto::v1::{
    RegisterRequest, RegisterResponse, ReportFailureRequest, ReportFailureResponse, ReportRunsRequest,
    ReportRunsResponse,
};
use tonic::codec::CompressionEncoding;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

pub use access::{Access, AccessError, Bearer};
pub use plans::{Planner, Planning};
pub use retry::{Backoff, LONGEST_PAUSE, Remedy, patiently, remedy};
pub use upload::UploadError;

/// How long the server may take for an answer.
const DEADLINE: Duration = Duration::from_secs(20);

type Client = AgentsClient<InterceptedService<Channel, Bearer>>;

/// A connection, made when it is first used and again when it is lost. Clones share it.
#[derive(Clone, Debug)]
pub struct Link {
    client: Client,
}

impl Link {
    /// The way to a server; nothing is sent yet. To be called inside a runtime.
    ///
    /// # Errors
    /// When the address, a certificate or the token is of no use.
    pub fn new(access: &Access) -> Result<Self, AccessError> {
        let (channel, bearer) = access.channel()?;
        let client = AgentsClient::with_interceptor(channel, bearer)
            .max_decoding_message_size(proto::MOST_MESSAGE)
            .max_encoding_message_size(proto::MOST_MESSAGE)
            // Not what we send: a server that cannot read it would have to refuse it.
            .accept_compressed(CompressionEncoding::Gzip);
        Ok(Self { client })
    }

    /// Says that the host is there.
    ///
    /// # Errors
    /// As the server answers, or does not.
    pub async fn register(&self, request: RegisterRequest) -> Result<RegisterResponse, Status> {
        let answer = self.client.clone().register(in_time(request)).await?;
        Ok(answer.into_inner())
    }

    /// Reports runs.
    ///
    /// # Errors
    /// As the server answers, or does not.
    pub async fn report_runs(&self, request: ReportRunsRequest) -> Result<ReportRunsResponse, Status> {
        let answer = self.client.clone().report_runs(in_time(request)).await?;
        Ok(answer.into_inner())
    }

    /// Reports a failure, once.
    ///
    /// # Errors
    /// As the server answers, or does not.
    pub async fn report_failure(
        &self,
        request: ReportFailureRequest,
    ) -> Result<ReportFailureResponse, Status> {
        let answer = self.client.clone().report_failure(in_time(request)).await?;
        Ok(answer.into_inner())
    }
}

fn in_time<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}
