//! A sketch that was kept, in every form; and files that are no sketch.

use std::fs;
use std::path::{Path, PathBuf};

use failsketch_tests::command;

fn sketches() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sketch-render/tests/golden/sketches")
}

/// The command prints what the renderer's golden files have.
#[test]
fn every_form_is_the_renderers() {
    let file = sketches().join("gaps.json");
    let file = file.to_str().unwrap();
    for (format, extension) in [
        ("html", "html"),
        ("md", "md"),
        ("json", "json"),
        ("sarif", "sarif"),
        ("github", "annotations"),
    ] {
        let done = command::failsketch(["show", file, "--format", format]);
        assert_eq!(done.how(), "exit status 0", "{}", done.stderr);
        let golden = fs::read_to_string(sketches().join(format!("gaps.{extension}"))).unwrap();
        assert!(done.stdout == golden, "{format} differs from the golden file");
    }
    let done = command::failsketch(["show", file]);
    assert!(
        done.stdout.starts_with("one worker set `obj->refcount`"),
        "{}",
        done.stdout
    );
    assert!(!done.stdout.contains('\u{1b}'), "no colours into a pipe");
}

#[test]
fn a_files_name_says_the_form() {
    let folder = std::env::temp_dir().join(format!("failsketch-show-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let out = folder.join("bug.html");
    let bytes = fs::read(sketches().join("order.json")).unwrap();
    let done = command::with_input(["show", "-", "--out", out.to_str().unwrap()], &bytes);
    assert_eq!(
        (done.how().as_str(), done.stdout.as_str()),
        ("exit status 0", ""),
        "{}",
        done.stderr
    );
    let page = fs::read_to_string(&out).unwrap();
    assert!(page == fs::read_to_string(sketches().join("order.html")).unwrap());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_sketch_is_refused_in_one_line() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "no sketch"),
        (b"\x7fELF\x02\x01", "no sketch"),
        (b"{\"version\": 7}", "version 7"),
        (b"{\"version\": 1, \"bug\": 3}", "damaged"),
    ];
    for (bytes, says) in cases {
        let done = command::with_input(["show", "-"], bytes);
        assert_eq!(done.how(), "exit status 1");
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
    let done = command::failsketch(["show", "/nowhere/sketch.json"]);
    assert!(
        done.stderr.contains("cannot read /nowhere/sketch.json"),
        "{}",
        done.stderr
    );
}
