//! What a branch is going to do, from the registers and the memory before it.

use failure::image::Registers;
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};
use tracee::bpf;

const CARRY: u32 = 0;
const PARITY: u32 = 2;
const ZERO: u32 = 6;
const SIGN: u32 = 7;
const OVERFLOW: u32 = 11;

/// Whether a conditional branch will be taken; `None` for an instruction that is none.
pub(crate) fn is_taken(branch: &Instruction, registers: &Registers) -> Option<bool> {
    let flag = |bit: u32| registers.eflags >> bit & 1 == 1;
    let less = flag(SIGN) != flag(OVERFLOW);
    let taken = match branch.condition_code() {
        ConditionCode::o => flag(OVERFLOW),
        ConditionCode::no => !flag(OVERFLOW),
        ConditionCode::b => flag(CARRY),
        ConditionCode::ae => !flag(CARRY),
        // LOOPE and LOOPNE have a condition besides the count.
        ConditionCode::e | ConditionCode::ne if !branch.is_jcc_short_or_near() => {
            return counted(branch, registers, flag(ZERO));
        }
        ConditionCode::e => flag(ZERO),
        ConditionCode::ne => !flag(ZERO),
        ConditionCode::be => flag(CARRY) || flag(ZERO),
        ConditionCode::a => !flag(CARRY) && !flag(ZERO),
        ConditionCode::s => flag(SIGN),
        ConditionCode::ns => !flag(SIGN),
        ConditionCode::p => flag(PARITY),
        ConditionCode::np => !flag(PARITY),
        ConditionCode::l => less,
        ConditionCode::ge => !less,
        ConditionCode::le => less || flag(ZERO),
        ConditionCode::g => !less && !flag(ZERO),
        ConditionCode::None => return counted(branch, registers, flag(ZERO)),
    };
    Some(taken)
}

/// The branches on a count in `rcx`.
fn counted(branch: &Instruction, registers: &Registers, zero: bool) -> Option<bool> {
    let (count, narrow) = (registers.rcx, registers.rcx as u32);
    // LOOP counts down before it looks.
    let goes_on = |is_one: bool| !is_one;
    use iced_x86::Code::{Loop_rel8_64_ECX, Loope_rel8_64_ECX, Loopne_rel8_64_ECX};
    let is_narrow = matches!(
        branch.code(),
        Loop_rel8_64_ECX | Loope_rel8_64_ECX | Loopne_rel8_64_ECX
    );
    let again = goes_on(if is_narrow { narrow == 1 } else { count == 1 });
    match branch.mnemonic() {
        Mnemonic::Jrcxz => Some(count == 0),
        Mnemonic::Jecxz => Some(narrow == 0),
        Mnemonic::Loop => Some(again),
        Mnemonic::Loope => Some(again && zero),
        Mnemonic::Loopne => Some(again && !zero),
        _ => None,
    }
}

/// Where the target of an indirect branch is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TargetOperand {
    /// In a register.
    Register(Register),
    /// In memory, at an address of these parts.
    Memory(bpf::ProbeRead),
}

/// Where a return finds where to go.
const STACK_TOP: bpf::ProbeRead = bpf::ProbeRead {
    base: Some(bpf::Register::Rsp),
    index: None,
    offset: 0,
    len: 8,
};

/// The operand of an indirect jump, an indirect call or a return; `None` where it cannot be found out (it lies in a
/// thread's own storage, or is narrower than an address).
pub(crate) fn target_operand(branch: &Instruction) -> Option<TargetOperand> {
    if branch.mnemonic() == Mnemonic::Ret {
        return Some(TargetOperand::Memory(STACK_TOP));
    }
    match branch.op0_kind() {
        OpKind::Register => {
            let register = branch.op0_register();
            value(register, &Registers::default())?;
            Some(TargetOperand::Register(register))
        }
        OpKind::Memory => memory(branch).map(TargetOperand::Memory),
        _ => None,
    }
}

fn memory(branch: &Instruction) -> Option<bpf::ProbeRead> {
    if branch.has_segment_prefix() && matches!(branch.memory_segment(), Register::FS | Register::GS) {
        return None;
    }
    if branch.memory_size().size() != 8 {
        return None;
    }
    if branch.is_ip_rel_memory_operand() {
        let offset = branch
            .memory_displacement64()
            .wrapping_sub(branch.ip())
            .cast_signed();
        return Some(bpf::ProbeRead {
            base: Some(bpf::Register::Rip),
            index: None,
            offset: i32::try_from(offset).ok()?,
            len: 8,
        });
    }
    let register = |register: Register| match register {
        Register::None => Some(None),
        other => sampled(other).map(Some),
    };
    let index = register(branch.memory_index())?;
    Some(bpf::ProbeRead {
        base: register(branch.memory_base())?,
        index: index.map(|index| (index, branch.memory_index_scale().trailing_zeros() as u8)),
        offset: i32::try_from(branch.memory_displacement64().cast_signed()).ok()?,
        len: 8,
    })
}

/// A full register, as the kernel's samples name it.
fn sampled(register: Register) -> Option<bpf::Register> {
    Some(match register {
        Register::RAX => bpf::Register::Rax,
        Register::RBX => bpf::Register::Rbx,
        Register::RCX => bpf::Register::Rcx,
        Register::RDX => bpf::Register::Rdx,
        Register::RSI => bpf::Register::Rsi,
        Register::RDI => bpf::Register::Rdi,
        Register::RBP => bpf::Register::Rbp,
        Register::RSP => bpf::Register::Rsp,
        Register::R8 => bpf::Register::R8,
        Register::R9 => bpf::Register::R9,
        Register::R10 => bpf::Register::R10,
        Register::R11 => bpf::Register::R11,
        Register::R12 => bpf::Register::R12,
        Register::R13 => bpf::Register::R13,
        Register::R14 => bpf::Register::R14,
        Register::R15 => bpf::Register::R15,
        _ => return None,
    })
}

/// The value of a full general register.
pub(crate) fn value(register: Register, registers: &Registers) -> Option<u64> {
    let mut copy = *registers;
    place(register, &mut copy).map(|value| *value)
}

/// Where the value of a full general register is kept.
pub(crate) fn place(register: Register, registers: &mut Registers) -> Option<&mut u64> {
    Some(match register {
        Register::RAX => &mut registers.rax,
        Register::RBX => &mut registers.rbx,
        Register::RCX => &mut registers.rcx,
        Register::RDX => &mut registers.rdx,
        Register::RSI => &mut registers.rsi,
        Register::RDI => &mut registers.rdi,
        Register::RBP => &mut registers.rbp,
        Register::RSP => &mut registers.rsp,
        Register::R8 => &mut registers.r8,
        Register::R9 => &mut registers.r9,
        Register::R10 => &mut registers.r10,
        Register::R11 => &mut registers.r11,
        Register::R12 => &mut registers.r12,
        Register::R13 => &mut registers.r13,
        Register::R14 => &mut registers.r14,
        Register::R15 => &mut registers.r15,
        _ => return None,
    })
}
