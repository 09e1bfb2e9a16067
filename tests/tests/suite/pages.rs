//! The pages in a real browser, against a real server that real agents report to.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use failsketch_tests::browser::{Browser, key};
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use failsketch_tests::{command, process, zoo};
use serde_json::Value;

/// A race between two threads, which a fleet explains within seconds.
const PROGRAM: &str = "pbzip2-queue";
/// Widths of a phone, a laptop and a large screen.
const WIDTHS: [u32; 3] = [390, 1280, 1920];
/// Fleets until one has explained it: on a busy machine a race may be lost each time.
const FLEETS: usize = 8;

struct Server {
    _running: Running,
    _folder: Folder,
    url: String,
}

impl Server {
    fn start() -> Self {
        let folder = Folder::new("pages");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let sources = zoo::folder().join(PROGRAM).display().to_string();
        let mut serve = Command::new(command::binary());
        serve
            .args(["serve", "--listen", &address, "--store"])
            .arg(format!("sqlite:{}", folder.path().join("bugs.db").display()))
            .arg("--objects")
            .arg(folder.path().join("objects"))
            .args(["--source-map", &format!("{sources}={sources}")])
            .env("RUST_LOG", "warn");
        let running = Running::start(&mut serve);
        running.stderr_line("failsketch: serving on").unwrap();
        Self {
            _running: running,
            _folder: folder,
            url: format!("http://{address}"),
        }
    }

    /// Agents run the program until its bug is explained, or for so long.
    fn fleet(&self, agents: &str, seconds: &str) -> Running {
        let mut fleet = Command::new(command::binary());
        fleet
            .args([
                "fleet",
                "--server",
                &self.url,
                "--agents",
                agents,
                "--time-limit",
                seconds,
            ])
            .arg("--")
            .arg(zoo::binary(PROGRAM, "O0"));
        Running::start(&mut fleet)
    }
}

/// Where pictures go: somebody should look at them.
fn pictures() -> PathBuf {
    let folder = match std::env::var_os("FAILSKETCH_PICTURES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// axe-core, which judges how accessible a page is.
fn axe() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/axe.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(&folder);
    let _ = process::tool(&mut python, Path::new("/"));
    folder.join("axe.min.js")
}

/// A page in every size and light: nothing is out of sight, nothing keeps anybody out, and a picture is taken.
fn inspect(browser: &Browser, axe: &Path, name: &str) {
    for width in WIDTHS {
        for is_dark in [false, true] {
            browser.look(width, is_dark);
            let _ = browser.run("scrollTo(0, 0)");
            let too_wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert!(
                too_wide.as_i64() <= Some(0),
                "{name} at {width} is {too_wide} too wide"
            );
            let light = if is_dark { "dark" } else { "light" };
            let picture = pictures().join(format!("{name}-{width}-{light}.png"));
            let mut decode = Command::new("base64");
            decode.arg("-d").stdout(std::fs::File::create(picture).unwrap());
            decode.stdin(std::process::Stdio::piped());
            let mut child = decode.spawn().unwrap();
            let taken = browser.picture();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), taken.as_bytes()).unwrap();
            assert!(child.wait().unwrap().success());
            is_accessible(browser, axe, &format!("{name} at {width}, {light}"));
        }
    }
    browser.look(1280, false);
}

fn is_accessible(browser: &Browser, axe: &Path, name: &str) {
    browser.load(axe);
    let found = browser.run(
        "return axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations \
         .filter((rule) => ['serious', 'critical'].includes(rule.impact)) \
         .map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 160) + ' ' + node.any.map((any) => any.message)).join('; ')}`))",
    );
    let found = found.as_array().cloned().unwrap_or_default();
    let found: Vec<&str> = found.iter().filter_map(Value::as_str).collect();
    assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
}

