//! From the hits of one thread to its packets.

use failure::image::Registers;

use super::layout::{At, Layout, ModuleLayout, Role, Walked};
use super::outcome::{TargetOperand, is_taken, value};
use super::piece::{Exit, Piece};
use super::place::Placement;
use super::suffix;
use super::writer::{PacketWriter, Written};

/// A hit of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeHit {
    pub at: At,
    pub time: u64,
    pub registers: Registers,
    /// The word that the probe was told to read.
    pub word: Option<u64>,
}

/// What one thread did, as far as its hits tell.
#[derive(Debug)]
pub(crate) struct Follower {
    writer: PacketWriter,
    state: State,
    /// Where the thread was when something came between, such as a signal.
    suspended: Vec<At>,
    /// Hits were lost, and none came since.
    after_loss: bool,
    /// Where the thread was when it got a signal, and no hit came since.
    signalled: Option<At>,
    /// It was said where the thread ended.
    has_ended: bool,
    pub counts: FollowCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Outside of the ranges.
    Off,
    /// Before this instruction, or past it: its probe was hit if `passed`.
    On { at: At, passed: bool },
}

/// What is not known of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FollowCounts {
    /// Times that something came between two places that follow one another.
    pub interrupted: u64,
    /// Branches whose target could not be read.
    pub unread_targets: u64,
    /// The thread ended at a place that nobody saw.
    pub cut: u64,
}

/// As deep as signal handlers nest; what is below is forgotten.
const SUSPENDED: usize = 16;

impl Follower {
    pub fn new(limit: Option<usize>) -> Self {
        Self {
            writer: PacketWriter::keeping(limit),
            state: State::Off,
            suspended: Vec::new(),
            after_loss: false,
            signalled: None,
            has_ended: false,
            counts: FollowCounts::default(),
        }
    }

    /// A probe was hit, before its instruction.
    pub fn hit(&mut self, layout: &Layout, placed: &Placement, hit: &ProbeHit) {
        let Some(module) = layout.modules.get(hit.at.module) else {
            return;
        };
        let Some(probe) = module.probes.get(&hit.at.addr) else {
            return;
        };
        if !self.arrives(layout, placed, hit.at) {
            self.writer.time(hit.time);
            let start = self.came_in(module, hit.at);
            self.writer.enable(placed.run(start));
        }
        self.writer.time(hit.time);
        self.after_loss = false;
        self.has_ended = false;
        self.signalled = None;
        self.state = State::On {
            at: hit.at,
            passed: true,
        };
        if let (Role::Decision, Some(piece)) = (probe.role, module.pieces.get(probe.piece)) {
            self.decide(layout, placed, piece, hit);
        }
    }

    /// Goes on to the probe that was hit; says no if the thread came to it from outside.
    fn arrives(&mut self, layout: &Layout, placed: &Placement, hit: At) -> bool {
        let State::On { at, passed } = self.state else {
            return false;
        };
        let Some(module) = layout.modules.get(at.module) else {
            return false;
        };
        let walked = module.walk(at.addr, passed);
        if walked == Walked::Probe(hit.addr) && at.module == hit.module {
            return true;
        }
        if !self.leave(placed, at.module, walked) {
            self.interrupt(placed, at);
            if self.suspended.len() == SUSPENDED {
                self.suspended.remove(0);
            }
            self.suspended.push(at);
            self.counts.interrupted += 1;
        }
        false
    }

    /// Writes that the thread left the ranges, if it did.
    fn leave(&mut self, placed: &Placement, module: usize, walked: Walked) -> bool {
        match walked {
            Walked::Out(addr) => self.writer.disable(placed.run(At { module, addr })),
            Walked::Behind(addr) => self.writer.disable_before(placed.run(At { module, addr })),
            Walked::Far => self.writer.disable_far(),
            Walked::Probe(_) | Walked::Nowhere => return false,
        }
        self.state = State::Off;
        true
    }

    /// Writes that nothing is known after a place.
    fn interrupt(&mut self, placed: &Placement, at: At) {
        self.writer.disable_before(placed.run(at));
        self.state = State::Off;
    }

    /// Where a thread came into the ranges whose first hit is this.
    fn came_in(&mut self, module: &ModuleLayout, hit: At) -> At {
        if self.after_loss {
            return hit;
        }
        // It may have been interrupted before or after the probe that stands where it was.
        let leads_here = |at: &At| {
            let walks = [false, true].map(|passed| module.walk(at.addr, passed));
            at.module == hit.module && walks.contains(&Walked::Probe(hit.addr))
        };
        let resumed = self.suspended.iter().rposition(leads_here);
        if let Some(index) = resumed
            && let Some(at) = self.suspended.get(index).copied()
        {
            self.suspended.truncate(index);
            return at;
        }
        let addr = module.entrance(hit.addr).map_or(hit.addr, |piece| piece.start);
        At { addr, ..hit }
    }

