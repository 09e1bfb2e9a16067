//! Reading registers and flags by the names that the decoder uses.

use failure::image::Registers;
use iced_x86::{ConditionCode, Register};

pub(crate) const CF: u64 = 1;
pub(crate) const PF: u64 = 1 << 2;
pub(crate) const ZF: u64 = 1 << 6;
pub(crate) const SF: u64 = 1 << 7;
pub(crate) const DF: u64 = 1 << 10;
pub(crate) const OF: u64 = 1 << 11;

/// The value of an integer register or a part of one, zero-extended; `None` for any other register.
pub(crate) fn read(registers: &Registers, register: Register) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        _ => return None,
    };
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    let shifted = if high { whole >> 8 } else { whole };
    Some(low_bytes(shifted, register.size()))
}

/// The low `bytes` bytes of a number.
pub(crate) fn low_bytes(value: u64, bytes: usize) -> u64 {
    match bytes {
        0..8 => value & ((1 << (bytes * 8)) - 1),
        _ => value,
    }
}

/// Whether a condition holds; `None` for no condition.
pub(crate) fn holds(condition: ConditionCode, flags: u64) -> Option<bool> {
    let flag = |bit| flags & bit != 0;
    let less = flag(SF) != flag(OF);
    Some(match condition {
        ConditionCode::None => return None,
        ConditionCode::o => flag(OF),
        ConditionCode::no => !flag(OF),
        ConditionCode::b => flag(CF),
        ConditionCode::ae => !flag(CF),
        ConditionCode::e => flag(ZF),
        ConditionCode::ne => !flag(ZF),
        ConditionCode::be => flag(CF) || flag(ZF),
        ConditionCode::a => !flag(CF) && !flag(ZF),
        ConditionCode::s => flag(SF),
        ConditionCode::ns => !flag(SF),
        ConditionCode::p => flag(PF),
        ConditionCode::np => !flag(PF),
        ConditionCode::l => less,
        ConditionCode::ge => !less,
        ConditionCode::le => less || flag(ZF),
        ConditionCode::g => !less && !flag(ZF),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_registers() {
        let registers = Registers {
            rax: 0x1122_3344_5566_7788,
            r9: 0xffff_ffff_0000_0001,
            ..Registers::default()
        };
        assert_eq!(read(&registers, Register::RAX), Some(0x1122_3344_5566_7788));
        assert_eq!(read(&registers, Register::EAX), Some(0x5566_7788));
        assert_eq!(read(&registers, Register::AX), Some(0x7788));
        assert_eq!(read(&registers, Register::AL), Some(0x88));
        assert_eq!(read(&registers, Register::AH), Some(0x77));
        assert_eq!(read(&registers, Register::R9D), Some(1));
        assert_eq!(read(&registers, Register::XMM0), None);
        assert_eq!(read(&registers, Register::FS), None);
    }

    #[test]
    fn conditions() {
        assert_eq!(holds(ConditionCode::None, 0), None);
        assert_eq!(holds(ConditionCode::e, ZF), Some(true));
        assert_eq!(holds(ConditionCode::a, CF), Some(false));
        assert_eq!(holds(ConditionCode::l, SF), Some(true));
        assert_eq!(holds(ConditionCode::l, SF | OF), Some(false));
        assert_eq!(holds(ConditionCode::g, ZF), Some(false));
    }
}
