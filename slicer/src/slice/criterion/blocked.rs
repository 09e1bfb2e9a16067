//! Where a program that does not get on is: every thread's blocking call, and what its loops wait for.
//!
//! A thread that polls a flag, or waits for a condition that `while (!ready)` asks for, is not held by the call that it was
//! seen in: that returns again and again. What holds it is the loop, so the branches that would leave it are what
//! the failure is about.

use std::ops::Range;

use failure::resolve::{Waiting, waiting};
use failure::{Failure, ResolvedThread};
use program::code::BlockId;
use program::{Pc, Program};

use super::{Start, callers, starts_in};
use crate::cfg::of_flow;
use crate::dependence::uses::Role;
use crate::dominance::DomTree;
use crate::loops::exits_around;

/// The starts of all threads, those of the thread that is to blame first.
pub(super) fn starts(program: &Program<'_>, failure: &Failure) -> Vec<Start> {
    // Those that wait for a lock come first: the others mostly wait for them.
    let mut threads: Vec<&ResolvedThread> = failure.threads.iter().collect();
    threads.sort_by_key(|thread| waiting(thread));
    let blocked = threads.into_iter().filter_map(|thread| {
        let own = thread.frames.iter().position(|frame| frame.own)?;
        let mut starts = starts_in(program, thread, own, Role::Everything);
        starts.extend(left_by(program, thread, frames_with_its_loop(thread, own)));
        Some(starts)
    });
    blocked.flatten().collect()
}

/// The frames that the loop which holds a thread may be in, innermost first. Libraries' functions count: their `wait(lock,
/// predicate)` has the loop that asks for the program's predicate. A lock is had when the call returns, and a thread has ended.
fn frames_with_its_loop(thread: &ResolvedThread, own: usize) -> Range<usize> {
    match waiting(thread) {
        Waiting::Running | Waiting::Sleeping => 0..thread.frames.len(),
        // A wait that is in no loop ends when it is signalled.
        Waiting::Signal => 0..own + 1,
        Waiting::Lock | Waiting::Join | Waiting::Outside => 0..0,
    }
}

/// The branches that leave the innermost loop that a thread is in.
fn left_by(program: &Program<'_>, thread: &ResolvedThread, mut frames: Range<usize>) -> Vec<Start> {
    let found = frames.find_map(|index| {
        let frame = thread.frames.get(index).filter(|frame| !frame.line_only)?;
        let branches = branches_out(program, frame.executing()?);
        (!branches.is_empty()).then_some((index, branches))
    });
    let Some((index, branches)) = found else {
        return Vec::new();
    };
    let callers = callers(thread.frames.get(index + 1..).unwrap_or_default());
    let start = |pc| Start {
        pc,
        role: Role::Everything,
        callers: callers.clone(),
    };
    branches.into_iter().map(start).collect()
}

/// The branches that leave the loop around an instruction.
fn branches_out(program: &Program<'_>, pc: Pc) -> Vec<Pc> {
    let module = program.module(pc.module).filter(|module| !module.is_library());
    let Some((module, function)) = module.zip(program.function_at(pc)) else {
        return Vec::new();
    };
    let flow = module.code().flow(function.function);
    let Some(block) = flow.containing(pc.addr).and_then(|ix| flow.block_of(ix)) else {
        return Vec::new();
    };
    let cfg = of_flow(&flow);
    let exits = exits_around(&cfg, &DomTree::new(&cfg), block.0 as usize);
    let branches = exits.into_iter().filter_map(|exit| {
        let block = flow.block(BlockId(u32::try_from(exit).ok()?))?;
        let addr = flow.addr(block.last())?;
        Some(Pc { addr, ..pc })
    });
    branches.collect()
}