    /// Writes where the last instruction of a piece leads.
    fn decide(&mut self, layout: &Layout, placed: &Placement, piece: &Piece, hit: &ProbeHit) {
        let module = hit.at.module;
        let Some(last) = piece.last() else { return };
        let branch = At {
            module,
            addr: last.ip(),
        };
        match piece.exit {
            Exit::Cond(target) => {
                let Some(taken) = is_taken(last, &hit.registers) else {
                    self.unread(placed, branch);
                    return;
                };
                let addr = if taken { target } else { piece.end };
                let to = At { module, addr };
                let is_traced = layout
                    .modules
                    .get(module)
                    .is_some_and(|m| m.pieces.at(addr).is_some());
                if is_traced {
                    self.writer.outcome(taken, placed.run(to));
                    self.go(to);
                } else {
                    self.writer.disable(placed.run(to));
                    self.state = State::Off;
                }
            }
            Exit::Indirect(operand) => {
                let Some(target) = operand.and_then(|operand| target(operand, piece, hit)) else {
                    self.unread(placed, branch);
                    return;
                };
                match placed.find(layout, target) {
                    Some(to) => {
                        self.writer.target(target);
                        self.go(to);
                    }
                    None => {
                        self.writer.disable(target);
                        self.state = State::Off;
                    }
                }
            }
            Exit::To(_) | Exit::Falls | Exit::Far | Exit::Stops => {}
        }
    }

    fn go(&mut self, at: At) {
        self.state = State::On { at, passed: false };
    }

    fn unread(&mut self, placed: &Placement, branch: At) {
        self.interrupt(placed, branch);
        self.counts.unread_targets += 1;
    }

    /// Hits were lost; nobody knows whose.
    pub fn lost(&mut self, placed: &Placement) {
        if let State::On { at, .. } = self.state {
            self.interrupt(placed, at);
        }
        self.suspended.clear();
        self.after_loss = true;
        self.writer.overflow();
    }

    /// The thread gets a signal here. If nothing else is heard of it, this is where it was.
    pub fn signalled(&mut self, at: At) {
        self.signalled = Some(at);
    }

    /// The thread ended, or nobody looks any more. `pc` is where it was, if that is known: `Some(None)` outside of the
    /// ranges.
    pub fn end(&mut self, layout: &Layout, placed: &Placement, pc: Option<Option<At>>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let pc = self.signalled.take().map(Some).or(pc);
        self.end_at(layout, placed, pc);
    }

    fn end_at(&mut self, layout: &Layout, placed: &Placement, pc: Option<Option<At>>) {
        match self.state {
            State::On { at, passed } => {
                let Some(module) = layout.modules.get(at.module) else {
                    return;
                };
                match pc {
                    Some(Some(pc)) if pc.module == at.module && module.reaches(at.addr, passed, pc.addr) => {
                        self.interrupt(placed, pc);
                    }
                    Some(_) if self.leave(placed, at.module, module.walk(at.addr, passed)) => {
                        // It may have come back since, without meeting a probe.
                        self.end_at(layout, placed, pc);
                    }
                    _ => {
                        self.interrupt(placed, at);
                        self.counts.cut += 1;
                    }
                }
            }
            State::Off => {
                let Some(Some(pc)) = pc else { return };
                let entered = layout
                    .modules
                    .get(pc.module)
                    .and_then(|module| module.entrance_before(pc.addr))
                    .filter(|&addr| addr != pc.addr && !self.after_loss);
                if let Some(addr) = entered {
                    self.writer.enable(placed.run(At { addr, ..pc }));
                    self.interrupt(placed, pc);
                }
            }
        }
    }

    /// The packets.
    pub fn finish(self) -> Written {
        self.writer.finish()
    }
}

/// Where an indirect branch will go.
fn target(operand: TargetOperand, piece: &Piece, hit: &ProbeHit) -> Option<u64> {
    match operand {
        TargetOperand::Memory(_) => hit.word,
        TargetOperand::Register(register) => {
            let mut registers = hit.registers;
            let (_, before) = piece.instructions.split_last()?;
            let skipped = before
                .iter()
                .skip_while(|instruction| instruction.ip() < hit.at.addr);
            for instruction in skipped {
                suffix::apply(instruction, &mut registers)?;
            }
            value(register, &registers)
        }
    }
}
