//! Sources by build-id, from debuginfod servers: <https://sourceware.org/elfutils/Debuginfod.html>.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::text::{Content, LARGEST};

/// What elfutils' own client reads, too: addresses with spaces between them.
pub const VARIABLE: &str = "DEBUGINFOD_URLS";

/// How long a server may take for a file.
const PATIENCE: Duration = Duration::from_secs(10);
/// A server that did not answer, or a file that nobody had, is not asked for again for so long.
const REST: Duration = Duration::from_secs(300);
/// Bytes of text that are kept.
const MOST_KEPT: usize = 64 << 20;

/// An address that cannot be one.
#[derive(Debug, Error)]
#[error("{0:?} is not the address of a debuginfod server: https://… or http://… is")]
pub struct NoAddress(String);

/// Some servers.
#[derive(Debug)]
pub struct Debuginfod {
    urls: Vec<String>,
    agent: ureq::Agent,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<(String, String), Answer>,
    bytes: usize,
    /// Servers that did not answer, and when.
    away: HashMap<String, Instant>,
}

#[derive(Clone, Debug)]
enum Answer {
    Text(Arc<Content>),
    Nothing(Instant),
}

impl Debuginfod {
    /// Those whose addresses are in a text, with spaces between them; none if there is none.
    ///
    /// # Errors
    /// When one of them is no address.
    pub fn new(urls: &str) -> Result<Option<Self>, NoAddress> {
        let urls: Vec<String> = urls
            .split_whitespace()
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let wrong = urls
            .iter()
            .find(|url| !url.starts_with("http://") && !url.starts_with("https://"));
        if let Some(wrong) = wrong {
            return Err(NoAddress(wrong.clone()));
        }
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("failsketch/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok((!urls.is_empty()).then(|| Self {
            urls,
            agent,
            known: Mutex::default(),
        }))
    }

    /// A source file of a build, if a server has it.
    pub fn source(&self, build: &str, file: &str) -> Option<Arc<Content>> {
        // Only whole paths name a file to a server, and a build-id is what it looks for.
        if !file.starts_with('/') || build.is_empty() || !build.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        let key = (build.to_owned(), file.to_owned());
        match self.known().files.get(&key) {
            Some(Answer::Text(text)) => return Some(Arc::clone(text)),
            Some(Answer::Nothing(since)) if since.elapsed() < REST => return None,
            _ => {}
        }
        let found = self.urls.iter().find_map(|url| self.ask(url, build, file));
        let answer = match &found {
            Some((text, _)) => Answer::Text(Arc::clone(text)),
            None => Answer::Nothing(Instant::now()),
        };
        let mut known = self.known();
        known.bytes += found.as_ref().map_or(64, |(_, bytes)| *bytes);
        if known.bytes > MOST_KEPT {
            known.files.clear();
            known.bytes = 0;
        }
        known.files.insert(key, answer);
        found.map(|(text, _)| text)
    }

    fn ask(&self, url: &str, build: &str, file: &str) -> Option<(Arc<Content>, usize)> {
        let is_away = self
            .known()
            .away
            .get(url)
            .is_some_and(|since| since.elapsed() < REST);
        if is_away {
            return None;
        }
        let address = format!("{url}/buildid/{}/source{}", build.to_lowercase(), encoded(file));
        match self.agent.get(&address).call() {
            Ok(mut answer) => {
                let body = answer
                    .body_mut()
                    .with_config()
                    .limit(LARGEST)
                    .read_to_vec()
                    .ok()?;
                Some((Arc::new(Content::new(&body)), body.len()))
            }
            // It answered: it does not have it.
            Err(ureq::Error::StatusCode(_)) => None,
            Err(_) => {
                self.known().away.insert(url.to_owned(), Instant::now());
                None
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A path in an address.
fn encoded(path: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    path.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        assert!(Debuginfod::new("").unwrap().is_none());
        assert!(Debuginfod::new(" \n").unwrap().is_none());
        assert_eq!(
            Debuginfod::new("http://a/ https://b").unwrap().unwrap().urls,
            ["http://a", "https://b"]
        );
        let error = Debuginfod::new("http://a ftp://b").unwrap_err();
        assert!(error.to_string().contains("ftp://b"), "{error}");
    }

    #[test]
    fn a_path_stays_a_path() {
        assert_eq!(encoded("/src/a b+c/d.c"), "/src/a%20b%2Bc/d.c");
    }

    #[test]
    fn what_no_server_can_know_is_not_asked_for() {
        let server = Debuginfod::new("http://127.0.0.1:1").unwrap().unwrap();
        assert!(server.source("abcd", "a.c").is_none());
        assert!(server.source("../../x", "/a.c").is_none());
        assert!(server.known().files.is_empty());
        assert!(server.source("abcd", "/a.c").is_none());
        assert_eq!(server.known().away.len(), 1, "nobody listens there");
    }
}
