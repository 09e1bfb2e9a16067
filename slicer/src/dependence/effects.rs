//! Which registers an instruction reads and writes, as bit sets.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, RflagsBits};
use program::values::Gpr;

/// A set of register families: 16 general, 32 vector, the flags, and one for everything else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RegisterSet(u64);

impl RegisterSet {
    /// No register.
    pub const EMPTY: Self = Self(0);
    /// The arithmetic flags.
    pub const FLAGS: Self = Self(1 << 48);
    /// x87, mask, segment registers: seldom on the way to a failure, kept apart from the others.
    const OTHER: Self = Self(1 << 49);

    /// The family that a register belongs to.
    #[must_use]
    pub fn of(register: Register) -> Self {
        if let Some(gpr) = Gpr::of(register) {
            return Self::gpr(gpr);
        }
        let full = register.full_register();
        if full.is_vector_register() {
            let number = (full as u32).saturating_sub(Register::ZMM0 as u32);
            return Self(1 << (16 + number.min(31)));
        }
        match register {
            Register::None | Register::RIP | Register::EIP => Self::EMPTY,
            _ => Self::OTHER,
        }
    }

    /// One general register.
    #[must_use]
    pub fn gpr(gpr: Gpr) -> Self {
        Self(1 << gpr.index())
    }

    /// The vector register with a number.
    #[must_use]
    pub const fn vector(number: u32) -> Self {
        let number = if number < 31 { number } else { 31 };
        Self(1 << (16 + number))
    }

    /// Both sets together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without another.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the sets share a register.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each register as a set of its own, lowest first.
    pub fn each(self) -> impl Iterator<Item = Self> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let lowest = rest & rest.wrapping_neg();
            rest &= !lowest;
            (lowest != 0).then_some(Self(lowest))
        })
    }

    /// The general register, if this is just one.
    #[must_use]
    pub fn as_gpr(self) -> Option<Gpr> {
        let number = self.0.trailing_zeros();
        (self.0.is_power_of_two() && number < 16)
            .then(|| Gpr::of(Register::RAX + number))
            .flatten()
    }
}

/// What an instruction does to registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// Registers whose value it uses, address registers included.
    pub reads: RegisterSet,
    /// Registers that hold a new value afterwards.
    pub writes: RegisterSet,
    /// Of those written: the ones that may keep their old value, in whole or in part.
    pub keeps: RegisterSet,
}

impl Effects {
    /// Works out an instruction's effects.
    #[must_use]
    pub fn of(instr: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
        let mut effects = Self::default();
        let info = factory.info(instr);
        for used in info.used_registers() {
            let set = RegisterSet::of(used.register());
            let partial = used.register().is_gpr8() || used.register().is_gpr16();
            let (reads, writes, keeps) = match used.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false, false),
                OpAccess::Write => (false, true, partial),
                OpAccess::CondWrite => (false, true, true),
                OpAccess::ReadWrite => (true, true, partial),
                OpAccess::ReadCondWrite => (true, true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false, false),
            };
            if reads {
                effects.reads = effects.reads.with(set);
            }
            if writes {
                effects.writes = effects.writes.with(set);
            }
            if keeps {
                effects.keeps = effects.keeps.with(set);
            }
        }
        if replaces_scalar(instr) {
            effects.reads = effects.reads.without(RegisterSet::of(instr.op0_register()));
        }
        if instr.rflags_read() != RflagsBits::NONE {
            effects.reads = effects.reads.with(RegisterSet::FLAGS);
        }
        if instr.rflags_modified() != RflagsBits::NONE {
            effects.writes = effects.writes.with(RegisterSet::FLAGS);
        }
        effects
    }
}

/// Instructions that put a new number into the low lane of a vector register: what they keep of the other
/// lanes is nobody's value.
fn replaces_scalar(instr: &Instruction) -> bool {
    let replaces = matches!(
        instr.mnemonic(),
        Mnemonic::Cvtsi2sd
            | Mnemonic::Cvtsi2ss
            | Mnemonic::Cvtss2sd
            | Mnemonic::Cvtsd2ss
            | Mnemonic::Sqrtsd
            | Mnemonic::Sqrtss
            | Mnemonic::Roundsd
            | Mnemonic::Roundss
            | Mnemonic::Movsd
            | Mnemonic::Movss
    );
    let register = instr.op0_register();
    replaces && register.is_vector_register() && instr.op1_register() != register
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn effects(bytes: &[u8]) -> Effects {
        let instr = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        Effects::of(&instr, &mut InstructionInfoFactory::new())
    }

    fn gprs(list: &[Gpr]) -> RegisterSet {
        list.iter()
            .map(|&gpr| RegisterSet::gpr(gpr))
            .fold(RegisterSet::EMPTY, RegisterSet::with)
    }

    #[test]
    fn a_load_reads_its_address_registers_and_writes_its_target() {
        let load = effects(&[0x48, 0x8b, 0x44, 0xcb, 0x18]); // mov rax, [rbx+rcx*8+0x18]
        assert_eq!(load.reads, gprs(&[Gpr::RBX, Gpr::RCX]));
        assert_eq!(load.writes, gprs(&[Gpr::RAX]));
        assert!(load.keeps.is_empty());
    }

    #[test]
    fn a_narrow_write_keeps_the_rest_of_the_register() {
        let narrow = effects(&[0xb0, 0x01]); // mov al, 1
        assert_eq!(narrow.keeps, gprs(&[Gpr::RAX]));
        let wide = effects(&[0xb8, 0x01, 0, 0, 0]); // mov eax, 1
        assert_eq!((wide.writes, wide.keeps), (gprs(&[Gpr::RAX]), RegisterSet::EMPTY));
    }

    #[test]
    fn compares_define_flags_and_branches_use_them() {
        assert!(effects(&[0x48, 0x85, 0xc0]).writes.meets(RegisterSet::FLAGS)); // test rax, rax
        assert!(effects(&[0x74, 0x02]).reads.meets(RegisterSet::FLAGS)); // je
    }

    #[test]
    fn a_conversion_to_a_float_replaces_the_number() {
        let convert = effects(&[0xf2, 0x0f, 0x2a, 0xc7]); // cvtsi2sd xmm0, edi
        assert_eq!(convert.reads, gprs(&[Gpr::RDI]));
        assert!(convert.writes.meets(RegisterSet::vector(0)));
    }

    #[test]
    fn a_conditional_move_may_keep_its_target() {
        let cmov = effects(&[0x48, 0x0f, 0x44, 0xc3]); // cmove rax, rbx
        assert!(cmov.writes.meets(gprs(&[Gpr::RAX])));
        assert!(cmov.reads.meets(gprs(&[Gpr::RAX])) || cmov.keeps.meets(gprs(&[Gpr::RAX])));
    }
}
