//! The end of a thread, of a program and of the recording: what is told, and what is missing.

use tracee::Tid;

use super::SoftwarePt;
use super::live::follower;
use crate::recorder::recording::{Missing, Placed, Recording, Space, ThreadTrace, What};

impl SoftwarePt {
    /// Ends what was recorded of a thread. `pc` is where it is, if that is known.
    pub(super) fn end_thread(&mut self, tid: Tid, pc: u64) {
        let limit = self.options.bytes_per_thread;
        let Some(live) = &mut self.live else { return };
        let at = live.placed.find(&self.layout, pc);
        let is_followed = live.followers.iter().any(|(other, _)| *other == tid);
        if is_followed || at.is_some() {
            follower(&mut live.followers, tid, limit).end(&self.layout, &live.placed, Some(at));
        }
    }

    /// Ends all threads and what is known of where the modules are: what comes now is in another address space.
    pub(super) fn close_space(&mut self) {
        let Some(live) = &mut self.live else { return };
        let known = self.known.iter().zip(&live.placed.0);
        let modules = known.filter_map(|(known, bias)| {
            Some(Placed {
                module: known.module,
                bias: (*bias)?,
                build_id: known.build_id.clone(),
            })
        });
        let space = self.recording.spaces.len();
        self.recording.spaces.push(Space {
            modules: modules.collect(),
        });
        let missing = &mut self.recording.missing;
        for (tid, mut follower) in live.followers.drain(..) {
            follower.end(&self.layout, &live.placed, None);
            let counts = follower.counts;
            let written = follower.finish();
            let mut miss = |count: u64, what: What| {
                if count > 0 {
                    missing.push(Missing { tid: Some(tid), what });
                }
            };
            miss(counts.interrupted, What::Interrupted(counts.interrupted));
            miss(counts.unread_targets, What::Targets(counts.unread_targets));
            miss(counts.cut, What::End);
            miss(written.dropped, What::Beginning(written.dropped));
            self.recording.threads.push(ThreadTrace {
                tid,
                space,
                bytes: written.bytes,
            });
        }
    }

    /// A program of the process ends: takes in what there is of it, and counts what there is not.
    pub(super) fn end_program(&mut self) {
        // Nothing that is mapped now can be probed in time.
        let _unprobed = self.drain();
        if let Some(live) = &mut self.live {
            let lost = live.ring.lost();
            if lost > live.lost && !self.over {
                live.lose(lost);
            }
            let counts = &mut self.recording.counts;
            counts.lost += live.lost;
            counts.probes = counts.probes.max(live.probed.len() as u64);
            self.strays += live.strays + live.ring.malformed();
        }
        self.close_space();
        self.live = None;
    }

    /// Ends recording: takes the probes away and hands over what there is.
    #[must_use]
    pub fn end(mut self) -> Recording {
        self.end_program();
        let Self {
            layout,
            unread,
            strays,
            mut recording,
            ..
        } = self;
        let lost = recording.counts.lost;
        let mut missing = |what: What| recording.missing.push(Missing { tid: None, what });
        layout.undecided().for_each(|pc| missing(What::Branch(pc)));
        unread.iter().for_each(|range| missing(What::Range(*range)));
        if lost > 0 {
            missing(What::Hits(lost));
        }
        if strays > 0 {
            missing(What::Strays(strays));
        }
        recording
    }
}
