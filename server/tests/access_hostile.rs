//! Connections that mean no good: they are closed or refused, and others are served meanwhile.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod kit;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame};
use kit::{Server, config, read, register};
use proto::v1::agents_client::AgentsClient;
use proto::v1::{PlanRequest, ReportFailureRequest, ReportRunsRequest, Run};
use server::config::{Config, Limits};
use server::limits::retry_after;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};
use tower::{Service as _, ServiceExt as _};

fn strict() -> Config {
    Config {
        limits: Limits {
            handshake_seconds: 1,
            idle_seconds: 2,
            slowest_bytes: 1 << 20,
            message_bytes: 1 << 20,
            host_bytes: 2 << 20,
            bytes: 2 << 20,
            connections: 8,
            ..Limits::default()
        },
        ..config()
    }
}

/// How long the other side leaves a connection open.
async fn until_closed(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    let mut sink = [0; 4096];
    let closed = async { while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {} };
    timeout(Duration::from_secs(10), closed)
        .await
        .expect("it is never closed");
    began.elapsed()
}

#[tokio::test]
async fn who_says_nothing_or_little_is_not_waited_for() {
    let server = Server::start(&strict()).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for beginning in [
        &b""[..],
        b"GET /page HT",
        b"GET /page HTTP/1.1\r\nhost: loc",
        &preface[..10],
        preface,
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        let open = until_closed(&mut stream).await;
        let shown = String::from_utf8_lossy(beginning);
        assert!(
            open < Duration::from_secs(4),
            "{shown:?} was left open for {open:?}"
        );
        read(server.plain().await, None, "x").await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn a_header_a_second_does_not_keep_a_connection() {
    let server = Server::start(&strict()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /page HTTP/1.1\r\n").await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        sleep(Duration::from_millis(200)).await;
        if stream.write_all(b"x: y\r\n").await.is_err() {
            break;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test]
async fn a_handshake_has_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let made = server::access::init(folder.path(), &[]).unwrap();
    let config = Config {
        limits: strict().limits,
        listen: config().listen,
        ..Config::load(&made.config).unwrap()
    };
    let server = Server::start(&config).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&[0x16, 0x03, 0x01, 0x01]).await.unwrap();
    let open = until_closed(&mut stream).await;
    assert!(open < Duration::from_secs(3), "{open:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_idle_connection_goes_and_an_idle_stream_stays() {
    let server = Server::start(&strict()).await;
    let mut quiet = TcpStream::connect(server.address).await.unwrap();
    quiet
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let (ask, asked) = tokio::sync::mpsc::channel(1);
    ask.send(PlanRequest::default()).await.unwrap();
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut plans = AgentsClient::new(server.plain().await)
        .plans(asked)
        .await
        .unwrap()
        .into_inner();
    plans.message().await.unwrap().unwrap();
    until_closed(&mut quiet).await;
    sleep(Duration::from_secs(5)).await;
    ask.send(PlanRequest::default()).await.unwrap();
    plans
        .message()
        .await
        .unwrap()
        .expect("an agent waits for plans as long as it runs");
    drop(ask);
    assert!(plans.message().await.unwrap().is_none());
    server.stop().await;
}

/// Some bytes of a message, and then nothing, or one now and then.
struct Dribble {
    first: Option<Bytes>,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Body for Dribble {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(timer) = &mut self.timer else {
            return Poll::Pending;
        };
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let next = tokio::time::Instant::now() + Duration::from_millis(100);
        timer.as_mut().reset(next);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

fn header(length: u32) -> Vec<u8> {
    [&[0][..], &length.to_be_bytes()].concat()
}

async fn send(server: &Server, first: Vec<u8>, goes_on: bool) -> Status {
    let body = Dribble {
        first: Some(first.into()),
        timer: goes_on.then(|| Box::pin(sleep(Duration::from_millis(100)))),
    };
    let request = http::Request::post(format!(
        "http://{}/failsketch.v1.Agents/ReportRuns",
        server.address
    ))
    .header("content-type", "application/grpc")
    .header("te", "trailers")
    .body(tonic::body::Body::new(body))
    .unwrap();
    let mut channel = server.plain().await;
    let answer = async {
        let answer = channel.ready().await.unwrap().call(request).await.unwrap();
        Status::from_header_map(answer.headers()).unwrap()
    };
    timeout(Duration::from_secs(10), answer)
        .await
        .expect("it is waited for forever")
}

#[tokio::test]
async fn messages_come_at_some_rate_or_not_at_all() {
    let server = Server::start(&strict()).await;
    for (first, goes_on) in [
        (vec![], false),
        (header(1000)[..3].to_vec(), false),
        (header(1000), false),
        (header(100_000), true),
        // A whole message, and no end of the request after it.
        (header(0), false),
    ] {
        let shown = first.clone();
        let status = send(&server, first, goes_on).await;
        assert_eq!(status.code(), Code::DeadlineExceeded, "{shown:?}: {status}");
    }
    register(server.plain().await, None, "x").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_comes() {
    let server = Server::start(&strict()).await;
    for length in [(1 << 20) + 1, u32::MAX] {
        let status = send(&server, header(length), false).await;
        assert_eq!(status.code(), Code::OutOfRange, "{status}");
        assert!(status.message().contains("limits.message_bytes"), "{status}");
    }
    let run = Run {
        record: vec![b' '; 2 << 20].into(),
        ..Run::default()
    };
    let request = ReportRunsRequest {
        runs: vec![run],
        ..ReportRunsRequest::default()
    };
    let refused = AgentsClient::new(server.plain().await).report_runs(request).await;
    assert!(refused.is_err());
    server.stop().await;
}

#[tokio::test]
async fn memory_that_is_lent_is_refused_to_others_and_comes_back() {
    let mut config = strict();
    config.limits.handshake_seconds = 3;
    let server = Server::start(&config).await;
    let (one, two) = (header(1 << 20), header(1 << 20));
    let holders = async { tokio::join!(send(&server, one, false), send(&server, two, false)) };
    let third = async {
        sleep(Duration::from_millis(700)).await;
        send(&server, header(1000), false).await
    };
    let ((one, two), third) = tokio::join!(holders, third);
    assert_eq!(
        (one.code(), two.code()),
        (Code::DeadlineExceeded, Code::DeadlineExceeded)
    );
    assert_eq!(third.code(), Code::ResourceExhausted, "{third}");
    assert!(retry_after(&third).is_some(), "{third:?}");
    register(server.plain().await, None, "x").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn memory_is_lent_as_long_as_somebody_works_on_a_message() {
    let server = Server::start(&strict()).await;
    let report = async || {
        let request = ReportFailureRequest {
            report: vec![b' '; 900 << 10].into(),
            ..ReportFailureRequest::default()
        };
        AgentsClient::new(server.plain().await)
            .report_failure(request)
            .await
    };
    let third = async {
        sleep(Duration::from_secs(1)).await;
        report().await
    };
    let (one, two, third) = tokio::join!(report(), report(), third);
    one.unwrap();
    two.unwrap();
    let refused = third.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    report().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn too_many_connections_are_closed_and_the_others_go_on() {
    let mut config = strict();
    config.limits.handshake_seconds = 5;
    let server = Server::start(&config).await;
    let channel = server.plain().await;
    read(channel.clone(), None, "x").await.unwrap();
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut closed = 0;
    for stream in &mut open {
        let mut byte = [0];
        let ended = timeout(Duration::from_millis(50), stream.read(&mut byte)).await;
        closed += usize::from(matches!(ended, Ok(Ok(0) | Err(_))));
    }
    assert_eq!(closed, 13, "eight may be open, with the one that works");
    read(channel, None, "x").await.unwrap();
    drop(open);
    sleep(Duration::from_millis(300)).await;
    read(server.plain().await, None, "x").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_rate_are_told_when_to_come_again() {
    let mut config = strict();
    config.limits.requests = 5;
    let server = Server::start(&config).await;
    let channel = server.plain().await;
    let mut refused = None;
    for _ in 0..30 {
        if let Err(status) = read(channel.clone(), None, "x").await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("ten at once are all there are");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    sleep(retry_after(&refused).unwrap() + Duration::from_millis(20)).await;
    read(channel, None, "x").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn headers_without_end_and_names_without_sense_are_refused() {
    let server = Server::start(&strict()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let many: String = (0..10_000)
        .map(|n| format!("x{n}: {}\r\n", "y".repeat(100)))
        .collect();
    let request = format!("GET /page HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    _ = stream.read_exact(&mut answer).await;
    assert_eq!(&answer[..], b"HTTP/1.1 431");
    let long = "\u{1b}]0;\u{202e}".repeat(100_000);
    register(server.plain().await, None, &long).await.unwrap();
    read(server.plain().await, None, "x").await.unwrap();
    server.stop().await;
}
