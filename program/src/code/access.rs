//! Which memory an instruction reads and writes, by which address expression, how wide.

use std::cell::RefCell;

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, Register,
    UsedMemory,
};

use crate::addr::LinkAddr;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads, then writes: `add %eax,(%rdi)`, `lock xadd`, `cmpxchg`.
    ReadWrite,
}

impl AccessKind {
    /// Whether memory is read.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether memory is written.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Where an access comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A memory operand that stands in the instruction.
    Explicit,
    /// The stack engine: `push`, `pop`, `call`, `ret`, `enter`, `leave`.
    Stack,
    /// A string instruction: `rep movs` reads at `rsi` and writes at `rdi`.
    String,
}

/// The segment that an address is relative to, if it is not the flat address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Thread-local storage on Linux.
    Fs,
    /// The other one.
    Gs,
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Reads, writes or both.
    pub kind: AccessKind,
    /// Bytes; zero when the number is only known at run time (`rep`, `xsave`).
    pub width: u32,
    /// Base register, whole (`rax` for `eax`); none for an address that is known.
    pub base: Option<Register>,
    /// Index register, whole, and its scale.
    pub index: Option<(Register, u32)>,
    /// Displacement; the whole address if there is neither base nor index.
    pub disp: i64,
    /// Relative to a segment's base.
    pub segment: Option<Segment>,
    /// May not happen although the instruction runs (`cmov` from memory reads always; masked and `rep` accesses
    /// need not).
    pub conditional: bool,
    /// Where it comes from.
    pub operand: Operand,
}

impl Access {
    /// The address, if it is known: RIP-relative or absolute, in the flat address space.
    #[must_use]
    pub fn address(&self) -> Option<LinkAddr> {
        let fixed = self.base.is_none() && self.index.is_none() && self.segment.is_none();
        fixed.then(|| LinkAddr(self.disp.cast_unsigned()))
    }

    /// Whether this is the stack engine's own access.
    #[must_use]
    pub fn stack_engine(&self) -> bool {
        self.operand == Operand::Stack
    }
}

/// Reads accesses of many instructions with one set of buffers.
#[derive(Debug)]
pub struct AccessReader {
    factory: InstructionInfoFactory,
    found: Vec<Access>,
}

impl Default for AccessReader {
    fn default() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
            found: Vec::new(),
        }
    }
}

impl AccessReader {
    /// The accesses of an instruction, in the order of its operands, the stack's last.
    pub fn read(&mut self, instruction: &Instruction) -> &[Access] {
        self.found.clear();
        if !touches_memory(instruction) {
            return &self.found;
        }
        let info = self
            .factory
            .info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        let found = info
            .used_memory()
            .iter()
            .filter_map(|used| access(instruction, used));
        self.found.extend(found);
        &self.found
    }
}

thread_local! {
    static READER: RefCell<AccessReader> = RefCell::new(AccessReader::default());
}

/// The accesses of an instruction. `lea`, `nop` and prefetches have none.
pub fn accesses(instruction: &Instruction) -> impl Iterator<Item = Access> + use<> {
    READER
        .with_borrow_mut(|reader| reader.read(instruction).to_vec())
        .into_iter()
}

/// The whole register that a register is part of: `rax` for `al`, `ah`, `ax` and `eax`; `zmm1` for `xmm1`.
#[must_use]
pub fn full_register(register: Register) -> Register {
    register.full_register()
}

fn touches_memory(instruction: &Instruction) -> bool {
    !matches!(
        instruction.mnemonic(),
        Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Endbr64
    ) && (instruction.is_stack_instruction()
        || instruction.is_string_instruction()
        || (0..instruction.op_count()).any(|op| is_memory(instruction, op))
        || has_implicit_memory(instruction))
}

fn is_memory(instruction: &Instruction, operand: u32) -> bool {
    use iced_x86::OpKind;
    !matches!(
        instruction.op_kind(operand),
        OpKind::Register
            | OpKind::NearBranch16
            | OpKind::NearBranch32
            | OpKind::NearBranch64
            | OpKind::FarBranch16
            | OpKind::FarBranch32
            | OpKind::Immediate8
            | OpKind::Immediate8_2nd
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// Accesses that no operand shows.
fn has_implicit_memory(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Leave | Mnemonic::Enter | Mnemonic::Xlatb
    ) || matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::Call | FlowControl::IndirectCall
    )
}

