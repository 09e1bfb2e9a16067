//! Any instruction, of any width of code: one byte after the other, prefixes first.

use super::length::{Class, Insn};
use super::opcodes::{IMM_Z, IMM8, IMM16, MODRM, ONE_BYTE, SPECIAL, TWO_BYTE};
use crate::packet::ExecMode;

/// Sixteen bytes, of which `end` count: the sixteenth is there so that no index needs a check.
pub struct Window<'a> {
    /// The bytes.
    pub bytes: &'a [u8; 16],
    /// How many count.
    pub end: usize,
}

#[derive(Default)]
struct Prefixes {
    operand: bool,
    address: bool,
    repeat: bool,
    repeat_not: bool,
    wide: bool,
    rex_r: bool,
}

impl Window<'_> {
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes[at & 15]
    }

    #[inline]
    fn finish(&self, length: usize, class: Class) -> Option<Insn> {
        (length <= self.end).then_some(Insn {
            length: length as u8,
            class,
            displacement: 0,
        })
    }

    /// A direct branch whose displacement is `size` bytes at the end.
    fn branch(&self, at: usize, size: usize, class: Class) -> Option<Insn> {
        let length = at + size;
        let insn = self.finish(length, class)?;
        let displacement = match size {
            1 => i32::from(self.byte(at).cast_signed()),
            2 => i32::from(i16::from_le_bytes([self.byte(at), self.byte(at + 1)])),
            _ => i32::from_le_bytes([0, 1, 2, 3].map(|offset| self.byte(at + offset))),
        };
        Some(Insn { displacement, ..insn })
    }

    /// The instruction at the start, if there is one.
    #[cold]
    #[inline(never)]
    pub fn decode(&self, mode: ExecMode) -> Option<Insn> {
        let mut at = 0;
        let mut prefixes = Prefixes::default();
        let long = mode == ExecMode::Bits64;
        loop {
            let byte = self.byte(at);
            if at >= self.end {
                return None;
            }
            match byte {
                0x40..=0x4f if long => {
                    let opcode = self.byte(at + 1);
                    // Only the prefix right before the opcode counts.
                    if !is_prefix(opcode) {
                        prefixes.wide = byte & 8 != 0;
                        prefixes.rex_r = byte & 4 != 0;
                    }
                }
                0x66 => prefixes.operand = true,
                0x67 => prefixes.address = true,
                0xf3 => (prefixes.repeat, prefixes.repeat_not) = (true, false),
                0xf2 => prefixes.repeat_not = true,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 => {}
                _ => return self.opcode(at, mode, &prefixes),
            }
            at += 1;
        }
    }

    #[inline]
    fn opcode(&self, at: usize, mode: ExecMode, prefixes: &Prefixes) -> Option<Insn> {
        let opcode = self.byte(at);
        match opcode {
            0x0f => return self.two_byte(at + 1, mode, prefixes),
            0xc4 | 0xc5 | 0x62 if mode == ExecMode::Bits64 || self.byte(at + 1) >= 0xc0 => {
                return self.vector(at, mode, prefixes);
            }
            0xc4 | 0xc5 | 0x62 => return self.plain(at + 1, MODRM, mode, prefixes),
            _ => {}
        }
        let follows = ONE_BYTE[opcode as usize];
        if follows & SPECIAL == 0 {
            return self.plain(at + 1, follows, mode, prefixes);
        }
        self.special(at, opcode, mode, prefixes)
    }

    /// What follows an opcode, for instructions that lead to the next one.
    #[inline]
    fn plain(&self, at: usize, follows: u8, mode: ExecMode, prefixes: &Prefixes) -> Option<Insn> {
        self.finish(self.after(at, follows, mode, prefixes), Class::Other)
    }

    #[inline]
    fn after(&self, at: usize, follows: u8, mode: ExecMode, prefixes: &Prefixes) -> usize {
        let mut at = at;
        if follows & MODRM != 0 {
            at = self.operand(at, mode, prefixes);
        }
        if follows & IMM8 != 0 {
            at += 1;
        }
        if follows & IMM16 != 0 {
            at += 2;
        }
        if follows & IMM_Z != 0 {
            at += immediate_size(mode, prefixes);
        }
        at
    }

    /// Past ModRM, SIB and displacement.
    #[inline]
    fn operand(&self, at: usize, mode: ExecMode, prefixes: &Prefixes) -> usize {
        let modrm = self.byte(at);
        let (mode_bits, base) = (modrm >> 6, modrm & 7);
        if mode_bits == 3 {
            return at + 1;
        }
        let short = match mode {
            ExecMode::Bits64 => false,
            ExecMode::Bits32 => prefixes.address,
            ExecMode::Bits16 => !prefixes.address,
        };
        if short {
            return at
                + match (mode_bits, base) {
                    (0, 6) | (2, _) => 3,
                    (1, _) => 2,
                    _ => 1,
                };
        }
        let sib = usize::from(base == 4);
        let base = if base == 4 { self.byte(at + 1) & 7 } else { base };
        let displacement = match (mode_bits, base) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        };
        at + 1 + sib + displacement
    }

    fn special(&self, at: usize, opcode: u8, mode: ExecMode, prefixes: &Prefixes) -> Option<Insn> {
        let long = mode == ExecMode::Bits64;
        let next = at + 1;
        let far_unless_long = |length| self.finish(length, if long { Class::Other } else { Class::Far });
        match opcode {
            0x70..=0x7f | 0xe0..=0xe3 => self.branch(next, 1, Class::Cond),
            0xeb => self.branch(next, 1, Class::Jump),
            0xe9 => self.branch(next, branch_size(mode, prefixes), Class::Jump),
            0xe8 => self.branch(next, branch_size(mode, prefixes), Class::Call),
            0xc3 => self.finish(next, Class::Return),
            0xc2 => self.finish(next + 2, Class::Return),
            0xca => self.finish(next + 2, Class::Far),
            0xcb | 0xcc | 0xcf | 0xf1 => self.finish(next, Class::Far),
            0xcd => self.finish(next + 1, Class::Far),
            0xce => far_unless_long(next),
            0x9a | 0xea if long => self.finish(next, Class::Other),
            0x9a | 0xea => self.finish(next + immediate_size(mode, prefixes) + 2, Class::Far),
            0xa0..=0xa3 => self.finish(next + address_size(mode, prefixes), Class::Other),
            0xb8..=0xbf => {
                let size = if prefixes.wide {
                    8
                } else {
                    immediate_size(mode, prefixes)
                };
                self.finish(next + size, Class::Other)
            }
            0xf6 | 0xf7 => {
                let with = match (self.byte(next) >> 3 & 7, opcode) {
                    (0 | 1, 0xf6) => MODRM | IMM8,
                    (0 | 1, _) => MODRM | IMM_Z,
                    _ => MODRM,
                };
                self.plain(next, with, mode, prefixes)
            }
            _ => {
                let class = match self.byte(next) >> 3 & 7 {
                    2 => Class::IndirectCall,
                    4 => Class::IndirectJump,
                    3 | 5 => Class::Far,
                    _ => Class::Other,
                };
                self.finish(self.operand(next, mode, prefixes), class)
            }
        }
    }

    #[inline]
    fn two_byte(&self, at: usize, mode: ExecMode, prefixes: &Prefixes) -> Option<Insn> {
        let opcode = self.byte(at);
        let next = at + 1;
        match opcode {
            0x38 => return self.plain(next + 1, MODRM, mode, prefixes),
            0x3a => return self.plain(next + 1, MODRM | IMM8, mode, prefixes),
            _ => {}
        }
        let follows = TWO_BYTE[opcode as usize];
        if follows & SPECIAL == 0 {
            return self.plain(next, follows, mode, prefixes);
        }
        let modrm = self.byte(next);
        match opcode {
            0x80..=0x8f => self.branch(next, branch_size(mode, prefixes), Class::Cond),
            0x05 | 0x07 | 0x34 | 0x35 => self.finish(next, Class::Far),
            // VMCALL, VMLAUNCH, VMRESUME, UIRET.
            0x01 if matches!(modrm, 0xc1..=0xc3 | 0xec) => self.finish(next + 1, Class::Far),
            // Always registers, whatever the mode bits say.
            0x20..=0x23 => {
                let writes_cr3 = opcode == 0x22 && modrm >> 3 & 7 == 3 && !prefixes.rex_r;
                let class = if writes_cr3 { Class::MovCr3 } else { Class::Other };
                self.finish(next + 1, class)
            }
            // AMD's EXTRQ and INSERTQ have two immediates, VMREAD none.
            0x78 if prefixes.operand || prefixes.repeat_not => {
                self.plain(next, MODRM | IMM16, mode, prefixes)
            }
            _ => self.plain(next, MODRM, mode, prefixes),
        }
    }

    /// VEX and EVEX.
    fn vector(&self, at: usize, mode: ExecMode, prefixes: &Prefixes) -> Option<Insn> {
        let (map, opcode_at) = match self.byte(at) {
            0xc5 => (1, at + 2),
            0xc4 => (self.byte(at + 1) & 0x1f, at + 3),
            _ => (self.byte(at + 1) & 7, at + 4),
        };
        let opcode = self.byte(opcode_at);
        let follows = match map {
            1 if opcode == 0x77 && self.byte(at) != 0x62 => 0,
            1 => MODRM | TWO_BYTE[opcode as usize] & IMM8,
            3 => MODRM | IMM8,
            2 | 5 | 6 => MODRM,
            _ => return None,
        };
        self.plain(opcode_at + 1, follows, mode, prefixes)
    }
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
}

#[inline]
fn immediate_size(mode: ExecMode, prefixes: &Prefixes) -> usize {
    let two = match mode {
        ExecMode::Bits64 => prefixes.operand && !prefixes.wide,
        ExecMode::Bits32 => prefixes.operand,
        ExecMode::Bits16 => !prefixes.operand,
    };
    if two { 2 } else { 4 }
}

/// In 64-bit code Intel's processors ignore the operand-size prefix of near branches.
fn branch_size(mode: ExecMode, prefixes: &Prefixes) -> usize {
    match mode {
        ExecMode::Bits64 => 4,
        _ => immediate_size(mode, prefixes),
    }
}

fn address_size(mode: ExecMode, prefixes: &Prefixes) -> usize {
    match (mode, prefixes.address) {
        (ExecMode::Bits64, false) => 8,
        (ExecMode::Bits64, true) | (ExecMode::Bits32, false) | (ExecMode::Bits16, true) => 4,
        (ExecMode::Bits32, true) | (ExecMode::Bits16, false) => 2,
    }
}
