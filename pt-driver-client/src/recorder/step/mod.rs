//! One instruction at a time: what really ran, to hold the other recorders against. For tests, and for programs that
//! we start: every step is a stop.
//!
//! Only the functions that have traced code are stepped through. A thread is caught where it enters one (at its
//! beginning, where a call comes back, where an exception lands) by a probe that stops it.
//!
//! Others may have probes on the same instructions. Measured on Linux 6.18: a step over a probed instruction is one
//! step, whether the kernel does what the instruction does by itself (branches, pushes) or has it executed out of
//! line; the latter ends with a SIGTRAP of its own kind.

mod thread;
mod tracker;

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Instruction;
use program::code::{Exit as BlockExit, FlowGraph};
use program::{FileOffset, FunctionRef, LinkAddr, ModuleId, Pc, Program};
use slicer::plan::Plan;
use tracee::bpf::{HitProgram, HitRing, ManyProbes, Then};
use tracee::perf::ProbeFile;
use tracee::process::ModuleMap;
use tracee::run::TrackError;
use tracee::{Pid, Tid, monotonic_ns};

use self::thread::{Thread, is_direct, leads_to};
use super::Recorder;
use super::clock::Clock;
use super::layout::has_refused_prefix;
use super::piece::Pieces;
use super::place::Known;
use super::recording::{Placed, Recording, Space, ThreadTrace};
use super::request::Source;

/// Steps through the ranges of a plan.
pub struct SingleStep {
    modules: Vec<Stepped>,
    gates: Vec<Gate>,
    biases: Vec<Option<u64>>,
    armed: Option<Armed>,
    threads: BTreeMap<Tid, Thread>,
    order: Vec<Tid>,
    /// The program failed: what its threads do until it is gone is not recorded any more.
    over: bool,
    recording: Recording,
}

/// Where a thread is caught: at the first instruction of a block that takes a probe.
struct Gate {
    pc: Pc,
    /// The instructions of the block before it, which were executed when it is met.
    before: Vec<u64>,
}

/// The gates of a process.
struct Armed {
    ring: HitRing,
    _probes: Vec<ManyProbes>,
    /// Where threads were caught.
    caught: BTreeMap<Tid, u64>,
}

/// A module with functions that are stepped through.
struct Stepped {
    known: Known,
    ranges: Vec<std::ops::Range<u64>>,
    /// All instructions of those functions.
    instructions: BTreeMap<u64, Instruction>,
}

impl SingleStep {
    /// For the ranges of a plan.
    #[must_use]
    pub fn new(program: &Program<'_>, plan: &Plan) -> Self {
        let mut this = Self {
            modules: Vec::new(),
            gates: Vec::new(),
            biases: Vec::new(),
            armed: None,
            threads: BTreeMap::new(),
            order: Vec::new(),
            over: false,
            recording: Recording::empty(Source::SingleStep, Clock::Monotonic),
        };
        let ids: BTreeSet<ModuleId> = plan.ranges.iter().map(|range| range.module).collect();
        let starts = ids.into_iter().flat_map(|module| {
            let (pieces, _) = Pieces::of(program, plan, module);
            let starts: Vec<u64> = pieces.all().iter().map(|piece| piece.start).collect();
            starts.into_iter().map(move |addr| Pc {
                module,
                addr: LinkAddr(addr),
            })
        });
        let functions: BTreeSet<FunctionRef> = starts.filter_map(|pc| program.function_at(pc)).collect();
        for function in functions {
            this.add(program, plan, function);
        }
        this.biases = vec![None; this.modules.len()];
        this
    }

    fn add(&mut self, program: &Program<'_>, plan: &Plan, function: FunctionRef) {
        let module = function.module;
        let Some(file) = program.module(module) else {
            return;
        };
        if !self.modules.iter().any(|stepped| stepped.known.module == module) {
            let Some(known) = Known::of(program, module) else {
                return;
            };
            let ranges = plan.ranges.iter().filter(|range| range.module == module);
            self.modules.push(Stepped {
                known,
                ranges: ranges.map(|range| range.start.0..range.end.0).collect(),
                instructions: BTreeMap::new(),
            });
        }
        let Some(stepped) = self
            .modules
            .iter_mut()
            .find(|stepped| stepped.known.module == module)
        else {
            return;
        };
        let flow: &FlowGraph = &file.code().flow(function.function);
        let instructions = flow.instructions.iter();
        stepped
            .instructions
            .extend(instructions.map(|instruction| (instruction.ip(), *instruction)));
        let entry = flow
            .entry
            .and_then(|entry| flow.block(entry))
            .map(|block| block.start);
        for block in &flow.blocks {
            let returns = |pred: &&program::code::Block| matches!(pred.exit, BlockExit::Call(_));
            let mut preds = block.preds.iter().filter_map(|&pred| flow.block(pred));
            if Some(block.start) == entry || block.exceptional || preds.any(|pred| returns(&pred)) {
                let (before, rest): (Vec<_>, Vec<_>) = {
                    let instructions = flow.instructions_of(block);
                    let taken = instructions
                        .iter()
                        .position(|instruction| !has_refused_prefix(instruction));
                    let (before, rest) = instructions.split_at(taken.unwrap_or(0));
                    (before.to_vec(), rest.to_vec())
                };
                let Some(first) = rest.first() else { continue };
                self.gates.push(Gate {
                    pc: Pc {
                        module,
                        addr: LinkAddr(first.ip()),
                    },
                    before: before.iter().map(Instruction::ip).collect(),
                });
            }
        }
    }

