//! All desks of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use diagnosis::tracking::ModuleName;
use program::BuildId;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{Desk, DeskError, Identified, Means, Planned, Shelf, set_up};
use crate::store::model::{BugId, Case};
use crate::store::objects::Objects;
use crate::store::{Store, StoreError};
use failure::Report;

/// Desks by build, set up when they are asked for.
pub struct Room {
    shelf: Shelf,
    desks: Mutex<HashMap<BuildId, Desk>>,
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
            desks: Mutex::default(),
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
        let desk = self.desk(build, || Ok((name.to_owned(), modules.to_vec())))?;
        match desk.identify(report.clone()).await {
            // It went between two questions.
            Err(DeskError::Gone) => {
                let desk = self.again(build, || Ok((name.to_owned(), modules.to_vec())))?;
                desk.identify(report).await
            }
            other => other,
        }
    }

    /// What the next run of a build is to track, if any of its bugs is tracked.
    ///
    /// # Errors
    /// When logs cannot be read.
    pub async fn plan(&self, build: &BuildId, means: Means) -> Result<Option<Planned>, DeskError> {
        let Some(desk) = self.known(build).await? else {
            return Ok(None);
        };
        match desk.plan(means).await {
            Err(DeskError::Gone) => {
                self.forget(build);
                match self.known(build).await? {
                    Some(desk) => desk.plan(means).await,
                    None => Ok(None),
                }
            }
            other => other,
        }
    }

    /// Says that there is something new about a case.
    ///
    /// # Errors
    /// When the case cannot be looked up.
    pub async fn look(&self, case: &Case) -> Result<(), DeskError> {
        let Some(desk) = self.known(&case.build).await? else {
            return Ok(());
        };
        if desk.look(case.bug.clone()).is_err() {
            self.forget(&case.build);
            if let Some(desk) = self.known(&case.build).await? {
                desk.look(case.bug.clone())?;
            }
        }
        Ok(())
    }

    /// The desk of a build that has cases.
    async fn known(&self, build: &BuildId) -> Result<Option<Desk>, DeskError> {
        if let Some(desk) = self.desks().get(build) {
            return Ok(Some(desk.clone()));
        }
        let cases = self.shelf.store.cases_of_build(build).await?;
        let Some(first) = cases.into_iter().next() else {
            return Ok(None);
        };
        let bug: BugId = first.case.bug;
        let modules = || {
            let modules = serde_json::from_slice(&first.modules).map_err(|error| DeskError::Damaged {
                bug,
                why: error.to_string(),
            })?;
            Ok((first.program, modules))
        };
        self.desk(build, modules).map(Some)
    }

    fn desk(
        &self,
        build: &BuildId,
        about: impl FnOnce() -> Result<(String, Vec<ModuleName>), DeskError>,
    ) -> Result<Desk, DeskError> {
        let mut desks = self.desks();
        if let Some(desk) = desks.get(build) {
            return Ok(desk.clone());
        }
        let (name, modules) = about()?;
        let desk = set_up(self.shelf.clone(), build.clone(), name, modules)
            .map_err(|error| StoreError::Unavailable(format!("no thread for an inquiry: {error}")))?;
        desks.insert(build.clone(), desk.clone());
        Ok(desk)
    }

    fn again(
        &self,
        build: &BuildId,
        about: impl FnOnce() -> Result<(String, Vec<ModuleName>), DeskError>,
    ) -> Result<Desk, DeskError> {
        self.forget(build);
        self.desk(build, about)
    }

    fn forget(&self, build: &BuildId) {
        self.desks().remove(build);
    }

    fn desks(&self) -> std::sync::MutexGuard<'_, HashMap<BuildId, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
