//! The calls by which the threads came to their steps: rules 6 and 8.

use std::collections::BTreeSet;

use super::Selection;
use crate::assemble::Giving;
use crate::predictor::Role;
use crate::run::{StatementId, ThreadIx};
use crate::sketch::Why;

/// Calls on the way to a step that are shown in any case.
const NEAREST: usize = 4;

impl Selection<'_> {
    /// Takes the calls that led to the steps there are.
    pub(super) fn calls(&mut self, failing: Option<ThreadIx>) {
        let Some(failed) = self.run.failed else {
            return;
        };
        // Not those of steps that follow from the code: they lead to others themselves. Whether a thread's creation was seen or
        // follows from the code makes no difference to what it says.
        let own = self.picks.values().filter(|pick| {
            let created = self.catalogue.statements.get(pick.statement.0 as usize);
            let creates = created.is_some_and(|info| info.creates);
            pick.event.is_some() && !creates || pick.rank.is_some()
        });
        let mut taken: Vec<(ThreadIx, StatementId, Option<usize>)> = own
            .map(|pick| (pick.thread, pick.statement, pick.event))
            .collect();
        taken.extend(failing.map(|thread| (thread, failed.statement, None)));
        for (thread, statement, event) in taken {
            match self.calls_seen(thread, statement) {
                Some(calls) => self.take_calls(thread, statement, event, &calls),
                None => self.calls_by_code(thread, statement),
            }
        }
    }

    /// Rule 8: of calls that were inlined one into another, the outermost one in a function with steps.
    /// A thread that only prepared what those of the racing roles race for is where everything starts.
    pub(super) fn where_it_came_from(&mut self, givers: &[Giving], racing: Option<&BTreeSet<Role>>) {
        let stepped = |giver: &&StatementId| {
            let mut picks = self.picks.values();
            picks.any(|pick| self.function(pick.statement) == self.function(**giver))
        };
        let chosen = givers.iter().filter_map(|giving| {
            let outermost = giving.candidates.iter().rfind(stepped)?;
            Some((*outermost, giving))
        });
        let chosen: Vec<(StatementId, &Giving)> = chosen.collect();
        let all: BTreeSet<StatementId> = chosen.iter().map(|(giver, _)| *giver).collect();
        for (giver, giving) in chosen {
            let inside = giving.around.iter().any(|call| all.contains(call));
            if inside || self.has_line(giver) || self.is_handed_to(giver, &all) {
                continue;
            }
            let same = |pick: &&super::Pick| {
                self.function(pick.statement) == self.function(giver) && self.is_one_of(pick.thread, racing)
            };
            let user = self.picks.values().find(same);
            if let Some((thread, statement)) = user.map(|pick| (pick.thread, pick.statement)) {
                self.take(thread, giver, Some(statement));
            }
        }
    }

    fn is_one_of(&self, thread: ThreadIx, roles: Option<&BTreeSet<Role>>) -> bool {
        let role = self.run.threads.get(thread.0 as usize).map(|thread| &thread.role);
        roles.is_none_or(|roles| role.is_some_and(|role| roles.contains(role)))
    }

    /// Whether what a statement gave out is given out by another of them, which called it.
    fn is_handed_to(&self, giver: StatementId, givers: &BTreeSet<StatementId>) -> bool {
        let handed = |at: StatementId| self.because(at).filter(|because| because.why == Why::Data);
        let chain = std::iter::successors(Some(giver), |&at| Some(handed(at)?.of));
        let steps = chain.skip(1).take(self.catalogue.statements.len());
        steps.into_iter().any(|at| givers.contains(&at))
    }

    /// The calls that the thread's stack showed at a statement, innermost first.
    fn calls_seen(&self, thread: ThreadIx, statement: StatementId) -> Option<Vec<StatementId>> {
        let thread = self.run.threads.get(thread.0 as usize)?;
        let on_stack = thread.stack.iter().position(|&frame| frame == statement);
        let at_the_end = || thread.stack.get(on_stack? + 1..).map(<[_]>::to_vec);
        thread.calls.get(&statement).cloned().or_else(at_the_end)
    }

    /// Takes the nearest calls, and those further out if they pass what the failure depends on, or their function has steps of its
    /// own. The rest of a deep stack is how the program is built, not how it failed.
    fn take_calls(
        &mut self,
        thread: ThreadIx,
        statement: StatementId,
        event: Option<usize>,
        calls: &[StatementId],
    ) {
        let stepped = |function: Option<&str>| {
            let own = self.picks.values().filter(|pick| pick.thread == thread);
            let steps = own.filter(|pick| pick.statement != statement && !calls.contains(&pick.statement));
            steps
                .map(|pick| self.function(pick.statement))
                .any(|other| other == function)
        };
        let calls = self.of_its_routine(thread, calls);
        let outermost = calls.iter().rposition(|&call| stepped(self.function(call)));
        let passing = calls.iter().take_while(|&&call| self.passes_data(call)).count();
        let most = outermost.map_or(0, |at| at + 1).max(passing).max(NEAREST);
        let mut callee = statement;
        for &call in calls.iter().take(most) {
            if !self.has(thread, call) {
                self.take_call(thread, call, callee, event);
            }
            callee = call;
        }
    }

    /// The calls up to the thread's start routine. What calls that is a library's, or what the creating thread has it wrapped in.
    fn of_its_routine<'c>(&self, thread: ThreadIx, calls: &'c [StatementId]) -> &'c [StatementId] {
        let role = self
            .run
            .threads
            .get(thread.0 as usize)
            .map(|thread| &*thread.role);
        let routine = calls.iter().rposition(|&call| self.function(call) == role);
        routine.map_or(calls, |at| &calls[..=at])
    }

    /// Whether a call is in the slice for what it passes: going to a caller without data is farther by one.
    fn passes_data(&self, call: StatementId) -> bool {
        let Some(because) = self.because(call) else {
            return false;
        };
        match (because.why, self.distance(call), self.distance(because.of)) {
            (Why::Call, Some(call), Some(callee)) => call <= callee + 1,
            (Why::Data | Why::Control, _, _) => true,
            _ => false,
        }
    }

    /// Takes a call: where it was seen last before what it led to, or else as one that must have been made before that.
    fn take_call(&mut self, thread: ThreadIx, call: StatementId, callee: StatementId, led_to: Option<usize>) {
        let before = led_to.unwrap_or(self.run.events.len());
        let seen = self.run.events[..before]
            .iter()
            .rposition(|event| (event.thread, event.statement) == (thread, call));
        match seen.filter(|_| led_to.is_some()) {
            Some(event) => self.take_event(event, None),
            None => self.insert(thread, call, Some(callee)),
        }
    }

    /// The call in the thread's start routine that led to a statement, where no stack was seen but the slice found it.
    fn calls_by_code(&mut self, thread: ThreadIx, statement: StatementId) {
        let Some(role) = self
            .run
            .threads
            .get(thread.0 as usize)
            .map(|thread| thread.role.clone())
        else {
            return;
        };
        let own: BTreeSet<StatementId> = self
            .picks
            .values()
            .filter(|pick| pick.thread == thread)
            .map(|pick| pick.statement)
            .collect();
        for call in self.statements() {
            if self.function(call) != Some(&*role) || own.contains(&call) {
                continue;
            }
            let mut at = call;
            let mut steps = 0;
            while let Some(because) = self.because(at).filter(|because| because.why == Why::Call)
                && steps < self.catalogue.statements.len()
            {
                at = because.of;
                steps += 1;
                if at == statement {
                    self.take(thread, call, Some(at));
                    break;
                }
            }
        }
    }
}
