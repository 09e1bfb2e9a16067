//! From what the processor recorded to a recording.

use tracee::Tid;
use tracee::perf::intel_pt::{PtPmu, PtTrace, family_and_model};

use crate::config::{self, Processor};
use crate::recorder::recording::{Missing, Recording, ThreadTrace, Unit, What};

/// What has to be known of the processor, as far as the kernel tells.
pub(super) fn unit(pmu: &PtPmu) -> Unit {
    Unit {
        processor: family_and_model().map(|(family, model)| Processor { family, model }),
        clocks: config::Clock {
            mtc_frequency: pmu.mtc_frequency().unwrap_or(0),
            tsc_per_crystal: pmu.tsc_per_crystal,
            nominal_ratio: pmu.nominal_ratio,
        },
        filter: Vec::new(),
    }
}

/// Adds a thread's trace to a recording, and what is missing from it.
pub(super) fn gather(recording: &mut Recording, tid: Tid, space: usize, trace: PtTrace) {
    let mut miss = |count: u64, what: What| {
        if count > 0 {
            recording.missing.push(Missing { tid: Some(tid), what });
        }
    };
    miss(trace.truncated, What::Truncated(trace.truncated));
    miss(trace.damaged, What::Damaged(trace.damaged));
    miss(trace.lost, What::Records(trace.lost));
    miss(trace.overrun, What::Beginning(trace.overrun));
    miss(trace.overwritten.into(), What::Overwritten);
    recording.counts.unfiltered += u64::from(trace.unfiltered);
    if !trace.absences.is_empty() {
        recording.absences.entry(tid).or_default().extend(trace.absences);
    }
    let segments = trace.segments.into_iter();
    recording
        .threads
        .extend(segments.map(|bytes| ThreadTrace { tid, space, bytes }));
}

#[cfg(test)]
mod tests {
    use tracee::perf::intel_pt::Absence;

    use super::*;
    use crate::recorder::clock::Clock;
    use crate::recorder::request::Source;

    #[test]
    fn what_is_missing_from_a_trace_is_listed() {
        let mut recording = Recording::empty(Source::IntelPt, Clock::Counter(None));
        let away = Absence {
            from: 3,
            to: Some(4),
            preempted: true,
        };
        let trace = PtTrace {
            segments: vec![vec![1], vec![2, 3]],
            truncated: 1,
            lost: 7,
            overwritten: true,
            unfiltered: true,
            absences: vec![away],
            ..PtTrace::default()
        };
        gather(&mut recording, Tid(5), 0, trace);
        gather(&mut recording, Tid(6), 0, PtTrace::default());
        assert_eq!(recording.absences, [(Tid(5), vec![away])].into());
        assert_eq!(recording.counts.unfiltered, 1);
        let missing: Vec<What> = recording
            .missing
            .into_iter()
            .map(|missing| missing.what)
            .collect();
        assert_eq!(missing, [What::Truncated(1), What::Records(7), What::Overwritten]);
        let bytes: Vec<Vec<u8>> = recording.threads.into_iter().map(|thread| thread.bytes).collect();
        assert_eq!(bytes, [vec![1], vec![2, 3]]);
    }
}
