//! A processor that runs code at random and traces itself with all that real traces have: packets of time, power and
//! state, overflows, transactions, interrupts with their events, other widths of code.
//!
//! It knows instructions from a full decoder (iced), so any code will do, and shares nothing with ours.
//!
//! - `stretch`: the code, as instructions up to a branch
//! - `packets`: what it writes
//! - `tracing`: tracing begins, ends and loses packets
//! - `interruptions`: what can happen between two instructions

mod interruptions;
mod packets;
mod stretch;
mod tracing;

use std::collections::HashSet;

use pt_driver_client::packet::{ExecMode, IpPayload, Packet};

use stretch::{Ending, Stretch};

/// What the processor did, and its trace.
#[derive(Debug, Default)]
pub struct Run {
    pub ran: Vec<u64>,
    pub trace: Vec<u8>,
    /// How often packets were lost.
    pub overflows: usize,
}

/// What it is given.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub base: u64,
    pub code: &'a [u8],
    /// Where it can begin, and where indirect branches can go.
    pub entries: &'a [u64],
    /// Returns are compressed.
    pub compressed: bool,
    /// It also runs code of 32 bits: the same bytes.
    pub narrow: bool,
}

struct Processor<'a> {
    setup: Setup<'a>,
    random: u64,
    run: Run,
    mode: ExecMode,
    last_ip: u64,
    outcomes: Vec<bool>,
    calls: Vec<u64>,
    /// Where it was since the last decision: a second time there cannot be told from the first.
    since: HashSet<u64>,
    /// How much had run at the last decision.
    decided: usize,
}

/// Runs code for so many stretches.
pub fn run(setup: Setup<'_>, seed: u64, stretches: usize) -> Run {
    let mut processor = Processor {
        setup,
        random: seed | 1,
        run: Run::default(),
        mode: ExecMode::Bits64,
        last_ip: 0,
        outcomes: Vec::new(),
        calls: Vec::new(),
        since: HashSet::new(),
        decided: 0,
    };
    processor.psb(None);
    let mut ip = processor.enable();
    for _ in 0..stretches {
        ip = processor.step(ip);
    }
    processor.flush();
    if !processor.since.contains(&ip) {
        processor.fup(ip);
        processor.emit(Packet::TipPgd(IpPayload::SUPPRESSED));
    } else {
        processor.overflow();
    }
    processor.run
}

impl Processor<'_> {
    fn pick(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn entry(&mut self) -> u64 {
        let count = self.setup.entries.len() as u64;
        let index = self.pick(count) as usize;
        self.setup.entries[index]
    }

    /// What comes now is told by packets that come later.
    fn decide(&mut self) {
        self.since.clear();
        self.decided = self.run.ran.len();
    }

    /// Instructions run.
    fn advance(&mut self, stretch: &Stretch, from: usize, to: usize) {
        for index in from..to {
            self.run.ran.push(stretch.at[index]);
            self.since.insert(stretch.at[index]);
            if stretch.writes.contains(&index) {
                self.flush();
                let ip = self.pick(2) == 0;
                self.emit(Packet::Ptw {
                    value: 1,
                    wide: false,
                    ip,
                });
                if ip {
                    self.fup(stretch.at[index]);
                }
                self.decide();
            }
        }
    }

    /// Runs a stretch, or a part of it; gives where it goes on.
    fn step(&mut self, ip: u64) -> u64 {
        let stretch = self.stretch(ip);
        if self.since.contains(&ip) {
            return self.overflow();
        }
        let mut done = 0;
        if self.pick(6) == 0 {
            let before = self.pick(stretch.at.len() as u64 + 1) as usize;
            if let Some(&at) = stretch.at.get(before) {
                self.advance(&stretch, 0, before);
                done = before;
                if !self.since.contains(&at)
                    && let Some(next) = self.happen(at)
                {
                    return next;
                }
            }
        }
        self.advance(&stretch, done, stretch.at.len());
        self.end(&stretch)
    }

    fn end(&mut self, stretch: &Stretch) -> u64 {
        let other = self.entry();
        match stretch.ending {
            Ending::Stuck if self.since.contains(&stretch.end) => self.overflow(),
            Ending::Stuck => {
                self.flush();
                self.fup(stretch.end);
                self.disable(None);
                self.enable()
            }
            Ending::Cond(target) => {
                let taken = self.pick(2) == 0;
                self.outcome(taken);
                if taken { target } else { stretch.end }
            }
            Ending::Jump(target) => target,
            // The filter has a hole there. The call is forgotten, those before it are not.
            Ending::Call(target)
                if target != stretch.end && !self.since.contains(&target) && self.pick(8) == 0 =>
            {
                self.visit(target, stretch.end)
            }
            Ending::Call(target) => {
                if target != stretch.end {
                    self.remember(stretch.end);
                }
                target
            }
            Ending::Indirect => {
                self.flush();
                self.tip(other);
                other
            }
            Ending::IndirectCall if self.pick(4) == 0 => {
                let outside = self.setup.base - 0x1000;
                self.visit(outside, stretch.end)
            }
            Ending::IndirectCall => {
                self.remember(stretch.end);
                self.flush();
                self.tip(other);
                other
            }
            Ending::Return => match self.calls.pop() {
                Some(caller) if self.setup.compressed => {
                    self.outcome(true);
                    caller
                }
                _ => {
                    self.calls.clear();
                    self.flush();
                    self.tip(other);
                    other
                }
            },
            Ending::Far => {
                self.flush();
                if self.pick(2) == 0 {
                    let to = (self.pick(2) == 0).then_some(0xffff_ffff_8000_0000);
                    self.disable(to);
                    return self.enable();
                }
                // The kernel is traced too.
                if self.pick(2) == 0 {
                    self.emit(Packet::Pip {
                        cr3: 0x3000,
                        non_root: true,
                    });
                }
                self.change_mode();
                self.calls.clear();
                self.tip(other);
                other
            }
        }
    }

    fn remember(&mut self, after: u64) {
        self.calls.push(after);
        if self.calls.len() > 64 {
            self.calls.remove(0);
        }
    }
}
