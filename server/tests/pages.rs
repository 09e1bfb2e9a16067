//! Pages as browsers ask for them: who may see and do what, and names that are meant to do harm.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{BufRead as _, BufReader};

use diagnosis::sketch::{Failure, Predictor, Sketch, StatementRef, Step, Thread};
use failsketch_tests::folder::Folder;
use program::BuildId;
use server::access::Secret;
use server::config::{Config, Role, Token};
use server::serve::{self, Running};
use server::store::model::{BugId, Case, Derived, FailureSeen, NewCase, NewRun};
use server::store::{self, Body, Store};
use sketch_render::text::is_active;
use tokio::sync::oneshot;

/// What nobody should call anything.
const HOSTILE: &str = "evil\u{1b}[2J\u{202e}\"'><script>alert(1)</script><img src=x onerror=alert(1)>&#x3c;";

struct Place {
    folder: Folder,
    url: String,
    running: Running,
    stop: oneshot::Sender<()>,
    reader: String,
    steerer: String,
}

impl Place {
    /// A server with two bugs; readers of one program, and somebody who may steer.
    async fn start() -> Self {
        let folder = Folder::new("pages");
        let store = format!("sqlite:{}", folder.path().join("store.db").display());
        let opened = store::open(&store).await.unwrap();
        bug(&*opened, "aaaaaaaaaaaaaaaa", "shown", "SIGSEGV take:82").await;
        bug(&*opened, "bbbbbbbbbbbbbbbb", HOSTILE, HOSTILE).await;
        drop(opened);
        let [reader, steerer] = [Secret::new().unwrap(), Secret::new().unwrap()];
        let token = |name: &str, secret: &Secret, roles: &[Role], programs: &str| Token {
            name: name.to_owned(),
            sha256: secret.hash(),
            roles: roles.to_vec(),
            programs: vec![programs.to_owned()],
        };
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            store,
            objects: folder.path().join("objects").into(),
            tokens: vec![
                token("reader", &reader, &[Role::Read], "sho*"),
                token(HOSTILE, &steerer, &[Role::Read, Role::Steer], "*"),
            ],
            ..Config::default()
        };
        let (stop, stopped) = oneshot::channel();
        let running = serve::start(config, async move { _ = stopped.await })
            .await
            .unwrap();
        Self {
            url: format!("http://{}", running.address),
            folder,
            running,
            stop,
            reader: format!("Bearer {}", reader.text()),
            steerer: format!("Bearer {}", steerer.text()),
        }
    }

    async fn end(self) {
        _ = self.stop.send(());
        self.running.ended().await.unwrap();
        drop(self.folder);
    }

    fn get(&self, who: &str, path: &str) -> (u16, http::HeaderMap, String) {
        let answer = agent()
            .get(format!("{}{path}", self.url))
            .header("authorization", who)
            .call();
        let mut answer = answer.unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), answer.headers().clone(), text)
    }

    fn steer(&self, who: &str, bug: &str, what: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut request = agent()
            .post(format!("{}/bugs/{bug}/steer", self.url))
            .header("authorization", who)
            .header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.send(what).unwrap();
        (
            answer.status().as_u16(),
            answer.body_mut().read_to_string().unwrap(),
        )
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0);
    config.build().new_agent()
}

async fn bug(store: &dyn Store, id: &str, program: &str, signature: &str) {
    let case = Case {
        bug: BugId(id.to_owned()),
        build: BuildId(vec![0xab; 20]),
    };
    let now = 1_795_000_000;
    let new = NewCase {
        case: case.clone(),
        program: program.to_owned(),
        signature: signature.to_owned(),
        modules: "[]".into(),
        report: "{}".into(),
        runs: 1,
        seen: FailureSeen {
            counted_for: None,
            id: "f".to_owned(),
            host: HOSTILE.to_owned(),
            at: now,
        },
    };
    store.open(new).await.unwrap();
    let run = NewRun {
        id: HOSTILE.to_owned(),
        host: HOSTILE.to_owned(),
        at: now,
        failed: true,
        body: Body::Inline("{}".into()),
    };
    store.append(&case, vec![run]).await.unwrap();
    let statement = StatementRef {
        function: signature.to_owned(),
        file: Some(format!("/src/{program}.c")),
        line: Some(3),
        text: Some(HOSTILE.to_owned()),
        ..StatementRef::default()
    };
    let sketch = Sketch {
        version: 1,
        failure: Failure {
            kind: "signal".to_owned(),
            signal: Some("SIGSEGV".to_owned()),
            message: Some(HOSTILE.to_owned()),
            statement: Some(statement.clone()),
            ..Failure::default()
        },
        threads: vec![Thread {
            id: 0,
            role: Some(HOSTILE.to_owned()),
            label: None,
        }],
        steps: vec![Step {
            statement,
            failing: true,
            ..Step::default()
        }],
        predictors: vec![predictor(program)],
        notes: vec![HOSTILE.to_owned()],
        ..Sketch::default()
    };
    let summary = serde_json::json!({"best": format!("`{HOSTILE}` was {HOSTILE}"), "stopped": HOSTILE});
    let course = serde_json::json!({
        "turns": [{"seq": 1, "at": now, "sigma": 2, "best": HOSTILE}],
        "hosts": {HOSTILE: {"runs": 1, "last": now}},
    });
    let derived = Derived {
        seq: 1,
        widened: 0,
        sketch: serde_json::to_vec(&sketch).unwrap().into(),
        summary: summary.to_string().into(),
        course: Some(course.to_string().into()),
        words: "queue_take compress.c:82".to_owned(),
    };
    assert!(store.derive(&case, derived).await.unwrap());
}