/// Nothing went wrong, and nobody else was asked for anything.
fn is_quiet(browser: &Browser, server: &Server) {
    let console = browser.console();
    assert!(console.is_empty(), "{console:?}");
    let elsewhere: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|address| !address.starts_with(&format!("{}/", server.url)) && !address.starts_with("data:"))
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[test]
fn a_bug_from_its_first_failure_to_what_is_done_about_it() {
    let axe = axe();
    let server = Server::start();
    let browser = Browser::start();
    browser.look(1280, false);
    let _ = browser.requests();

    // Nothing yet: it says what to do.
    browser.open(&format!("{}/", server.url));
    browser.wait("document.querySelector('.empty').innerText.includes('No failure has been reported yet')");
    browser.wait("document.querySelector('.empty pre').innerText.includes(location.host)");
    inspect(&browser, &axe, "empty");

    // A failure comes: the page that is open shows it, and shows it explained.
    browser.wait("document.getElementById('news').dataset.state === 'live'");
    let _ = browser.run("window.same = true");
    let explained = "document.querySelector('span.state.explained')";
    for _ in 0..FLEETS {
        let done = server.fleet("4", "60").finish();
        assert!(done.status.success(), "{}", done.stderr);
        browser.wait("document.querySelector('td.what a')");
        std::thread::sleep(Duration::from_millis(1500));
        if browser.run(&format!("return !!{explained}")) == Value::Bool(true) {
            break;
        }
        // So few runs may have come by chance: more are asked for.
        let bug = browser.text("return document.querySelector('td.what a').href.split('/').pop()");
        let mut steer = Command::new(command::binary());
        steer.args(["steer", "--server", &server.url, "--widen", &bug]);
        let _ = process::tool(&mut steer, Path::new("/"));
    }
    browser.wait(explained);
    browser.wait("document.querySelector('td.what').innerText.includes('q->mut')");
    assert_eq!(
        browser.run("return window.same"),
        Value::Bool(true),
        "without another load"
    );
    inspect(&browser, &axe, "list");
    is_quiet(&browser, &server);

    finds(&browser);
    opens_and_follows(&browser);
    inspect(&browser, &axe, "bug");
    sorts(&browser);
    shows_runs(&browser, &axe);
    steers(&browser);
    sees_runs_come(&browser, &server);
    inspect(&browser, &axe, "tracking");
    takes_along(&browser, &server);
    is_quiet(&browser, &server);
}

/// By keyboard: words that are in no name find nothing, and a function finds its bug.
fn finds(browser: &Browser) {
    let search = |words: &str| {
        browser.keys("/");
        browser.wait("document.activeElement.id === 'q'");
        let _ = browser.run("document.activeElement.value = ''");
        browser.keys(&format!("{words}{}", key::ENTER));
        browser.wait(&format!("new URLSearchParams(location.search).get('q') === '{words}' && document.readyState === 'complete'"));
    };
    search("quiche");
    browser.wait("document.querySelector('.empty').innerText.includes('Nothing found')");
    search("queue_take 62");
    browser.wait("document.querySelectorAll('.bugs tbody tr').length === 1");
}

fn opens_and_follows(browser: &Browser) {
    let _ = browser.run("document.querySelector('td.what a').focus()");
    browser.keys(key::ENTER);
    browser.wait("location.pathname.startsWith('/bugs/') && document.documentElement.dataset.ready");
    let said = browser.text("return document.querySelector('h1').innerText");
    assert!(said.contains("q->mut") && said.contains("failing runs"), "{said}");
    // The sketch has its source text. Where consumers use what is gone, before a block or after it, differs.
    browser.wait("document.querySelector('.lanes').innerText.includes('q->mut = NULL;')");
    // Along the arrow, by keyboard.
    let pattern = browser.text("return document.querySelector('.lanes').dataset.pattern");
    let steps: Vec<&str> = pattern.split(' ').collect();
    assert!(steps.len() >= 2, "{pattern}");
    browser.wait("document.querySelectorAll('svg.arrows path.tip').length > 0");
    for step in &steps {
        browser.keys("a");
        browser.wait(&format!("document.activeElement.dataset.n === '{step}'"));
    }
    // What led there, away and back again.
    let rows = "[...document.querySelectorAll('.lanes .prefix tr')]";
    browser.wait(&format!(
        "{rows}.length > 0 && {rows}.every((row) => row.getClientRects().length)"
    ));
    browser.keys("p");
    browser.wait(&format!("{rows}.every((row) => !row.getClientRects().length)"));
    browser.keys("p");
    browser.wait(&format!("{rows}.every((row) => row.getClientRects().length)"));
    browser.keys(key::ESCAPE);
}

