//! What was done after the failure had happened, which is its doing and no cause.
//!
//! A process that aborts tells why first, and lives for that long: what its threads do then may well be the failure's doing. (A Rust
//! program's threads ask at each lock whether one of them panics.) What they write stays: the write that came too late may be among it. What
//! others read then nobody failed of.
//!
//! The failure happened when the failing statement was executed for the last time, and that need not have been seen: a load that faults is
//! reported by nobody, and what the same statement did an hour before is what was seen of it last. Whatever the failing thread did then in one of the
//! functions that it was in when it failed came before it failed, for these only go on when the failing statement has come to its end.

use std::collections::BTreeSet;

use crate::run::{Catalogue, Event, Failed, StatementId, What};

/// Leaves out the way that threads took after the failing statement was executed for the last time, if that was seen. `stack` is where the
/// failing thread was, innermost first.
pub(super) fn leave_out(
    events: &mut Vec<Event>,
    failed: Failed,
    stack: &[StatementId],
    catalogue: &Catalogue,
) {
    let function = |of: &StatementId| {
        let info = catalogue.statements.get(of.0 as usize);
        info.map(|info| (&info.module, &info.function))
    };
    let around = stack.iter().skip_while(|at| **at != failed.statement);
    let waiting: BTreeSet<_> = around.filter_map(function).collect();
    let is_before = |event: &Event| {
        Some(event.thread) == failed.thread
            && (event.statement == failed.statement
                || function(&event.statement).is_some_and(|function| waiting.contains(&function)))
    };
    let Some(end) = events.iter().rposition(is_before) else {
        return;
    };
    let seen = events.get(end);
    if seen.is_none_or(|event| event.statement != failed.statement || event.uncertain) {
        return;
    }
    let mut at = 0;
    events.retain(|event| {
        let is_after = at > end;
        at += 1;
        let stays = match event.what {
            What::Access(access) => access.kind.writes() || Some(event.thread) == failed.thread,
            _ => false,
        };
        !is_after || event.uncertain || stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Access, AccessKind, LocationId, Run, ThreadIx};
    use crate::testkit::Lab;

    fn failed(statement: StatementId) -> Failed {
        Failed {
            thread: Some(ThreadIx(0)),
            statement,
            instead_of: None,
            hang: false,
            polls: false,
        }
    }

    #[test]
    fn the_way_that_threads_took_after_the_failing_statement_is_left_out() {
        let event = |(thread, statement, uncertain): (u32, u32, bool)| Event {
            thread: ThreadIx(thread),
            statement: StatementId(statement),
            time_ns: None,
            uncertain,
            what: What::Executed,
        };
        let left = |of: &[(u32, u32, bool)]| {
            let mut events: Vec<Event> = of.iter().copied().map(event).collect();
            leave_out(
                &mut events,
                failed(StatementId(9)),
                &[StatementId(9)],
                &Catalogue::default(),
            );
            let left = events.iter().map(|event| (event.thread.0, event.statement.0));
            left.collect::<Vec<_>>()
        };
        let run = [
            (0, 9, false),
            (1, 4, false),
            (0, 9, false),
            (1, 5, false),
            (1, 6, true),
        ];
        assert_eq!(left(&run), [(0, 9), (1, 4), (0, 9), (1, 6)]);
        assert_eq!(left(&run[3..]), [(1, 5), (1, 6)], "nobody saw it fail");
    }

    /// A counter was counted below zero (9), and the process says so; another thread finds that (4) meanwhile, and writes (5).
    #[test]
    fn what_others_read_after_the_failing_statement_is_left_out_and_what_they_wrote_stays() {
        let event = |(thread, statement, kind): (u32, u32, AccessKind)| Event {
            thread: ThreadIx(thread),
            statement: StatementId(statement),
            time_ns: None,
            uncertain: false,
            what: What::Access(Access {
                location: LocationId(0),
                addr: 0x1000,
                kind,
                value: None,
                before: None,
            }),
        };
        let of = [
            (1, 4, AccessKind::Read),
            (0, 9, AccessKind::ReadWrite),
            (1, 4, AccessKind::Read),
            (1, 5, AccessKind::Write),
            (0, 8, AccessKind::Read),
        ];
        let mut events: Vec<Event> = of.into_iter().map(event).collect();
        leave_out(
            &mut events,
            failed(StatementId(9)),
            &[StatementId(9)],
            &Catalogue::default(),
        );
        let left = events.iter().map(|event| (event.thread.0, event.statement.0));
        assert_eq!(left.collect::<Vec<_>>(), [(1, 4), (0, 9), (1, 5), (0, 8)]);
    }

    /// Threads take the first of a list (28, 29). The second time, one follows a link in 29 that leads nowhere, before it writes.
    #[test]
    fn a_failing_statement_whose_last_execution_nobody_saw_is_no_end() {
        let text = "a:R28=1 a:W29=2 b:R28=2 b:W29=3 a:R28=3";
        let left = |around: &[u32]| {
            let mut lab = Lab::new(
                &[('a', "worker"), ('b', "worker")],
                &[("slots", crate::run::Shape::Pointer)],
            );
            lab.function("take", &[28, 29]);
            lab.function("serve", &[61]);
            lab.function("report", &[90]);
            let mut run: Run = lab.failure(text, 'a', &[29]);
            let stack: Vec<StatementId> = around.iter().map(|line| lab.line(*line)).collect();
            let failing = run.failed.unwrap();
            leave_out(&mut run.events, failing, &stack, &lab.catalogue);
            run.events.len()
        };
        assert_eq!(left(&[29, 61]), 5);
        assert_eq!(left(&[61]), 4, "the failing statement is not on the stack");
    }
}
