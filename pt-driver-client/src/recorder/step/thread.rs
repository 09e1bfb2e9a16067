//! One thread that is stepped, and the packets of what it executed.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

use crate::recorder::writer::PacketWriter;

#[derive(Default)]
pub(super) struct Thread {
    pub writer: PacketWriter,
    pub is_on: bool,
    /// The next instruction, while it is stepped.
    pub at: Option<u64>,
    /// Where it will go on after a signal handler, which it is stepped through to its end.
    pub away_from: Option<u64>,
}

impl Thread {
    /// It is at this instruction, and nobody knows what comes.
    pub fn off_before(&mut self, at: u64) {
        if std::mem::take(&mut self.is_on) {
            self.writer.disable_before(at);
        }
    }

    /// An instruction of the ranges was executed, and the next one is at an address.
    pub fn executed(&mut self, instruction: &Instruction, next: u64, next_traced: bool, time: u64) {
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

pub(super) fn is_direct(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}

/// Whether an instruction can have led to an address.
pub(super) fn leads_to(instruction: &Instruction, to: u64) -> bool {
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
