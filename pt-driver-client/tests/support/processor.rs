//! A processor that runs code at random and traces itself with all that real traces have: packets of time, power and
//! state, overflows, transactions, interrupts with their events, other widths of code.
//!
//! It knows instructions from a full decoder (iced), so any code will do, and shares nothing with ours.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use pt_driver_client::packet::{Compression, ExecMode, IpPayload, Packet, Tnt, encode};

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

/// How a stretch of instructions ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Cond(u64),
    Jump(u64),
    Call(u64),
    Indirect,
    IndirectCall,
    Return,
    Far,
    /// What follows cannot be run.
    Stuck,
}

struct Stretch {
    /// Its instructions, the branch included.
    at: Vec<u64>,
    ending: Ending,
    /// Behind the branch.
    end: u64,
    /// Which of them are PTWRITE.
    writes: Vec<usize>,
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

    fn emit(&mut self, packet: Packet) {
        encode(packet, &mut self.run.trace);
    }

    fn payload(&mut self, ip: u64) -> IpPayload {
        let fits = |bits: u32| self.last_ip >> bits == ip >> bits;
        let (fits_16, fits_32, fits_48) = (fits(16), fits(32), fits(48));
        let compression = match self.pick(4) {
            0 if fits_16 => Compression::Update16,
            0 | 1 if fits_32 => Compression::Update32,
            2 if fits_48 => Compression::Update48,
            3 => Compression::Full,
            _ => Compression::SignExtend48,
        };
        self.last_ip = ip;
        let size = compression.size() as u32 * 8;
        let bits = if size == 64 { ip } else { ip & ((1 << size) - 1) };
        IpPayload { compression, bits }
    }

    fn fup(&mut self, ip: u64) {
        let payload = self.payload(ip);
        self.emit(Packet::Fup(payload));
    }

    fn tip(&mut self, ip: u64) {
        let payload = self.payload(ip);
        self.emit(Packet::Tip(payload));
        self.decide();
    }

    /// What comes now is told by packets that come later.
    fn decide(&mut self) {
        self.since.clear();
        self.decided = self.run.ran.len();
    }

    fn flush(&mut self) {
        if self.outcomes.is_empty() {
            return;
        }
        let bits = self
            .outcomes
            .iter()
            .fold(0, |bits, &taken| bits << 1 | u64::from(taken));
        let count = self.outcomes.len() as u8;
        let long = count > 6 || self.pick(8) == 0;
        self.outcomes.clear();
        self.emit(Packet::Tnt(Tnt { bits, count, long }));
    }

    fn outcome(&mut self, taken: bool) {
        self.outcomes.push(taken);
        let most = if self.pick(16) == 0 { 47 } else { 6 };
        if self.outcomes.len() >= most {
            self.flush();
        }
        self.decide();
    }

    fn entry(&mut self) -> u64 {
        let count = self.setup.entries.len() as u64;
        let index = self.pick(count) as usize;
        self.setup.entries[index]
    }

    /// One packet that means nothing to what runs.
    fn timing(&mut self) {
        let value = self.pick(1 << 40);
        let packet = match self.pick(8) {
            0 => Packet::Tsc(value),
            1 => Packet::Mtc(value as u8),
            2 => Packet::Cyc(value >> 20),
            3 => Packet::Cyc(value & 0x1f),
            4 => Packet::Cbr {
                ratio: value as u8 | 1,
            },
            // TMA says how the crystal's clock stood at the TSC before it.
            5 => {
                self.emit(Packet::Tsc(value));
                Packet::Tma {
                    ctc: value as u16,
                    fast: value as u16 & 0x1ff,
                }
            }
            6 => Packet::Mnt(value),
            _ => Packet::Pad,
        };
        self.emit(packet);
    }

    fn timings(&mut self) {
        for _ in 0..self.pick(3) {
            self.timing();
        }
    }

