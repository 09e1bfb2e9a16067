//! Who is let in, through real connections.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod kit;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use kit::{Authority, Server, config, read, register, steer, text};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use server::access::init;
use server::config::{Certificate, Config, Role, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

#[tokio::test]
async fn what_init_makes_works() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new");
    let made = init(&folder, &["db.example.org".into(), "192.0.2.1".into()]).unwrap();
    let mut config = Config::load(&made.config).unwrap();
    assert!(!config.listen.ip().is_loopback(), "others are to reach it");
    config.listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(&config).await;
    let ca = text(&made.ca);
    let [agent, reader, steerer] = [0, 1, 2].map(|at: usize| text(&made.tokens[at]).trim().to_owned());
    let channel = server.secure(&ca, None).await.unwrap();
    register(channel.clone(), Some(&agent), "x").await.unwrap();
    assert_eq!(read(channel.clone(), Some(&reader), "x").await.unwrap(), "read");
    read(channel.clone(), Some(&steerer), "x").await.unwrap();
    steer(channel.clone(), Some(&steerer), "x").await.unwrap();
    let refused = steer(channel.clone(), Some(&reader), "x").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = read(channel.clone(), Some(&agent), "x").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = register(channel.clone(), Some(&steerer), "x").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    for token in [None, Some("fsk_0"), Some("")] {
        let refused = read(channel.clone(), token, "x").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{token:?}");
    }
    let own = (text(&made.agent.0), text(&made.agent.1));
    let channel = server.secure(&ca, Some((&own.0, &own.1))).await.unwrap();
    register(channel.clone(), None, "x").await.unwrap();
    assert_eq!(
        read(channel, None, "x").await.unwrap_err().code(),
        Code::PermissionDenied
    );
    server.stop().await;
}

#[test]
fn init_keeps_secrets_and_writes_nothing_over() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new");
    init(&folder, &[]).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let open = path.extension().is_some_and(|extension| extension == "pem");
        assert_eq!(
            mode(&path),
            if open { 0o644 } else { 0o600 },
            "{}",
            path.display()
        );
    }
    let before = text(&folder.join("failsketch.toml"));
    for token in ["agent", "read", "steer"] {
        let secret = text(&folder.join(format!("{token}.token")));
        assert!(!before.contains(secret.trim()), "the file has the hash alone");
    }
    let said = init(&folder, &[]).unwrap_err().to_string();
    assert!(said.contains("is there already"), "{said}");
    fs::remove_file(folder.join("ca.pem")).unwrap();
    init(&folder, &[]).unwrap_err();
    assert!(!folder.join("ca.pem").exists(), "nothing, rather than half");
    assert_eq!(text(&folder.join("failsketch.toml")), before);
    let said = init(&folder.join("b"), &["no\u{7}name\u{e9}".into()])
        .unwrap_err()
        .to_string();
    assert!(said.contains("cannot make a certificate"), "{said}");
}

#[tokio::test]
async fn certificates_have_to_be_valid_and_of_the_right_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, foreign) = (Authority::new(), Authority::new());
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let server = ours.sign("server", ServerAuth, 1);
    let config = Config {
        tls: Some(Tls {
            certificate: put("s.pem", &server.0),
            key: put("s.key", &server.1),
            client_ca: Some(put("ca.pem", &ours.pem)),
        }),
        certificates: vec![Certificate {
            common_name: "web-*".into(),
            roles: vec![Role::Agent],
            programs: vec!["nginx".into()],
        }],
        ..config()
    };
    let server = Server::start(&config).await;
    let ask = async |own: Option<(String, String)>, program: &str| {
        let own = own
            .as_ref()
            .map(|(certificate, key)| (certificate.as_str(), key.as_str()));
        match server.secure(&ours.pem, own).await {
            Ok(channel) => register(channel, None, program)
                .await
                .map_err(|status| status.code()),
            Err(_) => Err(Code::Unavailable),
        }
    };
    assert_eq!(
        ask(Some(ours.sign("web-1", ClientAuth, 1)), "nginx").await,
        Ok(())
    );
    assert_eq!(
        ask(Some(ours.sign("web-1", ClientAuth, 1)), "redis").await,
        Err(Code::PermissionDenied),
        "another program"
    );
    assert_eq!(
        ask(Some(ours.sign("db-1", ClientAuth, 1)), "nginx").await,
        Err(Code::PermissionDenied)
    );
    assert_eq!(ask(None, "nginx").await, Err(Code::Unauthenticated));
    for (what, wrong) in [
        ("expired", ours.sign("web-1", ClientAuth, -1)),
        ("foreign", foreign.sign("web-1", ClientAuth, 1)),
        ("for servers", ours.sign("web-1", ServerAuth, 1)),
    ] {
        let refused = ask(Some(wrong), "nginx").await.unwrap_err();
        assert!(
            matches!(refused, Code::Unavailable | Code::Unknown),
            "{what}: {refused}"
        );
    }
    assert!(
        server.secure(&foreign.pem, None).await.is_err(),
        "the client checks as well"
    );
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain
        .write_all(b"GET /page HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "nothing is said in the clear");
    server.stop().await;
}

async fn http(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("{request}\r\nconnection: close\r\n\r\n")
        .replace('\n', "\r\n")
        .replace("\r\r", "\r");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn pages_share_the_port_and_the_gate() {
    let secret = server::access::Secret::new().unwrap();
    let config = Config {
        tokens: vec![server::config::Token {
            name: "reader".into(),
            sha256: secret.hash(),
            roles: vec![Role::Read],
            programs: vec!["*".into()],
        }],
        ..config()
    };
    let server = Server::start(&config).await;
    let refused = http(&server, "GET /page HTTP/1.1\nhost: x").await;
    assert!(
        refused.starts_with("HTTP/1.1 401") && refused.contains("www-authenticate: Basic"),
        "{refused}"
    );
    let forgot = http(&server, "GET /forgot HTTP/1.1\nhost: x").await;
    assert!(
        forgot.starts_with("HTTP/1.1 401"),
        "a page that does not ask is behind the gate too: {forgot}"
    );
    assert!(
        http(&server, "GET /nowhere HTTP/1.1\nhost: x")
            .await
            .starts_with("HTTP/1.1 401")
    );
    let token = secret.text();
    let page = http(
        &server,
        &format!("GET /page HTTP/1.1\nhost: x\nauthorization: Bearer {token}"),
    )
    .await;
    assert!(page.ends_with("reader"), "{page}");
    assert!(
        http(&server, "GET /healthz HTTP/1.1\nhost: x")
            .await
            .ends_with("ok")
    );
    read(server.plain().await, Some(token), "x").await.unwrap();
    server.stop().await;
}
