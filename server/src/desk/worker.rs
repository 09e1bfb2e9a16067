//! The thread of a desk: takes in logs, and answers questions about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use diagnosis::tracking::ModuleName;
use failure::resolve::ResolveError;
use failure::{Likeness, Report, resolve};
use program::{BuildId, Program};

use super::held::Held;
use super::{Ask, DeskError, Identified, Means, Planned, Shelf};
use crate::json;
use crate::store::StoreError;
use crate::store::model::{BugId, Case, CaseRow, FailureSeen, NewCase};

/// How long a desk waits for questions before it looks whether other servers have stored something.
const LOOK: Duration = Duration::from_secs(1);
/// A log is looked at before a plan is made if that was so long ago: another server may have stored runs.
const FRESH: Duration = Duration::from_millis(300);
/// Nobody has asked for so long: the thread ends, and begins again from the logs when somebody does.
const IDLE: Duration = Duration::from_secs(600);

/// Tells everybody who has asked that there is no program. Whoever asks later has it tried again.
pub(super) fn refuse(asked: &Receiver<Ask>, program: &str, why: &DeskError) {
    tracing::warn!(program, %why, "a program cannot be opened");
    while let Ok(ask) = asked.try_recv() {
        match ask {
            Ask::Identify(_, answer) => drop(answer.send(Err(why.clone()))),
            Ask::Plan(_, answer) => drop(answer.send(Err(why.clone()))),
            Ask::Look(_) => {}
        }
    }
}

/// A report that is not about the program.
fn unresolved(error: ResolveError) -> DeskError {
    DeskError::Inquiry(Arc::new(error.into()))
}

/// A desk at work.
pub(super) struct Worker<'p, 'a> {
    shelf: Shelf,
    build: BuildId,
    name: String,
    modules: Vec<ModuleName>,
    program: &'p Program<'a>,
    held: BTreeMap<BugId, Held<'p, 'a>>,
    /// Bugs that cannot be looked into.
    hopeless: BTreeSet<BugId>,
    looked: Option<Instant>,
    /// Plans that were given out: bugs take turns.
    turns: u64,
}

impl<'p, 'a> Worker<'p, 'a> {
    pub(super) fn new(
        shelf: Shelf,
        build: BuildId,
        name: String,
        modules: Vec<ModuleName>,
        program: &'p Program<'a>,
    ) -> Self {
        Self {
            shelf,
            build,
            name,
            modules,
            program,
            held: BTreeMap::new(),
            hopeless: BTreeSet::new(),
            looked: None,
            turns: 0,
        }
    }

    pub(super) fn serve(mut self, asked: &Receiver<Ask>) {
        let mut last_asked = Instant::now();
        loop {
            let ask = match asked.recv_timeout(LOOK) {
                Ok(ask) => ask,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if last_asked.elapsed() >= IDLE => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.tell(|worker| worker.look_at_all());
                    continue;
                }
            };
            last_asked = Instant::now();
            match ask {
                Ask::Identify(report, answer) => drop(answer.send(self.identify(&report))),
                Ask::Plan(means, answer) => drop(answer.send(self.plan(means))),
                Ask::Look(bug) => self.tell(|worker| worker.look_at(&bug)),
            }
        }
    }

    fn tell(&mut self, act: impl FnOnce(&mut Self) -> Result<(), DeskError>) {
        if let Err(error) = act(self) {
            tracing::warn!(program = self.name, %error, "a log was not taken in");
        }
    }

    fn identify(&mut self, report: &Report) -> Result<Identified, DeskError> {
        self.look_at_all()?;
        let failure = resolve(report, self.program).map_err(unresolved)?;
        let likeness = Likeness::of(&failure, self.program);
        let known = self.held.iter().find(|(_, held)| held.is_like(&likeness));
        Ok(match known {
            Some((bug, held)) => Identified {
                bug: bug.clone(),
                signature: held.signature(),
            },
            None => Identified {
                bug: BugId::of(&self.name, likeness.signature()),
                signature: likeness.signature().to_string(),
            },
        })
    }

    fn plan(&mut self, means: Means) -> Result<Option<Planned>, DeskError> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= FRESH) {
            self.look_at_all()?;
        }
        let open: Vec<BugId> = self
            .held
            .iter()
            .filter(|(_, held)| held.is_tracked())
            .map(|(bug, _)| bug.clone())
            .collect();
        if open.is_empty() {
            return Ok(None);
        }
        self.turns += 1;
        let turn = usize::try_from(self.turns).unwrap_or(0) % open.len();
        let held = self.held.get_mut(&open[turn]);
        Ok(held.map(|held| held.plan(open[turn].clone(), means)))
    }

    /// Takes in what is new of all cases of the program in this build.
    fn look_at_all(&mut self) -> Result<(), DeskError> {
        let cases = self
            .shelf
            .handle
            .block_on(self.shelf.store.cases_of_build(&self.name, &self.build))?;
        for row in cases {
            match self.take_in(&row) {
                // One that cannot be opened does not keep the others from being looked at.
                Err(error @ (DeskError::Damaged { .. } | DeskError::Inquiry(_))) => {
                    if self.hopeless.insert(row.case.bug.clone()) {
                        tracing::warn!(bug = %row.case.bug, %error, "a bug cannot be looked into");
                    }
                }
                other => other?,
            }
        }
        self.looked = Some(Instant::now());
        Ok(())
    }

    fn look_at(&mut self, bug: &BugId) -> Result<(), DeskError> {
        let case = Case {
            bug: bug.clone(),
            build: self.build.clone(),
        };
        match self.shelf.handle.block_on(self.shelf.store.case(&case))? {
            Some(row) => self.take_in(&row),
            None => Ok(()),
        }
    }

    fn take_in(&mut self, row: &CaseRow) -> Result<(), DeskError> {
        let bug = &row.case.bug;
        if !self.held.contains_key(bug) {
            self.held.insert(bug.clone(), Held::open(self.program, row)?);
        }
        let Some(held) = self.held.get_mut(bug) else {
            return Ok(());
        };
        let new = held.take_in(row, &self.shelf)?;
        for (report, run) in new.others {
            self.open_other(report, run)?;
        }
        if new.changed {
            self.shelf.tell();
        }
        Ok(())
    }

    /// A tracked run failed in another way: another bug.
    fn open_other(&mut self, report: Report, seen: FailureSeen) -> Result<(), DeskError> {
        let failure = resolve(&report, self.program).map_err(unresolved)?;
        let likeness = Likeness::of(&failure, self.program);
        let case = |bug: BugId| Case {
            bug,
            build: self.build.clone(),
        };
        let known = self.held.iter().find(|(_, held)| held.is_like(&likeness));
        if let Some((bug, _)) = known {
            let case = case(bug.clone());
            self.shelf.handle.block_on(self.shelf.store.failed(&case, seen))?;
            return Ok(());
        }
        let new = NewCase {
            case: case(BugId::of(&self.name, likeness.signature())),
            program: self.name.clone(),
            signature: likeness.signature().to_string(),
            modules: json(&self.modules),
            report: json(&report),
            runs: 1,
            seen,
        };
        match self.shelf.handle.block_on(self.shelf.store.open(new)) {
            // Whoever reported it may open no more of them, which is not to keep the others' runs waiting.
            Err(error @ (StoreError::Full { .. } | StoreError::TooManyBugs { .. })) => {
                tracing::warn!(program = self.name, %error, "a bug that a run showed is left out");
                Ok(())
            }
            opened => Ok(opened.map(drop)?),
        }
    }
}
