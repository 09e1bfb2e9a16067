//! Lengths and kinds of instructions, held against a full decoder.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use proptest::prelude::*;

use pt_driver_client::code::length::{Class, decode};
use pt_driver_client::packet::ExecMode;

fn bits(mode: ExecMode) -> u32 {
    match mode {
        ExecMode::Bits16 => 16,
        ExecMode::Bits32 => 32,
        ExecMode::Bits64 => 64,
    }
}

/// Where another decoder finds an instruction, ours has to find the same.
fn check(bytes: &[u8], mode: ExecMode) {
    let mut decoder = Decoder::with_ip(bits(mode), bytes, 0x1000, DecoderOptions::NONE);
    let theirs = decoder.decode();
    // XOP is of processors that have no Intel PT; on others its first byte is a pop.
    let is_xop = format!("{:?}", theirs.code()).starts_with("XOP_");
    if theirs.is_invalid() || is_xop {
        return;
    }
    let ours = decode(bytes, mode).unwrap_or_else(|| panic!("{bytes:02x?} is {theirs:?}"));
    assert_eq!(
        usize::from(ours.length),
        theirs.len(),
        "{bytes:02x?} is {theirs:?}"
    );
    let target = 0x1000_u64
        .wrapping_add(ours.length.into())
        .wrapping_add_signed(ours.displacement.into());
    let expected = match theirs.flow_control() {
        FlowControl::Next | FlowControl::XbeginXabortXend => {
            assert!(
                matches!(ours.class, Class::Other | Class::MovCr3),
                "{ours:?} is {theirs:?}"
            );
            return;
        }
        FlowControl::ConditionalBranch => Class::Cond,
        FlowControl::UnconditionalBranch if theirs.is_jmp_far() => Class::Far,
        FlowControl::UnconditionalBranch => Class::Jump,
        FlowControl::IndirectBranch if theirs.is_jmp_far_indirect() => Class::Far,
        FlowControl::IndirectBranch => Class::IndirectJump,
        FlowControl::Call if theirs.is_call_near() => Class::Call,
        FlowControl::IndirectCall if theirs.is_call_near_indirect() => Class::IndirectCall,
        // Undefined on purpose, system calls of other makers, and returns whose kind the next line tells.
        _ => return,
    };
    assert_eq!(ours.class, expected, "{bytes:02x?} is {theirs:?}");
    if matches!(ours.class, Class::Cond | Class::Jump | Class::Call) && mode != ExecMode::Bits16 {
        let mask = if mode == ExecMode::Bits64 {
            u64::MAX
        } else {
            0xffff_ffff
        };
        let wrapped = theirs.near_branch_target() == target & mask || theirs.near_branch_target() <= 0xffff;
        assert!(wrapped, "{bytes:02x?} is {theirs:?}");
    }
}

const PREFIXES: &[u8] = &[0x66, 0x67, 0xf2, 0xf3, 0x48, 0x41, 0x2e, 0x64, 0xf0];
const MAPS: &[&[u8]] = &[
    &[],
    &[0x0f],
    &[0x0f, 0x38],
    &[0x0f, 0x3a],
    &[0xc5],
    &[0xc4],
    &[0x62],
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100_000) })]

    #[test]
    fn agrees_with_a_full_decoder(bytes in any::<[u8; 20]>()) {
        check(&bytes, ExecMode::Bits64);
        check(&bytes, ExecMode::Bits32);
        check(&bytes, ExecMode::Bits16);
    }

    #[test]
    fn agrees_on_prefixed_instructions(
        prefixes in prop::collection::vec(prop::sample::select(PREFIXES), 0..4),
        map in prop::sample::select(MAPS),
        bytes in any::<[u8; 16]>(),
    ) {
        let all: Vec<u8> = prefixes.into_iter().chain(map.iter().copied()).chain(bytes).collect();
        check(&all, ExecMode::Bits64);
        check(&all, ExecMode::Bits32);
    }

    #[test]
    fn short_bytes_are_no_instruction_or_a_short_one(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
        if let Some(insn) = decode(&bytes, ExecMode::Bits64) {
            prop_assert!(usize::from(insn.length) <= bytes.len());
        }
    }
}