    /// Sets the gates of a process.
    fn arm(&mut self, pid: Pid) -> Result<(), TrackError> {
        const RING: usize = 1 << 20;
        let map = ModuleMap::of(pid)?;
        let ring = HitRing::new(RING, 8)?;
        ring.only(Some(pid));
        let program = HitProgram::for_many_probes(&ring, 0, &[], Then::Stop)?;
        let mut probes = Vec::new();
        for (stepped, bias) in self.modules.iter().zip(&mut self.biases) {
            let known = &stepped.known;
            let Some(module) = known.find(&map) else { continue };
            *bias = module.mapped.bias;
            let gates = self.gates.iter().filter(|gate| gate.pc.module == known.module);
            let offsets: Vec<FileOffset> = gates.filter_map(|gate| known.offset(gate.pc.addr.0)).collect();
            if let Some(path) = map.file(module).filter(|_| !offsets.is_empty()) {
                probes.push(ManyProbes::open(&program, &ProbeFile::at(&path), &offsets, pid)?);
            }
        }
        self.armed = Some(Armed {
            ring,
            _probes: probes,
            caught: BTreeMap::new(),
        });
        Ok(())
    }

    /// The gate that a thread was caught at.
    fn gate(&mut self, tid: Tid) -> Option<u64> {
        let Armed { ring, caught, .. } = self.armed.as_mut()?;
        ring.read(|hit| {
            caught.insert(hit.tid, hit.addr.0);
        });
        caught.remove(&tid)
    }

    /// A thread was caught at a gate: the block was executed up to there.
    fn come_to(&mut self, tid: Tid, gate: u64) {
        let found = self.gates.iter().find_map(|found| {
            let (_, bias) = self.module(found.pc)?;
            (bias.wrapping_add(found.pc.addr.0) == gate).then_some((bias, found.before.clone()))
        });
        let Some((bias, before)) = found else { return };
        let before: Vec<u64> = before.into_iter().map(|addr| bias.wrapping_add(addr)).collect();
        for (index, &from) in before.iter().enumerate() {
            let to = before.get(index + 1).copied().unwrap_or(gate);
            self.advance(tid, from, to);
        }
    }

    fn module(&self, pc: Pc) -> Option<(&Known, u64)> {
        let mut modules = self.modules.iter().zip(&self.biases);
        let (stepped, bias) = modules.find(|(stepped, _)| stepped.known.module == pc.module)?;
        Some((&stepped.known, (*bias)?))
    }

    fn thread(&mut self, tid: Tid) -> &mut Thread {
        if !self.threads.contains_key(&tid) {
            self.order.push(tid);
        }
        self.threads.entry(tid).or_default()
    }

    /// The instruction at a run-time address of the functions that are stepped through, as it is in the process.
    fn instruction(&self, addr: u64) -> Option<Instruction> {
        let mut modules = self.modules.iter().zip(&self.biases);
        modules.find_map(|(stepped, bias)| {
            let link = addr.wrapping_sub((*bias)?);
            let mut instruction = *stepped.instructions.get(&link)?;
            instruction.set_ip(addr);
            if is_direct(&instruction) {
                let target = instruction.near_branch_target().wrapping_add((*bias)?);
                instruction.set_near_branch64(target);
            }
            Some(instruction)
        })
    }

    fn is_traced(&self, addr: u64) -> bool {
        self.modules.iter().zip(&self.biases).any(|(stepped, bias)| {
            let link = bias.map(|bias| addr.wrapping_sub(bias));
            link.is_some_and(|link| stepped.ranges.iter().any(|range| range.contains(&link)))
        })
    }

    /// A thread that was at one instruction is now at another.
    fn advance(&mut self, tid: Tid, from: u64, to: u64) {
        let (traced, to_traced) = (self.is_traced(from), self.is_traced(to));
        let executed = self.instruction(from).filter(|_| from != to);
        let is_inside = self.instruction(to).is_some();
        let time = monotonic_ns();
        let over = self.over;
        let thread = self.thread(tid);
        if let Some(back) = thread.away_from {
            thread.at = Some(to);
            thread.away_from = Some(back).filter(|&back| to != back);
            return;
        }
        match executed {
            Some(instruction) if leads_to(&instruction, to) => {
                thread.at = is_inside.then_some(to);
                if traced && !over {
                    thread.executed(&instruction, to, to_traced, time);
                }
            }
            // A string instruction is not through yet, or a signal came before the instruction was executed.
            None if from == to => {}
            _ => {
                thread.at = Some(to);
                thread.away_from = Some(from);
            }
        }
    }
}

impl SingleStep {
    /// Ends all threads: what comes now is in another address space.
    fn close(&mut self) {
        let placed = self.modules.iter().zip(&self.biases);
        let modules = placed.filter_map(|(stepped, bias)| {
            Some(Placed {
                module: stepped.known.module,
                bias: (*bias)?,
                build_id: stepped.known.build_id.clone(),
            })
        });
        let modules: Vec<Placed> = modules.collect();
        if self.order.is_empty() {
            return;
        }
        let space = self.recording.spaces.len();
        self.recording.spaces.push(Space { modules });
        for tid in std::mem::take(&mut self.order) {
            let Some(mut thread) = self.threads.remove(&tid) else {
                continue;
            };
            if let Some(at) = thread.away_from.or(thread.at) {
                thread.off_before(at);
            }
            if !thread.writer.is_empty() {
                let bytes = thread.writer.finish().bytes;
                self.recording.threads.push(ThreadTrace { tid, space, bytes });
            }
        }
    }
}

impl Recorder for SingleStep {
    fn source(&self) -> Source {
        Source::SingleStep
    }

    fn finish(mut self: Box<Self>) -> Recording {
        self.close();
        self.recording
    }
}
