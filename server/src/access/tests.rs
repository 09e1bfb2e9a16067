use std::net::SocketAddr;

use http::{HeaderMap, HeaderValue};
use tonic::Code;

use super::*;
use crate::config::{Person, Role, Token};

const FAR: &str = "192.0.2.7:5000";
const HERE: &str = "127.0.0.1:5000";

fn peer(address: &str) -> Peer {
    Peer::at(address.parse::<SocketAddr>().unwrap())
}

fn token(name: &str, secret: &Secret, roles: &[Role], programs: &[&str]) -> Token {
    Token {
        name: name.into(),
        sha256: secret.hash(),
        roles: roles.to_vec(),
        programs: programs.iter().map(ToString::to_string).collect(),
    }
}

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn identify(config: &Config, address: &str, all: &[(&'static str, &str)]) -> Result<Identity, Status> {
    let access = Access::new(config).unwrap();
    let uri = Uri::from_static("http://localhost/failsketch.v1.Bugs/ListBugs");
    access.identify(&uri, &headers(all), &peer(address))
}

fn with_proxy() -> Config {
    let person = |name: &str, roles: &[Role]| Person {
        name: name.into(),
        roles: roles.to_vec(),
        programs: vec!["*".into()],
    };
    Config {
        proxy: Some(config::Proxy {
            header: "X-Forwarded-User".into(),
            trusted: vec!["10.1.0.0/16".parse().unwrap(), "127.0.0.1/32".parse().unwrap()],
            people: vec![
                person("alice", &[Role::Read, Role::Steer]),
                person("*@example.org", &[Role::Read]),
            ],
        }),
        ..Config::default()
    }
}

#[test]
fn who_is_here_may_do_everything_unless_somebody_is_known_by_more() {
    let local = identify(&Config::default(), HERE, &[]).unwrap();
    local.may_report("x").unwrap();
    local.may_steer("x").unwrap();
    assert_eq!(identify(&Config::default(), "[::1]:1", &[]).unwrap(), local);
    assert_eq!(
        identify(&Config::default(), "[::ffff:127.0.0.1]:1", &[]).unwrap(),
        local
    );
    assert_eq!(
        identify(&Config::default(), FAR, &[]).unwrap_err().code(),
        Code::Unauthenticated
    );
    let config = Config {
        tokens: vec![token("a", &Secret::new().unwrap(), &[Role::Read], &["*"])],
        ..Config::default()
    };
    assert_eq!(
        identify(&config, HERE, &[]).unwrap_err().code(),
        Code::Unauthenticated
    );
}

#[test]
fn what_the_store_knows_somebody_by_is_his_own_and_stays_when_a_credential_is_renewed() {
    let certificate = |name: &str, entry: &str| {
        let named = Named::Certificate(entry.to_owned());
        Identity::new(name, Roles::default(), Programs::new(&[]), named).owner()
    };
    // The entry that lets him in may be rewritten, and may let in others.
    assert_eq!(certificate("web-7", "web-*"), certificate("web-7", "web-7"));
    assert_ne!(certificate("web-7", "web-*"), certificate("web-8", "web-*"));
    let known = |secret: &Secret| {
        let config = Config {
            tokens: vec![token("web-7", secret, &[Role::Agent], &["*"])],
            ..Config::default()
        };
        let bearer = format!("Bearer {}", secret.text());
        let who = identify(&config, FAR, &[("authorization", &bearer)]).unwrap();
        who.owner()
    };
    let owner = known(&Secret::new().unwrap());
    assert_eq!(owner, known(&Secret::new().unwrap()));
    // Names of one kind are not names of another.
    assert_ne!(owner, certificate("web-7", "web-7"));
    assert_ne!(Identity::local().owner(), certificate("local", "local"));
}

#[test]
fn a_page_from_elsewhere_does_not_speak_for_who_is_here() {
    let access = Access::new(&Config::default()).unwrap();
    let ask = |uri: &str, all: &[(&'static str, &str)]| {
        access.identify(&uri.parse().unwrap(), &headers(all), &peer(HERE))
    };
    ask("/", &[("host", "localhost:7070")]).unwrap();
    ask("/", &[("host", "[::1]:7070")]).unwrap();
    ask("/", &[("host", "127.0.0.1"), ("origin", "http://127.0.0.1:7070")]).unwrap();
    for refused in [
        ask("/", &[("host", "evil.example:7070")]),
        ask("http://evil.example/x", &[("host", "localhost")]),
        ask("/", &[("host", "localhost"), ("origin", "https://evil.example")]),
        ask("/", &[("host", "localhost"), ("origin", "null")]),
        ask("/", &[("host", "localhost.evil.example")]),
        ask("/", &[("host", "é")]),
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }
}

#[test]
fn tokens_say_who_and_nothing_else_is_tried_when_one_is_wrong() {
    let (reader, agent) = (Secret::new().unwrap(), Secret::new().unwrap());
    let config = Config {
        tokens: vec![
            token("reader", &reader, &[Role::Read], &["*"]),
            token("hosts", &agent, &[Role::Agent], &["web-*", "redis"]),
        ],
        trust_loopback: Some(true),
        ..Config::default()
    };
    let bearer = |secret: &str| format!("Bearer {secret}");
    let who = identify(&config, FAR, &[("authorization", &bearer(reader.text()))]).unwrap();
    assert_eq!(who.name, "reader");
    who.may_read("anything").unwrap();
    let refused = who.may_steer("redis").unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    for word in [
        "\"reader\"",
        "steer bugs of \"redis\"",
        "[[token]]",
        "`roles`",
        "\"steer\"",
    ] {
        assert!(refused.message().contains(word), "{word}: {refused}");
    }
    let who = identify(&config, FAR, &[("authorization", &bearer(agent.text()))]).unwrap();
    who.may_report("web-7").unwrap();
    who.may_report_something().unwrap();
    assert!(who.may_read_something().is_err());
    let refused = who.may_report("memcached").unwrap_err();
    for word in [
        "\"hosts\"",
        "report on \"memcached\"",
        "`programs`",
        "name = \"hosts\"",
    ] {
        assert!(refused.message().contains(word), "{word}: {refused}");
    }
    let almost = format!("{}0", &reader.text()[..reader.text().len() - 1]);
    let hash = String::from(reader.hash());
    for wrong in [almost.as_str(), "", "fsk_", hash.as_str(), &"a".repeat(10_000)] {
        let refused = identify(&config, HERE, &[("authorization", &bearer(wrong))]);
        if wrong != reader.text() {
            assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "{wrong}");
        }
    }
    let twice = [
        ("authorization", bearer(reader.text())),
        ("authorization", bearer(agent.text())),
    ];
    let twice: Vec<_> = twice
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    assert!(identify(&config, HERE, &twice).is_err());
}

#[test]
fn the_proxy_is_believed_from_its_own_addresses_only() {
    let config = with_proxy();
    let user = |name| [("x-forwarded-user", name)];
    let alice = identify(&config, "10.1.2.3:9", &user("alice")).unwrap();
    alice.may_steer("x").unwrap();
    assert!(alice.may_report("x").is_err(), "people report nothing");
    let bob = identify(&config, HERE, &user("bob@example.org")).unwrap();
    assert_eq!(bob.name, "bob@example.org");
    bob.may_read("x").unwrap();
    assert!(
        bob.may_steer("x")
            .unwrap_err()
            .message()
            .contains("[[proxy.person]]")
    );
    let forged = identify(&config, FAR, &user("alice")).unwrap_err();
    assert_eq!(forged.code(), Code::Unauthenticated);
    assert!(forged.message().contains("192.0.2.7") && forged.message().contains("proxy.trusted"));
    let stranger = identify(&config, HERE, &user("mallory")).unwrap_err();
    assert_eq!(stranger.code(), Code::PermissionDenied);
    let several = [
        ("x-forwarded-user", "alice"),
        ("x-forwarded-user", "bob@example.org"),
    ];
    assert_eq!(
        identify(&config, HERE, &several).unwrap_err().code(),
        Code::Unauthenticated
    );
    assert_eq!(
        identify(&config, HERE, &[]).unwrap_err().code(),
        Code::Unauthenticated
    );
    for hostile in ["", "a\tb@example.org", &"x".repeat(300)] {
        assert!(identify(&config, HERE, &user(hostile)).is_err(), "{hostile:?}");
    }
}

#[test]
fn the_header_of_no_proxy_is_nobody() {
    let config = Config {
        trust_loopback: Some(false),
        ..Config::default()
    };
    let refused = identify(&config, HERE, &[("x-forwarded-user", "alice")]);
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
}

#[test]
fn certificates_are_known_by_their_common_name() {
    let certificate = |common_name: &str, programs: &[&str]| config::Certificate {
        common_name: common_name.into(),
        roles: vec![Role::Agent],
        programs: programs.iter().map(ToString::to_string).collect(),
    };
    let config = Config {
        certificates: vec![certificate("web-*", &["nginx"]), certificate("db", &["*"])],
        ..Config::default()
    };
    let access = Access::new(&config).unwrap();
    let ask = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        let peer = peer(FAR).with_certificates(&[certificate.der().clone()]);
        access.identify(&Uri::from_static("/"), &HeaderMap::new(), &peer)
    };
    let web = ask("web-7").unwrap();
    assert_eq!(web.name, "web-7");
    web.may_report("nginx").unwrap();
    assert!(
        web.may_report("redis")
            .unwrap_err()
            .message()
            .contains("common_name = \"web-*\"")
    );
    ask("db").unwrap().may_report("redis").unwrap();
    assert_eq!(ask("laptop").unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(ask("web-\n7").unwrap_err().code(), Code::Unauthenticated);
    let nonsense = peer(FAR).with_certificates(&[vec![0x30, 0x84].into()]);
    assert!(
        access
            .identify(&Uri::from_static("/"), &HeaderMap::new(), &nonsense)
            .is_err()
    );
}

#[test]
fn nobody_asked_is_nobody() {
    let mut request = tonic::Request::new(());
    assert_eq!(Identity::of(&request).unwrap_err().code(), Code::Unauthenticated);
    request.extensions_mut().insert(Identity::local());
    assert_eq!(Identity::of(&request).unwrap().name, "local");
}

#[test]
fn names_from_outside_are_short_and_harmless() {
    assert_eq!(shown("a\u{1b}[31m\"\n"), r#""a\u{1b}[31m\"\n""#);
    assert_eq!(shown("naïve 程序"), "\"naïve 程序\"");
    assert_eq!(shown("\u{202e}x"), r#""\u{202e}x""#);
    assert!(shown(&"x".repeat(1 << 20)).len() < 100);
    let local = Identity::local();
    let mut narrow = local.clone();
    narrow.programs = Programs::new(&[]);
    let refused = narrow.may_report(&"\u{0}".repeat(1 << 20)).unwrap_err();
    assert!(refused.message().len() < 1000);
}
