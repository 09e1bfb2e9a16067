//! Processes as they come and go: one watcher for each.

use std::collections::BTreeMap;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::find::{Found, processes};
use super::{Agent, DaemonError, attach};
use crate::config::Followed;

/// How often it is looked for new ones.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
const ATTENTION: Duration = Duration::from_millis(50);
/// Processes that are watched at once.
const MOST: usize = 256;

/// Follows processes until somebody asks to end.
pub(super) fn serve(agent: &Agent, followed: &Followed) -> Result<(), DaemonError> {
    std::thread::scope(|scope| {
        // Those that could not be watched stay in here as well: they are not tried again every second.
        let mut watchers: BTreeMap<Found, ScopedJoinHandle<'_, ()>> = BTreeMap::new();
        let mut warned = false;
        while !agent.asked.is_cancelled() {
            let now = processes(followed);
            watchers.retain(|found, watcher| now.contains(found) || !watcher.is_finished());
            for found in now {
                let at_work = watchers.values().filter(|watcher| !watcher.is_finished()).count();
                if watchers.contains_key(&found) {
                    continue;
                }
                if at_work >= MOST {
                    if !std::mem::replace(&mut warned, true) {
                        tracing::warn!(most = MOST, "there are more processes than are watched at once");
                    }
                    break;
                }
                let watcher = watch(scope, agent, &found);
                watchers.insert(found, watcher);
            }
            let looked = Instant::now();
            while looked.elapsed() < BETWEEN_LOOKS && !agent.asked.is_cancelled() {
                std::thread::sleep(ATTENTION);
            }
        }
        Ok(())
    })
}

fn watch<'scope>(
    scope: &'scope Scope<'scope, '_>,
    agent: &'scope Agent,
    found: &Found,
) -> ScopedJoinHandle<'scope, ()> {
    let pid = found.pid;
    scope.spawn(move || {
        if let Err(error) = attach::serve(agent, pid) {
            let error = crate::causes(&error);
            tracing::warn!(%pid, error, "this process is not watched");
        }
    })
}
