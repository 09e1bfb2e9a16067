//! Code as the processor runs it: instructions up to a branch.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use pt_driver_client::packet::ExecMode;

use super::{Processor, Setup};

/// How a stretch of instructions ends.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
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

pub struct Stretch {
    /// Its instructions, the branch included.
    pub at: Vec<u64>,
    pub ending: Ending,
    /// Behind the branch.
    pub end: u64,
    /// Which of them are PTWRITE.
    pub writes: Vec<usize>,
}

impl Processor<'_> {
    /// The instructions from an address on.
    pub fn stretch(&self, ip: u64) -> Stretch {
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
}

/// What decoders may read in different ways: code of other makers, and instructions that are undefined on purpose.
fn is_strange(insn: &Instruction) -> bool {
    let code = format!("{:?}", insn.code());
    code.starts_with("XOP_") || code.starts_with("D3NOW") || insn.flow_control() == FlowControl::Exception
}
