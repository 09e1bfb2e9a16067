//! Where a person would say that a pointer comes from.
//!
//! A call returned it. Where the call was inlined, there is only what the called function did in the end, a call or a load:
//! the statement that counts is the one with the call, in the function that goes on to use the pointer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use program::{Pc, Program};
use slicer::threads::ThreadModel;
use watchpoint::arm::{self, Giver};

use crate::assemble::Giving;
use crate::reading::{Cataloguer, module_named};
use crate::run::{LocationId, StatementId};

/// What was found out so far: there is a sketch after every run.
#[derive(Debug, Default)]
pub(super) struct Givers {
    by_access: BTreeMap<Pc, Vec<Giving>>,
    /// Where threads take the arguments that lead to an access.
    arguments: BTreeMap<Pc, Vec<StatementId>>,
    by_location: BTreeMap<LocationId, BTreeSet<Pc>>,
}

impl Givers {
    /// Looks for those of the accesses that a location is watched for.
    pub(super) fn look_for<'p, 'a>(
        &mut self,
        location: LocationId,
        program: &'p Program<'a>,
        threads: &ThreadModel<'p, 'a>,
        catalogue: &mut Cataloguer,
    ) {
        let pc = |(name, addr): (Option<&str>, _)| {
            let module = module_named(name, program)?;
            Some(Pc { module, addr })
        };
        let accesses: BTreeSet<Pc> = catalogue
            .accesses_of(location)
            .into_iter()
            .filter_map(pc)
            .collect();
        for &access in &accesses {
            let look = || {
                let user = catalogue.statements_at(access, program);
                let givers = arm::givers(access, program, threads).into_iter();
                let found = givers.filter_map(|giver| {
                    let (Giver::Call(at) | Giver::Load(at)) = giver;
                    let chain = catalogue.statements_at(at, program);
                    let function = |at: &StatementId| {
                        let info = catalogue.catalogue().statements.get(at.0 as usize)?;
                        Some(info.function.clone())
                    };
                    giving(function, chain, &user, matches!(giver, Giver::Load(_)))
                });
                found.collect()
            };
            self.by_access.entry(access).or_insert_with(look);
            self.arguments.entry(access).or_insert_with(|| {
                let routines = arm::given_to(access, program, threads).into_iter();
                let taking = routines.filter_map(|routine| threads.argument_of(routine));
                taking
                    .map(|taking| catalogue.statement(&taking, program))
                    .collect()
            });
        }
        self.by_location.insert(location, accesses);
    }

    /// Where threads take the arguments that lead to a location.
    pub(super) fn arguments(&self, location: LocationId) -> impl Iterator<Item = StatementId> {
        let accesses = self.by_location.get(&location).into_iter().flatten();
        accesses
            .filter_map(|access| self.arguments.get(access))
            .flatten()
            .copied()
    }

    /// Those of a location.
    pub(super) fn of(&self, location: LocationId) -> impl Iterator<Item = &Giving> {
        let accesses = self.by_location.get(&location).into_iter().flatten();
        accesses.filter_map(|access| self.by_access.get(access)).flatten()
    }
}

/// The statements of a chain of inlined calls, innermost first, up to the function which the user of the pointer is in as well.
/// A load in a function of its own is no call.
fn giving(
    function: impl Fn(&StatementId) -> Option<Arc<str>>,
    mut chain: Vec<StatementId>,
    user: &[StatementId],
    is_load: bool,
) -> Option<Giving> {
    let shared = |statement: &StatementId| user.iter().any(|user| function(user) == function(statement));
    let shared = chain.iter().position(shared);
    let around = chain.split_off(shared.map_or(chain.len(), |at| at + 1));
    let candidates = chain.split_off(usize::from(is_load).min(chain.len()));
    (!candidates.is_empty()).then_some(Giving { candidates, around })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: [&str; 4] = ["find", "serve", "main", "append"];

    fn of(chain: &[u32], user: &[u32], is_load: bool) -> Option<(Vec<u32>, Vec<u32>)> {
        let function = |at: &StatementId| FUNCTIONS.get(at.0 as usize).map(|name| Arc::from(*name));
        let ids = |numbers: &[u32]| numbers.iter().copied().map(StatementId).collect::<Vec<_>>();
        let numbers = |ids: Vec<StatementId>| ids.into_iter().map(|id| id.0).collect();
        let found = giving(function, ids(chain), &ids(user), is_load)?;
        Some((numbers(found.candidates), numbers(found.around)))
    }

    #[test]
    fn an_inlined_call_gave_what_its_function_loaded() {
        assert_eq!(of(&[0, 1], &[3], true), Some((vec![1], vec![])));
        assert_eq!(of(&[0, 1, 2], &[3], false), Some((vec![0, 1, 2], vec![])));
    }

    #[test]
    fn a_load_is_no_call() {
        assert_eq!(of(&[1], &[3], true), None);
        assert_eq!(of(&[1], &[3], false), Some((vec![1], vec![])));
    }

    #[test]
    fn who_uses_the_pointer_in_the_same_inlined_function_got_it_there() {
        assert_eq!(of(&[0, 1, 2], &[1, 2], false), Some((vec![0, 1], vec![2])));
        assert_eq!(of(&[1, 2], &[1, 2], true), None);
    }
}
