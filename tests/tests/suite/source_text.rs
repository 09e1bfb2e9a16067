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

/// Debian's own server, with the archive in it of what was compiled from a source file.
fn debuginfod(folder: &Path, compiled: &str, source: &str) -> (Running, String) {
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
    readelf.args(["-n", compiled]);
    let notes = process::tool(&mut readelf, folder);
    let build = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    let address = format!(
        "{url}/buildid/{}/source{}",
        build.unwrap(),
        folder.join(source).display()
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
    let (running, url) = debuginfod(&folder, "app", "src/app.c");
    let served = slice(&folder, &[], &format!("http://127.0.0.1:1 {url}"));
    assert!(served.contains(text), "{served}");
    drop(running);
    let gone = slice(&folder, &[], &url);
    assert!(gone.contains("app.c:4") && !gone.contains(text), "{gone}");
}

/// A compiler that notes what a file had in it leaves nothing to be guessed.
#[test]
fn a_file_with_other_content_than_was_compiled_is_not_shown() {
    let folder = Folder::new("sources");
    let folder = folder.path().canonicalize().unwrap();
    let source = folder.join("app.c");
    std::fs::write(&source, SOURCE).unwrap();
    let mut clang = Command::new("clang");
    clang
        .args(["-gdwarf-5", "-O0", "-Wl,--build-id", "-o", "app"])
        .arg(&source);
    let _ = process::tool(&mut clang, &folder);
    let text = "return *gone; /* only elsewhere */";
    // Younger than the program, and the same: it is the right one.
    std::fs::write(&source, SOURCE).unwrap();
    let same = slice(&folder, &[], "");
    assert!(same.contains(text) && !same.contains("MD5"), "{same}");
    std::fs::write(&source, format!("{SOURCE}/* one more line */\n")).unwrap();
    let other = slice(&folder, &[], "");
    assert!(!other.contains(text), "{other}");
    assert!(
        other.contains("app.c is not the file that was compiled"),
        "{other}"
    );
    let done = command::failsketch(["run", "--runs", "3", "--", folder.join("app").to_str().unwrap()]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(!done.stdout.contains(text), "{}", done.stdout);
    assert!(
        done.stdout.contains("app.c is not the file that was compiled"),
        "{}",
        done.stdout
    );
}

const LIBRARY: &str = "int state;\nvoid crash(int *at)\n{\n    state = *at; /* of the library */\n}\n";
const USER: &str = "void crash(int *at);\nint main(void)\n{\n    crash(0);\n}\n";

/// A library is a build of its own, and servers know its sources by that.
#[test]
fn text_of_a_library_is_asked_for_by_its_own_build() {
    let folder = Folder::new("sources");
    let folder = folder.path().canonicalize().unwrap();
    let here = folder.join("src");
    std::fs::create_dir_all(&here).unwrap();
    std::fs::create_dir_all(folder.join("archive")).unwrap();
    std::fs::write(here.join("part.c"), LIBRARY).unwrap();
    std::fs::write(here.join("app.c"), USER).unwrap();
    let gcc = |arguments: &[&str], source: &str| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-g", "-O0", "-Wl,--build-id"])
            .arg(here.join(source))
            .args(arguments);
        let _ = process::tool(&mut gcc, &folder);
    };
    gcc(&["-shared", "-fPIC", "-o", "libpart.so"], "part.c");
    gcc(&["-L.", "-lpart", "-Wl,-rpath,$ORIGIN", "-o", "app"], "app.c");
    let root = folder.strip_prefix("/").unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-C", "/", "-cf", "archive/part.tar"])
        .args([root.join("src/part.c"), root.join("libpart.so")]);
    let _ = process::tool(&mut tar, &folder);
    std::fs::rename(here, folder.join("moved")).unwrap();
    let (_running, url) = debuginfod(&folder, "libpart.so", "src/part.c");
    let text = "state = *at; /* of the library */";
    let failsketch = |arguments: &[&str]| {
        let mut command = Command::new(command::binary());
        command.args(arguments).env("DEBUGINFOD_URLS", &url);
        process::run(command.current_dir(&folder), b"", LONGEST, |_| ())
    };
    let done = failsketch(&["run", "--runs", "3", "--", "./app"]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stdout.contains(text), "{}", done.stdout);
    // Whoever watches sees it, too.
    std::fs::write(
        folder.join("live.c"),
        "void crash(int *at);\nint main(void)\n{\n    int one = 1;\n    crash(&one);\n}\n",
    )
    .unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-g",
        "-O0",
        "live.c",
        "-L.",
        "-lpart",
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "live",
    ]);
    let _ = process::tool(&mut gcc, &folder);
    let done = failsketch(&["watch", "--var", "./libpart.so:state", "--", "./live"]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stdout.contains("of the library"), "{}", done.stdout);
}
