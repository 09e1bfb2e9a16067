//! What the probes tell: from the ring to the threads' followers.

use tracee::bpf::RawHit;
use tracee::perf::Uprobe;
use tracee::run::TrackError;

use super::SoftwarePt;
use super::live::{Live, follower};
use crate::recorder::follower::ProbeHit;
use crate::recorder::layout::{At, Layout};
use crate::recorder::place::Placement;
use crate::recorder::recording::{Missing, What};

impl SoftwarePt {
    /// Takes in the hits that are there. To be called now and then: a full ring loses hits.
    ///
    /// # Errors
    /// When modules that were mapped meanwhile cannot be probed.
    pub fn drain(&mut self) -> Result<(), TrackError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        if self.over {
            live.ring.read(|_| ());
            return Ok(());
        }
        let mut hits = Vec::new();
        live.ring.read(|hit| hits.push(hit));
        let mut looked = false;
        for hit in hits {
            if !self.is_placed(&hit) && !looked {
                looked = true;
                self.look_again();
            }
            self.take(&hit);
        }
        if self.recording.counts.hits > self.options.hits {
            self.cut_short();
        } else if self.has_unprobed() {
            self.look_again();
            self.probe()?;
        }
        Ok(())
    }

    /// It was enough: takes the probes away. What happens from now on is not known.
    fn cut_short(&mut self) {
        let Some(live) = &mut self.live else { return };
        if live.probed.is_empty() {
            return;
        }
        live.probed.clear();
        live.many.clear();
        Uprobe::close_all(std::mem::take(&mut live.single));
        live.lose(live.lost);
        self.recording.missing.push(Missing {
            tid: None,
            what: What::CutShort(self.recording.counts.hits),
        });
    }

    fn has_unprobed(&self) -> bool {
        let Some(live) = &self.live else { return false };
        let modules = self.layout.modules.iter();
        modules
            .filter(|module| !module.probes.is_empty())
            .any(|module| !live.probed.iter().any(|pc| pc.module == module.module))
    }

    fn is_placed(&self, hit: &RawHit) -> bool {
        let found = |live: &Live| live.placed.find(&self.layout, hit.addr.0);
        self.live.as_ref().and_then(found).is_some()
    }

    /// Modules were mapped, or moved.
    fn look_again(&mut self) {
        let Some(live) = &mut self.live else { return };
        // A process that is gone has no modules any more; the old ones stay.
        if live.map.refresh().is_ok() && self.place() {
            self.close_space();
        }
    }

    fn take(&mut self, raw: &RawHit) {
        let Some(live) = &mut self.live else { return };
        self.recording.counts.hits += 1;
        if raw.lost_before > live.lost {
            live.lose(raw.lost_before);
        }
        let found = live.placed.find(&self.layout, raw.addr.0);
        let Some(at) = found.or_else(|| guess(&self.layout, &mut live.placed, raw.addr.0)) else {
            live.strays += 1;
            return;
        };
        let hit = ProbeHit {
            at,
            time: raw.time_ns,
            registers: raw.registers,
            word: raw.values.first().and_then(tracee::bpf::Value::number),
        };
        let limit = self.options.bytes_per_thread;
        follower(&mut live.followers, raw.tid, limit).hit(&self.layout, &live.placed, &hit);
    }
}

/// The probe of a hit in a module that nobody has seen mapped: it was gone before we looked. Addresses keep their
/// place in the page, which is enough where only one probe is there.
fn guess(layout: &Layout, placed: &mut Placement, addr: u64) -> Option<At> {
    const PAGE: u64 = 4096;
    let unplaced = layout.modules.iter().enumerate();
    let unplaced = unplaced.filter(|(index, _)| placed.0.get(*index).copied().flatten().is_none());
    let mut probes = unplaced
        .flat_map(|(module, layout)| layout.probes.keys().map(move |&addr| At { module, addr }))
        .filter(|at| at.addr % PAGE == addr % PAGE);
    let at = probes.next().filter(|_| probes.next().is_none())?;
    *placed.0.get_mut(at.module)? = Some(addr.wrapping_sub(at.addr));
    Some(at)
}
