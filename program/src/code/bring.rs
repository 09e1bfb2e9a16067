//! Saying which code is about to be read, so that it comes from the disk in pieces worth fetching.
//!
//! A large file is mapped without read-ahead: of a big program one question needs little, and what a kernel
//! brings along by itself is megabytes. In return whoever reads code says so, a neighbourhood at a time.

use super::{Code, FunctionId};
use crate::addr::{LinkAddr, LinkRange};
use crate::files::Reading;

/// A neighbourhood: a disk takes about as long for it as for a page of it, and functions that call one another are
/// seldom further apart.
const NEAR: u64 = 1 << 16;

impl Code<'_> {
    /// A function and what surrounds it.
    pub(super) fn bring_around(&self, function: FunctionId) {
        let Some(entry) = self.functions.entry(function) else {
            return;
        };
        let block = LinkAddr(entry.start / NEAR * NEAR)..LinkAddr(entry.end.next_multiple_of(NEAR));
        self.bring(&[block]);
    }

    /// Ranges in order, and what little lies between them.
    pub(super) fn bring(&self, ranges: &[LinkRange]) {
        let is_near = |one: &LinkRange, next: &LinkRange| next.start.0.saturating_sub(one.end.0) <= NEAR;
        for run in ranges.chunk_by(is_near) {
            let end = run.iter().map(|range| range.end).max();
            if let Some((first, end)) = run.first().zip(end) {
                self.bring_run(&(first.start..end));
            }
        }
    }

    /// All code.
    pub(super) fn bring_all(&self) {
        self.brought.call_once(|| self.bring(&self.elf.code_ranges()));
    }

    fn bring_run(&self, run: &LinkRange) {
        for code in self.elf.code_ranges() {
            let (start, end) = (code.start.max(run.start), code.end.min(run.end));
            let len = end.0.saturating_sub(start.0);
            if let Some(bytes) = self.elf.bytes_at(start, len).filter(|_| len > 0) {
                self.provider.expect(bytes, Reading::Through);
            }
        }
    }
}
