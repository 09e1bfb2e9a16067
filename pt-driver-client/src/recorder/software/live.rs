//! What there is while a process is recorded: its probes, and what each thread did so far.

use std::collections::BTreeSet;

use program::{FileOffset, LinkAddr, Pc};
use tracee::bpf::{BpfError, HitProgram, HitRing, ManyProbes, ProbeRead, Then};
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Uprobe};
use tracee::process::ModuleMap;
use tracee::{Pid, Tid};

use crate::recorder::follower::Follower;
use crate::recorder::layout::ModuleLayout;
use crate::recorder::outcome::TargetOperand;
use crate::recorder::piece::Exit;
use crate::recorder::place::Known;
use crate::recorder::place::Placement;
use crate::recorder::request::RecorderError;

/// What there is while a process is recorded.
pub(super) struct Live {
    pub pid: Pid,
    pub ring: HitRing,
    /// One program for each thing to know at a hit.
    pub programs: Vec<(Sample, HitProgram)>,
    /// The same for probes of perf.
    pub single_programs: Vec<(Sample, HitProgram)>,
    pub many: Vec<ManyProbes>,
    pub single: Vec<Uprobe>,
    pub probed: BTreeSet<Pc>,
    pub map: ModuleMap,
    pub placed: Placement,
    pub followers: Vec<(Tid, Follower)>,
    pub lost: u64,
    pub strays: u64,
}

/// What is to be known at a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// What a conditional branch depends on.
    Branch,
    /// The registers, one of which leads on.
    Registers,
    /// What is in memory.
    Memory(ProbeRead),
}

impl Sample {
    fn of(exit: Option<Exit>) -> Self {
        match exit {
            Some(Exit::Indirect(Some(TargetOperand::Memory(read)))) => Self::Memory(read),
            Some(Exit::Indirect(Some(TargetOperand::Register(_)))) => Self::Registers,
            // Of all others, that somebody came by is enough.
            _ => Self::Branch,
        }
    }

    fn read(self) -> Option<ProbeRead> {
        match self {
            Self::Memory(read) => Some(read),
            Self::Branch | Self::Registers => None,
        }
    }
}

/// A probe to set.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pc: Pc,
    offset: FileOffset,
}

impl Drop for Live {
    fn drop(&mut self) {
        Uprobe::close_all(std::mem::take(&mut self.single));
    }
}

impl Live {
    /// The probes of a module that are not set, by what is to be known there.
    pub fn wanted(&self, known: &Known, module: &ModuleLayout) -> Vec<(Sample, Vec<Wanted>)> {
        let mut groups: Vec<(Sample, Vec<Wanted>)> = Vec::new();
        for (&addr, probe) in &module.probes {
            let pc = Pc {
                module: known.module,
                addr: LinkAddr(addr),
            };
            let Some(offset) = known.offset(addr).filter(|_| !self.probed.contains(&pc)) else {
                continue;
            };
            let sample = Sample::of(module.pieces.get(probe.piece).map(|piece| piece.exit));
            let wanted = Wanted { pc, offset };
            match groups.iter_mut().find(|(other, _)| *other == sample) {
                Some((_, group)) => group.push(wanted),
                None => groups.push((sample, vec![wanted])),
            }
        }
        groups
    }

    /// Sets probes in a file: all at once; where that is refused, in halves; the last one as a probe of perf, which tells
    /// whether it is the instruction that takes none or the kernel that cannot set many.
    pub fn open(
        &mut self,
        file: &ProbeFile,
        sample: Sample,
        wanted: &[Wanted],
        refused: &mut BTreeSet<Pc>,
    ) -> Result<(), RecorderError> {
        let ring = &self.ring;
        let load = || match sample {
            Sample::Branch => HitProgram::for_branches(ring),
            other => HitProgram::for_many_probes(ring, 0, other.read().as_slice(), Then::GoOn),
        };
        let offsets: Vec<FileOffset> = wanted.iter().map(|wanted| wanted.offset).collect();
        let many = program(&mut self.programs, sample, load)
            .and_then(|program| ManyProbes::open(program, file, &offsets, self.pid));
        match (many, wanted) {
            (Ok(many), _) => {
                self.many.push(many);
                self.probed.extend(wanted.iter().map(|wanted| wanted.pc));
                Ok(())
            }
            (Err(error @ BpfError::NotPermitted { .. }), _) => Err(error.into()),
            (Err(_), [wanted]) => self.open_single(file, sample, *wanted, refused),
            (Err(_), _) => {
                let (left, right) = wanted.split_at(wanted.len() / 2);
                self.open(file, sample, left, refused)?;
                self.open(file, sample, right, refused)
            }
        }
    }

    fn open_single(
        &mut self,
        file: &ProbeFile,
        sample: Sample,
        wanted: Wanted,
        refused: &mut BTreeSet<Pc>,
    ) -> Result<(), RecorderError> {
        let ring = &self.ring;
        let load = || HitProgram::for_probes(ring, 0, sample.read().as_slice());
        let program = program(&mut self.single_programs, sample, load)?;
        let target = ProbeTarget::Thread(self.pid.first_thread());
        let delivery = Delivery::Bpf(program);
        match Uprobe::open(file, wanted.offset, ProbeEnd::Entry, target, delivery) {
            Ok(probe) => {
                self.single.push(probe);
                self.probed.insert(wanted.pc);
            }
            Err(PerfError::ProbeRefused { .. }) => {
                refused.insert(wanted.pc);
            }
            // It may come to be there when it is mapped.
            Err(PerfError::NoFile { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Hits were lost; nobody knows whose they were.
    pub fn lose(&mut self, now: u64) {
        self.lost = now;
        for (_, follower) in &mut self.followers {
            follower.lost(&self.placed);
        }
    }
}

/// The follower of a thread.
pub(super) fn follower(followers: &mut Vec<(Tid, Follower)>, tid: Tid, limit: usize) -> &mut Follower {
    let index = followers.iter().position(|(other, _)| *other == tid);
    let index = index.unwrap_or_else(|| {
        followers.push((tid, Follower::new(Some(limit))));
        followers.len() - 1
    });
    &mut followers[index].1
}

/// The program for what is to be known.
fn program(
    programs: &mut Vec<(Sample, HitProgram)>,
    sample: Sample,
    load: impl FnOnce() -> Result<HitProgram, BpfError>,
) -> Result<&HitProgram, BpfError> {
    let index = match programs.iter().position(|(other, _)| *other == sample) {
        Some(index) => index,
        None => {
            programs.push((sample, load()?));
            programs.len() - 1
        }
    };
    Ok(&programs[index].1)
}
