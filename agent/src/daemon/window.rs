//! What was seen of a process in a window of time, as the record of a run.

use std::time::Duration;

use diagnosis::record::{HitRecord, RunEnd, RunRecord, ThreadRecord};
use failure::report::Report;
use tracee::Pid;
use tracee::process::ModuleMap;
use watchpoint::{Hit, Summary};

use super::assigned::Assigned;
use crate::stacks::addresses;
use crate::tracked::{hit_record, mapped, mode, watched};

/// A window that is over.
pub(super) struct Window<'w> {
    pub(super) pid: Pid,
    pub(super) assigned: Option<&'w Assigned>,
    pub(super) end: RunEnd,
    pub(super) elapsed: Duration,
    pub(super) hits: Vec<Hit>,
    pub(super) summary: Option<Summary>,
    pub(super) modules: Option<ModuleMap>,
    pub(super) cut_short: Option<String>,
}

impl Window<'_> {
    /// The same as of a run that we start, but that it began in the middle: whatever was watched was watched late.
    pub(super) fn record(self) -> RunRecord {
        // What could not be watched was not: nobody may say that nothing happened to it.
        let watching = self.assigned.filter(|_| self.summary.is_some());
        let locations = watching.map_or(&[][..], |assigned| &assigned.assignment.locations);
        let spans = self.summary.as_ref().map_or(&[][..], |summary| &summary.spans);
        let hits: Vec<HitRecord> = self
            .hits
            .iter()
            .map(|hit| {
                let len = locations.get(hit.location).map_or(1, |(_, spec)| spec.len);
                hit_record(hit, None, spans, len)
            })
            .collect();
        let threads = match &self.end {
            RunEnd::Failed(report) => stacks(report),
            RunEnd::Succeeded | RunEnd::Inconclusive => Vec::new(),
        };
        RunRecord {
            number: self.assigned.map_or(0, |assigned| assigned.number),
            pid: self.pid.0,
            sigma: self.assigned.map_or(0, |assigned| assigned.assignment.sigma),
            end: self.end,
            elapsed_ns: u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
            modules: self.modules.as_ref().map(mapped).unwrap_or_default(),
            threads,
            watched: watched(locations, spans),
            planned: self.assigned.map_or(0, |assigned| assigned.assignment.planned),
            hits,
            lost: self.summary.as_ref().map_or(0, |summary| summary.lost),
            data_flow: self.summary.as_ref().map(|summary| mode(summary.mode).to_owned()),
            cut_short: self.cut_short,
            flow: None,
            allocations: None,
        }
    }
}

fn stacks(report: &Report) -> Vec<ThreadRecord> {
    let threads = report.threads.iter().enumerate();
    let threads = threads.filter_map(|(number, thread)| {
        Some(ThreadRecord {
            tid: thread.id.and_then(|id| u32::try_from(id).ok())?,
            stack: addresses(report, number),
        })
    });
    threads.collect()
}
