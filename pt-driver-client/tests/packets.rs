//! Packets: their bytes as the manual has them, and back.

use proptest::prelude::*;
use pt_driver_client::packet::{
    Compression, ExecMode, IpPayload, Packet, PacketError, Tnt, encode, next_psb, parse,
};

/// Bytes written down from the manual's figures.
#[test]
fn are_as_in_the_manual() {
    let ip = |compression, bits| IpPayload { compression, bits };
    let cases: &[(&[u8], Packet)] = &[
        (&[0x00], Packet::Pad),
        (&[0x02, 0x23], Packet::PsbEnd),
        (&[0x02, 0xf3], Packet::Overflow),
        (&[0x02, 0x83], Packet::TraceStop),
        (
            &[0b1010_1100],
            Packet::Tnt(Tnt {
                bits: 0b01_0110,
                count: 6,
                long: false,
            }),
        ),
        (
            &[0b0000_0110],
            Packet::Tnt(Tnt {
                bits: 1,
                count: 1,
                long: false,
            }),
        ),
        (
            &[0x02, 0xa3, 0b101, 0, 0, 0, 0, 0],
            Packet::Tnt(Tnt {
                bits: 1,
                count: 2,
                long: true,
            }),
        ),
        (&[0x0d], Packet::Tip(IpPayload::SUPPRESSED)),
        (
            &[0x2d, 0x34, 0x12],
            Packet::Tip(ip(Compression::Update16, 0x1234)),
        ),
        (
            &[0x51, 0x78, 0x56, 0x34, 0x12],
            Packet::TipPge(ip(Compression::Update32, 0x1234_5678)),
        ),
        (
            &[0x61, 1, 2, 3, 4, 5, 6],
            Packet::TipPgd(ip(Compression::SignExtend48, 0x0605_0403_0201)),
        ),
        (
            &[0x9d, 1, 2, 3, 4, 5, 6],
            Packet::Fup(ip(Compression::Update48, 0x0605_0403_0201)),
        ),
        (
            &[0xcd, 1, 2, 3, 4, 5, 6, 7, 8],
            Packet::Tip(ip(Compression::Full, 0x0807_0605_0403_0201)),
        ),
        (
            &[0x99, 0x01],
            Packet::ModeExec {
                mode: ExecMode::Bits64,
                interrupts: false,
            },
        ),
        (
            &[0x99, 0x06],
            Packet::ModeExec {
                mode: ExecMode::Bits32,
                interrupts: true,
            },
        ),
        (
            &[0x99, 0x21],
            Packet::ModeTsx {
                inside: true,
                aborted: false,
            },
        ),
        (
            &[0x02, 0x43, 0x03, 0x10, 0, 0, 0, 0],
            Packet::Pip {
                cr3: 0x10020,
                non_root: true,
            },
        ),
        (&[0x02, 0xc8, 0x02, 0, 0, 0, 0], Packet::Vmcs { base: 0x2000 }),
        (&[0x02, 0x03, 0x28, 0x00], Packet::Cbr { ratio: 0x28 }),
        (&[0x19, 1, 0, 0, 0, 0, 0, 0x80], Packet::Tsc(0x80_0000_0000_0001)),
        (
            &[0x02, 0x73, 0x34, 0x12, 0, 0x56, 0x01],
            Packet::Tma {
                ctc: 0x1234,
                fast: 0x156,
            },
        ),
        (&[0x59, 0x7f], Packet::Mtc(0x7f)),
        (&[0x0b], Packet::Cyc(1)),
        (&[0x0f, 0x02], Packet::Cyc(0x21)),
        (&[0x02, 0xc3, 0x88, 1, 0, 0, 0, 0, 0, 0, 0], Packet::Mnt(1)),
        (&[0x02, 0xe2], Packet::ExStop { ip: true }),
        (
            &[0x02, 0xc2, 1, 0, 0, 0, 2, 0, 0, 0],
            Packet::Mwait {
                hints: 1,
                extensions: 2,
            },
        ),
        (
            &[0x02, 0x22, 0x08, 0x21],
            Packet::PwrEntry {
                state: 2,
                sub_state: 1,
                hardware: true,
            },
        ),
        (
            &[0x02, 0xa2, 0x21, 0x04, 0, 0, 0],
            Packet::PwrExit {
                last: 2,
                deepest: 1,
                reason: 4,
            },
        ),
        (
            &[0x02, 0x12, 4, 3, 2, 1],
            Packet::Ptw {
                value: 0x0102_0304,
                wide: false,
                ip: false,
            },
        ),
        (
            &[0x02, 0xb2, 1, 0, 0, 0, 0, 0, 0, 0],
            Packet::Ptw {
                value: 1,
                wide: true,
                ip: true,
            },
        ),
        (&[0x02, 0x63, 0x81], Packet::BlockBegin { kind: 1, short: true }),
        (&[0x02, 0xb3], Packet::BlockEnd { ip: true }),
        (
            &[0x02, 0x13, 0x81, 0x0e],
            Packet::ControlFlowEvent {
                kind: 1,
                vector: 14,
                ip: true,
            },
        ),
        (
            &[0x02, 0x53, 0x00, 1, 0, 0, 0, 0, 0, 0, 0],
            Packet::EventData { kind: 0, value: 1 },
        ),
    ];
    for (bytes, packet) in cases {
        assert_eq!(parse(bytes, None), Ok((*packet, bytes.len())), "{bytes:02x?}");
        let mut written = Vec::new();
        encode(*packet, &mut written);
        assert_eq!(&written, bytes, "{packet:?}");
        for cut in 0..bytes.len() {
            assert_eq!(
                parse(&bytes[..cut], None),
                Err(PacketError::End),
                "{bytes:02x?} cut at {cut}"
            );
        }
    }
}

