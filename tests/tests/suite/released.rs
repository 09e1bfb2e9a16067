//! Agents, servers and people of different ages: between them is somebody who takes out of every message, either way, what a
//! released protocol does not have, and knows no method that it does not have. So each side talks to an old one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes};
use failsketch_tests::folder::Folder;
use failsketch_tests::zoo;
use protox::prost::Message as _;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, Value};
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, BoxStream, Service, http};
use tonic::server::StreamingService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::service::{Server, failsketch, recorded, replay};

/// A message as it is on the wire.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A message without what its old description does not have.
fn as_it_was(message: &Bytes, description: &MessageDescriptor) -> Bytes {
    let mut old = DynamicMessage::decode(description.clone(), message.clone()).unwrap();
    forget_unknown(&mut old);
    old.encode_to_vec().into()
}

fn forget_unknown(message: &mut DynamicMessage) {
    drop(message.take_unknown_fields());
    for (_, value) in message.fields_mut() {
        match value {
            Value::Message(inner) => forget_unknown(inner),
            Value::List(values) => values
                .iter_mut()
                .filter_map(Value::as_message_mut)
                .for_each(forget_unknown),
            _ => {}
        }
    }
}

/// One call, on its way to the server and back. All of them are streams on the wire.
struct Call {
    method: MethodDescriptor,
    path: http::uri::PathAndQuery,
    server: Channel,
}

impl StreamingService<Bytes> for Call {
    type Response = Bytes;
    type ResponseStream = BoxStream<Bytes>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let (input, output) = (self.method.input(), self.method.output());
        let (path, mut grpc) = (self.path.clone(), tonic::client::Grpc::new(self.server.clone()));
        Box::pin(async move {
            grpc.ready()
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            // Whoever is on this machine shows nothing. How messages are compressed is settled on either side.
            let messages = request.into_inner().map_while(Result::ok);
            let messages = messages.map(move |message| as_it_was(&message, &input));
            let answers = grpc.streaming(Request::new(messages), path, Raw).await?;
            let old = move |answer: Result<Bytes, Status>| answer.map(|answer| as_it_was(&answer, &output));
            let answers: BoxStream<Bytes> = Box::pin(answers.into_inner().map(old));
            Ok(Response::new(answers))
        })
    }
}

#[derive(Clone)]
struct Between {
    protocol: Arc<DescriptorPool>,
    server: Channel,
}

impl Service<http::Request<tonic::body::Body>> for Between {
    type Response = http::Response<tonic::body::Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let path = request.uri().path_and_query().unwrap().clone();
        let (service, method) = path.path()[1..].split_once('/').unwrap_or_default();
        let service = self.protocol.get_service_by_name(service);
        let method = service.and_then(|service| service.methods().find(|known| known.name() == method));
        let server = self.server.clone();
        Box::pin(async move {
            let Some(method) = method else {
                return Ok(Status::unimplemented("").into_http());
            };
            let call = Call { method, path, server };
            let grpc = tonic::server::Grpc::new(Raw).accept_compressed(CompressionEncoding::Gzip);
            let mut grpc = grpc.max_decoding_message_size(proto::MOST_MESSAGE);
            Ok(grpc.streaming(call, request).await)
        })
    }
}

/// Stands between a server and the rest; gives the address that the rest is to use.
async fn stand_between(server: String, protocol: &Path) -> SocketAddr {
    let folder = protocol.parent().unwrap();
    let described = protox::compile([protocol], [folder]).unwrap();
    let between = Between {
        protocol: Arc::new(DescriptorPool::from_file_descriptor_set(described).unwrap()),
        server: Channel::from_shared(server).unwrap().connect_lazy(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().serve_with_incoming(between, incoming));
    address
}

#[test]
fn old_agents_work_with_new_servers_and_the_reverse() {
    let released = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/tests/released");
    let folder = Folder::new("released");
    let kept = recorded(&folder);
    let runtime = Runtime::new().unwrap();
    for protocol in 1..proto::PROTOCOL {
        let store = folder.path().join(format!("{protocol}.db"));
        let server = Server::start(&folder, &format!("sqlite:{}", store.display()));
        let file = released.join(format!("{protocol}.proto"));
        let address = runtime.block_on(stand_between(server.url(), &file));
        let url = format!("http://{address}");

        // Recorded runs, to the last one; then agents that ask for plans.
        let done = replay(&url, &kept, "4", "40").finish();
        assert!(done.status.success(), "protocol {protocol}: {}", done.stderr);
        assert!(
            done.stdout.contains("40 stored") && done.stdout.contains("the server has 40"),
            "protocol {protocol}: {}",
            done.stdout
        );
        let other = zoo::binary("mysql-redo-pending", "O0");
        let live = failsketch(&[
            "agent",
            "--server",
            &url,
            "--runs",
            "40",
            "--host-id",
            folder.path().join(format!("{protocol}.host")).to_str().unwrap(),
            "--spool",
            folder.path().join(format!("{protocol}.spool")).to_str().unwrap(),
            "--",
            other.to_str().unwrap(),
        ]);
        assert!(live.status.success(), "protocol {protocol}: {}", live.stderr);
        let bugs = failsketch(&["bugs", "--server", &url, "--program", "mysql-redo-pending"]);
        assert!(bugs.status.success(), "protocol {protocol}: {}", bugs.stderr);
        assert!(
            bugs.stdout.contains(" tracked run") && !bugs.stdout.contains(" 0 tracked runs"),
            "protocol {protocol}: {}",
            bugs.stdout
        );
        let bug = bugs.stdout.split_whitespace().next().unwrap();
        for how in ["--stop", "--widen"] {
            let done = failsketch(&["steer", "--server", &url, bug, how]);
            assert!(
                done.status.success(),
                "protocol {protocol}, {how}: {}",
                done.stderr
            );
        }
        let shown = failsketch(&["show", "--server", &url, bug, "--format", "json"]);
        assert!(shown.status.success(), "protocol {protocol}: {}", shown.stderr);

        // What came with a later protocol is missed in a line.
        let audit = failsketch(&["bugs", "--server", &url, "--audit"]);
        match protocol {
            1 => assert!(
                audit.stderr.contains("the server is older than this failsketch"),
                "{}",
                audit.stderr
            ),
            _ => assert!(audit.stdout.contains("stopped by local"), "{}", audit.stdout),
        }
    }
}
