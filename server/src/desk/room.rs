//! All desks of a server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diagnosis::tracking::ModuleName;
use program::BuildId;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::lately::Lately;
use super::{Desk, DeskError, Identified, Means, Planned, Shelf, set_up};
use crate::store::model::{BugId, Case};
use crate::store::objects::Objects;
use crate::store::{Store, StoreError};
use failure::Report;

/// Desks at once: each has a thread and an open program. One that is let go ends when it has answered, and begins again from the logs.
const MOST_DESKS: usize = 256;

/// Desks by program and build, set up when they are asked for. What somebody says of a build under the name of a program that he may
/// report on is not heard by those who have the same build under another name.
pub struct Room {
    shelf: Shelf,
    desks: Mutex<Lately<(String, BuildId), Desk>>,
}

impl Room {
    /// No desks yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, objects: Arc<dyn Objects>, handle: Handle) -> Self {
        let (changes, _) = watch::channel(0);
        Self {
            shelf: Shelf {
                store,
                objects,
                handle,
                changes,
            },
            desks: Mutex::new(Lately::new(MOST_DESKS)),
        }
    }

    /// Follows what changes on this server.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shelf.changes.subscribe()
    }

    /// Which bug a failure of a program with these files is. All of them have to be uploaded.
    ///
    /// # Errors
    /// When the program cannot be read, or the report is not about it.
    pub async fn identify(
        &self,
        build: &BuildId,
        name: &str,
        modules: &[ModuleName],
        report: Report,
    ) -> Result<Identified, DeskError> {
        let desk = self.desk(name, build, || Ok(modules.to_vec()))?;
        match desk.identify(report.clone()).await {
            // It went between two questions.
            Err(DeskError::Gone) => {
                self.forget(name, build);
                let desk = self.desk(name, build, || Ok(modules.to_vec()))?;
                desk.identify(report).await
            }
            other => other,
        }
    }

    /// What the next run of a program in a build is to track, if any of its bugs is tracked.
    ///
    /// # Errors
    /// When logs cannot be read.
    pub async fn plan(
        &self,
        name: &str,
        build: &BuildId,
        means: Means,
    ) -> Result<Option<Planned>, DeskError> {
        let Some(desk) = self.known(name, build).await? else {
            return Ok(None);
        };
        match desk.plan(means).await {
            Err(DeskError::Gone) => {
                self.forget(name, build);
                match self.known(name, build).await? {
                    Some(desk) => desk.plan(means).await,
                    None => Ok(None),
                }
            }
            other => other,
        }
    }

    /// Says that there is something new about a case of a program.
    ///
    /// # Errors
    /// When the case cannot be looked up.
    pub async fn look(&self, name: &str, case: &Case) -> Result<(), DeskError> {
        let Some(desk) = self.known(name, &case.build).await? else {
            return Ok(());
        };
        if desk.look(case.bug.clone()).is_err() {
            self.forget(name, &case.build);
            if let Some(desk) = self.known(name, &case.build).await? {
                desk.look(case.bug.clone())?;
            }
        }
        Ok(())
    }

    /// The desk of a program in a build that has cases.
    async fn known(&self, name: &str, build: &BuildId) -> Result<Option<Desk>, DeskError> {
        if let Some(desk) = self.desks().get(&key(name, build)) {
            return Ok(Some(desk));
        }
        let cases = self.shelf.store.cases_of_build(name, build).await?;
        let Some(first) = cases.into_iter().next() else {
            return Ok(None);
        };
        let bug: BugId = first.case.bug;
        let modules = || {
            serde_json::from_slice(&first.modules).map_err(|error| DeskError::Damaged {
                bug,
                why: error.to_string(),
            })
        };
        self.desk(name, build, modules).map(Some)
    }

    fn desk(
        &self,
        name: &str,
        build: &BuildId,
        modules: impl FnOnce() -> Result<Vec<ModuleName>, DeskError>,
    ) -> Result<Desk, DeskError> {
        let mut desks = self.desks();
        if let Some(desk) = desks.get(&key(name, build)) {
            return Ok(desk);
        }
        let desk = set_up(self.shelf.clone(), build.clone(), name.to_owned(), modules()?)
            .map_err(|error| StoreError::Unavailable(format!("no thread for an inquiry: {error}")))?;
        desks.insert(key(name, build), desk.clone());
        Ok(desk)
    }

    fn forget(&self, name: &str, build: &BuildId) {
        self.desks().remove(&key(name, build));
    }

    fn desks(&self) -> MutexGuard<'_, Lately<(String, BuildId), Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(name: &str, build: &BuildId) -> (String, BuildId) {
    (name.to_owned(), build.clone())
}
