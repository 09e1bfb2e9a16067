//! Bytes to packets.

use super::kinds::{Compression, ExecMode, IpPayload, Packet, Tnt};
use super::sync::PSB;

/// Why there is no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The bytes end, or end in the middle of one.
    #[error("the trace ends")]
    End,
    /// No packet begins like this.
    #[error("unknown packet")]
    Unknown,
    /// A known packet with impossible content.
    #[error("malformed packet")]
    Malformed,
}

/// The first packet, and its length. Items of blocks look like nothing else only inside a block: `in_block` says
/// whether a [`Packet::BlockBegin`] came without its end yet, and whether its items are short.
///
/// # Errors
/// When the bytes do not begin with a whole packet.
pub fn parse(bytes: &[u8], in_block: Option<bool>) -> Result<(Packet, usize), PacketError> {
    let &header = bytes.first().ok_or(PacketError::End)?;
    if let Some(short) = in_block
        && header & 7 == 4
    {
        let size = if short { 4 } else { 8 };
        let item = Packet::BlockItem {
            id: header >> 3,
            value: little_endian(bytes, 1, size)?,
            short,
        };
        return Ok((item, 1 + size));
    }
    match header {
        0x00 => Ok((Packet::Pad, 1)),
        0x02 => extended(bytes),
        _ if header & 1 == 0 => Ok((Packet::Tnt(outcomes(u64::from(header) >> 1, false)?), 1)),
        0x99 => mode(bytes),
        0x19 => Ok((Packet::Tsc(little_endian(bytes, 1, 7)?), 8)),
        0x59 => Ok((Packet::Mtc(byte(bytes, 1)?), 2)),
        _ if header & 3 == 3 => cycles(bytes),
        _ => with_address(bytes, header),
    }
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, PacketError> {
    bytes.get(at).copied().ok_or(PacketError::End)
}

fn little_endian(bytes: &[u8], at: usize, size: usize) -> Result<u64, PacketError> {
    let bytes = bytes.get(at..at + size).ok_or(PacketError::End)?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// The highest bit that is set ends the outcomes.
fn outcomes(payload: u64, long: bool) -> Result<Tnt, PacketError> {
    let count = payload.checked_ilog2().ok_or(PacketError::Malformed)?;
    if count == 0 {
        return Err(PacketError::Malformed);
    }
    Ok(Tnt {
        bits: payload & !(1 << count),
        count: u8::try_from(count).unwrap_or(u8::MAX),
        long,
    })
}

fn with_address(bytes: &[u8], header: u8) -> Result<(Packet, usize), PacketError> {
    let make = match header & 0x1f {
        0x0d => Packet::Tip,
        0x11 => Packet::TipPge,
        0x01 => Packet::TipPgd,
        0x1d => Packet::Fup,
        _ => return Err(PacketError::Unknown),
    };
    let compression = Compression::of(header >> 5).ok_or(PacketError::Malformed)?;
    let size = compression.size();
    let bits = little_endian(bytes, 1, size)?;
    Ok((make(IpPayload { compression, bits }), 1 + size))
}

fn mode(bytes: &[u8]) -> Result<(Packet, usize), PacketError> {
    let payload = byte(bytes, 1)?;
    let bit = |bit: u8| payload & (1 << bit) != 0;
    let packet = match payload >> 5 {
        0 => Packet::ModeExec {
            mode: match (bit(0), bit(1)) {
                (true, _) => ExecMode::Bits64,
                (false, true) => ExecMode::Bits32,
                (false, false) => ExecMode::Bits16,
            },
            interrupts: bit(2),
        },
        1 => Packet::ModeTsx {
            inside: bit(0),
            aborted: bit(1),
        },
        _ => return Err(PacketError::Malformed),
    };
    Ok((packet, 2))
}

/// Five bits in the first byte, seven in each further one; one bit in each says whether another follows.
fn cycles(bytes: &[u8]) -> Result<(Packet, usize), PacketError> {
    let first = byte(bytes, 0)?;
    let mut value = u64::from(first >> 3);
    let mut more = first & 4 != 0;
    let mut size = 1;
    let mut shift = 5;
    while more {
        let next = byte(bytes, size)?;
        if shift + 7 > u64::BITS {
            return Err(PacketError::Malformed);
        }
        value |= u64::from(next >> 1) << shift;
        shift += 7;
        size += 1;
        more = next & 1 != 0;
    }
    Ok((Packet::Cyc(value), size))
}

fn extended(bytes: &[u8]) -> Result<(Packet, usize), PacketError> {
    let code = byte(bytes, 1)?;
    let payload = |size| little_endian(bytes, 2, size);
    let low_byte = |value: u64, shift: u32| value.to_le_bytes()[(shift / 8) as usize] >> (shift % 8);
    let flag = code & 0x80 != 0;
    Ok(match code {
        0x82 => {
            if bytes.len() < PSB.len() {
                return Err(PacketError::End);
            }
            if !bytes.starts_with(&PSB) {
                return Err(PacketError::Malformed);
            }
            (Packet::Psb, PSB.len())
        }
        0x23 => (Packet::PsbEnd, 2),
        0xa3 => (Packet::Tnt(outcomes(payload(6)?, true)?), 8),
        0x43 => {
            let value = payload(6)?;
            let packet = Packet::Pip {
                cr3: value >> 1 << 5,
                non_root: value & 1 != 0,
            };
            (packet, 8)
        }
        0xc8 => (
            Packet::Vmcs {
                base: payload(5)? << 12,
            },
            7,
        ),
        0x03 => (
            Packet::Cbr {
                ratio: low_byte(payload(2)?, 0),
            },
            4,
        ),
        0x73 => (clock(payload(5)?)?, 7),
        0xf3 => (Packet::Overflow, 2),
        0x83 => (Packet::TraceStop, 2),
        0x62 | 0xe2 => (Packet::ExStop { ip: flag }, 2),
        0xc2 => {
            let value = payload(8)?;
            let packet = Packet::Mwait {
                hints: low_half(value),
                extensions: low_half(value >> 32),
            };
            (packet, 10)
        }
        0x22 => {
            let value = payload(2)?;
            let packet = Packet::PwrEntry {
                state: low_byte(value, 8) >> 4,
                sub_state: low_byte(value, 8) & 15,
                hardware: value & 8 != 0,
            };
            (packet, 4)
        }
        0xa2 => {
            let value = payload(5)?;
            let packet = Packet::PwrExit {
                last: low_byte(value, 0) >> 4,
                deepest: low_byte(value, 0) & 15,
                reason: low_byte(value, 8) & 15,
            };
            (packet, 7)
        }
        0x63 => {
            let value = low_byte(payload(1)?, 0);
            let packet = Packet::BlockBegin {
                kind: value & 0x1f,
                short: value & 0x80 != 0,
            };
            (packet, 3)
        }
        0x33 | 0xb3 => (Packet::BlockEnd { ip: flag }, 2),
        0x13 => {
            let value = payload(2)?;
            let packet = Packet::ControlFlowEvent {
                kind: low_byte(value, 0) & 0x1f,
                vector: low_byte(value, 8),
                ip: value & 0x80 != 0,
            };
            (packet, 4)
        }
        0x53 => {
            let packet = Packet::EventData {
                kind: byte(bytes, 2)? & 0x3f,
                value: little_endian(bytes, 3, 8)?,
            };
            (packet, 11)
        }
        0xc3 if byte(bytes, 2)? == 0x88 => (Packet::Mnt(little_endian(bytes, 3, 8)?), 11),
        _ if code & 0x1f == 0x12 => {
            let wide = match code >> 5 & 3 {
                0 => false,
                1 => true,
                _ => return Err(PacketError::Malformed),
            };
            let size = if wide { 8 } else { 4 };
            let packet = Packet::Ptw {
                value: payload(size)?,
                wide,
                ip: flag,
            };
            (packet, 2 + size)
        }
        _ => return Err(PacketError::Unknown),
    })
}

fn clock(value: u64) -> Result<Packet, PacketError> {
    let fast = value >> 24 & 0xffff;
    if value >> 16 & 0xff != 0 || fast >> 9 != 0 {
        return Err(PacketError::Malformed);
    }
    Ok(Packet::Tma {
        ctc: u16::try_from(value & 0xffff).unwrap_or(0),
        fast: u16::try_from(fast).unwrap_or(0),
    })
}

fn low_half(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0)
}
