//! Where the text of source lines comes from: a folder that somebody names, or a real debuginfod server.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use failsketch_tests::{command, process};

const SOURCE: &str = "int *gone;\nint main(void)\n{\n    return *gone; /* only elsewhere */\n}\n";
/// Whatever takes longer does not come, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// A program whose source is no longer where it was compiled, but in an archive and in another folder.
fn program(folder: &Path) {
    let here = folder.join("src");
    std::fs::create_dir_all(&here).unwrap();
    std::fs::create_dir_all(folder.join("archive")).unwrap();
    std::fs::write(here.join("app.c"), SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O0", "-Wl,--build-id", "-o", "app"])
        .arg(here.join("app.c"));
    let _ = process::tool(&mut gcc, folder);
    let root = folder.strip_prefix("/").unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-C", "/", "-cf", "archive/app.tar"])
        .args([root.join("src/app.c"), root.join("app")]);
    let _ = process::tool(&mut tar, folder);
    std::fs::rename(here, folder.join("moved")).unwrap();
}

fn slice(folder: &Path, arguments: &[&str], servers: &str) -> String {
    let mut slice = Command::new(command::binary());
    slice
        .args(["slice", "--exe", "app", "--at", "app.c:4"])
        .args(arguments)
        .env("DEBUGINFOD_URLS", servers);
    process::tool(&mut slice, folder)
}

/// Debian's own server, with the program's archive in it.
fn debuginfod(folder: &Path) -> (Running, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let mut debuginfod = Command::new("debuginfod");
    debuginfod
        .args(["-p", &port, "-d", ":memory:", "-Z", ".tar", "archive"])
        .current_dir(folder);
    let running = Running::start(&mut debuginfod);
    let url = format!("http://127.0.0.1:{port}");
    let mut readelf = Command::new("readelf");
    readelf.args(["-n", "app"]);
    let notes = process::tool(&mut readelf, folder);
    let build = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    let address = format!(
        "{url}/buildid/{}/source{}",
        build.unwrap(),
        folder.join("src/app.c").display()
    );
    let until = Instant::now() + LONGEST;
    // It has to read its archives first.
    while ureq::get(&address).call().is_err() {
        assert!(Instant::now() < until, "debuginfod does not find the source");
        std::thread::sleep(Duration::from_millis(100));
    }
    (running, url)
}

#[test]
fn text_comes_from_a_debuginfod_server_or_a_folder_that_is_named_and_is_not_made_up() {
    let folder = Folder::new("sources");
    let folder = folder.path().canonicalize().unwrap();
    program(&folder);
    let text = "return *gone; /* only elsewhere */";
    let without = slice(&folder, &[], "");
    assert!(
        without.contains("app.c:4") && !without.contains(text),
        "{without}"
    );
    let map = format!(
        "{}={}",
        folder.join("src").display(),
        folder.join("moved").display()
    );
    let named = slice(&folder, &["--source-map", &map], "");
    assert!(named.contains(text), "{named}");
    let (running, url) = debuginfod(&folder);
    let served = slice(&folder, &[], &format!("http://127.0.0.1:1 {url}"));
    assert!(served.contains(text), "{served}");
    drop(running);
    let gone = slice(&folder, &[], &url);
    assert!(gone.contains("app.c:4") && !gone.contains(text), "{gone}");
}
