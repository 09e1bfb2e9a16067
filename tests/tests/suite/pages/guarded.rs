//! Pages of a server that asks who somebody is: over TLS with a token, and behind a proxy that says it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use failsketch_tests::browser::{Browser, key};
use failsketch_tests::folder::Folder;
use failsketch_tests::{command, process};

use super::kit::{Recorded, Server, is_quiet};
use crate::service::failsketch;

/// Whom the proxy has asked.
const PERSON: &str = "kim@example.org";

/// What `serve --init` makes, with agents that may also read what came of their reports.
fn init(folder: &Path) -> std::path::PathBuf {
    let made = folder.join("made");
    let done = failsketch(&["serve", "--init", made.to_str().unwrap()]);
    assert!(done.status.success(), "{}", done.stderr);
    let config = made.join("failsketch.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("[\"agent\"]", "[\"agent\", \"read\"]")).unwrap();
    made
}

fn serve(config: &Path, scheme: &str) -> Server {
    let mut serve = Command::new(command::binary());
    Server::run(serve.arg("serve").arg("--config").arg(config), scheme)
}

/// Has more tracked of a bug, on the page that is open.
fn widens(browser: &Browser, who: &str) {
    browser.click(".acts button[popovertarget=do-widen]");
    browser.wait("document.activeElement.matches('#do-widen button.yes')");
    browser.keys(key::ENTER);
    browser.wait("document.querySelector('.did')");
    browser.wait(&format!(
        "document.querySelector('[data-part=audit]').innerText.includes('{who} widened')"
    ));
}

#[test]
fn pages_over_tls_for_those_who_have_a_token() {
    let folder = Folder::new("pages");
    let recorded = Recorded::make(&folder);
    let made = init(folder.path());
    let server = serve(&made.join("failsketch.toml"), "https");
    let token = |name: &str| {
        let token = std::fs::read_to_string(made.join(format!("{name}.token")));
        token.unwrap().trim().to_owned()
    };
    let mut fleet = Command::new(command::binary());
    fleet
        .args(["fleet", "--server", &server.url, "--replay", &recorded.folder])
        .args(["--agents", "1", "--runs", &recorded.tracked.to_string(), "--ca"])
        .arg(made.join("ca.pem"))
        .arg("--token")
        .arg(made.join("agent.token"));
    let said = process::tool(&mut fleet, Path::new("/"));
    assert!(said.contains(" 0 refused"), "{said}");

    let browser = Browser::start();
    browser.look(1280, false);
    // A browser asks for a name and a password; the token is the password.
    let sign_in = |browser: &Browser, name: &str| {
        let host = server.url.strip_prefix("https://").unwrap();
        browser.open(&format!("https://{name}:{}@{host}/", token(name)));
        browser.open(&format!("{}/", server.url));
        browser.wait("document.getElementById('news').dataset.state === 'live'");
        let _ = (browser.requests(), browser.console());
    };
    sign_in(&browser, "read");
    browser.click("td.what a");
    browser.wait("document.querySelector('.lanes') && document.documentElement.dataset.ready");
    browser.wait("document.querySelector('.acts').innerText.includes('You may read this bug')");
    browser.wait("!document.querySelector('.acts form')");
    is_quiet(&browser, &server);
    drop(browser);

    // Somebody else, in a browser of his own.
    let browser = Browser::start();
    sign_in(&browser, "steer");
    browser.click("td.what a");
    browser.wait("document.documentElement.dataset.ready");
    widens(&browser, "steer");
    is_quiet(&browser, &server);
}

#[test]
fn pages_behind_a_proxy_that_says_who_somebody_is() {
    let folder = Folder::new("pages");
    let recorded = Recorded::make(&folder);
    let config = folder.path().join("failsketch.toml");
    let text = format!(
        "store = \"sqlite:bugs.db\"\nobjects = \"objects\"\n[[token]]\nname = \"agent\"\nsha256 = \"{AGENT_SHA256}\"\n\
         roles = [\"agent\", \"read\"]\nprograms = [\"*\"]\n[proxy]\nheader = \"x-forwarded-user\"\ntrusted = [\"127.0.0.1/32\"]\n\
         [[proxy.person]]\nname = \"*@example.org\"\nroles = [\"read\", \"steer\"]\nprograms = [\"*\"]\n"
    );
    std::fs::write(&config, text).unwrap();
    let agent = folder.path().join("agent.token");
    std::fs::write(&agent, AGENT).unwrap();
    let server = serve(&config, "http");
    let mut fleet = Command::new(command::binary());
    fleet
        .args(["fleet", "--server", &server.url, "--replay", &recorded.folder])
        .args([
            "--agents",
            "1",
            "--runs",
            &recorded.tracked.to_string(),
            "--token",
        ])
        .arg(agent);
    let said = process::tool(&mut fleet, Path::new("/"));
    assert!(said.contains(" 0 refused"), "{said}");

    let outer = proxy(server.url.strip_prefix("http://").unwrap());
    let browser = Browser::start();
    browser.look(1280, false);
    browser.open(&format!("{outer}/"));
    browser.wait(&format!("document.body.innerText.includes('{PERSON}')"));
    browser.wait("document.getElementById('news').dataset.state === 'live'");
    browser.click("td.what a");
    browser.wait("document.querySelector('.lanes') && document.documentElement.dataset.ready");
    // The server is asked by another name than the browser: the form is from its page all the same.
    widens(&browser, PERSON);
    let console = browser.console();
    assert!(
        console.iter().all(|line| line.starts_with("INFO ")),
        "{console:?}"
    );
    // Past the proxy nobody is anybody.
    browser.open(&format!("{}/", server.url));
    browser.wait("!document.querySelector('td.what')");
}

/// A token, and what `sha256sum` makes of it.
const AGENT: &str = "a-token-of-an-agent-that-is-long-enough";
const AGENT_SHA256: &str = "dc6170ecfaa31326f3f8f28af9be8ca8a27f41c3320e4b6919e0677e886ad54a";

/// A reverse proxy that knows one person: gives its address.
fn proxy(inner: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = format!("http://{}", listener.local_addr().unwrap());
    let inner = inner.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let inner = inner.clone();
            // Who hangs up has what he wanted.
            thread::spawn(move || _ = pass(client, &inner));
        }
    });
    outer
}

/// Passes one request on, under the server's own name and with the person in it, and the answer back.
fn pass(mut client: TcpStream, inner: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    let head = loop {
        if let Some(at) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        match client.read(&mut part)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&part[..count]),
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let is_replaced = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["host:", "connection:", "x-forwarded-user:"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let lines: Vec<&str> = text.split("\r\n").filter(|line| !is_replaced(line)).collect();
    let mut server = TcpStream::connect(inner)?;
    write!(
        server,
        "{}\r\nhost: app.internal\r\nconnection: close\r\nx-forwarded-user: {PERSON}\r\n\r\n",
        lines.join("\r\n")
    )?;
    server.write_all(&request[head + 4..])?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        _ = std::io::copy(&mut from, &mut to);
        _ = to.shutdown(Shutdown::Write);
    });
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}
