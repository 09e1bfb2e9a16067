//! Whether two failures are evidently one bug that shows in two places.
//!
//! A race damages a variable, and whoever uses it next fails: now in one statement, now in another, so that one bug has
//! several signatures. Two failures are alike if they have the same signature, or else if
//!
//! - both are crashes of one kind over the same variable (what the address of the failing access, or an argument of the failing
//!   call, was loaded from, or what a failed assertion asked for: a global, or the same member of the same structure, or a parameter
//!   of one function), and, unless it is a global, both failed in the code of one function, or some function of the program below the
//!   one that the thread began with was on both stacks;
//! - both are hangs, and the threads that are to blame wait in places of which one set contains the other: whoever comes to
//!   a deadlock later waits too; of threads that go round, a function of one is on the other's stack.
//!
//! Anything else stays apart: the same kind of failure in another function over another variable is another bug, and so is one
//! in the same function over another variable.

mod about;
mod condition;

use std::collections::BTreeSet;

use program::Program;

use crate::report::Kind;
use crate::resolve::{Failure, ResolvedThread, Waiting, waiting};
use crate::signature::{Signature, function_names};
pub use about::Variable;

/// What of a failure is compared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    signature: Signature,
    /// The variables that a crash is over.
    about: BTreeSet<Variable>,
    /// The program's functions on the stacks that count, without those that the threads began with.
    functions: BTreeSet<String>,
    /// The function whose code failed, with all that is inlined into it.
    failing_code: Option<String>,
    /// How threads hang, if they do.
    hang: Option<Waiting>,
}

impl Likeness {
    /// Of a failure of a program.
    #[must_use]
    pub fn of(failure: &Failure, program: &Program<'_>) -> Self {
        let hang = (failure.kind == Kind::Hang).then(|| {
            let own = failure.threads.iter().filter(|thread| has_own(thread));
            own.map(waiting).min().unwrap_or(Waiting::Outside)
        });
        let threads: Vec<&ResolvedThread> = match hang {
            Some(telling) => {
                let telling = failure.threads.iter().filter(|thread| waiting(thread) == telling);
                telling.collect()
            }
            None => failure.threads.get(failure.failing).into_iter().collect(),
        };
        let functions = threads
            .into_iter()
            .flat_map(|thread| inner_functions(thread, program));
        Self {
            signature: Signature::of(failure, program),
            about: match hang {
                Some(_) => BTreeSet::new(),
                None => about::variables(failure, program),
            },
            functions: functions.collect(),
            failing_code: failing_code(failure, program),
            hang,
        }
    }

    /// What tells the failure from others.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Whether another failure is evidently of the same bug.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        if self.signature == other.signature {
            return true;
        }
        if self.signature.kind != other.signature.kind {
            return false;
        }
        match (self.hang, other.hang) {
            (Some(hang), Some(others)) => hang == others && self.hangs_like(other, hang),
            _ => self.crashed_like(other),
        }
    }

    fn crashed_like(&self, other: &Self) -> bool {
        let in_one_function = self.failing_code.is_some() && self.failing_code == other.failing_code;
        let meet = in_one_function || !self.functions.is_disjoint(&other.functions);
        let mut shared = self.about.intersection(&other.about);
        shared.any(|variable| meet || variable.is_one_place())
    }

    fn hangs_like(&self, other: &Self, hang: Waiting) -> bool {
        let places = |of: &Self| of.signature.frames.iter().cloned().collect::<BTreeSet<String>>();
        let (mine, others) = (places(self), places(other));
        if mine.is_empty() || others.is_empty() {
            return false;
        }
        match hang {
            // Places are functions here: one is the loop's, the other one that it calls.
            Waiting::Running | Waiting::Sleeping => {
                mine.is_subset(&other.functions) || others.is_subset(&self.functions)
            }
            _ => mine.is_subset(&others) || others.is_subset(&mine),
        }
    }
}

fn has_own(thread: &ResolvedThread) -> bool {
    thread.frames.iter().any(|frame| frame.own)
}

fn failing_code(failure: &Failure, program: &Program<'_>) -> Option<String> {
    let thread = failure.threads.get(failure.failing)?;
    let pc = thread.frames.get(failure.failing_frame?)?.executing()?;
    program.symbol(program.function_at(pc)?).map(str::to_owned)
}

