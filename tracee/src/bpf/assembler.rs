//! A tiny assembler: the instructions that our programs are made of, with labels for jumps forward.

/// A register of the BPF machine. R1 to R5 carry arguments and are lost in calls, R0 has results, R6 to R9
/// survive calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    /// Points behind the stack of 512 bytes.
    Stack,
}

/// When a jump is made: the register compared with the operand, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum When {
    Equal = 0x10,
    Greater = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
}

/// The kernel's functions that our programs call, by their number in `enum bpf_func_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    KtimeGetNs = 5,
    GetCurrentPidTgid = 14,
    ProbeReadUser = 112,
    SendSignalThread = 117,
    GetNsCurrentPidTgid = 120,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    RingbufQuery = 134,
    GetCurrentTaskBtf = 158,
    TaskPtRegs = 175,
}

/// A place to jump to.
#[derive(Debug)]
pub(super) struct Label {
    jumps: Vec<usize>,
}

/// Instructions in the kernel's encoding: one word each.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
}

const ALU64: u8 = 0x07;
const JMP: u8 = 0x05;
/// Loads and stores of eight bytes.
const LDX_MEM: u8 = 0x79;
const STX_MEM: u8 = 0x7b;
const ST_MEM: u8 = 0x7a;
const SOURCE_REG: u8 = 0x08;
/// `BPF_PSEUDO_MAP_FD` and `BPF_PSEUDO_MAP_VALUE`: what the source register of a wide load stands for.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

impl Assembler {
    pub(super) fn label() -> Label {
        Label { jumps: Vec::new() }
    }

    pub(super) fn mov(&mut self, to: Reg, from: Reg) {
        self.put(ALU64 | SOURCE_REG | 0xb0, to as u8, from as u8, 0, 0);
    }

    pub(super) fn mov_imm(&mut self, to: Reg, value: i32) {
        self.put(ALU64 | 0xb0, to as u8, 0, 0, value);
    }

    pub(super) fn add_imm(&mut self, to: Reg, value: i32) {
        self.put(ALU64, to as u8, 0, 0, value);
    }

    pub(super) fn and_imm(&mut self, to: Reg, value: i32) {
        self.put(ALU64 | 0x50, to as u8, 0, 0, value);
    }

    pub(super) fn add(&mut self, to: Reg, what: Reg) {
        self.put(ALU64 | SOURCE_REG, to as u8, what as u8, 0, 0);
    }

    pub(super) fn shift_left(&mut self, to: Reg, bits: i32) {
        self.put(ALU64 | 0x60, to as u8, 0, 0, bits);
    }

    pub(super) fn shift_right(&mut self, to: Reg, bits: i32) {
        self.put(ALU64 | 0x70, to as u8, 0, 0, bits);
    }

    /// Loads the 64-bit word that stands at `base + offset`.
    pub(super) fn load(&mut self, to: Reg, base: Reg, offset: i16) {
        self.put(LDX_MEM, to as u8, base as u8, offset, 0);
    }

    pub(super) fn store(&mut self, base: Reg, offset: i16, from: Reg) {
        self.put(STX_MEM, base as u8, from as u8, offset, 0);
    }

    pub(super) fn store_imm(&mut self, base: Reg, offset: i16, value: i32) {
        self.put(ST_MEM, base as u8, 0, offset, value);
    }

    /// Adds to the 64-bit number at `base + offset`, atomically.
    pub(super) fn atomic_add(&mut self, base: Reg, offset: i16, from: Reg) {
        self.put(0xdb, base as u8, from as u8, offset, 0);
    }

    /// Loads a constant of 64 bits.
    pub(super) fn constant(&mut self, to: Reg, value: u64) {
        self.wide(to, 0, value as u32 as i32, (value >> 32) as u32 as i32);
    }

    /// Loads a map, for helpers that take one.
    pub(super) fn map(&mut self, to: Reg, fd: i32) {
        self.wide(to, MAP, fd, 0);
    }

    /// Loads the address of the first value of an array map.
    pub(super) fn map_value(&mut self, to: Reg, fd: i32) {
        self.wide(to, MAP_VALUE, fd, 0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.put(JMP | 0x80, 0, 0, 0, helper as i32);
    }

    pub(super) fn jump_if(&mut self, left: Reg, when: When, right: i32, label: &mut Label) {
        label.jumps.push(self.code.len());
        self.put(JMP | when as u8, left as u8, 0, 0, right);
    }

    pub(super) fn jump_if_reg(&mut self, left: Reg, when: When, right: Reg, label: &mut Label) {
        label.jumps.push(self.code.len());
        self.put(JMP | SOURCE_REG | when as u8, left as u8, right as u8, 0, 0);
    }

    pub(super) fn jump(&mut self, label: &mut Label) {
        label.jumps.push(self.code.len());
        self.put(JMP, 0, 0, 0, 0);
    }

    /// Puts a label here. Programs are far shorter than a jump can reach.
    pub(super) fn bind(&mut self, label: Label) {
        for jump in label.jumps {
            let distance = (self.code.len() - jump - 1) as u16;
            if let Some(instruction) = self.code.get_mut(jump) {
                *instruction |= u64::from(distance) << 16;
            }
        }
    }

    pub(super) fn exit(&mut self) {
        self.put(JMP | 0x90, 0, 0, 0, 0);
    }

    pub(super) fn finish(self) -> Vec<u64> {
        self.code
    }

    fn wide(&mut self, to: Reg, kind: u8, low: i32, high: i32) {
        self.put(0x18, to as u8, kind, 0, low);
        self.put(0, 0, 0, 0, high);
    }

    fn put(&mut self, opcode: u8, dst: u8, src: u8, offset: i16, value: i32) {
        self.code.push(
            u64::from(opcode)
                | u64::from(src << 4 | dst) << 8
                | u64::from(offset as u16) << 16
                | u64::from(value as u32) << 32,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Assembler, Helper, Reg, When};

    #[test]
    fn encodings_are_those_of_the_kernel() {
        let mut code = Assembler::default();
        let mut end = Assembler::label();
        code.mov(Reg::R6, Reg::R1);
        code.load(Reg::R1, Reg::R8, 16);
        code.jump_if(Reg::R1, When::Equal, 7, &mut end);
        code.store(Reg::R9, -8, Reg::R0);
        code.call(Helper::KtimeGetNs);
        code.atomic_add(Reg::R8, 8, Reg::R1);
        code.bind(end);
        code.exit();
        // As llvm-objdump prints them: opcode, registers, offset, value.
        let expected: [[u8; 8]; 7] = [
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
            [0x79, 0x81, 16, 0, 0, 0, 0, 0],
            [0x15, 0x01, 3, 0, 7, 0, 0, 0],
            [0x7b, 0x09, 0xf8, 0xff, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 5, 0, 0, 0],
            [0xdb, 0x18, 8, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(code.finish(), expected.map(u64::from_le_bytes));
    }

    #[test]
    fn a_wide_constant_takes_two_words() {
        let mut code = Assembler::default();
        code.constant(Reg::R2, 0x1122_3344_5566_7788);
        let expected: [[u8; 8]; 2] = [
            [0x18, 0x02, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
        ];
        assert_eq!(code.finish(), expected.map(u64::from_le_bytes));
    }
}
