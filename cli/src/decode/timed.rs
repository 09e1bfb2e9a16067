//! What a trace says, and when it begins and ends by its own timing packets.

use pt_driver_client::code::{BlockId, Blocks};
use pt_driver_client::flow::{Consumer, Event, Gap, Part, Time};
use pt_driver_client::summary::Summary;

/// A summary, and the first and the last time that the trace tells, if it tells any.
#[derive(Default)]
pub struct Timed {
    /// What ran.
    pub summary: Summary,
    /// When.
    pub times: Option<(Time, Time)>,
}

impl Consumer for Timed {
    const EVENTS: bool = true;

    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        self.summary.blocks(code, blocks);
    }

    fn part(&mut self, code: &Blocks<'_>, part: Part) {
        self.summary.part(code, part);
    }

    fn event(&mut self, event: Event) {
        if let Event::Time(time) = event {
            let first = self.times.map_or(time, |(first, _)| first);
            self.times = Some((first, time));
        }
    }

    fn gap(&mut self, gap: Gap) {
        Consumer::gap(&mut self.summary, gap);
    }
}
