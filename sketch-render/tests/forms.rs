//! Sketches in every form, to the byte. `BLESS=1 cargo test -p sketch-render` writes the files anew; read the
//! difference before committing it.

mod sketches;

use std::path::{Path, PathBuf};
use std::process::Command;

use sketch_render::sketch;
use sketch_render::term::Terminal;
use sketch_render::text::{is_active, width};

fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/sketches")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file is there: BLESS=1 makes it");
    assert!(
        text == golden,
        "{name} differs: BLESS=1 writes it, git diff shows how"
    );
}

fn plain(width: usize) -> Terminal {
    Terminal { width, colour: false }
}

#[test]
fn on_a_terminal() {
    for (name, sketch) in sketches::all() {
        check(&format!("{name}.txt"), &sketch::term(&sketch, plain(100)));
        check(&format!("{name}-80.txt"), &sketch::term(&sketch, plain(80)));
    }
    let (_, order) = sketches::all().remove(0);
    let colour = Terminal {
        width: 80,
        colour: true,
    };
    check("order-colour.txt", &sketch::term(&order, colour));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, sketch) in sketches::all()
        .into_iter()
        .chain([("hostile", sketches::hostile())])
    {
        for columns in [60, 80, 100, 132, 200] {
            for line in sketch::term(&sketch, plain(columns)).lines() {
                assert!(
                    width(line) <= columns,
                    "{name} at {columns}: {} columns: {line}",
                    width(line)
                );
            }
        }
    }
}

#[test]
fn as_json_and_back() {
    for (name, sketch) in sketches::all() {
        let text = sketch::json(&sketch).expect("plain data");
        check(&format!("{name}.json"), &text);
        let back: diagnosis::sketch::Sketch = serde_json::from_str(&text).expect("it is a sketch");
        assert_eq!(back, sketch, "{name}");
    }
}

#[test]
fn as_markdown_sarif_and_annotations() {
    for (name, sketch) in sketches::all() {
        let markdown = sketch::markdown(&sketch);
        assert!(
            markdown.len() < 60_000,
            "{name} is too long for a tracker: {}",
            markdown.len()
        );
        check(&format!("{name}.md"), &markdown);
        check(
            &format!("{name}.sarif"),
            &sketch::sarif(&sketch).expect("plain data"),
        );
        check(&format!("{name}.annotations"), &sketch::annotations(&sketch));
    }
}

#[test]
fn as_html() {
    for (name, sketch) in sketches::all() {
        let page = sketch::html(&sketch);
        assert!(page.len() < 300_000, "{name} has {} bytes", page.len());
        check(&format!("{name}.html"), &page);
    }
}

/// The page allows one style and one script, by what they are.
#[test]
fn the_hashes_are_those_of_the_style_and_the_script() {
    let (_, sketch) = sketches::all().remove(0);
    let page = sketch::html(&sketch);
    let program = "import base64, hashlib, re, sys
page = sys.stdin.buffer.read()
for tag in b'style', b'script':
    text = re.search(b'<' + tag + b'>(.*?)</' + tag + b'>', page, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(text).digest())
    print(tag.decode(), digest.decode(), digest in page[:page.index(b'<style>')])";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 can be run");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, page.as_bytes()).expect("it reads");
    drop(input);
    let done = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(
        said.matches("True").count(),
        2,
        "the hashes in html/mod.rs should be:\n{said}"
    );
}

/// What does not fit a schema: the golden files of one form, and the hostile sketch.
fn judge(schema: &Path, extension: &str, hostile: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let spoiled = std::env::temp_dir().join(format!("failsketch-hostile-{}.{extension}", std::process::id()));
    std::fs::write(&spoiled, hostile).expect("it can be written");
    let names = sketches::all()
        .into_iter()
        .map(|(name, _)| folder.join(format!("tests/golden/sketches/{name}.{extension}")));
    let done = Command::new("python3")
        .arg(folder.join("tests/schema.py"))
        .arg(schema)
        .arg(folder.join(format!("tests/golden/sketch.{extension}")))
        .args(names)
        .arg(&spoiled)
        .output();
    let _ = std::fs::remove_file(&spoiled);
    let done = done.expect("python3 can be run");
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

fn hostile() -> diagnosis::sketch::Sketch {
    let mut hostile = sketches::hostile();
    hostile.failure.kind = "signal".to_owned();
    hostile
}

/// Against the schema that we publish.
#[test]
fn json_is_valid() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/sketch-v1.schema.json");
    judge(&schema, "json", &sketch::json(&hostile()).expect("plain data"));
}

