//! What follows an opcode.

use super::length::{Class, Insn};

/// ModRM.
pub const MODRM: u8 = 1;
/// One byte.
pub const IMM8: u8 = 2;
/// Two or four bytes, by the operand's size.
pub const IMM_Z: u8 = 4;
/// Two bytes.
pub const IMM16: u8 = 8;
/// Needs a closer look.
pub const SPECIAL: u8 = 16;

/// What follows each one-byte opcode.
pub const ONE_BYTE: [u8; 256] = one_byte();

const fn one_byte() -> [u8; 256] {
    let mut table = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        table[opcode] = match opcode {
            0x00..=0x3f => match opcode & 7 {
                0..=3 => MODRM,
                4 => IMM8,
                5 => IMM_Z,
                _ => 0,
            },
            0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe => MODRM,
            0x68 | 0xa9 => IMM_Z,
            0x69 | 0x81 | 0xc7 => MODRM | IMM_Z,
            0x6a | 0xa8 | 0xb0..=0xb7 | 0xd4 | 0xd5 | 0xe4..=0xe7 => IMM8,
            0x6b | 0x80 | 0x82 | 0x83 | 0xc0 | 0xc1 | 0xc6 => MODRM | IMM8,
            0x70..=0x7f | 0xe0..=0xe3 | 0xeb => IMM8 | SPECIAL,
            0xc2 | 0xca => IMM16 | SPECIAL,
            0xc8 => IMM16 | IMM8,
            0xcd => IMM8 | SPECIAL,
            0xf6 | 0xf7 | 0xff => MODRM | SPECIAL,
            0x9a | 0xa0..=0xa3 | 0xb8..=0xbf | 0xc3 | 0xcb | 0xcc | 0xce | 0xcf | 0xe8..=0xea | 0xf1 => {
                SPECIAL
            }
            _ => 0,
        };
        opcode += 1;
    }
    table
}

/// What follows each opcode after 0F.
pub const TWO_BYTE: [u8; 256] = two_byte();

const fn two_byte() -> [u8; 256] {
    let mut table = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        table[opcode] = match opcode {
            0x01 | 0x20..=0x23 | 0x78 => MODRM | SPECIAL,
            0x05 | 0x07 | 0x34 | 0x35 | 0x80..=0x8f => SPECIAL,
            0x04
            | 0x06
            | 0x08..=0x0c
            | 0x0e
            | 0x30..=0x33
            | 0x36
            | 0x37
            | 0x77
            | 0xa0..=0xa2
            | 0xa8..=0xaa
            | 0xc8..=0xcf => 0,
            0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => MODRM | IMM8,
            _ => MODRM,
        };
        opcode += 1;
    }
    table
}

/// A 64-bit instruction, taken apart as far as most can be: at most one prefix, REX, and an opcode of the first two
/// maps. Which one comes is hard to foresee, so this looks things up and does not branch on them. Where the next
/// instruction begins waits for this one's length, so everything stays in one register: a byte taken from memory at a
/// place that was just computed would add its latency each time.
struct Simple {
    /// From the opcode's last byte on.
    word: u64,
    follows: Follows,
    length: u8,
    /// With the operand-size prefix four bytes of immediate are two.
    cut: bool,
}

#[inline]
fn take_apart(bytes: &[u8; 16]) -> Simple {
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = *bytes;
    let word = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let prefixed = u8::from((b0 == 0x66) | (b0 & 0xfe == 0xf2));
    let is_rex = |byte: u8| u8::from(byte & 0xf0 == 0x40);
    // A prefix is no REX.
    let before = prefixed + (is_rex(b0) | is_rex(b1) & prefixed);
    let word = word >> (before * 8);
    let escaped = u8::from(word & 0xff == 0x0f);
    let word = word >> (escaped * 8);
    let follows = SIMPLE[(word & 0xff) as usize | usize::from(escaped) << 8];
    // ModRM and SIB can say that there is no base but four bytes of displacement.
    let no_base = u8::from(word & 0x07_c700 == 0x05_0400);
    let operand = OPERAND[(word >> 8 & 0xff) as usize] + no_base * 4;
    let with_operand = 0_u8.wrapping_sub(follows.size >> 7);
    Simple {
        word,
        follows,
        length: before + escaped + 1 + (operand & with_operand) + (follows.size & 7),
        cut: prefixed & (follows.size >> 2) & 1 != 0,
    }
}

