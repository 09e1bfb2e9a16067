//! One instruction at a time: what really ran, to hold the other recorders against. For tests, and for programs that
//! we start: every step is a stop.
//!
//! Only the functions that have traced code are stepped through. A thread is caught where it enters one (at its
//! beginning, where a call comes back, where an exception lands) by a probe that stops it.
//!
//! Others may have probes on the same instructions. Measured on Linux 6.18: a step over a probed instruction is one
//! step, whether the kernel does what the instruction does by itself (branches, pushes) or has it executed out of
//! line; the latter ends with a SIGTRAP of its own kind.

use std::collections::{BTreeMap, BTreeSet};

use failure::report::Report;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use program::code::{Exit as BlockExit, FlowGraph};
use program::{FunctionRef, Pc, Program};
use slicer::plan::Plan;
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Uprobe};
use tracee::process::ModuleMap;
use tracee::ptrace::{Launched, SigInfo, Stop, Tracer};
use tracee::run::{Handled, TrackError, Tracker};
use tracee::{Tid, monotonic_ns};

use super::Recorder;
use super::place::Known;
use super::recording::{Clock, Missing, Placed, Recording, Space, ThreadTrace, What};
use super::request::Source;
use super::writer::PacketWriter;

/// Marks our stops among those of other perf events; the gate's number is in the low half.
const COOKIE: u64 = 0x7374_6570 << 32;

/// Steps through the ranges of a plan.
pub struct SingleStep {
    modules: Vec<Stepped>,
    gates: Vec<Pc>,
    biases: Vec<Option<u64>>,
    threads: BTreeMap<Tid, Thread>,
    order: Vec<Tid>,
    recording: Recording,
}

/// A module with functions that are stepped through.
struct Stepped {
    known: Known,
    ranges: Vec<std::ops::Range<u64>>,
    /// All instructions of those functions.
    instructions: BTreeMap<u64, Instruction>,
}

#[derive(Default)]
struct Thread {
    writer: PacketWriter,
    probes: Vec<Uprobe>,
    is_on: bool,
    /// The next instruction, while it is stepped.
    at: Option<u64>,
    interrupted: u64,
}

