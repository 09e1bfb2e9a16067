//! Most instructions of 64-bit code, read without a branch.
//!
//! Which instruction comes next is hard to foresee, so this looks things up and does not branch on them. Where the next
//! one begins waits for the length of this one, and that wait is most of the time that reading code takes: so the opcode
//! and the operand behind it are looked up side by side, and nothing is left to do with what is found but to add.

use std::hint::select_unpredictable;

use super::length::{Class, Insn};
use super::opcodes::{IMM_Z, IMM8, IMM16, MODRM, ONE_BYTE, SPECIAL, TWO_BYTE};

/// An instruction, if it is one of most: at most one of the prefixes 64, 66, F2 and F3, REX, and an opcode of the first
/// two maps.
#[derive(Clone, Copy)]
pub struct Quick {
    entry: Entry,
    /// Its first bytes.
    word: u64,
    /// Those behind the opcode: ModRM, if there is one, and SIB, or the target of a branch.
    behind: u64,
    /// How long it is.
    pub length: usize,
}

impl Quick {
    /// Reads an instruction from its first eight bytes, the lowest first.
    #[inline]
    pub fn of(word: u64) -> Self {
        let [b0, b1, b2] = [0, 8, 16].map(|shift| usize::from((word >> shift) as u8));
        let has_rex = b0 & 0xf0 == 0x40;
        let (opcode_0f, opcode_rex_0f) = (b0 == 0x0f, b1 == 0x0f);
        let with_rex = select_unpredictable(opcode_rex_0f, AFTER_REX_0F + b2, AFTER_REX + b1);
        let without = select_unpredictable(opcode_0f, AFTER_0F + b1, b0);
        let entry = ENTRIES[select_unpredictable(has_rex, with_rex, without)];
        let with_rex = select_unpredictable(opcode_rex_0f, word >> 24, word >> 16);
        let without = select_unpredictable(opcode_0f, word >> 16, word >> 8);
        let behind = select_unpredictable(has_rex, with_rex, without);
        let operand = OPERANDS[behind as usize % OPERANDS.len()];
        Self {
            entry,
            word,
            behind,
            length: entry.length(operand),
        }
    }

    /// The same behind a prefix, if there is one.
    #[inline]
    pub fn behind_prefix(self) -> Self {
        let prefix = self.word as u8;
        if prefix & 0xfd != 0x64 && prefix & 0xfe != 0xf2 {
            return self;
        }
        let mut behind = Self::of(self.word >> 8);
        behind.length += 1;
        behind.word = self.word;
        // With the operand-size prefix four bytes of immediate are two, and branches are a matter of the processor.
        if prefix == 0x66 && (behind.entry.has_wide_immediate() || behind.entry.class() != 0) {
            behind.entry = Entry::NOT_QUICK;
        }
        behind
    }

    /// It leads to the next one: most do, and of those only the length is asked.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.entry.is_plain()
    }

    /// What it is, if it is one of most.
    #[inline]
    pub fn insn(self) -> Option<Insn> {
        (self.entry.class() != NOT_QUICK).then(|| Insn {
            length: (self.length + self.rest_of_immediate()) as u8,
            class: self.class(),
            displacement: self.displacement(),
        })
    }

    /// Where it leads, if that is told without a closer look; to the next one otherwise.
    #[inline]
    pub fn class(self) -> Class {
        match self.entry.class() {
            GROUP_5 => self.group_5(),
            class => CLASSES[usize::from(class)],
        }
    }

    /// The target of a direct branch, relative to the next instruction: one byte or four behind the opcode.
    #[inline]
    pub fn displacement(self) -> i32 {
        let is_wide = self.entry.has_wide_immediate();
        let told = select_unpredictable(is_wide, self.behind as i32, i32::from(self.behind as i8));
        let is_direct = matches!(self.entry.class(), COND | JUMP | CALL);
        told & -i32::from(is_direct)
    }

    /// How much longer it is than its opcode and its operand say.
    #[inline]
    fn rest_of_immediate(self) -> usize {
        if self.entry.class() != LONGER {
            return 0;
        }
        let (is_longer, by) = if self.entry.has_operand() {
            // Group 3: TEST has an immediate, the others have none.
            (
                self.behind >> 3 & 7 < 2,
                if self.entry.has_wide_immediate() { 4 } else { 1 },
            )
        } else {
            // MOV after REX: with REX.W its immediate has eight bytes. REX is the byte before the opcode.
            let rex = self.word >> ((self.length - MOV_AFTER_REX) * 8);
            (rex & 8 != 0, 4)
        };
        if is_longer { by } else { 0 }
    }

    /// FF: where it leads is in ModRM.
    fn group_5(self) -> Class {
        match self.behind >> 3 & 7 {
            2 => Class::IndirectCall,
            4 => Class::IndirectJump,
            3 | 5 => Class::Far,
            _ => Class::Other,
        }
    }
}

/// What an opcode says: bits 0 to 7 are a mask for the length of its operand, 8 to 10 its class; bit 11 says that it has
/// four bytes of immediate, and 12 to 15 are the length without the operand.
#[derive(Clone, Copy)]
struct Entry(u16);