    /// MODE.Exec before a TIP that changes the width, and now and then before one that does not.
    fn change_mode(&mut self) {
        let is_other = self.setup.narrow && self.pick(3) == 0;
        if !is_other && self.pick(3) != 0 {
            return;
        }
        if is_other {
            self.mode = match self.mode {
                ExecMode::Bits64 => ExecMode::Bits32,
                _ => ExecMode::Bits64,
            };
        }
        self.emit(Packet::ModeExec {
            mode: self.mode,
            interrupts: true,
        });
    }

    fn psb(&mut self, ip: Option<u64>) {
        self.flush();
        self.emit(Packet::Psb);
        self.timings();
        self.emit(Packet::ModeExec {
            mode: self.mode,
            interrupts: true,
        });
        if self.pick(2) == 0 {
            self.emit(Packet::ModeTsx {
                inside: false,
                aborted: false,
            });
        }
        if self.pick(2) == 0 {
            self.emit(Packet::Pip {
                cr3: 0x1234_5000,
                non_root: false,
            });
            self.emit(Packet::Vmcs { base: 0x5000 });
        }
        self.last_ip = 0;
        if let Some(ip) = ip {
            self.fup(ip);
        }
        self.timings();
        self.emit(Packet::PsbEnd);
        // The processor forgets its calls at PSB.
        self.calls.clear();
    }

    /// Tracing is off: whatever can come then, until it is on again.
    fn enable(&mut self) -> u64 {
        for _ in 0..self.pick(4) {
            let packet = match self.pick(9) {
                0 => Packet::Pip {
                    cr3: 0x77_7000,
                    non_root: false,
                },
                1 => Packet::Vmcs { base: 0x9000 },
                2 => Packet::ModeTsx {
                    inside: false,
                    aborted: false,
                },
                3 => Packet::TraceStop,
                4 => Packet::PwrEntry {
                    state: 1,
                    sub_state: 0,
                    hardware: false,
                },
                5 => Packet::PwrExit {
                    last: 1,
                    deepest: 1,
                    reason: 1,
                },
                6 => Packet::Ptw {
                    value: 7,
                    wide: true,
                    ip: false,
                },
                7 => Packet::ControlFlowEvent {
                    kind: 1,
                    vector: 14,
                    ip: false,
                },
                _ => {
                    self.psb(None);
                    Packet::Pad
                }
            };
            self.emit(packet);
            self.timings();
        }
        self.change_mode();
        let to = self.entry();
        let payload = self.payload(to);
        self.emit(Packet::TipPge(payload));
        self.calls.clear();
        self.decide();
        to
    }

    fn disable(&mut self, ip: Option<u64>) {
        self.flush();
        let payload = match ip {
            Some(ip) => self.payload(ip),
            None => IpPayload::SUPPRESSED,
        };
        self.emit(Packet::TipPgd(payload));
    }

    /// Packets were lost, and with them what ran since the last decision.
    fn overflow(&mut self) -> u64 {
        self.flush();
        self.run.ran.truncate(self.decided);
        self.run.overflows += 1;
        self.emit(Packet::Overflow);
        self.timings();
        self.last_ip = 0;
        // What a compressed return could come back to may have been lost.
        self.calls.clear();
        if self.pick(2) == 0 {
            return self.enable();
        }
        let to = self.entry();
        self.fup(to);
        self.decide();
        to
    }

