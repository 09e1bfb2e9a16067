//! Most instructions of 64-bit code, read without a branch.
//!
//! Which instruction comes next is hard to foresee, so this looks things up and does not branch on them. Where the next
//! one begins waits for the length of this one, and that wait is most of the time that reading code takes: so all that
//! could be needed is worked out at once, from one word, and chosen from when the opcode is known.

use std::hint::select_unpredictable;

use super::length::{Class, Insn};
use super::opcodes::{IMM_Z, IMM8, IMM16, MODRM, ONE_BYTE, SPECIAL, TWO_BYTE};

/// An instruction, if it is one of most: at most one of the prefixes 66, F2 and F3, REX, and an opcode of the first two
/// maps.
#[derive(Clone, Copy)]
pub struct Quick {
    entry: Entry,
    /// Its first bytes.
    word: u64,
    /// How long it is.
    pub length: u8,
}

impl Quick {
    /// Reads an instruction from its first eight bytes, the lowest first.
    #[inline]
    pub fn of(word: u64) -> Self {
        let [b0, b1, b2, b3] = [0, 8, 16, 24].map(|shift| usize::from((word >> shift) as u8));
        let with_rex = select_unpredictable(b1 == 0x0f, AFTER_REX_0F + b2, AFTER_REX + b1);
        let without = select_unpredictable(b0 == 0x0f, AFTER_0F + b1, b0);
        let entry = ENTRIES[select_unpredictable(b0 & 0xf0 == 0x40, with_rex, without)];
        // For each byte that can be ModRM, how long the operand would be. What its SIB adds is worked out for all three
        // as well: when the opcode is known, nothing is left to do but to choose.
        let [o1, o2, o3] = [b1, b2, b3].map(|modrm| u32::from(OPERAND[modrm]));
        let operands = o1 | o2 << 8 | o3 << 16;
        let others = (word >> 16) as u32 & 0x07_0707 ^ 0x05_0505;
        let has_base = (others + 0x07_0707) >> 3;
        // SIB can say that there is no base but four bytes of displacement.
        let no_base = operands >> 1 & !has_base << 2 & 0x04_0404;
        let lengths = (operands & 0x07_0707) + no_base;
        let operand = (lengths >> entry.operand_shift()) as u8;
        Self {
            entry,
            word,
            length: entry.rest_of_length() + (operand & 7),
        }
    }

    /// The same behind a prefix, if there is one.
    #[inline]
    pub fn behind_prefix(self) -> Self {
        let prefix = self.word as u8;
        if prefix != 0x66 && prefix & 0xfe != 0xf2 {
            return self;
        }
        let mut behind = Self::of(self.word >> 8);
        behind.length += 1;
        behind.word = self.word;
        // With the operand-size prefix four bytes of immediate are two, and branches are a matter of the processor.
        if prefix == 0x66 && (behind.entry.immediate() == 4 || behind.entry.is(LEADS_AWAY)) {
            behind.entry = Entry(NOT_QUICK);
        }
        behind
    }

    /// It leads to the next one: most do, and of those only the length is asked.
    #[inline]
    pub fn is_plain(self) -> bool {
        !self.entry.is(NOT_QUICK | LEADS_AWAY)
    }

    /// What it is, if it is one of most.
    #[inline]
    pub fn insn(self) -> Option<Insn> {
        (!self.entry.is(NOT_QUICK)).then(|| Insn {
            length: self.length,
            class: self.class(),
            displacement: self.displacement(),
        })
    }

    /// How long it is, if it is one of most; else 0.
    #[inline]
    pub fn length_if_known(self) -> u8 {
        if self.entry.is(NOT_QUICK) { 0 } else { self.length }
    }

    /// Where it leads, if it is one of most.
    #[inline]
    pub fn class(self) -> Class {
        match self.entry.0 >> 8 & 7 {
            GROUP_5 => self.group_5(),
            class => CLASSES[usize::from(class)],
        }
    }

    /// The target of a direct branch, relative to the next instruction.
    #[inline]
    pub fn displacement(self) -> i32 {
        let size = self.entry.immediate();
        // One byte or four, at the end.
        let told = (self.word >> ((u32::from(self.length.wrapping_sub(size)) * 8) & 63)) as i32;
        let shift = u32::from(size == 1) * 24;
        let has_any = -i32::from(self.entry.is(LEADS_AWAY) & (size != 0));
        told << shift >> shift & has_any
    }