/// Has an operand: ModRM and what belongs to it.
const OPERAND: u16 = 0xff;
const CLASS_AT: u16 = 8;
const CLASS: u16 = 7 << CLASS_AT;
const IMMEDIATE_4: u16 = 1 << 11;
const REST_AT: u16 = 12;

const COND: u16 = 1;
const JUMP: u16 = 2;
const CALL: u16 = 3;
const RETURN: u16 = 4;
/// Indirect jumps and calls, and four others.
const GROUP_5: u16 = 5;
/// Leads to the next one, and can be longer than its opcode and its operand say.
const LONGER: u16 = 6;
/// What needs a closer look.
const NOT_QUICK: u16 = 7;

/// The length of MOV after REX with four bytes of immediate.
const MOV_AFTER_REX: usize = 6;

/// By the class of an entry.
const CLASSES: [Class; 8] = [
    Class::Other,
    Class::Cond,
    Class::Jump,
    Class::Call,
    Class::Return,
    Class::Other,
    Class::Other,
    Class::Other,
];

impl Entry {
    const NOT_QUICK: Self = Self(NOT_QUICK << CLASS_AT);

    /// With an operand of that length, if it has one.
    #[inline]
    fn length(self, operand: u8) -> usize {
        usize::from(self.0 >> REST_AT) + usize::from(u16::from(operand) & self.0)
    }

    #[inline]
    fn class(self) -> u16 {
        (self.0 & CLASS) >> CLASS_AT
    }

    #[inline]
    fn is_plain(self) -> bool {
        self.0 & CLASS == 0
    }

    #[inline]
    fn has_wide_immediate(self) -> bool {
        self.0 & IMMEDIATE_4 != 0
    }

    #[inline]
    fn has_operand(self) -> bool {
        self.0 & OPERAND != 0
    }

    /// An opcode that is the byte at a place.
    const fn of(opcode: usize, escaped: bool, place: u16) -> Self {
        let class = match (escaped, opcode) {
            (false, 0x70..=0x7f) | (true, 0x80..=0x8f) => COND,
            (false, 0xe9 | 0xeb) => JUMP,
            (false, 0xe8) => CALL,
            (false, 0xc3) => RETURN,
            (false, 0xff) => GROUP_5,
            (false, 0xf6 | 0xf7) => LONGER,
            (false, 0xb8..=0xbf) if place > 0 => LONGER,
            _ => 0,
        };
        let follows = if escaped {
            TWO_BYTE[opcode]
        } else {
            ONE_BYTE[opcode]
        };
        let is_prefix = matches!(
            opcode,
            0x0f | 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62 | 0x64..=0x67 | 0xc4 | 0xc5 | 0xf0 | 0xf2 | 0xf3
        );
        let is_map = escaped && matches!(opcode, 0x38 | 0x3a);
        let is_mov = !escaped && matches!(opcode, 0xb8..=0xbf);
        let needs_care = follows & (SPECIAL | IMM16) != 0 && !is_mov;
        if class == 0 && (needs_care || is_prefix && !escaped || is_map) {
            return Self::NOT_QUICK;
        }
        let immediate = match (class, escaped, opcode) {
            (COND, true, _) | (JUMP, _, 0xe9) | (CALL, ..) => 4,
            (COND | JUMP, ..) => 1,
            (RETURN | GROUP_5, ..) | (LONGER, _, 0xf6 | 0xf7) => 0,
            _ if is_mov => 4,
            _ if follows & IMM_Z != 0 => 4,
            _ if follows & IMM8 != 0 => 1,
            _ => 0,
        };
        let has_modrm = matches!(class, 0 | GROUP_5 | LONGER) && follows & MODRM != 0;
        let operand = if has_modrm { OPERAND } else { 0 };
        let is_wide = immediate == 4 || !escaped && opcode == 0xf7;
        let wide = if is_wide { IMMEDIATE_4 } else { 0 };
        Self(operand | (place + 1 + immediate) << REST_AT | wide | class << CLASS_AT)
    }
}

const AFTER_REX: usize = 256;
const AFTER_0F: usize = 512;
const AFTER_REX_0F: usize = 768;

/// By opcode: alone, after REX, after 0F, after both.
const ENTRIES: [Entry; 1024] = {
    let mut entries = [Entry::NOT_QUICK; 1024];
    let mut opcode = 0;
    while opcode < 256 {
        entries[opcode] = Entry::of(opcode, false, 0);
        entries[AFTER_REX + opcode] = Entry::of(opcode, false, 1);
        entries[AFTER_0F + opcode] = Entry::of(opcode, true, 1);
        entries[AFTER_REX_0F + opcode] = Entry::of(opcode, true, 2);
        opcode += 1;
    }
    entries
};

/// The length of ModRM, SIB and displacement, by ModRM and the lowest three bits of the byte behind it: where that is SIB,
/// they can say that there is no base but four bytes of displacement.
const OPERANDS: [u8; 2048] = {
    let mut table = [0; 2048];
    let mut index = 0;
    while index < 2048 {
        let (modrm, base_of_sib) = (index & 0xff, index >> 8);
        let (mode, base) = (modrm >> 6, modrm & 7);
        let has_sib = mode != 3 && base == 4;
        let displacement = match mode {
            0 if base == 5 || has_sib && base_of_sib == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        table[index] = 1 + has_sib as u8 + displacement;
        index += 1;
    }
    table
};
