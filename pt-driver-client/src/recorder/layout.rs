//! Which instructions are probed, so that every way through the ranges can be told with the fewest traps.
//!
//! A branch that only a run can decide is probed: the registers before it say where it goes. What lies between two
//! probes follows from the code. Where control comes into the ranges from outside, the first probe that it meets
//! tells where it came in, as long as only one entrance leads to that probe; every other entrance gets a probe of
//! its own. A function whose first block ends with a conditional branch thus costs one trap, not two.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Instruction;
use program::{LinkAddr, ModuleId, Pc};

use super::outcome::TargetOperand;
use super::piece::{Exit, Piece, Pieces};
use super::suffix;

/// The probes of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub modules: Vec<ModuleLayout>,
}

/// The probes of one module.
#[derive(Clone, Debug)]
pub(crate) struct ModuleLayout {
    pub module: ModuleId,
    pub pieces: Pieces,
    /// By address.
    pub probes: BTreeMap<u64, Probe>,
    /// For a probe, the one entrance that leads to it without another probe: a piece.
    entrances: BTreeMap<u64, usize>,
    /// Branches whose outcome is not recorded.
    pub undecided: Vec<Pc>,
}

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// The piece that it stands in.
    pub piece: usize,
    /// What it is there for.
    pub role: Role,
}

/// What a probe is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To tell that control came to the piece.
    Entry,
    /// To tell where the piece's last instruction leads.
    Decision,
}

/// A place in the pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// The module, by its number in [`Layout::modules`].
    pub module: usize,
    /// As linked.
    pub addr: u64,
}

/// Where the code leads from some place without a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// To this probe.
    Probe(u64),
    /// Out of the ranges, by a jump or a call.
    Out(u64),
    /// Out of the ranges, to what is behind them.
    Behind(u64),
    /// Into the kernel.
    Far,
    /// To an end, or to a branch whose outcome is not recorded.
    Nowhere,
}

impl Layout {
    /// Chooses the probes. `refused` are the instructions that take none.
    pub fn new(modules: &[(ModuleId, Pieces)], refused: &BTreeSet<Pc>) -> Self {
        let modules = modules.iter();
        Self {
            modules: modules
                .map(|(module, pieces)| ModuleLayout::new(*module, pieces.clone(), refused))
                .collect(),
        }
    }

    /// The branches whose outcome is not recorded.
    pub fn undecided(&self) -> impl Iterator<Item = Pc> {
        self.modules
            .iter()
            .flat_map(|module| module.undecided.iter().copied())
    }
}

impl ModuleLayout {
    fn new(module: ModuleId, pieces: Pieces, refused: &BTreeSet<Pc>) -> Self {
        let mut this = Self {
            module,
            pieces,
            probes: BTreeMap::new(),
            entrances: BTreeMap::new(),
            undecided: Vec::new(),
        };
        let takes = |instruction: &Instruction| {
            let addr = LinkAddr(instruction.ip());
            !refused.contains(&Pc { module, addr }) && !has_refused_prefix(instruction)
        };
        this.probe_decisions(&takes);
        while this.probe_entrances(&takes) {}
        this
    }

    fn probe_decisions(&mut self, takes: &impl Fn(&Instruction) -> bool) {
        for index in 0..self.pieces.all().len() {
            let Some(piece) = self.pieces.get(index).filter(|piece| piece.decides()) else {
                continue;
            };
            match decision_point(piece, takes) {
                Some(addr) => {
                    let role = Role::Decision;
                    self.probes.insert(addr, Probe { piece: index, role });
                }
                None => {
                    let addr = LinkAddr(piece.last().map_or(piece.start, Instruction::ip));
                    self.undecided.push(Pc {
                        module: self.module,
                        addr,
                    });
                    self.pieces.open_successors(index);
                }
            }
        }
    }

    /// Gives each entrance a probe of its own that cannot be told from another one, or leads to no probe; says
    /// whether there were any.
    fn probe_entrances(&mut self, takes: &impl Fn(&Instruction) -> bool) -> bool {
        let mut by_probe: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut wanted = Vec::new();
        for (index, piece) in self.pieces.all().iter().enumerate() {
            if !piece.enterable {
                continue;
            }
            match self.walk(piece.start, false) {
                Walked::Probe(addr) => by_probe.entry(addr).or_default().push(index),
                _ => wanted.push(index),
            }
        }
        for (probe, pieces) in &by_probe {
            // The one that the probe stands in needs no other: it is the one that is met most often in a loop.
            let home = self.probes.get(probe).map(|probe| probe.piece);
            let spared = pieces.iter().copied().find(|&piece| Some(piece) == home);
            let spared = spared.or(pieces.first().copied());
            wanted.extend(pieces.iter().copied().filter(|&piece| Some(piece) != spared));
        }
        let mut grew = false;
        for index in wanted {
            let Some(piece) = self.pieces.get(index) else {
                continue;
            };
            let mut free = piece.instructions.iter().filter(|instruction| takes(instruction));
            let free = free.find(|instruction| !self.probes.contains_key(&instruction.ip()));
            if let Some(addr) = free.map(Instruction::ip) {
                let role = Role::Entry;
                grew |= self.probes.insert(addr, Probe { piece: index, role }).is_none();
            }
        }
        let one = by_probe.into_iter().filter(|(_, pieces)| pieces.len() == 1);
        self.entrances = one
            .filter_map(|(probe, pieces)| Some((probe, *pieces.first()?)))
            .collect();
        grew
    }

