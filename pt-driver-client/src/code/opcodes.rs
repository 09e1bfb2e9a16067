//! What follows an opcode.

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
