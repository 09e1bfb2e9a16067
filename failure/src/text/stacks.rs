//! The stacks found so far, within bounds.

use crate::report::{Frame, Source, Thread};

/// Frames kept of one thread: a runaway recursion says nothing new after that.
pub(super) const MOST_FRAMES: usize = 4096;
/// Stacks kept of one text.
pub(super) const MOST_STACKS: usize = 4096;
/// Frames kept of one text, over all its stacks.
const MOST_FRAMES_IN_ALL: usize = 1 << 18;

/// One stack of the text, with what is needed to tell which thread failed.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub source: Source,
    pub thread: Thread,
    /// The report's own number of the thread (gdb's `Thread 3`, a sanitizer's `T3`).
    pub number: Option<u64>,
    /// Whether a line before the frames introduced the stack.
    pub headed: bool,
    /// Which of the text's reports of this format it belongs to, from 0.
    pub report: usize,
    /// Number of the last frame, seen or dropped.
    last: Option<u64>,
    /// A blank line or a new header ended it; only numbered frames may continue it.
    closed: bool,
}

impl Stack {
    /// Whether a frame of this number would be the very next one.
    pub fn is_next(&self, number: u64) -> bool {
        number == self.last.map_or(0, |last| last.saturating_add(1))
    }
}

/// Collects stacks as the formats find their parts.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub all: Vec<Stack>,
    pub dropped_frames: usize,
    pub dropped_stacks: usize,
    frames: usize,
    /// Frames go nowhere until the next header: the stack they belong to was one too many.
    overflowing: bool,
}

impl Stacks {
    /// Starts the stack that a header line announces.
    pub fn open(&mut self, source: Source, thread: Thread, number: Option<u64>, report: usize) {
        self.push(source, thread, number, true, report);
    }

    fn push(&mut self, source: Source, thread: Thread, number: Option<u64>, headed: bool, report: usize) {
        // A header without frames was no stack; this keeps their number from growing with the text.
        self.all.pop_if(|stack| stack.thread.frames.is_empty());
        self.overflowing = self.all.len() >= MOST_STACKS;
        if self.overflowing {
            self.dropped_stacks += 1;
            return;
        }
        self.all.push(Stack {
            source,
            thread,
            number,
            headed,
            report,
            last: None,
            closed: false,
        });
    }

    /// Adds a frame to the current stack, or to a new one where it cannot continue the current one.
    pub fn frame(&mut self, source: Source, number: Option<u64>, frame: Frame) {
        self.drop_interruption(source, number);
        if !self.continues(source, number) {
            let report = self
                .all
                .last()
                .filter(|stack| stack.source == source)
                .map_or(0, |stack| stack.report);
            self.push(source, Thread::default(), None, false, report);
        }
        let room = self.frames < MOST_FRAMES_IN_ALL && !self.overflowing;
        let Some(stack) = self.all.last_mut() else { return };
        stack.last = number.or(stack.last);
        stack.closed = false;
        if room && stack.thread.frames.len() < MOST_FRAMES {
            stack.thread.frames.push(frame);
            self.frames += 1;
        } else {
            self.dropped_frames += 1;
        }
    }

    /// A log line in the middle of a stack may look like a header; the next frame's number tells.
    fn drop_interruption(&mut self, source: Source, number: Option<u64>) {
        let [.., before, header] = self.all.as_slice() else {
            return;
        };
        let interrupted = before.source == source
            && header.thread.frames.is_empty()
            && number.is_some_and(|number| number > 0 && before.last == number.checked_sub(1));
        if interrupted {
            self.all.pop();
        }
    }

    /// Adds a frame without a number of its own right after the last one.
    pub fn same_frame(&mut self, source: Source, frame: Frame) {
        let number = self.current(source).and_then(|stack| stack.last.take());
        self.frame(source, None, frame);
        if let Some(stack) = self.current(source) {
            stack.last = number;
        }
    }

    fn continues(&self, source: Source, number: Option<u64>) -> bool {
        let Some(stack) = self.all.last().filter(|stack| stack.source == source) else {
            return false;
        };
        match (number, stack.last) {
            (Some(number), Some(last)) => number > last,
            (None, Some(_)) => false,
            (_, None) => !stack.closed,
        }
    }

    /// The stack that is being read, if it is of this format.
    pub fn current(&mut self, source: Source) -> Option<&mut Stack> {
        self.all.last_mut().filter(|stack| stack.source == source)
    }

    /// The last frame read, if it is of this format.
    pub fn last_frame(&mut self, source: Source) -> Option<&mut Frame> {
        self.current(source)?.thread.frames.last_mut()
    }

    /// A blank line: stacks of frames without numbers end here.
    pub fn blank(&mut self) {
        if let Some(stack) = self.all.last_mut() {
            stack.closed = !stack.thread.frames.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_number_starts_another_stack() {
        let mut stacks = Stacks::default();
        for number in [0, 1, 2, 0, 1] {
            stacks.frame(Source::Gdb, Some(number), Frame::default());
        }
        let lengths: Vec<_> = stacks.all.iter().map(|stack| stack.thread.frames.len()).collect();
        assert_eq!(lengths, [3, 2]);
    }

    #[test]
    fn a_million_frames_are_bounded() {
        let mut stacks = Stacks::default();
        for number in 0..1_000_000 {
            stacks.frame(Source::Gdb, Some(number), Frame::default());
        }
        assert_eq!(
            (stacks.all.len(), stacks.dropped_frames),
            (1, 1_000_000 - MOST_FRAMES)
        );
        for _ in 0..1_000_000 {
            stacks.frame(Source::Gdb, Some(0), Frame::default());
        }
        assert_eq!(stacks.all.len(), MOST_STACKS);
        assert_eq!(
            stacks
                .all
                .iter()
                .map(|stack| stack.thread.frames.len())
                .sum::<usize>(),
            stacks.frames
        );
    }
}
