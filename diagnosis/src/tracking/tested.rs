//! What makes the value that a branch tests.

use std::collections::BTreeMap;

use program::{Pc, Program};
use slicer::slice::{Criterion, Slice, Why};

use crate::reading::Cataloguer;
use crate::run::{BranchId, StatementId};

/// Statements of the branch's own slice that are looked at: the nearest ones make its value.
const NEAREST: usize = 8;

/// What was found out so far: there is a sketch after every run.
#[derive(Debug, Default)]
pub(super) struct Tested {
    by_branch: BTreeMap<BranchId, Vec<StatementId>>,
}

impl Tested {
    /// Looks for the statements, in the function of the branch, whose value it tests: `end = strchr(…); if (!end)`.
    pub(super) fn look_for(&mut self, branch: BranchId, program: &Program<'_>, catalogue: &mut Cataloguer) {
        if self.by_branch.contains_key(&branch) {
            return;
        }
        let info = catalogue.catalogue().branches.get(branch.0 as usize).cloned();
        let pc = info.and_then(|info| {
            let addr = program::LinkAddr(info.pc);
            let Pc { module, .. } = catalogue.pc_of(info.statement, program)?;
            Some(Pc { module, addr })
        });
        let found = pc.map_or_else(Vec::new, |pc| made_for(pc, program, catalogue));
        self.by_branch.insert(branch, found);
    }

    /// Those of a branch.
    pub(super) fn of(&self, branch: BranchId) -> &[StatementId] {
        self.by_branch.get(&branch).map_or(&[], Vec::as_slice)
    }
}

fn made_for(branch: Pc, program: &Program<'_>, catalogue: &mut Cataloguer) -> Vec<StatementId> {
    let mut nearest = Slice::new(program, &Criterion::instruction(branch)).take(NEAREST);
    let Some(test) = nearest.next() else {
        return Vec::new();
    };
    let made = nearest.filter(|found| {
        let for_it = found.because_of == test.number && found.why == Why::Data;
        for_it && found.statement.function == test.statement.function
    });
    made.map(|found| catalogue.statement(&found.statement, program))
        .collect()
}