fn access(instruction: &Instruction, used: &UsedMemory) -> Option<Access> {
    let (kind, may_skip) = match used.access() {
        OpAccess::Read => (AccessKind::Read, false),
        OpAccess::CondRead => (AccessKind::Read, true),
        OpAccess::Write => (AccessKind::Write, false),
        OpAccess::CondWrite => (AccessKind::Write, true),
        OpAccess::ReadWrite => (AccessKind::ReadWrite, false),
        OpAccess::ReadCondWrite => (AccessKind::ReadWrite, false),
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    if used.memory_size() == iced_x86::MemorySize::Unknown && is_prefetch(instruction.mnemonic()) {
        return None;
    }
    let operand = operand_of(instruction, used);
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let repeats = repeats && operand == Operand::String;
    let base =
        Some(used.base()).filter(|base| !matches!(base, Register::None | Register::RIP | Register::EIP));
    let index = Some(used.index()).filter(|index| *index != Register::None);
    Some(Access {
        kind,
        width: if repeats {
            0
        } else {
            u32::try_from(used.memory_size().size()).unwrap_or(0)
        },
        base: base.map(Register::full_register),
        index: index.map(|index| (index.full_register(), used.scale())),
        disp: used.displacement().cast_signed(),
        segment: match used.segment() {
            Register::FS => Some(Segment::Fs),
            Register::GS => Some(Segment::Gs),
            _ => None,
        },
        conditional: may_skip || repeats,
        operand,
    })
}

fn operand_of(instruction: &Instruction, used: &UsedMemory) -> Operand {
    if instruction.is_string_instruction() {
        return Operand::String;
    }
    let uses_stack = instruction.is_stack_instruction()
        || has_implicit_memory(instruction) && instruction.mnemonic() != Mnemonic::Xlatb;
    let on_stack = uses_stack
        && matches!(used.base().full_register(), Register::RSP | Register::RBP)
        && used.segment() == Register::SS
        && !is_explicit(instruction, used);
    if on_stack {
        Operand::Stack
    } else {
        Operand::Explicit
    }
}

/// Whether an access is the instruction's own memory operand: `push 8(%rsp)` reads one and pushes to another.
fn is_explicit(instruction: &Instruction, used: &UsedMemory) -> bool {
    let has_operand =
        (0..instruction.op_count()).any(|op| instruction.op_kind(op) == iced_x86::OpKind::Memory);
    let writes_operand = instruction.mnemonic() == Mnemonic::Pop;
    has_operand
        && used.base() == instruction.memory_base()
        && used.index() == instruction.memory_index()
        && matches!(used.access(), OpAccess::Write) == writes_operand
}

fn is_prefetch(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Prefetch
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
            | Mnemonic::Clflush
            | Mnemonic::Clflushopt
            | Mnemonic::Clwb
    )
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    fn of(bytes: &[u8]) -> Vec<Access> {
        accesses(&Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()).collect()
    }

    #[test]
    fn address_expressions() {
        // mov 0x10(%rdi,%rcx,8),%eax
        let [load] = of(&[0x8b, 0x44, 0xcf, 0x10])[..] else {
            panic!("one access")
        };
        assert_eq!((load.kind, load.width, load.disp), (AccessKind::Read, 4, 0x10));
        assert_eq!(
            (load.base, load.index),
            (Some(Register::RDI), Some((Register::RCX, 8)))
        );
        assert_eq!((load.address(), load.operand), (None, Operand::Explicit));
        // movb $1,0x100(%rip)
        let [store] = of(&[0xc6, 0x05, 0x00, 0x01, 0x00, 0x00, 0x01])[..] else {
            panic!("one access")
        };
        assert_eq!((store.kind, store.width), (AccessKind::Write, 1));
        assert_eq!(store.address(), Some(LinkAddr(0x1107)));
        // mov %fs:0x28,%rax
        let [tls] = of(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0])[..] else {
            panic!("one access")
        };
        assert_eq!(
            (tls.segment, tls.address(), tls.disp),
            (Some(Segment::Fs), None, 0x28)
        );
    }

    #[test]
    fn read_modify_write() {
        // lock cmpxchg %ecx,(%rdx)
        let [exchange] = of(&[0xf0, 0x0f, 0xb1, 0x0a])[..] else {
            panic!("one access")
        };
        assert_eq!((exchange.kind, exchange.width), (AccessKind::ReadWrite, 4));
        // incl (%rax)
        assert_eq!(of(&[0xff, 0x00])[0].kind, AccessKind::ReadWrite);
        // cmpl $0,(%rax)
        assert_eq!(of(&[0x83, 0x38, 0x00])[0].kind, AccessKind::Read);
    }

    #[test]
    fn the_stack_engine_is_told_from_operands() {
        // push 8(%rsp)
        let found = of(&[0xff, 0x74, 0x24, 0x08]);
        let explicit: Vec<_> = found.iter().filter(|access| !access.stack_engine()).collect();
        let stack: Vec<_> = found.iter().filter(|access| access.stack_engine()).collect();
        assert_eq!(
            (explicit.len(), explicit[0].kind, explicit[0].disp),
            (1, AccessKind::Read, 8)
        );
        assert_eq!((stack.len(), stack[0].kind), (1, AccessKind::Write));
        // call *0x10(%rax)
        let found = of(&[0xff, 0x50, 0x10]);
        assert_eq!(found.iter().filter(|access| access.stack_engine()).count(), 1);
        assert!(
            found
                .iter()
                .any(|access| access.base == Some(Register::RAX) && access.kind == AccessKind::Read)
        );
        // ret; mov %rax,8(%rsp)
        assert!(of(&[0xc3]).iter().all(Access::stack_engine));
        assert!(!of(&[0x48, 0x89, 0x44, 0x24, 0x08])[0].stack_engine());
    }

    #[test]
    fn strings_have_both_sides_and_no_fixed_width() {
        // rep movsb
        let found = of(&[0xf3, 0xa4]);
        assert_eq!(found.len(), 2);
        assert!(
            found
                .iter()
                .all(|access| access.width == 0 && access.conditional && access.operand == Operand::String)
        );
        let by = |kind| {
            found
                .iter()
                .find(|access| access.kind == kind)
                .and_then(|access| access.base)
        };
        assert_eq!(
            (by(AccessKind::Read), by(AccessKind::Write)),
            (Some(Register::RSI), Some(Register::RDI))
        );
    }

    #[test]
    fn addresses_alone_are_no_accesses() {
        assert!(of(&[0x48, 0x8d, 0x47, 0x08]).is_empty(), "lea 8(%rdi),%rax");
        assert!(
            of(&[0x0f, 0x1f, 0x44, 0x00, 0x00]).is_empty(),
            "nopl 0(%rax,%rax)"
        );
        assert!(of(&[0x0f, 0x18, 0x08]).is_empty(), "prefetcht0 (%rax)");
        assert!(of(&[0x89, 0xc8]).is_empty(), "mov %ecx,%eax");
    }
}
