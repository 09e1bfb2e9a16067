//! Packets to bytes.

use super::kinds::{ExecMode, IpPayload, Packet, Tnt};
use super::sync::PSB;

/// Appends a packet. Fields that are wider than the packet's are cut.
pub fn encode(packet: Packet, out: &mut Vec<u8>) {
    match packet {
        Packet::Pad => out.push(0x00),
        Packet::Psb => out.extend_from_slice(&PSB),
        Packet::PsbEnd => out.extend_from_slice(&[0x02, 0x23]),
        Packet::Tnt(tnt) => outcomes(tnt, out),
        Packet::Tip(ip) => address(0x0d, ip, out),
        Packet::TipPge(ip) => address(0x11, ip, out),
        Packet::TipPgd(ip) => address(0x01, ip, out),
        Packet::Fup(ip) => address(0x1d, ip, out),
        Packet::ModeExec { mode, interrupts } => {
            let width = match mode {
                ExecMode::Bits16 => 0,
                ExecMode::Bits32 => 2,
                ExecMode::Bits64 => 1,
            };
            out.extend_from_slice(&[0x99, width | u8::from(interrupts) << 2]);
        }
        Packet::ModeTsx { inside, aborted } => {
            out.extend_from_slice(&[0x99, 0x20 | u8::from(inside) | u8::from(aborted) << 1]);
        }
        Packet::Pip { cr3, non_root } => extended(0x43, cr3 >> 5 << 1 | u64::from(non_root), 6, out),
        Packet::Vmcs { base } => extended(0xc8, base >> 12, 5, out),
        Packet::Cbr { ratio } => extended(0x03, ratio.into(), 2, out),
        Packet::Tsc(ticks) => {
            out.push(0x19);
            little_endian(ticks, 7, out);
        }
        Packet::Tma { ctc, fast } => extended(0x73, u64::from(ctc) | u64::from(fast & 0x1ff) << 24, 5, out),
        Packet::Mtc(ctc) => out.extend_from_slice(&[0x59, ctc]),
        Packet::Cyc(cycles) => cycle_count(cycles, out),
        Packet::Mnt(value) => {
            out.extend_from_slice(&[0x02, 0xc3, 0x88]);
            little_endian(value, 8, out);
        }
        Packet::Overflow => out.extend_from_slice(&[0x02, 0xf3]),
        Packet::TraceStop => out.extend_from_slice(&[0x02, 0x83]),
        Packet::ExStop { ip } => out.extend_from_slice(&[0x02, 0x62 | flag(ip)]),
        Packet::Mwait { hints, extensions } => {
            extended(0xc2, u64::from(hints) | u64::from(extensions) << 32, 8, out);
        }
        Packet::PwrEntry {
            state,
            sub_state,
            hardware,
        } => {
            let states = u64::from(state & 15) << 4 | u64::from(sub_state & 15);
            extended(0x22, states << 8 | u64::from(hardware) << 3, 2, out);
        }
        Packet::PwrExit {
            last,
            deepest,
            reason,
        } => {
            let states = u64::from(last & 15) << 4 | u64::from(deepest & 15);
            extended(0xa2, u64::from(reason & 15) << 8 | states, 5, out);
        }
        Packet::Ptw { value, wide, ip } => {
            let size = if wide { 8 } else { 4 };
            extended(0x12 | u8::from(wide) << 5 | flag(ip), value, size, out);
        }
        Packet::BlockBegin { kind, short } => out.extend_from_slice(&[0x02, 0x63, kind & 0x1f | flag(short)]),
        Packet::BlockItem { id, value, short } => {
            out.push(id << 3 | 4);
            little_endian(value, if short { 4 } else { 8 }, out);
        }
        Packet::BlockEnd { ip } => out.extend_from_slice(&[0x02, 0x33 | flag(ip)]),
        Packet::ControlFlowEvent { kind, vector, ip } => {
            out.extend_from_slice(&[0x02, 0x13, kind & 0x1f | flag(ip), vector]);
        }
        Packet::EventData { kind, value } => {
            out.extend_from_slice(&[0x02, 0x53, kind & 0x3f]);
            little_endian(value, 8, out);
        }
    }
}

fn flag(set: bool) -> u8 {
    u8::from(set) << 7
}

fn little_endian(value: u64, size: usize, out: &mut Vec<u8>) {
    out.extend(value.to_le_bytes().into_iter().take(size));
}

fn extended(code: u8, value: u64, size: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x02, code]);
    little_endian(value, size, out);
}

fn address(header: u8, ip: IpPayload, out: &mut Vec<u8>) {
    out.push(header | ip.compression.bits() << 5);
    little_endian(ip.bits, ip.compression.size(), out);
}

fn outcomes(tnt: Tnt, out: &mut Vec<u8>) {
    let count = u32::from(tnt.count).clamp(1, if tnt.long { 47 } else { 6 });
    let payload = 1_u64 << count | tnt.bits & ((1 << count) - 1);
    if tnt.long {
        extended(0xa3, payload, 6, out);
    } else {
        little_endian(payload << 1, 1, out);
    }
}

fn cycle_count(cycles: u64, out: &mut Vec<u8>) {
    let mut rest = cycles >> 5;
    let first = (cycles & 0x1f).to_le_bytes()[0];
    out.push(first << 3 | u8::from(rest != 0) << 2 | 3);
    while rest != 0 {
        let low = (rest & 0x7f).to_le_bytes()[0];
        rest >>= 7;
        out.push(low << 1 | u8::from(rest != 0));
    }
}