#[test]
fn that_do_not_exist_are_errors() {
    let unknown: &[&[u8]] = &[
        &[0xd9],
        &[0x02, 0x04],
        &[0x02, 0x00],
        &[0x02, 0xc3, 0x00],
        &[0x05],
    ];
    for bytes in unknown {
        assert_eq!(parse(bytes, None), Err(PacketError::Unknown), "{bytes:02x?}");
    }
    let malformed: &[&[u8]] = &[
        &[0x02, 0xa3, 0, 0, 0, 0, 0, 0],
        &[0xad, 0, 0],
        &[0x99, 0x40],
        &[0x02, 0x73, 0, 0, 1, 0, 0],
        &[0x02, 0x72],
        &[7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
    ];
    for bytes in malformed {
        assert_eq!(parse(bytes, None), Err(PacketError::Malformed), "{bytes:02x?}");
    }
}

#[test]
fn of_blocks_of_items_are_read_inside_a_block_only() {
    let item = Packet::BlockItem {
        id: 3,
        value: 0x0102_0304,
        short: true,
    };
    let mut bytes = Vec::new();
    encode(item, &mut bytes);
    assert_eq!(parse(&bytes, Some(true)), Ok((item, 5)));
    assert!(matches!(parse(&bytes, None), Ok((Packet::Tnt(_), 1))));
}

#[test]
fn psb_is_found_behind_bytes_that_look_like_it() {
    let mut bytes = vec![0x19, 0, 0, 0, 0, 0, 0x02, 0x82];
    encode(Packet::Psb, &mut bytes);
    bytes.extend([0x02, 0x23]);
    assert_eq!(next_psb(&bytes, 0), Some(8));
    assert_eq!(next_psb(&bytes, 9), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    /// What bytes say is written as the same bytes, except for bits that mean nothing.
    #[test]
    fn read_and_written_say_the_same(bytes in any::<[u8; 16]>(), code in any::<u8>(), extended in any::<bool>()) {
        let mut bytes = bytes;
        if extended {
            bytes[0] = 2;
            bytes[1] = code;
        }
        if let Ok((packet, size)) = parse(&bytes, None) {
            let mut written = Vec::new();
            encode(packet, &mut written);
            prop_assert_eq!(parse(&written, None), Ok((packet, written.len())));
            // A count of cycles can be padded with zeros.
            prop_assert!(written.len() == size || matches!(packet, Packet::Cyc(_)));
        }
    }

    #[test]
    fn a_long_tnt_keeps_its_outcomes(bits in any::<u64>(), count in 1_u8..48) {
        let packet = Packet::Tnt(Tnt { bits: bits & ((1 << count) - 1), count, long: true });
        let mut bytes = Vec::new();
        encode(packet, &mut bytes);
        prop_assert_eq!(parse(&bytes, None), Ok((packet, 8)));
    }
}
