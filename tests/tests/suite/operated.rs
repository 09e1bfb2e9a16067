//! A server as those see it who operate it: its health, what it can be asked, its figures, its log, and its end.

use std::process::Command;
use std::time::Duration;

use failsketch_tests::command;
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::service::{free_port, recorded, replay};

const SERVICES: [&str; 2] = ["failsketch.v1.Agents", "failsketch.v1.Bugs"];

async fn health(channel: Channel, service: &str) -> HealthCheckResponse {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(channel).check(request).await.unwrap();
    answer.into_inner()
}

/// What reflection says that there is.
async fn services(channel: Channel) -> Vec<String> {
    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(tokio_stream::once(asked)).await;
    let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}");
    };
    listed.service.into_iter().map(|service| service.name).collect()
}

/// A figure of `/metrics`.
fn figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok())
}

#[test]
fn a_server_tells_how_it_is_what_it_does_and_when_it_ends() {
    let folder = Folder::new("operated");
    let kept = recorded(&folder);
    let address = format!("127.0.0.1:{}", free_port());
    let file = folder.path().join("server.toml");
    let config = format!("listen = \"{address}\"\n[log]\nformat = \"json\"\n");
    std::fs::write(&file, config).unwrap();
    let mut serve = Command::new(command::binary());
    serve
        .args(["serve", "--config"])
        .arg(&file)
        .env("RUST_LOG", "info");
    let mut server = Running::start(&mut serve);
    server.stderr_line("failsketch: serving on").unwrap();
    let url = format!("http://{address}");
    let done = replay(&url, &kept, "2", "6").finish();
    assert!(done.status.success(), "{}", done.stderr);

    Runtime::new().unwrap().block_on(async {
        let channel = Channel::from_shared(url.clone()).unwrap();
        let channel = channel.connect().await.unwrap();
        for service in SERVICES.into_iter().chain([""]) {
            let answer = health(channel.clone(), service).await;
            assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
        }
        let listed = services(channel).await;
        for service in SERVICES {
            assert!(listed.iter().any(|name| name == service), "{listed:?}");
        }
    });
    let metrics = ureq::get(format!("{url}/metrics")).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    assert_eq!(
        figure(&metrics, "failsketch_runs_stored_total"),
        Some(6),
        "{metrics}"
    );
    assert_eq!(
        figure(&metrics, "failsketch_failures_total"),
        Some(1),
        "{metrics}"
    );
    assert!(
        metrics.contains("# TYPE failsketch_runs_stored_total counter"),
        "{metrics}"
    );

    server.signal("TERM");
    while server.runs() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let done = server.finish();
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    let lines = done.stderr.lines().filter(|line| line.starts_with('{'));
    let said: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let draining = |line: &Value| line["fields"]["message"] == "draining" && line["level"] == "INFO";
    assert!(said.iter().any(draining), "{}", done.stderr);
}