/// One whose every name is somebody's choice, with a run behind it.
fn predictor(program: &str) -> Predictor {
    let statement = serde_json::json!({
        "function": HOSTILE, "file": format!("/src/{program}.c"), "line": 3, "pc": "0x10", "thread_role": HOSTILE, "access": "W",
    });
    let predictor = serde_json::json!({
        "rank": 1, "kind": "order", "pattern": HOSTILE, "variable": HOSTILE, "predicate": HOSTILE,
        "statements": [statement, statement],
        "f": 1.0, "precision": 1.0, "recall": 1.0, "precision_interval": [0.5, 1.0], "recall_interval": [0.5, 1.0],
        "failing_with": 1, "failing": 1, "successful_with": 0, "successful": 1,
        "runs": {"failing": [1], "successful": []},
    });
    serde_json::from_value(predictor).unwrap()
}

const A: &str = "/bugs/aaaaaaaaaaaaaaaa";
const B: &str = "/bugs/bbbbbbbbbbbbbbbb";

#[tokio::test(flavor = "multi_thread")]
async fn everybody_sees_what_he_may_and_learns_of_nothing_else() {
    let place = Place::start().await;
    let (code, _, all) = place.get(&place.steerer, "/");
    assert_eq!(
        (code, all.matches("<td class=\"what\"><a").count()),
        (200, 2),
        "{all}"
    );
    let (_, _, some) = place.get(&place.reader, "/");
    assert_eq!(some.matches("<td class=\"what\"><a").count(), 1, "{some}");
    assert!(!some.contains("bbbbbbbb"), "{some}");
    for (path, mine, other) in [
        ("", 200, 404),
        ("/live", 200, 404),
        ("/builds/abababababababababababababababababababab", 200, 404),
        (
            "/builds/abababababababababababababababababababab/sketch.json",
            200,
            404,
        ),
        ("/builds/cdcd", 404, 404),
        (
            "/builds/abababababababababababababababababababab/sketch.exe",
            404,
            404,
        ),
        (
            "/builds/abababababababababababababababababababab/predictors/0",
            404,
            404,
        ),
    ] {
        if path == "/live" {
            continue;
        }
        assert_eq!(place.get(&place.reader, &format!("{A}{path}")).0, mine, "{path}");
        assert_eq!(place.get(&place.reader, &format!("{B}{path}")).0, other, "{path}");
    }
    assert_eq!(place.get(&place.reader, &format!("{B}/live")).0, 404);
    assert_eq!(place.get("Bearer nobody", "/").0, 401);
    assert_eq!(place.get(&place.reader, "/nowhere").0, 404);
    assert_eq!(place.get(&place.reader, "/bugs/..%2f..%2fetc").0, 404);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_meant_to_do_harm_do_nothing() {
    let place = Place::start().await;
    let build = "/builds/abababababababababababababababababababab";
    let own = |page: &str| page.matches("<script").count();
    let (_, _, page) = place.get(&place.steerer, B);
    let runs = page.split("class=\"runs\" href=\"").nth(1).unwrap();
    let runs = runs.split('"').next().unwrap().to_owned();
    assert!(
        place.get(&place.steerer, &runs).2.contains("<tr id=\"run-1\">"),
        "a run is there"
    );
    for (path, scripts) in [
        ("/".to_owned(), 2),
        ("/?q=%3Cscript%3E%22".to_owned(), 2),
        ("/?state=%3Cscript%3E&sort=%22%3E&page=99999999999".to_owned(), 2),
        (B.to_owned(), 2),
        (format!("{B}{build}"), 2),
        (format!("{B}{build}/sketch.html"), 1),
        (runs, 2),
        ("/%3Cscript%3E".to_owned(), 0),
        ("/bugs/%3Cscript%3E".to_owned(), 0),
    ] {
        let (_, headers, page) = place.get(&place.steerer, &path);
        assert_eq!(own(&page), scripts, "{path}: {page}");
        assert!(!page.contains("<img src=x"), "{path}: {page}");
        assert!(!page.contains(|c: char| c != '\n' && is_active(c)), "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
    }
    for form in ["md", "txt", "json", "sarif"] {
        let (code, headers, text) = place.get(&place.steerer, &format!("{B}{build}/sketch.{form}"));
        assert_eq!(code, 200);
        assert!(!text.contains(|c: char| c != '\n' && is_active(c)), "{form}");
        assert!(
            !headers["content-type"].to_str().unwrap().contains("html"),
            "{form}"
        );
    }
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bug_is_steered_by_those_who_may_from_pages_of_ours() {
    let place = Place::start().await;
    let own = [("origin", place.url.as_str())];
    let bug = "aaaaaaaaaaaaaaaa";
    let (code, said) = place.steer(&place.reader, bug, "what=stop", &own);
    assert_eq!(code, 403, "{said}");
    assert!(!place.get(&place.reader, A).2.contains("<form method=\"post\""));
    for headers in [
        &[][..],
        &[("origin", "https://elsewhere.example")],
        &[("origin", place.url.as_str()), ("sec-fetch-site", "cross-site")],
    ] {
        let (code, said) = place.steer(&place.steerer, bug, "what=stop", headers);
        assert_eq!(code, 403, "{said}");
    }
    assert!(
        place.get(&place.steerer, A).2.contains("Nobody has."),
        "nothing was done"
    );
    assert_eq!(place.steer(&place.steerer, bug, "what=dance", &own).0, 400);
    assert_eq!(
        place.steer(&place.steerer, bug, "what=fixed&build=xyz", &own).0,
        400
    );
    assert_eq!(
        place
            .steer(&place.steerer, "cccccccccccccccc", "what=stop", &own)
            .0,
        404
    );
    assert_eq!(place.steer(&place.steerer, bug, "what=stop", &own).0, 303);
    let (_, _, page) = place.get(&place.reader, A);
    assert!(page.contains("class=\"state stopped\""), "{page}");
    assert!(page.contains("</b> stopped"), "the audit is there: {page}");
    let (_, _, list) = place.get(&place.reader, "/?state=stopped");
    assert_eq!(list.matches("<td class=\"what\"><a").count(), 1, "{list}");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_looks_is_told_when_something_changes() {
    let place = Place::start().await;
    let (_, _, page) = place.get(&place.reader, A);
    let version = |page: &str| {
        let start = page.split("data-version=\"").nth(1).unwrap();
        start.split('"').next().unwrap().to_owned()
    };
    let request = agent()
        .get(format!("{}{A}/live", place.url))
        .header("authorization", &place.reader);
    let answer = request.call().unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let lines = BufReader::new(answer.into_body().into_reader()).lines();
    let mut told = lines
        .map_while(Result::ok)
        .filter_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    assert_eq!(told.next(), Some(version(&page)));
    let own = [("origin", place.url.as_str())];
    assert_eq!(
        place
            .steer(&place.steerer, "aaaaaaaaaaaaaaaa", "what=stop", &own)
            .0,
        303
    );
    let now = told.next().unwrap();
    assert_ne!(now, version(&page));
    assert_eq!(now, version(&place.get(&place.reader, A).2));
    // A server that ends does not wait for those who look.
    place.end().await;
    assert_eq!(told.next(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn bugs_are_found_by_what_is_known_of_them() {
    let place = Place::start().await;
    let found = |path: &str| {
        let (_, _, page) = place.get(&place.steerer, path);
        page.matches("<td class=\"what\"><a").count()
    };
    assert_eq!(found("/?q=TAKE%3A82"), 1);
    assert_eq!(found("/?q=queue_take"), 2);
    assert_eq!(found("/?q=queueXtake"), 0, "a line is no wildcard");
    assert_eq!(found("/?q=compress.c+aaaaaaaa"), 1);
    assert_eq!(found("/?q=%25"), 0, "nor is a percent sign");
    assert_eq!(found("/?sort=failures&page=1"), 0);
    place.end().await;
}
