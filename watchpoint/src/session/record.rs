//! What was watched when, and what was lost.

use std::collections::BTreeMap;

use program::RunAddr;

use crate::hit::{Mode, Summary, WatchedSpan};
use crate::location::Slot;
use crate::watcher::{Arming, RawHit};

/// What a session did.
#[derive(Debug)]
pub(super) struct Journal {
    hits: u64,
    lost: u64,
    vforks: u64,
    spans: Vec<WatchedSpan>,
    late: Vec<bool>,
    /// Accesses that touched a place, by the ranges that they touched.
    touched: Vec<(RunAddr, u32, u64)>,
    counted: BTreeMap<Slot, u64>,
}

impl Journal {
    pub(super) fn new(locations: usize) -> Self {
        Self {
            hits: 0,
            lost: 0,
            vforks: 0,
            spans: Vec::new(),
            late: vec![false; locations],
            touched: Vec::new(),
            counted: BTreeMap::new(),
        }
    }

    pub(super) fn armed(&mut self, arming: &Arming) {
        self.spans.push(WatchedSpan {
            location: arming.location,
            addr: arming.at.addr,
            from_ns: arming.from_ns,
            until_ns: None,
            late: arming.late,
        });
        if let Some(late) = self.late.get_mut(arming.location) {
            *late |= arming.late;
        }
    }

    pub(super) fn disarmed(&mut self, location: usize, at: RunAddr, until_ns: u64) {
        let open = self.spans.iter_mut().rev();
        let mut open = open.filter(|span| span.until_ns.is_none());
        if let Some(span) = open.find(|span| span.location == location && span.addr == at) {
            span.until_ns = Some(until_ns);
        }
    }

    pub(super) fn count(&mut self, hits: usize) {
        self.hits = self.hits.saturating_add(hits as u64);
    }

    pub(super) fn lost(&mut self, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
    }

    pub(super) fn vforked(&mut self) {
        self.vforks = self.vforks.saturating_add(1);
    }

    /// Notes which bytes an instruction touched; those that are not known count for the piece that was reported.
    pub(super) fn touched(&mut self, raw: &RawHit, ranges: &[(RunAddr, u32)]) {
        let reported = [(raw.watched, 1)];
        let ranges = if ranges.is_empty() { &reported[..] } else { ranges };
        for &(addr, len) in ranges {
            let known = self
                .touched
                .iter_mut()
                .find(|(at, of, _)| (*at, *of) == (addr, len));
            match known {
                Some((.., count)) => *count += 1,
                None => self.touched.push((addr, len, 1)),
            }
        }
    }

    pub(super) fn counted(&mut self, slot: Slot, count: u64) {
        self.counted.insert(slot, count);
    }

    /// Hits that the kernel counted and nobody saw.
    fn unseen(&self) -> u64 {
        // A register that moved has counted for several places.
        if self.spans.iter().any(|span| span.until_ns.is_some()) {
            return 0;
        }
        let of = |slot: &Slot| {
            let end = slot.addr.0.saturating_add(slot.len.into());
            let touching = self.touched.iter().filter(|(addr, len, _)| {
                addr.0 < end && slot.addr.0 < addr.0.saturating_add(u64::from(*len))
            });
            touching.map(|(.., count)| count).sum::<u64>()
        };
        let counted = self.counted.iter();
        counted.map(|(slot, count)| count.saturating_sub(of(slot))).sum()
    }

    pub(super) fn summary(&self, mode: Mode, reason: Option<String>) -> Summary {
        Summary {
            hits: self.hits,
            lost: self.lost.max(self.unseen()),
            vforks: self.vforks,
            late_armed: self.late.iter().filter(|late| **late).count() as u64,
            mode,
            reason,
            spans: self.spans.clone(),
        }
    }
}