impl SingleStep {
    /// For the ranges of a plan.
    #[must_use]
    pub fn new(program: &Program<'_>, plan: &Plan) -> Self {
        let mut this = Self {
            modules: Vec::new(),
            gates: Vec::new(),
            biases: Vec::new(),
            threads: BTreeMap::new(),
            order: Vec::new(),
            recording: Recording::empty(Source::SingleStep, Clock::Monotonic),
        };
        let functions: BTreeSet<FunctionRef> = plan
            .ranges
            .iter()
            .filter_map(|range| {
                program.function_at(Pc {
                    module: range.module,
                    addr: range.start,
                })
            })
            .collect();
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
                let pc = Pc {
                    module,
                    addr: block.start,
                };
                self.gates.push(pc);
            }
        }
    }

    /// Sets the gates for a thread.
    fn arm(&mut self, tracer: &Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        let map = ModuleMap::of(tracer.pid())?;
        let mut probes = Vec::new();
        for (cookie, gate) in (COOKIE..).zip(&self.gates) {
            let Some((known, _)) = self.module(*gate) else {
                continue;
            };
            let mapped = known.find(&map).and_then(|module| map.file(module));
            let (Some(path), Some(offset)) = (mapped, known.offset(gate.addr.0)) else {
                continue;
            };
            let target = ProbeTarget::Thread(tid);
            let file = ProbeFile::at(&path);
            match Uprobe::open(&file, offset, ProbeEnd::Entry, target, Delivery::Stop { cookie }) {
                Ok(probe) => probes.push(probe),
                // Then it is caught at the next gate: what is missing, the comparison shows.
                Err(PerfError::ProbeRefused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for (stepped, bias) in self.modules.iter().zip(&mut self.biases) {
            let module = stepped.known.find(&map);
            *bias = module.and_then(|module| module.mapped.bias).or(*bias);
        }
        self.thread(tid).probes = probes;
        Ok(())
    }

    fn module(&self, pc: Pc) -> Option<(&Known, u64)> {
        let mut modules = self.modules.iter().zip(&self.biases);
        let (stepped, bias) = modules.find(|(stepped, _)| stepped.known.module == pc.module)?;
        Some((&stepped.known, bias.unwrap_or_default()))
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
        let thread = self.thread(tid);
        thread.at = is_inside.then_some(to);
        match executed {
            Some(instruction) if leads_to(&instruction, to) => {
                if traced {
                    thread.executed(&instruction, to, to_traced, time);
                }
            }
            // A string instruction is not through yet.
            None if from == to => {}
            // A signal handler, most likely.
            _ => {
                thread.off_before(from);
                thread.interrupted += 1;
            }
        }
    }
}

impl Thread {
    /// It is at this instruction, and nobody knows what comes.
    fn off_before(&mut self, at: u64) {
        if std::mem::take(&mut self.is_on) {
            self.writer.disable_before(at);
        }
    }

    /// An instruction of the ranges was executed, and the next one is at an address.
    fn executed(&mut self, instruction: &Instruction, next: u64, next_traced: bool, time: u64) {
        self.writer.time(time);
        if !self.is_on {
            self.writer.enable(instruction.ip());
        }
        self.is_on = next_traced;
        let is_far = matches!(
            instruction.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int
        );
        if is_far {
            self.writer.disable_far();
            self.is_on = false;
            return;
        }
        match (instruction.flow_control(), next_traced) {
            (FlowControl::ConditionalBranch, true) => {
                self.writer
                    .outcome(next == instruction.near_branch_target(), next);
            }
            (FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return, true) => {
                self.writer.target(next);
            }
            (_, true) => {}
            (FlowControl::Next, false) => self.writer.disable_before(next),
            (_, false) => self.writer.disable(next),
        }
    }
}

fn is_direct(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}

/// Whether an instruction can have led to an address.
fn leads_to(instruction: &Instruction, to: u64) -> bool {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => {
            to == instruction.next_ip() || to == instruction.near_branch_target()
        }
        FlowControl::UnconditionalBranch | FlowControl::Call if is_direct(instruction) => {
            to == instruction.near_branch_target()
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return => true,
        _ => to == instruction.next_ip(),
    }
}

impl Tracker for SingleStep {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.close();
        self.arm(tracer, tracer.pid().first_thread())
    }

    fn thread_started(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        self.arm(tracer, tid)
    }

    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        let at = self.threads.get(&stop.tid).and_then(|thread| thread.at);
        let gate = info.perf().and_then(|trap| {
            let number = trap.data.checked_sub(COOKIE)?;
            self.gates.get(usize::try_from(number).ok()?)
        });
        let from = match (gate, at) {
            (Some(_), Some(at)) => at,
            (Some(&gate), None) => {
                let bias = self.module(gate).map_or(0, |(_, bias)| bias);
                bias.wrapping_add(gate.addr.0)
            }
            // The end of a step over an instruction that the kernel had executed elsewhere.
            (None, Some(at)) if info.signal().0 == SIGTRAP && info.code() == 0 => at,
            _ => return Ok(Handled::Passed),
        };
        let to = tracer.registers(stop.tid)?.rip;
        self.advance(stop.tid, from, to);
        Ok(Handled::Taken)
    }

    fn steps(&self, tid: Tid) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.at.is_some())
    }

    fn stepped(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        let to = tracer.registers(tid)?.rip;
        if let Some(from) = self.threads.get(&tid).and_then(|thread| thread.at) {
            self.advance(tid, from, to);
        }
        Ok(())
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, _: &Report) -> Result<(), TrackError> {
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            let Ok(registers) = tracer.registers(tid) else {
                continue;
            };
            if let Some(from) = self.threads.get(&tid).and_then(|thread| thread.at) {
                self.advance(tid, from, registers.rip);
            }
        }
        Ok(())
    }
}

/// `SIGTRAP`.
const SIGTRAP: i32 = 5;

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
            if let Some(at) = thread.at {
                thread.off_before(at);
            }
            Uprobe::close_all(thread.probes);
            if thread.interrupted > 0 {
                let what = What::Interrupted(thread.interrupted);
                self.recording.missing.push(Missing { tid: Some(tid), what });
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