    /// Follows the code from an address to the first probe, or out of the ranges. `passed` says that a probe at the
    /// address itself was hit already.
    pub fn walk(&self, from: u64, passed: bool) -> Walked {
        self.follow(from, passed, |_| false).unwrap_or(Walked::Nowhere)
    }

    /// Whether the code leads from one address to another without a probe between.
    pub fn reaches(&self, from: u64, passed: bool, to: u64) -> bool {
        self.follow(from, passed, |stretch| stretch.contains(&to))
            .is_none()
    }

    /// Follows the code until `stop` wants it no further; `None` then.
    fn follow(
        &self,
        from: u64,
        passed: bool,
        mut stop: impl FnMut(std::ops::RangeInclusive<u64>) -> bool,
    ) -> Option<Walked> {
        let mut at = from;
        let mut after = u64::from(passed);
        for _ in 0..=self.pieces.all().len() {
            let Some(piece) = self.pieces.at(at).and_then(|index| self.pieces.get(index)) else {
                return Some(Walked::Nowhere);
            };
            let probe = self.probes.range(at.saturating_add(after)..piece.end).next();
            let last = probe.map_or(piece.end.saturating_sub(1), |(&addr, _)| addr);
            if stop(at..=last) {
                return None;
            }
            if let Some((&addr, _)) = probe {
                return Some(Walked::Probe(addr));
            }
            after = 0;
            let (next, outside) = match piece.exit {
                Exit::To(target) => (target, Walked::Out(target)),
                Exit::Falls => (piece.end, Walked::Behind(piece.end)),
                Exit::Far => return Some(Walked::Far),
                Exit::Cond(_) | Exit::Indirect(_) | Exit::Stops => return Some(Walked::Nowhere),
            };
            if self.pieces.at(next).is_none() {
                return Some(outside);
            }
            at = next;
        }
        Some(Walked::Nowhere)
    }

    /// Where control must have come in when this probe is the first that it met; `None` where that is not known.
    pub fn entrance(&self, probe: u64) -> Option<&Piece> {
        self.pieces.get(*self.entrances.get(&probe)?)
    }

    /// Where control must have come in when it got to an address without meeting a probe.
    pub fn entrance_before(&self, addr: u64) -> Option<u64> {
        let enterable = self.pieces.all().iter().filter(|piece| piece.enterable);
        let mut leading = enterable.filter(|piece| self.reaches(piece.start, false, addr));
        let first = leading.next();
        match (first, leading.next()) {
            (Some(piece), None) => Some(piece.start),
            // This much of it ran, whichever way led there.
            _ => self.pieces.get(self.pieces.at(addr)?).map(|piece| piece.start),
        }
    }
}

/// Where to look for the outcome of a piece's last instruction: at that instruction, or, if it takes no probe, at one
/// from which on we can work out what the registers will be.
fn decision_point(piece: &Piece, takes: &impl Fn(&Instruction) -> bool) -> Option<u64> {
    let (last, before) = piece.instructions.split_last()?;
    let operand = match piece.exit {
        Exit::Indirect(None) => return None,
        Exit::Indirect(Some(operand)) => Some(operand),
        _ => None,
    };
    if takes(last) {
        return Some(last.ip());
    }
    let Some(TargetOperand::Register(_)) = operand else {
        return None;
    };
    let plain = before
        .iter()
        .rev()
        .take_while(|instruction| suffix::is_plain(instruction));
    plain
        .into_iter()
        .find(|instruction| takes(instruction))
        .map(Instruction::ip)
}

/// Prefixes with which the kernel takes no probe (`is_prefix_bad` of arch/x86/kernel/uprobes.c): NOTRACK is one of them.
pub(crate) fn has_refused_prefix(instruction: &Instruction) -> bool {
    use iced_x86::Register::{CS, DS, ES, SS};
    matches!(instruction.segment_prefix(), ES | CS | SS | DS) || instruction.has_lock_prefix()
}
