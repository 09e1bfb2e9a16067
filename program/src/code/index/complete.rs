//! From symbols to functions: what the unwind table adds to them, and where each one ends.
//!
//! This works on a stretch of the code, given what reaches into it from before: on the neighbourhood of one
//! address, or on the whole file.

use super::ground::Ground;
use super::packed::{Packed, merge_aliases};
use super::{Part, UnwindTable};
use crate::addr::{LinkAddr, LinkRange};

/// What is longer than any alignment padding and covered by no sized symbol.
const MIN_GAP: u64 = 64;

/// A stretch of code, with the functions and moved-away parts that symbols say begin there.
pub(super) struct Stretch<'s> {
    pub ground: &'s Ground,
    /// Distances whose functions are wanted. Symbols are given up to the first function or moved-away part behind them.
    pub wanted: std::ops::Range<u64>,
    /// How far the functions go that begin before.
    pub reach: u32,
    /// By address.
    pub cold: &'s [Part],
}

impl Stretch<'_> {
    /// Adds the functions without symbols, and settles where functions end.
    pub(super) fn complete<'u, 'a: 'u>(
        &self,
        unwind: impl FnOnce() -> &'u UnwindTable<'a>,
        entries: &mut Vec<Packed>,
    ) {
        self.add_unnamed(unwind, entries);
        self.settle_ends(entries);
    }

    /// Adds functions where no symbol covers code: from the unwind table, and the entry point.
    fn add_unnamed<'u, 'a: 'u>(
        &self,
        unwind: impl FnOnce() -> &'u UnwindTable<'a>,
        entries: &mut Vec<Packed>,
    ) {
        let gaps = self.gaps(entries);
        let mut found: Vec<Packed> = Vec::new();
        if !gaps.is_empty() {
            let unwind = unwind();
            // One function behind the wanted ones tells where the last of those has to end.
            let wanted = |distance: u32| u64::from(distance) < self.wanted.end;
            for gap in gaps {
                for (start, end) in unwind.functions_in(gap) {
                    let distances = self.ground.distance(start).zip(self.ground.distance(end));
                    found.extend(distances.map(|(start, end)| Packed::unnamed(start, end.max(start))));
                    if found.last().is_some_and(|last| !wanted(last.start)) {
                        break;
                    }
                }
                if found.last().is_some_and(|last| !wanted(last.start)) {
                    break;
                }
            }
        }
        let from_here = |entry: &u32| u64::from(*entry) >= self.wanted.start;
        let entry = self.ground.entry.filter(from_here);
        found.extend(entry.map(|entry| Packed::unnamed(entry, entry)));
        let is_known = |new: &Packed| {
            let at = entries.binary_search_by_key(&new.start, |entry| entry.start);
            at.is_ok_and(|at| entries.get(at).is_some_and(|entry| entry.end >= new.end))
        };
        found.retain(|new| !is_known(new));
        if !found.is_empty() {
            found.sort_unstable_by_key(|new| (new.start, new.end));
            insert(entries, &found);
            merge_aliases(entries);
        }
    }

    /// The code behind the stretch's start that no symbol covers.
    fn gaps(&self, entries: &[Packed]) -> Vec<LinkRange> {
        let ground = self.ground;
        let begin = ground.base.saturating_add(self.wanted.start);
        let reach = ground.addr(self.reach);
        // Of what lies behind the first function or part that is not wanted, not all symbols are given.
        let last = entries.last().map(|last| ground.addr(last.start));
        let last = last.max(self.cold.last().map(|part| part.start));
        let behind = last.filter(|last| last - ground.base >= self.wanted.end);
        let known = behind.unwrap_or(u64::MAX);
        let mut gaps = Vec::new();
        for range in ground.own.iter().filter(|range| range.end.0 > begin) {
            let (mut at, end) = (range.start.0.max(reach), range.end.0);
            let from_entries = entries.partition_point(|e| ground.addr(e.start) < range.start.0);
            let from_cold = self.cold.partition_point(|part| part.start < range.start.0);
            let own = entries.get(from_entries..).unwrap_or_default().iter();
            let mut own = own.map(|e| (ground.addr(e.start), ground.addr(e.end))).peekable();
            let moved = self.cold.get(from_cold..).unwrap_or_default().iter();
            let mut moved = moved.map(|part| (part.start, part.end)).peekable();
            loop {
                let next = match (own.peek(), moved.peek()) {
                    (Some(a), Some(b)) if b < a => moved.next(),
                    (Some(_), _) => own.next(),
                    (None, _) => moved.next(),
                };
                let (start, stop) = next.filter(|(start, _)| *start < end).unwrap_or((end, end));
                if start.saturating_sub(at) >= MIN_GAP && at < known {
                    // Functions before the stretch are not asked for.
                    gaps.push(LinkAddr(at.max(begin))..LinkAddr(start));
                }
                at = at.max(stop).max(start);
                if start >= end {
                    break;
                }
            }
        }
        gaps
    }

    /// Makes ranges disjoint: a function ends where the next begins. One that begins inside another (a second
    /// entry into the same code) takes over the rest of it.
    fn settle_ends(&self, entries: &mut [Packed]) {
        let cold_starts = self.cold.iter().map(|part| self.ground.distance(part.start));
        let cold_starts: Vec<u32> = cold_starts.flatten().collect();
        let first = entries.first().map_or(0, |entry| entry.start);
        let mut reach = if self.reach > first { self.reach } else { 0 };
        let mut code_end = 0;
        for at in 0..entries.len() {
            let next = entries.get(at + 1).map_or(u32::MAX, |next| next.start);
            let Some(entry) = entries.get_mut(at) else { break };
            if entry.start >= code_end {
                code_end = self.ground.limit(entry.start);
            }
            let limit = code_end.min(next);
            if entry.end <= entry.start {
                let next_cold = cold_starts.partition_point(|start| *start <= entry.start);
                entry.end = limit
                    .min(cold_starts.get(next_cold).copied().unwrap_or(u32::MAX))
                    .max(reach.min(limit));
            }
            reach = reach.max(entry.end);
            entry.end = reach.min(limit);
            if reach <= next {
                reach = 0;
            }
        }
    }
}

/// Puts sorted functions among sorted ones, behind those of the same start, from the last to the first: only
/// what lies behind the first new one moves.
fn insert(entries: &mut Vec<Packed>, new: &[Packed]) {
    let mut rest = entries.len();
    entries.resize(rest + new.len(), Packed::default());
    for (missing, new) in new.iter().enumerate().rev() {
        let behind = entries[..rest].partition_point(|entry| entry.start <= new.start);
        entries.copy_within(behind..rest, behind + missing + 1);
        entries[behind + missing] = *new;
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_functions_are_put_behind_those_of_the_same_start() {
        let entry = |(start, end)| Packed {
            start,
            end,
            ..Packed::default()
        };
        let run = |of: &[(u32, u32)]| of.iter().copied().map(entry).collect::<Vec<_>>();
        let mut entries = run(&[(2, 4), (6, 8), (9, 9)]);
        insert(&mut entries, &run(&[(0, 1), (6, 9), (7, 8), (12, 13)]));
        let found: Vec<_> = entries.iter().map(|entry| (entry.start, entry.end)).collect();
        assert_eq!(found, [(0, 1), (2, 4), (6, 8), (6, 9), (7, 8), (9, 9), (12, 13)]);
        insert(&mut entries, &[]);
        assert_eq!(entries.len(), 7);
    }
}