/// The program's functions on a stack, without the outermost: every thread of a kind has that.
fn inner_functions(thread: &ResolvedThread, program: &Program<'_>) -> Vec<String> {
    let own = thread.frames.iter().filter(|frame| frame.own);
    let mut functions: Vec<String> = own.flat_map(|frame| function_names(frame, program)).collect();
    let outermost = functions.pop();
    functions.retain(|function| Some(function) != outermost.as_ref());
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(frames: &[&str], about: &[Variable], functions: &[&str]) -> Likeness {
        Likeness {
            signature: Signature {
                kind: "SIGSEGV".to_owned(),
                frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            },
            about: about.iter().cloned().collect(),
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            failing_code: None,
            hang: None,
        }
    }

    fn hang(frames: &[&str], functions: &[&str], hang: Waiting) -> Likeness {
        let mut made = crash(frames, &[], functions);
        made.signature.kind = "hang".to_owned();
        made.hang = Some(hang);
        made
    }

    fn member(name: &str) -> Variable {
        Variable::Member {
            of: "struct queue *".to_owned(),
            path: name.to_owned(),
        }
    }

    #[test]
    fn one_variable_in_two_statements_is_one_bug() {
        let lock = crash(&["take:82", "consumer"], &[member("->mut")], &["take"]);
        let unlock = crash(
            &["take:91", "consumer"],
            &[member("->mut"), member("->used")],
            &["take"],
        );
        assert!(lock.is_like(&unlock) && unlock.is_like(&lock));
        let elsewhere = crash(&["put:40", "fill"], &[member("->mut")], &["put"]);
        assert!(!lock.is_like(&elsewhere), "nothing else in common");
        let global = || Variable::Global("registry".to_owned());
        let reader = crash(&["find:3"], &[global()], &["find"]);
        let writer = crash(&["add:9"], &[global()], &["add"]);
        assert!(reader.is_like(&writer), "there is one such variable");
    }

    #[test]
    fn functions_that_are_inlined_into_one_do_not_part_a_bug() {
        let inlined = |name: &str, of: &str, about: &str| Likeness {
            failing_code: Some(of.to_owned()),
            ..crash(&[name, "consumer"], &[member(about)], &[name])
        };
        let lock = inlined("safe_lock", "consumer", "->mut");
        assert!(lock.is_like(&inlined("safe_unlock", "consumer", "->mut")));
        assert!(
            !lock.is_like(&inlined("safe_unlock", "consumer", "->used")),
            "another variable"
        );
        assert!(
            !lock.is_like(&inlined("safe_unlock", "producer", "->mut")),
            "nothing in common"
        );
    }

    #[test]
    fn different_bugs_stay_apart() {
        let lock = crash(&["take:82", "consumer"], &[member("->mut")], &["take"]);
        let other = crash(&["take:91", "consumer"], &[member("->slots")], &["take"]);
        assert!(!lock.is_like(&other), "another variable in the same function");
        let unknown = crash(&["take:91", "consumer"], &[], &["take"]);
        assert!(!lock.is_like(&unknown), "nobody knows what it is over");
        let mut abort = lock.clone();
        abort.signature.kind = "abort".to_owned();
        assert!(!lock.is_like(&abort), "another kind");
    }

    #[test]
    fn whoever_comes_to_a_deadlock_later_waits_too() {
        let cycle = hang(&["a:1", "b:2"], &[], Waiting::Lock);
        let more = hang(&["a:1", "b:2", "c:3"], &[], Waiting::Lock);
        let other = hang(&["b:2", "c:3"], &[], Waiting::Lock);
        assert!(cycle.is_like(&more) && more.is_like(&cycle));
        assert!(!cycle.is_like(&other));
    }

    #[test]
    fn a_thread_that_goes_round_is_seen_here_and_there() {
        let outside = hang(&["wait_all"], &["wait_all"], Waiting::Running);
        let inside = hang(&["is_done"], &["is_done", "wait_all"], Waiting::Running);
        let other = hang(&["drain"], &["drain"], Waiting::Running);
        assert!(outside.is_like(&inside) && inside.is_like(&outside));
        assert!(!outside.is_like(&other));
    }
}