/// A simple instruction that leads to the next one, to a fixed target, or returns.
#[inline]
pub fn simple(bytes: &[u8; 16]) -> Option<Insn> {
    let Simple {
        word,
        follows,
        length,
        cut,
    } = take_apart(bytes);
    if follows.size & NOT_SIMPLE != 0 || cut {
        return None;
    }
    let class = follows.class;
    let displacement = match class {
        Class::Other => 0,
        _ if follows.size & 7 == 1 => i32::from((word >> 8) as i8),
        _ => (word >> 8) as i32,
    };
    Some(Insn {
        length,
        class,
        displacement,
    })
}

/// The length of a simple instruction that leads to the next one: most are, and of those nothing else is asked.
#[inline]
pub fn simple_length(bytes: &[u8; 16]) -> Option<u8> {
    let Simple {
        follows, length, cut, ..
    } = take_apart(bytes);
    let plain = (follows.size & (NOT_SIMPLE | LEADS_AWAY) == 0) & !cut;
    plain.then_some(length)
}

const NOT_SIMPLE: u8 = 0x40;
const LEADS_AWAY: u8 = 0x20;

/// For [`simple`].
#[derive(Clone, Copy)]
struct Follows {
    /// Bit 7 for ModRM, bit 6 for what is not simple, bit 5 for what does not lead to the next instruction, and the
    /// length of the immediate.
    size: u8,
    class: Class,
}

/// Opcodes, and in the second half opcodes after 0F.
const SIMPLE: [Follows; 512] = simple_table();

const fn simple_table() -> [Follows; 512] {
    let other = Follows {
        size: NOT_SIMPLE,
        class: Class::Other,
    };
    let mut table = [other; 512];
    let mut index = 0;
    while index < 512 {
        table[index] = simple_entry(index & 0xff, index >= 256);
        index += 1;
    }
    table
}

const fn simple_entry(opcode: usize, escaped: bool) -> Follows {
    let (size, class) = match (escaped, opcode) {
        (false, 0x70..=0x7f) => (LEADS_AWAY | 1, Class::Cond),
        (true, 0x80..=0x8f) => (LEADS_AWAY | 4, Class::Cond),
        (false, 0xe8) => (LEADS_AWAY | 4, Class::Call),
        (false, 0xe9) => (LEADS_AWAY | 4, Class::Jump),
        (false, 0xeb) => (LEADS_AWAY | 1, Class::Jump),
        (false, 0xc3) => (LEADS_AWAY, Class::Return),
        (true, 0x38 | 0x3a) => (NOT_SIMPLE, Class::Other),
        (
            false,
            0x0f
            | 0x26
            | 0x2e
            | 0x36
            | 0x3e
            | 0x40..=0x4f
            | 0x62
            | 0x64..=0x67
            | 0xc4
            | 0xc5
            | 0xf0
            | 0xf2
            | 0xf3,
        ) => (NOT_SIMPLE, Class::Other),
        _ => {
            let follows = if escaped {
                TWO_BYTE[opcode]
            } else {
                ONE_BYTE[opcode]
            };
            if follows & (SPECIAL | IMM16) != 0 {
                (NOT_SIMPLE, Class::Other)
            } else {
                let four = if follows & IMM_Z != 0 { 4 } else { 0 };
                let one = if follows & IMM8 != 0 { 1 } else { 0 };
                ((follows & MODRM) << 7 | four | one, Class::Other)
            }
        }
    };
    Follows { size, class }
}

/// The length of ModRM, SIB and displacement, where SIB has a base.
const OPERAND: [u8; 256] = operand_table();

const fn operand_table() -> [u8; 256] {
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
        table[modrm] = 1 + sib + displacement;
        modrm += 1;
    }
    table
}