/// Against the schema that OASIS publishes.
#[test]
fn sarif_is_valid() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sarif_schema.py");
    let found = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .output();
    let found = found.expect("python3 can be run");
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "no schema: {said}");
    let schema = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    judge(
        Path::new(&schema),
        "sarif",
        &sketch::sarif(&hostile()).expect("plain data"),
    );
}

#[test]
fn what_is_meant_to_do_harm_does_nothing() {
    let sketch = sketches::hostile();
    let dangerous = |c: char| c != '\n' && is_active(c);
    let text = sketch::term(&sketch, plain(100));
    assert!(!text.contains(dangerous), "on a terminal");
    let json = sketch::json(&sketch).expect("plain data");
    assert!(!json.contains(dangerous), "in JSON");
    let sarif = sketch::sarif(&sketch).expect("plain data");
    assert!(!sarif.contains(dangerous), "in SARIF");
    let markdown = sketch::markdown(&sketch);
    assert!(!markdown.contains(dangerous), "in Markdown");
    let page = sketch::html(&sketch);
    assert!(!page.contains(dangerous), "in HTML");
    assert!(!page.contains("<img"), "no element of a name's choice");
    assert_eq!(page.matches("<script").count(), 1, "one script");
    assert_eq!(page.matches("</script").count(), 1, "that ends once");
    assert!(
        page.len() < 300_000,
        "a megabyte in a name is not a megabyte in a page: {}",
        page.len()
    );
    let annotations = sketch::annotations(&sketch);
    assert!(!annotations.contains(dangerous), "in annotations");
    for line in annotations.lines() {
        assert!(
            line.starts_with("::error ") || line.starts_with("::notice "),
            "{line}"
        );
    }
}

/// A failure that did not come back has no thread's name, and one that always comes has nothing to be compared with.
#[test]
fn what_never_or_always_fails_is_told_so() {
    let first = |sketch: &diagnosis::sketch::Sketch| {
        let text = sketch::term(sketch, plain(200));
        text.lines().next().unwrap_or_default().to_owned()
    };
    let mut sketch = sketches::all()
        .into_iter()
        .find_map(|(name, sketch)| (name == "no-predictor").then_some(sketch))
        .expect("there is one without predictors");
    sketch.runs.successful = 0;
    sketch.runs.failing = 4;
    let always = first(&sketch);
    assert!(
        always.ends_with("; so it was in all of 4 watched runs"),
        "{always}"
    );
    sketch.runs.failing = 0;
    sketch.runs.successful = 9;
    for thread in &mut sketch.threads {
        thread.role = None;
    }
    let never = first(&sketch);
    assert!(never.starts_with("The program "), "{never}");
    assert!(
        never.ends_with("; it has not recurred in 9 watched runs"),
        "{never}"
    );
}

/// No watched run failed: what is shown is what the failing statement depends on, of no thread and in no order.
#[test]
fn a_slice_does_not_look_like_a_run() {
    let mut slice = sketches::all()
        .into_iter()
        .find_map(|(name, sketch)| (name == "no-predictor").then_some(sketch))
        .unwrap();
    (slice.runs.failing, slice.runs.successful) = (0, 93);
    for step in &mut slice.steps {
        step.evidence = diagnosis::sketch::Evidence::Inferred;
    }
    let forms = [
        sketch::html(&slice),
        sketch::term(&slice, plain(100)),
        sketch::markdown(&slice),
        sketch::sarif(&slice).unwrap(),
    ];
    for form in forms {
        assert!(form.contains("this is no order of execution"), "{form}");
        assert!(
            form.contains("statement") && !form.contains("executionOrder"),
            "{form}"
        );
    }
}