fn sorts(browser: &Browser) {
    let column = |at: u32| {
        browser.run(&format!(
            "return [...document.querySelectorAll('.sortable tbody tr')].map((row) => Number(row.cells[{at}].dataset.s))"
        ))
    };
    let ranks = column(0);
    assert!(ranks.as_array().is_some_and(|ranks| ranks.len() > 1), "{ranks}");
    let head = ".sortable th:nth-child(5) .sort";
    browser.click(head);
    browser.wait(
        "document.querySelector('.sortable th:nth-child(5)').getAttribute('aria-sort') === 'descending'",
    );
    let falls = column(4);
    let falls: Vec<u64> = falls
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert!(falls.is_sorted_by(|one, other| one >= other), "{falls:?}");
    browser.click(head);
    browser.wait(
        "document.querySelector('.sortable th:nth-child(5)').getAttribute('aria-sort') === 'ascending'",
    );
    let rises = column(4);
    let rises: Vec<u64> = rises
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert!(rises.is_sorted(), "{rises:?}");
    browser.click(".sortable th:nth-child(1) .sort");
    browser.wait(
        "document.querySelector('.sortable th:nth-child(1)').getAttribute('aria-sort') === 'ascending'",
    );
    assert_eq!(column(0), ranks);
}

fn shows_runs(browser: &Browser, axe: &Path) {
    browser.click(".sortable .runs");
    browser.wait("location.pathname.includes('/predictors/')");
    browser.wait("document.querySelectorAll('.side.f tbody tr').length > 0");
    inspect(browser, axe, "runs");
    browser.click(".crumb a");
    browser.wait("document.querySelector('.lanes') && document.documentElement.dataset.ready");
}

/// With a question before it, which can be left with Escape.
fn steers(browser: &Browser) {
    browser.click(".acts button[popovertarget=do-widen]");
    browser.wait("document.querySelector('#do-widen:popover-open')");
    browser.keys(key::ESCAPE);
    browser.wait("!document.querySelector('#do-widen:popover-open')");
    browser.click(".acts button[popovertarget=do-widen]");
    browser.wait("document.activeElement.matches('#do-widen button.yes')");
    browser.keys(key::ENTER);
    browser.wait("document.querySelector('.did') && document.querySelector('.did').innerText.includes('Twice as many')");
    browser.wait("document.querySelector('[data-part=audit]').innerText.includes('local widened')");
    browser.wait("!location.search");
}

/// Runs come while somebody looks.
fn sees_runs_come(browser: &Browser, server: &Server) {
    browser.wait("document.querySelector('.hero span.state.tracking')");
    let figure = "document.querySelector('.figures div:nth-child(2) b').innerText";
    let before = browser.text(&format!("return {figure}"));
    let _ = browser.run("window.same = true");
    let fleet = server.fleet("2", "15");
    browser.wait(&format!("{figure} !== '{before}'"));
    assert_eq!(
        browser.run("return window.same"),
        Value::Bool(true),
        "without another load"
    );
    let done = fleet.finish();
    assert!(done.status.success(), "{}", done.stderr);
}

/// Every form, under links that stay.
fn takes_along(browser: &Browser, server: &Server) {
    let links = browser.run("return [...document.querySelectorAll('.take a')].map((link) => link.href)");
    let links: Vec<String> = serde_json::from_value(links).unwrap();
    assert_eq!(links.len(), 5);
    let page = links.iter().find(|link| link.ends_with(".html")).unwrap();
    browser.open(page);
    browser.wait("document.documentElement.dataset.ready && document.querySelector('svg.arrows path')");
    let bug = browser.text("return location.pathname.split('/')[2]");
    let mut open = Command::new(command::binary());
    open.args(["open", "--server", &server.url, &bug]);
    let said = process::tool(&mut open, Path::new("/"));
    assert_eq!(said.trim(), format!("{}/bugs/{bug}", server.url));
    browser.open(said.trim());
    browser.wait("document.querySelector('.lanes')");
}

/// A sketch file, without any server but one on this machine that lasts as long as somebody looks.
#[test]
fn a_sketch_file_is_served_on_this_machine_alone() {
    let sketch =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../sketch-render/tests/golden/sketches/order.json");
    let mut open = Command::new(command::binary());
    open.arg("open").arg(sketch);
    let open = Running::start(&mut open);
    let link = open.stdout_line("http://127.0.0.1:").unwrap();
    let browser = Browser::start();
    browser.open(link.trim());
    browser.wait("document.documentElement.dataset.ready && document.querySelectorAll('svg.arrows path.tip').length === 1");
    let console = browser.console();
    // A browser asks for an icon by itself.
    let console: Vec<&String> = console.iter().filter(|line| !line.contains("favicon")).collect();
    assert!(console.is_empty(), "{console:?}");
    // Others who use this machine do not know the address.
    let root = link.trim().split('/').take(3).collect::<Vec<_>>().join("/");
    browser.open(&format!("{root}/"));
    browser.wait("document.body.innerText.includes('there is no such page')");
    open.signal("INT");
    assert!(open.finish().status.success());
}
