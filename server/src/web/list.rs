//! All bugs: what happened, how often, where, and what is done about it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use http::header::HOST;
use http::{HeaderMap, Uri};
use serde::Deserialize;
use tonic::Status;

use super::frame::{Frame, answer};
use super::refusal::Refusal;
use super::shown::{Moment, STATES, grouped, pieces, short_build, shown, state};
use super::trend::{Trend, from_hour};
use crate::access::Identity;
use crate::clock::now;
use crate::desk::Summary;
use crate::service::House;
use crate::store::model::{BugId, Overview};

/// Bugs that are looked through: those that were seen last.
const MOST: u32 = 1000;
/// Bugs on a page.
const ON_A_PAGE: usize = 50;
/// Characters of what is searched for.
const LONGEST_WORDS: usize = 200;

/// What somebody wants to see.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    q: String,
    state: String,
    sort: String,
    page: usize,
}

/// A bug, with how the search for its cause stands.
struct Found {
    bug: Overview,
    summary: Summary,
    state: &'static str,
}

#[derive(Template)]
#[template(path = "list.html")]
struct Page {
    frame: Frame,
    live: String,
    version: String,
    tabs: Vec<Tab>,
    columns: Vec<Column>,
    rows: Vec<Row>,
    found: usize,
    is_cut: bool,
    before: Option<String>,
    after: Option<String>,
    empty: Option<Empty>,
}

/// Bugs in one state.
struct Tab {
    address: String,
    name: &'static str,
    count: usize,
    is_here: bool,
}

/// A column that bugs can be sorted by.
struct Column {
    name: &'static str,
    class: &'static str,
    address: String,
    is_here: bool,
    /// `ascending` or `descending`.
    order: &'static str,
}

struct Row {
    address: String,
    words: Vec<(bool, String)>,
    is_clear: bool,
    program: String,
    signature: String,
    build: String,
    state: &'static str,
    trend: String,
    failures: String,
    recurrences: String,
    hosts: String,
    builds: u64,
    first: Moment,
    last: Moment,
}

/// Why there is nothing to see.
struct Empty {
    /// Something was searched for.
    is_search: bool,
    /// Hosts that are there.
    hosts: u64,
    /// How this server is called.
    server: String,
}

/// The page.
pub(super) async fn page(
    State(house): State<House>,
    who: Identity,
    Query(wanted): Query<Wanted>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let all = look(&house, &who, &wanted).await?;
    let is_cut = all.len() >= MOST as usize;
    let version = version(&all);
    let tabs = tabs(&all, &wanted);
    let mut bugs: Vec<Found> = all.into_iter().filter(|found| wanted.has(found.state)).collect();
    wanted.order(&mut bugs);
    let found = bugs.len();
    let first = wanted.page.saturating_mul(ON_A_PAGE);
    let bugs: Vec<Found> = bugs.into_iter().skip(first).take(ON_A_PAGE).collect();
    let empty = match bugs.is_empty() {
        true => Some(empty(&house, &wanted, &uri, &headers).await?),
        false => None,
    };
    let page = |page: usize| wanted.address(&[("page", &page.to_string())]);
    answer(&Page {
        frame: Frame::new(&who.name, &wanted.q),
        live: format!("/live{}", wanted.address(&[]).trim_start_matches('/')),
        version,
        tabs,
        columns: wanted.columns(),
        rows: rows(&house, bugs).await?,
        found,
        is_cut,
        before: wanted.page.checked_sub(1).map(page),
        after: (first.saturating_add(ON_A_PAGE) < found).then(|| page(wanted.page + 1)),
        empty,
    })
}

/// What somebody sees of all bugs, as a short text that changes when it does.
pub(super) async fn version_of(house: &House, who: &Identity, wanted: &Wanted) -> Result<String, Status> {
    Ok(version(&look(house, who, wanted).await?))
}

async fn look(house: &House, who: &Identity, wanted: &Wanted) -> Result<Vec<Found>, Status> {
    who.may_read_something()?;
    let words: String = wanted.q.chars().take(LONGEST_WORDS).collect();
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let bugs = house.store.overview(&words, MOST).await;
    let bugs = bugs.map_err(|error| house.of_store(error))?;
    let readable = bugs.into_iter().filter(|bug| who.may_read(&bug.program).is_ok());
    Ok(readable.map(Found::new).collect())
}