    /// The instructions from an address on.
    fn stretch(&self, ip: u64) -> Stretch {
        let Setup { base, code, .. } = self.setup;
        let bits = if self.mode == ExecMode::Bits64 { 64 } else { 32 };
        let bytes = ip
            .checked_sub(base)
            .and_then(|offset| code.get(offset as usize..));
        let mut decoder = Decoder::with_ip(bits, bytes.unwrap_or_default(), ip, DecoderOptions::NONE);
        let mut stretch = Stretch {
            at: Vec::new(),
            ending: Ending::Stuck,
            end: ip,
            writes: Vec::new(),
        };
        let mut insn = Instruction::default();
        // Long stretches are cut: the processor is interrupted in them.
        while decoder.can_decode() && stretch.at.len() < 60 {
            decoder.decode_out(&mut insn);
            // Branches that leave the code are of no program: random bytes of 32 bits have them.
            let target = insn.near_branch_target();
            let leaves = target != 0 && !(base..base + code.len() as u64).contains(&target);
            if insn.is_invalid() || leaves || is_strange(&insn) {
                break;
            }
            if insn.mnemonic() == Mnemonic::Ptwrite {
                stretch.writes.push(stretch.at.len());
            }
            stretch.at.push(insn.ip());
            stretch.end = insn.next_ip();
            stretch.ending = match insn.flow_control() {
                FlowControl::Next | FlowControl::XbeginXabortXend => continue,
                FlowControl::ConditionalBranch => Ending::Cond(target),
                FlowControl::UnconditionalBranch if !insn.is_jmp_far() => Ending::Jump(target),
                FlowControl::Call if insn.is_call_near() => Ending::Call(target),
                FlowControl::IndirectBranch if !insn.is_jmp_far_indirect() => Ending::Indirect,
                FlowControl::IndirectCall if insn.is_call_near_indirect() => Ending::IndirectCall,
                FlowControl::Return if insn.mnemonic() == Mnemonic::Ret => Ending::Return,
                _ => Ending::Far,
            };
            break;
        }
        stretch
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

    /// Something happens before an instruction; where the processor goes on, if not there.
    fn happen(&mut self, at: u64) -> Option<u64> {
        self.flush();
        self.timings();
        let to = self.entry();
        match self.pick(11) {
            0 => {
                self.fup(at);
                let shown = (self.pick(2) == 0).then_some(to);
                self.disable(shown);
                return Some(self.enable());
            }
            1 => {
                self.fup(at);
                if self.pick(2) == 0 {
                    self.emit(Packet::Pip {
                        cr3: 0x8000,
                        non_root: false,
                    });
                }
                self.change_mode();
            }
            2 => {
                self.psb(Some(at));
                self.decide();
                return None;
            }
            3 => return Some(self.overflow()),
            4 => {
                self.emit(Packet::ModeTsx {
                    inside: true,
                    aborted: false,
                });
                self.fup(at);
                self.decide();
                return None;
            }
            5 => {
                self.emit(Packet::ModeTsx {
                    inside: false,
                    aborted: true,
                });
                self.fup(at);
                self.timings();
            }
            6 => {
                if self.pick(2) == 0 {
                    self.emit(Packet::EventData {
                        kind: 0,
                        value: 0x1000,
                    });
                }
                self.emit(Packet::ControlFlowEvent {
                    kind: 1,
                    vector: 14,
                    ip: false,
                });
                self.fup(at);
            }
            7 => {
                // An SMI, whose FUP is its own.
                self.emit(Packet::ControlFlowEvent {
                    kind: 3,
                    vector: 0,
                    ip: true,
                });
                self.fup(at);
                self.decide();
                return None;
            }
            8 => {
                self.emit(Packet::Mwait {
                    hints: 0,
                    extensions: 0,
                });
                self.emit(Packet::ExStop { ip: true });
                self.fup(at);
                self.emit(Packet::PwrEntry {
                    state: 3,
                    sub_state: 0,
                    hardware: true,
                });
                self.emit(Packet::PwrExit {
                    last: 3,
                    deepest: 3,
                    reason: 1,
                });
                self.decide();
                return None;
            }
            9 => {
                self.emit(Packet::ExStop { ip: false });
                return None;
            }
            _ => {
                self.timings();
                return None;
            }
        }
        self.calls.clear();
        self.tip(to);
        Some(to)
    }

    fn remember(&mut self, after: u64) {
        self.calls.push(after);
        if self.calls.len() > 64 {
            self.calls.remove(0);
        }
    }
}

/// What decoders may read in different ways: code of other makers, and instructions that are undefined on purpose.
fn is_strange(insn: &Instruction) -> bool {
    let code = format!("{:?}", insn.code());
    code.starts_with("XOP_") || code.starts_with("D3NOW") || insn.flow_control() == FlowControl::Exception
}
