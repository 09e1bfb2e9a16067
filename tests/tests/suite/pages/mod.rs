//! The pages in a real browser, against a real server that real agents report to.

mod guarded;
mod kit;

use std::path::Path;
use std::process::Command;

use failsketch_tests::browser::{Browser, key};
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use failsketch_tests::{command, process};
use serde_json::Value;

use kit::{Recorded, Server, VARIABLE, axe, inspect, is_quiet};

#[test]
fn a_bug_from_its_first_failure_to_what_is_done_about_it() {
    let axe = axe();
    let folder = Folder::new("pages");
    let recorded = Recorded::make(&folder);
    let server = Server::start(&folder);
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
    server.replay(&recorded, 1, recorded.tracked);
    browser.wait("document.querySelector('span.state.explained')");
    browser.wait(&format!(
        "document.querySelector('td.what').innerText.includes('{VARIABLE}')"
    ));
    is_same(&browser);
    inspect(&browser, &axe, "list");
    is_quiet(&browser, &server);

    finds(&browser);
    opens_and_follows(&browser);
    inspect(&browser, &axe, "bug");
    sorts(&browser);
    shows_runs(&browser, &axe);
    widens(&browser);
    stops_and_resumes(&browser);
    inspect(&browser, &axe, "tracking");
    sees_runs_come(&browser, &server, &folder);
    is_asked_before_a_sketch_is_taken_away(&browser, &server, &recorded);
    is_fixed_and_comes_back(&browser, &server, &recorded);
    takes_along(&browser, &server);
    is_quiet(&browser, &server);
}