fn version(all: &[Found]) -> String {
    let mut hasher = DefaultHasher::new();
    for found in all {
        let bug = &found.bug;
        (&bug.id.0, bug.failures, bug.runs, bug.seq, bug.builds).hash(&mut hasher);
        found.state.hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

impl Found {
    fn new(bug: Overview) -> Self {
        let summary = bug.summary.as_deref().map(serde_json::from_slice);
        let summary: Summary = summary.transpose().ok().flatten().unwrap_or_default();
        Self {
            state: state(&bug.state, &summary),
            bug,
            summary,
        }
    }
}

fn tabs(all: &[Found], wanted: &Wanted) -> Vec<Tab> {
    let mut tabs = vec![Tab {
        address: wanted.address(&[("state", ""), ("page", "")]),
        name: "all",
        count: all.len(),
        is_here: wanted.state.is_empty(),
    }];
    for name in STATES {
        let tab = Tab {
            address: wanted.address(&[("state", name), ("page", "")]),
            name,
            count: all.iter().filter(|found| found.state == name).count(),
            is_here: wanted.state == name,
        };
        if tab.count > 0 || tab.is_here {
            tabs.push(tab);
        }
    }
    tabs
}

impl Wanted {
    fn has(&self, state: &str) -> bool {
        self.state.is_empty() || self.state == state
    }

    fn order(&self, bugs: &mut [Found]) {
        use std::cmp::Reverse;
        match self.sort.as_str() {
            "failures" => bugs.sort_by_key(|found| Reverse(found.bug.failures)),
            "first" => bugs.sort_by_key(|found| Reverse(found.bug.first_seen)),
            "program" => bugs.sort_by(|one, other| one.bug.program.cmp(&other.bug.program)),
            // As the store gives them: the last seen first.
            _ => {}
        }
    }

    fn columns(&self) -> Vec<Column> {
        let column = |name, class, sort: &str| Column {
            name,
            class,
            address: match sort {
                "-" => String::new(),
                sort => self.address(&[("sort", sort), ("page", "")]),
            },
            is_here: self.sort == sort,
            order: if sort == "program" {
                "ascending"
            } else {
                "descending"
            },
        };
        vec![
            column("What happened", "what", "program"),
            column("State", "state", "-"),
            column("Trend", "trend", "-"),
            column("Failures", "num", "failures"),
            column("Hosts", "num", "-"),
            column("First seen", "when", "first"),
            column("Last seen", "when", ""),
        ]
    }

    /// The address of the page with something changed.
    fn address(&self, change: &[(&str, &str)]) -> String {
        let page = match self.page {
            0 => String::new(),
            page => page.to_string(),
        };
        let mut fields = vec![
            ("q", self.q.as_str()),
            ("state", &self.state),
            ("sort", &self.sort),
            ("page", &page),
        ];
        for (name, value) in &mut fields {
            if let Some((_, new)) = change.iter().find(|(changed, _)| changed == name) {
                *value = new;
            }
        }
        let said = fields
            .iter()
            .filter(|(name, value)| !value.is_empty() && (*name, *value) != ("page", "0"));
        let said: Vec<String> = said
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        match said.is_empty() {
            true => "/".to_owned(),
            false => format!("/?{}", said.join("&")),
        }
    }
}

/// Text in an address.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        b' ' => "+".to_owned(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

async fn rows(house: &House, bugs: Vec<Found>) -> Result<Vec<Row>, Status> {
    let now = now();
    let ids: Vec<BugId> = bugs.iter().map(|found| found.bug.id.clone()).collect();
    let hours = house.store.trend(&ids, from_hour(now)).await;
    let hours = hours.map_err(|error| house.of_store(error))?;
    let mut by_bug: HashMap<&BugId, Vec<(u64, u64)>> = HashMap::new();
    for hour in &hours {
        let of = by_bug.entry(&hour.bug).or_default();
        of.push((hour.hour, hour.failures));
    }
    let hosts = house.store.reporters(&ids).await;
    let hosts: HashMap<BugId, u64> = hosts
        .map_err(|error| house.of_store(error))?
        .into_iter()
        .collect();
    let row = |Found { bug, summary, state }| {
        let hours = by_bug.get(&bug.id).map_or(&[][..], Vec::as_slice);
        let hosts = hosts.get(&bug.id).copied().unwrap_or(0);
        row(&bug, &summary, state, hosts, hours, now)
    };
    Ok(bugs.into_iter().map(row).collect())
}

fn row(
    bug: &Overview,
    summary: &Summary,
    state: &'static str,
    hosts: u64,
    hours: &[(u64, u64)],
    now: u64,
) -> Row {
    Row {
        address: format!("/bugs/{}", encoded(&bug.id.0)),
        words: pieces(summary.best.as_deref().unwrap_or_default()),
        is_clear: summary.clear,
        program: shown(&bug.program, 80),
        signature: shown(&bug.signature, 160),
        build: short_build(&bug.build),
        state,
        trend: Trend::new(hours.iter().copied(), bug.first_seen, now).picture(),
        failures: grouped(bug.failures),
        recurrences: grouped(summary.recurrences),
        hosts: grouped(hosts),
        builds: bug.builds,
        first: Moment::new(bug.first_seen, now),
        last: Moment::new(bug.last_seen, now),
    }
}

async fn empty(house: &House, wanted: &Wanted, uri: &Uri, headers: &HeaderMap) -> Result<Empty, Status> {
    let hosts = house.store.host_count().await;
    let hosts = hosts.map_err(|error| house.of_store(error))?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_secure = house.secure || text("x-forwarded-proto") == Some("https");
    let scheme = if is_secure { "https" } else { "http" };
    let named = uri.authority().map(http::uri::Authority::as_str);
    let host = named.or_else(|| text(HOST.as_str())).unwrap_or("SERVER");
    Ok(Empty {
        is_search: !wanted.q.is_empty() || !wanted.state.is_empty() || wanted.page > 0,
        hosts,
        server: shown(&format!("{scheme}://{host}"), 100),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_is_wanted_and_no_more() {
        let wanted = Wanted {
            q: "a&b c/é".to_owned(),
            state: "fixed".to_owned(),
            ..Wanted::default()
        };
        assert_eq!(wanted.address(&[]), "/?q=a%26b+c%2F%C3%A9&state=fixed");
        assert_eq!(
            wanted.address(&[("page", "2"), ("state", "")]),
            "/?q=a%26b+c%2F%C3%A9&page=2"
        );
        assert_eq!(Wanted::default().address(&[("page", "0")]), "/");
    }
}