    /// FF: where it leads is in ModRM, behind the prefix and REX.
    fn group_5(self) -> Class {
        let prefixed = u32::from(self.word as u8 != 0xff && self.word as u8 & 0xf0 != 0x40);
        let modrm = self.word >> (8 * prefixed + self.entry.operand_shift() + 8);
        match modrm >> 3 & 7 {
            2 => Class::IndirectCall,
            4 => Class::IndirectJump,
            3 | 5 => Class::Far,
            _ => Class::Other,
        }
    }
}

/// What an opcode says: bits 0 to 3 the length without the operand, 4 to 7 the length of the immediate, 8 to 10 the
/// class, 11 and 12 which byte is ModRM, 13 and 14 the two that follow.
#[derive(Clone, Copy)]
struct Entry(u16);

/// Needs a closer look.
const NOT_QUICK: u16 = 1 << 13;
/// Does not lead to the next instruction.
const LEADS_AWAY: u16 = 1 << 14;

/// By the bits of an entry.
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

/// Indirect jumps and calls, and four others.
const GROUP_5: u16 = 5;

/// No byte is ModRM.
const NO_MODRM: u16 = 3;

impl Entry {
    #[inline]
    fn is(self, what: u16) -> bool {
        self.0 & what != 0
    }

    #[inline]
    fn rest_of_length(self) -> u8 {
        self.0 as u8 & 15
    }

    #[inline]
    fn immediate(self) -> u8 {
        (self.0 >> 4) as u8 & 15
    }

    #[inline]
    fn operand_shift(self) -> u32 {
        u32::from(self.0 >> 8 & 0x18)
    }

    /// An opcode that is the byte at a place.
    const fn of(opcode: usize, escaped: bool, place: u16) -> Self {
        let class = match (escaped, opcode) {
            (false, 0x70..=0x7f) | (true, 0x80..=0x8f) => 1,
            (false, 0xe9 | 0xeb) => 2,
            (false, 0xe8) => 3,
            (false, 0xc3) => 4,
            (false, 0xff) => GROUP_5,
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
        if class == 0 && (follows & (SPECIAL | IMM16) != 0 || is_prefix && !escaped || is_map) {
            return Self(NOT_QUICK);
        }
        let immediate = match (class, escaped, opcode) {
            (1, true, _) | (2, _, 0xe9) | (3, ..) => 4,
            (1 | 2, ..) => 1,
            (4 | GROUP_5, ..) => 0,
            _ => (if follows & IMM_Z != 0 { 4 } else { 0 }) + (if follows & IMM8 != 0 { 1 } else { 0 }),
        };
        let has_modrm = (class == 0 || class == GROUP_5) && follows & MODRM != 0;
        let modrm = if has_modrm { place } else { NO_MODRM };
        let leads_away = if class == 0 { 0 } else { LEADS_AWAY };
        Self((place + 1 + immediate) | immediate << 4 | class << 8 | modrm << 11 | leads_away)
    }
}

const AFTER_REX: usize = 256;
const AFTER_0F: usize = 512;
const AFTER_REX_0F: usize = 768;

/// By opcode: alone, after REX, after 0F, after both.
const ENTRIES: [Entry; 1024] = {
    let mut entries = [Entry(NOT_QUICK); 1024];
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

/// Set where SIB has to be asked for a base.
const ASKS_SIB: u8 = 8;

/// The length of ModRM, SIB and displacement, where SIB has a base.
const OPERAND: [u8; 256] = {
    let mut table = [0; 256];
    let mut modrm = 0;
    while modrm < 256 {
        let (mode, base) = (modrm >> 6, modrm & 7);
        let sib = if mode != 3 && base == 4 { 1 } else { 0 };
        let displacement = match mode {
            0 if base == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        let asks = if mode == 0 && base == 4 { ASKS_SIB } else { 0 };
        table[modrm] = (1 + sib + displacement) | asks;
        modrm += 1;
    }
    table
};
