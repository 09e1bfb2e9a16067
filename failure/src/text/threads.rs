//! Stacks made complete: which frames are one machine frame, which addresses are exact, which stacks are
//! the same thread told twice.

use super::facts::{Facts, ThreadHint};
use super::stacks::Stack;
use super::{glibc, lldb};
use crate::frames::{self, RuntimeRole};
use crate::report::{Frame, FrameOrigin, Position, Source};

/// Fills in what a format leaves to the reader.
pub(super) fn complete(stack: &mut Stack) {
    let frames = stack.thread.frames.as_mut_slice();
    if let Source::Gdb | Source::Lldb | Source::EuStack | Source::Coredumpctl | Source::Perf = stack.source
        && let Some(first) = frames.first_mut()
    {
        first.position = Position::Exact;
    }
    match stack.source {
        Source::Gdb => gdb_inlining(frames),
        Source::Lldb => lldb::inlining(frames),
        Source::Glibc => glibc::mark_signal_frame(frames),
        Source::RustPanic | Source::AddressSanitizer | Source::ThreadSanitizer | Source::EuStack => {
            inlining_by_address(frames);
        }
        Source::Coredumpctl | Source::Perf | Source::Core | Source::Live => {}
    }
    for at in 1..frames.len() {
        let [frame, next] = frames.get_mut(at - 1..=at).unwrap_or_default() else {
            break;
        };
        if frames::role(frame) == Some(RuntimeRole::Signal) {
            frame.origin = FrameOrigin::SignalFrame;
            next.position = Position::Exact;
        }
    }
}

/// gdb leaves out the address of a frame that the one before it is inlined into: they are one machine frame.
fn gdb_inlining(frames: &mut [Frame]) {
    for at in 1..frames.len() {
        let [inner, outer] = frames.get_mut(at - 1..=at).unwrap_or_default() else {
            break;
        };
        let pushed = [&*inner, &*outer]
            .iter()
            .any(|frame| frame.origin == FrameOrigin::SignalFrame);
        if outer.address.is_none() && !pushed {
            inner.inlined = true;
            outer.address = inner.address;
            outer.position = inner.position;
        }
    }
}

/// Other reports repeat the address. So does recursion, but with the same function again.
fn inlining_by_address(frames: &mut [Frame]) {
    let key = |frame: &Frame| {
        let addr = frame
            .module
            .as_ref()
            .and_then(|module| module.addr.map(|addr| addr.0));
        frame.address.map(|address| address.0).or(addr)
    };
    let mut first = 0;
    for at in 1..frames.len() {
        let (Some(inner), Some(outer), Some(innermost)) =
            (frames.get(at - 1), frames.get(at), frames.get(first))
        else {
            break;
        };
        let same = key(outer).is_some() && key(inner) == key(outer) && innermost.symbol != outer.symbol;
        if !same {
            first = at;
        } else if let Some(inner) = frames.get_mut(at - 1) {
            inner.inlined = true;
        }
    }
}

/// Drops stacks that gdb printed twice (where it stopped, `bt`, and again among all threads).
///
/// Returns the stacks left and the index of the one that was told first: where gdb stopped.
pub(super) fn without_repetition(stacks: Vec<Stack>) -> (Vec<Stack>, Option<usize>) {
    let is_start = |start: &[Frame], whole: &[Frame]| {
        let same =
            |(one, other): (&Frame, &Frame)| (one.address, &one.symbol) == (other.address, &other.symbol);
        start.len() <= whole.len() && start.iter().zip(whole).all(same)
    };
    let mut kept: Vec<Stack> = Vec::new();
    let mut stopped_at = None;
    let mut loose: Vec<Stack> = Vec::new();
    for stack in stacks {
        // A few stacks without header are told before the threads; more of them are stacks of their own.
        let told_before = loose
            .iter()
            .take(8)
            .position(|start| is_start(&start.thread.frames, &stack.thread.frames));
        if let Some(at) = told_before {
            loose.remove(at);
            if stack.headed {
                stopped_at = stopped_at.or(Some(kept.len()));
            }
        }
        if stack.headed || ![Source::Gdb, Source::Lldb].contains(&stack.source) {
            kept.push(stack);
        } else {
            loose.push(stack);
        }
    }
    // What is left has no other telling: it comes first, as in the text.
    let offset = loose.len();
    loose.append(&mut kept);
    (loose, stopped_at.map(|at| at + offset))
}

/// Which of the stacks is that of the failure.
pub(super) fn failing(stacks: &[Stack], facts: &Facts, stopped_at: Option<usize>) -> usize {
    let debugger = [Source::Gdb, Source::Lldb, Source::EuStack];
    if stacks
        .first()
        .is_none_or(|stack| !debugger.contains(&stack.source))
    {
        return 0;
    }
    let hinted = |hint: Option<ThreadHint>| {
        let hint = hint?;
        stacks.iter().position(|stack| match hint {
            ThreadHint::Tid(id) => stack.thread.id == Some(id),
            ThreadHint::Number(number) => stack.number == Some(number),
        })
    };
    let numbered_one = || stacks.iter().position(|stack| stack.number == Some(1));
    let dying = || stacks.iter().position(|stack| is_dying(&stack.thread.frames));
    let busy = || stacks.iter().position(|stack| !is_waiting(&stack.thread.frames));
    hinted(facts.failing)
        .or_else(|| hinted(facts.current))
        .or(stopped_at)
        .or_else(|| facts.core.then(numbered_one).flatten())
        .or_else(dying)
        .or_else(|| facts.signal.and_then(|_| numbered_one()))
        .or_else(busy)
        .or_else(numbered_one)
        .unwrap_or(0)
}

/// Roles of the frames above the program's own.
pub(super) fn roles(frames: &[Frame]) -> impl Iterator<Item = RuntimeRole> + '_ {
    let own = frames::first_in_program(frames).unwrap_or(frames.len());
    frames.iter().take(own).filter_map(frames::role)
}

fn is_dying(frames: &[Frame]) -> bool {
    let fatal = [
        RuntimeRole::Abort,
        RuntimeRole::Assertion,
        RuntimeRole::Signal,
        RuntimeRole::Exception,
    ];
    roles(frames).any(|role| fatal.contains(&role) || role == RuntimeRole::Panic)
        || frames
            .iter()
            .any(|frame| frame.origin == FrameOrigin::SignalFrame)
}

/// Whether a thread waits. Inside `pthread_mutex_lock` itself a thread does not wait but crash.
pub(super) fn is_waiting(frames: &[Frame]) -> bool {
    let in_lock = frames
        .first()
        .and_then(|frame| frame.symbol.as_ref())
        .is_some_and(|symbol| symbol.name.contains("pthread_mutex_lock"));
    !in_lock && !is_dying(frames) && roles(frames).any(|role| role == RuntimeRole::Wait)
}
