//! From a trace to the consumer.

use std::ops::Range;

use super::batch::Batch;
use super::consumer::{Consumer, Event, Gap, Why};
use super::memo::Memo;
use super::pending::Pending;
use super::returns::{Calls, Returns};
use super::time::Timeline;
use crate::code::block::UNKNOWN;
use crate::code::{Blocks, Image};
use crate::config::{Config, Erratum, Filter};
use crate::packet::{ExecMode, PSB, Packet, PacketError, next_psb, parse};

/// Decodes traces of one image. What it learns of the code serves the next trace.
#[derive(Debug)]
pub struct Decoder<'a> {
    image: &'a Image<'a>,
    config: Config,
    /// By width: almost always one of them.
    known: [Option<Box<Known<'a>>>; 3],
    /// What is left of [`LONG_WAYS`].
    long_ways: u64,
}

/// Ways without packets that are too long for a list may have so many blocks in all traces of a decoder, and so many more for
/// each byte of trace. Real ones have a few; code made to be walked through forever shall not take time and memory without
/// end, in one trace or in a thousand small ones.
const LONG_WAYS: u64 = 1 << 20;
const LONG_WAYS_PER_BYTE: u64 = 16;

const TMA: [u8; 2] = [0x02, 0x73];
const TMA_SIZE: usize = 7;

/// What is known of the code of one width.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub blocks: Blocks<'a>,
    pub memo: Memo,
    /// What ran and was not handed over yet.
    pub batch: Batch,
    /// The calls of the step that is being made.
    pub calls: Calls,
}

impl<'a> Decoder<'a> {
    /// A decoder that knows nothing of the code yet, nor of the processor.
    #[must_use]
    pub fn new(image: &'a Image<'a>) -> Self {
        Self::with(image, Config::default())
    }

    /// A decoder of traces that were recorded like this.
    #[must_use]
    pub fn with(image: &'a Image<'a>, config: Config) -> Self {
        Self {
            image,
            config,
            known: [None, None, None],
            long_ways: LONG_WAYS,
        }
    }

    /// Decodes a whole trace.
    pub fn decode<C: Consumer>(&mut self, trace: &[u8], consumer: &mut C) {
        self.decode_range(trace, 0..trace.len(), consumer);
    }

    /// Decodes from the first PSB in a range to the first PSB at or after the range's end. What lies before the
    /// first PSB is a gap only at the beginning of the trace.
    pub(super) fn decode_range<C: Consumer>(&mut self, trace: &[u8], range: Range<usize>, consumer: &mut C) {
        let first = next_psb(trace, range.start);
        if range.start == 0 && first != Some(0) && !trace.is_empty() {
            consumer.gap(Gap {
                from: 0,
                to: first.unwrap_or(trace.len()) as u64,
                why: Why::NotSynchronised,
            });
        }
        let mut next = first.filter(|&psb| psb < range.end);
        let mut budget = self.long_ways + range.len() as u64 * LONG_WAYS_PER_BYTE;
        while let Some(psb) = next {
            let mut state = State::new(trace, psb, range.end, self.config);
            state.budget = budget;
            let ended = self.run(&mut state, consumer);
            budget = state.budget;
            self.long_ways = self.long_ways.min(budget);
            let Err((why, at)) = ended else {
                return;
            };
            let resumed = next_psb(trace, at.max(psb + PSB.len()));
            consumer.gap(Gap {
                from: at as u64,
                to: resumed.unwrap_or(trace.len()) as u64,
                why,
            });
            next = resumed.filter(|&psb| psb < range.end);
        }
    }

    /// Decodes from a PSB to the end or an error, which comes with its offset.
    fn run<C: Consumer>(&mut self, state: &mut State<'_>, consumer: &mut C) -> Result<(), (Why, usize)> {
        loop {
            let known = self.known(state.mode);
            let stopped = known
                .fast(state, consumer)
                .and_then(|()| known.slow(state, consumer));
            if !matches!(stopped, Ok(false)) || known.blocks.mode() != state.mode {
                known.flush(consumer);
            }
            match stopped {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(why) => return Err((why, state.position)),
            }
        }
    }