/// Everything came without another load of the page.
fn is_same(browser: &Browser) {
    assert_eq!(browser.run("return window.same"), Value::Bool(true));
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
    assert!(said.contains(VARIABLE) && said.contains("failing runs"), "{said}");
    // The sketch has its source text. Where consumers use what is gone, before a block or after it, differs.
    browser.wait("document.querySelector('.lanes').innerText.includes('q->mut = NULL;')");
    // Along the arrow, by keyboard.
    let pattern = browser.text("return document.querySelector('.lanes').dataset.pattern");
    let mut steps: Vec<&str> = pattern.split([' ', '>']).collect();
    steps.dedup();
    assert!(steps.len() >= 2, "{pattern}");
    browser.wait("document.querySelectorAll('svg.arrows path.tip').length > 0");
    for step in &steps {
        browser.keys("a");
        browser.wait(&format!("document.activeElement.id === 'n{step}'"));
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
    follows_threads_and_variables(browser);
}

/// By the pointer for as long as it is there, by a key until it is taken back.
fn follows_threads_and_variables(browser: &Browser) {
    let only = |of: &str| {
        browser.wait(&format!(
            "(() => {{ const rows = [...document.querySelectorAll('.lanes tr[data-t]')]; const on = rows.filter((row) => row.classList.contains('on')); \
             return on.length > 0 && on.length < rows.length && rows.every((row) => row.classList.contains('on') === ({of})); }})()"
        ));
    };
    let nobody = || browser.wait("!document.querySelector('.lanes tr.on')");
    let _ = browser.run("document.activeElement.blur()");
    browser.hover(".lanes th [data-k=t][data-i='0']");
    only("row.dataset.t === '0'");
    browser.hover("h1");
    nobody();
    browser.hover(".lanes tr[data-v] .v .follow");
    let variable = browser.text("return document.querySelector('.lanes tr[data-v]').dataset.v");
    only(&format!("row.dataset.v === '{variable}'"));
    browser.hover("h1");
    nobody();
    // Whatever the pointer rests on meanwhile.
    browser.keys("a");
    browser.keys("F");
    let followed = browser.text("return document.querySelector('.now').innerText");
    assert!(followed.starts_with("following "), "{followed}");
    browser.hover(".lanes tr[data-v] .v .follow");
    only("row.dataset.t === document.activeElement.dataset.t");
    browser.keys("F");
    browser.hover("h1");
    browser.wait("!document.querySelector('.now').innerText");
    browser.keys("f");
    only("row.dataset.v === document.activeElement.dataset.v");
    browser.keys(key::ESCAPE);
    nobody();
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

/// Has something done about the bug, by keyboard, and reads what was done.
fn acts(browser: &Browser, what: &str, typed: &str, said: &str) {
    browser.click(&format!(".acts button[popovertarget=do-{what}]"));
    let first = if typed.is_empty() {
        "button.yes"
    } else {
        "input[name=build]"
    };
    browser.wait(&format!("document.activeElement.matches('#do-{what} {first}')"));
    browser.keys(&format!("{typed}{}", key::ENTER));
    browser.wait(&format!(
        "document.querySelector('.did') && document.querySelector('.did').innerText.includes('{said}')"
    ));
    browser.wait("!location.search && document.documentElement.dataset.ready");
}

/// With a question before it, which can be left with Escape.
fn widens(browser: &Browser) {
    browser.click(".acts button[popovertarget=do-widen]");
    browser.wait("document.querySelector('#do-widen:popover-open')");
    browser.keys(key::ESCAPE);
    browser.wait("!document.querySelector('#do-widen:popover-open')");
    acts(browser, "widen", "", "Twice as many");
    browser.wait("document.querySelector('[data-part=audit]').innerText.includes('local widened')");
    browser.wait("document.querySelector('.hero span.state.tracking')");
}

/// Runs of a real agent come while somebody looks.
fn sees_runs_come(browser: &Browser, server: &Server, folder: &Folder) {
    let figure = "document.querySelector('.figures div:nth-child(2) b').innerText";
    let before = browser.text(&format!("return {figure}"));
    let _ = browser.run("window.same = true");
    let agent = server.agent(folder);
    browser.wait(&format!("{figure} !== '{before}'"));
    is_same(browser);
    agent.signal("TERM");
    let done = agent.finish();
    assert!(done.status.success(), "{}", done.stderr);
}

/// Whoever reads a sketch keeps it until he asks for the newer one.
fn is_asked_before_a_sketch_is_taken_away(browser: &Browser, server: &Server, recorded: &Recorded) {
    let revision = || browser.text("return document.querySelector('.sketch').dataset.revision");
    browser.keys("a");
    browser.wait("document.activeElement.closest('.lanes')");
    let _ = browser.run("window.same = true");
    let (before, hidden) = (revision(), "document.getElementById('newer').hidden");
    server.replay(recorded, 2, 4);
    browser.wait(&format!("!{hidden}"));
    assert_eq!(revision(), before, "what is read stays");
    browser.click("#newer");
    browser.wait(hidden);
    assert_ne!(revision(), before, "what is asked for comes");
    // What is new can be followed as the old could.
    browser.keys("a");
    browser.wait("document.activeElement.closest('.lanes')");
    browser.wait("document.querySelectorAll('svg.arrows path.tip').length > 0");
    browser.keys(key::ESCAPE);
    is_same(browser);
}

fn stops_and_resumes(browser: &Browser) {
    acts(browser, "stop", "", "Tracking is stopped");
    browser.wait("document.querySelector('.hero span.state.stopped')");
    acts(browser, "resume", "", "Tracking goes on");
    browser.wait("document.querySelector('.hero span.state.tracking')");
    browser.wait("document.querySelector('[data-part=audit]').innerText.includes('local resumed')");
}

/// A build-id has to be one; and a bug that fails in the build that has the fix comes back, before the eyes of who looks.
fn is_fixed_and_comes_back(browser: &Browser, server: &Server, recorded: &Recorded) {
    browser.click(".acts button[popovertarget=do-fixed]");
    browser.wait("document.activeElement.matches('#do-fixed input[name=build]')");
    browser.keys(&format!("the next one{}", key::ENTER));
    browser.wait("document.querySelector('#do-fixed:popover-open input:invalid')");
    browser.keys(key::ESCAPE);
    let _ = browser.run("document.getElementById('fixed-build').value = ''");
    let build = browser.text("return document.querySelector('#known-builds option').value");
    acts(browser, "fixed", &build, "Marked as fixed");
    browser.wait("document.querySelector('.hero span.state.fixed')");
    let _ = browser.run("window.same = true");
    server.replay(recorded, 1, 1);
    browser.wait("document.querySelector('.hero span.state.regressed')");
    is_same(browser);
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