    fn known(&mut self, mode: ExecMode) -> &mut Known<'a> {
        let image = self.image;
        self.known[mode as usize].get_or_insert_with(|| {
            Box::new(Known {
                blocks: Blocks::new(image, mode),
                memo: Memo::default(),
                batch: Batch::default(),
                calls: Calls::default(),
            })
        })
    }
}

impl Known<'_> {
    /// Hands over what ran.
    pub fn flush<C: Consumer>(&mut self, consumer: &mut C) {
        self.batch.flush(&self.blocks, consumer);
    }

    /// Tells of an event, after everything that ran before it.
    #[inline]
    pub fn event<C: Consumer>(&mut self, event: Event, consumer: &mut C) {
        if C::EVENTS {
            self.flush(consumer);
            consumer.event(event);
        }
    }
}

/// Where decoding stands.
#[derive(Debug)]
pub(super) struct State<'t> {
    pub config: Config,
    pub trace: &'t [u8],
    /// The next packet.
    pub position: usize,
    /// The first PSB at or after this offset is not decoded any more.
    pub end: usize,
    /// Tracing is on.
    pub enabled: bool,
    /// When it is on: what runs next. Right whenever the block is not known.
    pub ip: u64,
    /// The block there, in the blocks of the current width; [`UNKNOWN`] until it is asked for.
    pub block: u32,
    pub last_ip: u64,
    pub mode: ExecMode,
    /// The width was told.
    pub mode_known: bool,
    pub returns: Returns,
    /// The calls of the other widths: code returns to code of its own width.
    parked: [Returns; 3],
    pub pending: Pending,
    /// Whether the PSB where decoding began was read.
    pub begun: bool,
    pub timeline: Timeline,
    /// How many more blocks long ways may have.
    budget: u64,
}

impl<'t> State<'t> {
    fn new(trace: &'t [u8], position: usize, end: usize, config: Config) -> Self {
        Self {
            config,
            trace,
            position,
            end,
            enabled: false,
            ip: 0,
            block: UNKNOWN,
            last_ip: 0,
            mode: ExecMode::Bits64,
            mode_known: false,
            returns: Returns::default(),
            parked: Default::default(),
            pending: Pending::default(),
            begun: false,
            timeline: Timeline::default(),
            budget: 0,
        }
    }

    /// The packet at an offset, and its length.
    pub fn packet(&self, at: usize) -> Result<(Packet, usize), PacketError> {
        let rest = self.trace.get(at..).unwrap_or_default();
        match parse(rest, self.pending.items) {
            // SKD007: the OVF behind a CYC that was cut looks like the rest of it.
            Ok((Packet::Cyc(_), 2)) if self.has(Erratum::Skd007) && rest.get(1..3) == Some(&[0x02, 0xf3]) => {
                Ok((Packet::Overflow, 3))
            }
            // SKZ84: in a virtual machine TMA can have anything in it.
            Err(PacketError::Malformed) if self.has(Erratum::Skz84) && rest.starts_with(&TMA) => {
                Ok((Packet::Pad, TMA_SIZE))
            }
            parsed => parsed,
        }
    }

    /// Whether the processor has a defect.
    pub fn has(&self, erratum: Erratum) -> bool {
        self.config.errata.has(erratum)
    }

    /// The filter, if the processor does not tell where jumps lead out of it.
    pub fn filter_that_hides(&self) -> Option<Filter> {
        self.config.filter.filter(|_| self.has(Erratum::Skl014))
    }

    /// One more block of a long way.
    #[inline]
    pub fn spend_block(&mut self) -> Result<(), Why> {
        self.budget = self.budget.checked_sub(1).ok_or(Why::Endless)?;
        Ok(())
    }

    /// Goes on at an address.
    pub fn go(&mut self, ip: u64) {
        self.ip = ip;
        self.block = UNKNOWN;
    }

    /// Code of the width begins that was announced, if one was.
    pub fn switch_as_told(&mut self) {
        if let Some(mode) = self.pending.take_mode() {
            self.switch(mode);
        }
    }

    /// Code of another width begins.
    pub fn switch(&mut self, mode: ExecMode) {
        self.mode_known = true;
        if mode != self.mode {
            std::mem::swap(&mut self.returns, &mut self.parked[self.mode as usize]);
            std::mem::swap(&mut self.returns, &mut self.parked[mode as usize]);
            self.mode = mode;
            self.block = UNKNOWN;
        }
    }
}
