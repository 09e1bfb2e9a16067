//! Telling return addresses and signal trampolines by the machine code around them.

use program::RunAddr;

use super::joined::Image;

/// Whether an address is one that a call returns to. Where the code cannot be read, being code is all that
/// can be asked.
pub(super) fn is_return_address(image: &Image<'_>, addr: u64) -> bool {
    const LONGEST_CALL: usize = 7;
    if !image.is_code(addr) {
        return false;
    }
    let before = addr
        .checked_sub(LONGEST_CALL as u64)
        .and_then(|at| image.code(RunAddr(at), LONGEST_CALL));
    before.is_none_or(|before| ends_with_call(&before))
}

/// As [`is_return_address`], but only if the call was seen.
pub(super) fn is_seen_return_address(image: &Image<'_>, addr: u64) -> bool {
    is_return_address(image, addr) && image.read(RunAddr(addr.wrapping_sub(1)), 1).is_some()
}

fn ends_with_call(code: &[u8]) -> bool {
    const DIRECT: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    let from_end = |back: usize| code.get(code.len().checked_sub(back)?).copied();
    if from_end(5) == Some(DIRECT) {
        return true;
    }
    (2..=7).any(|len| {
        from_end(len) == Some(INDIRECT)
            && from_end(len - 1).is_some_and(|modrm| {
                let sib = from_end(len.wrapping_sub(2)).filter(|_| len > 2);
                (modrm >> 3) & 7 == 2 && operand_length(modrm, sib) == Some(len - 1)
            })
    })
}

/// Length of a ModRM byte and what it makes follow.
fn operand_length(modrm: u8, sib: Option<u8>) -> Option<usize> {
    let (mode, base) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(1);
    }
    let with_sib = usize::from(base == 4);
    let base = if base == 4 { sib? & 7 } else { base };
    let displacement = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + with_sib + displacement)
}

/// Whether this is the code that a signal handler returns to: `rt_sigreturn`, in the two ways that C
/// libraries write it.
pub(super) fn is_signal_trampoline(image: &Image<'_>, addr: u64) -> bool {
    const LONG: &[u8] = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05";
    const SHORT: &[u8] = b"\xb8\x0f\x00\x00\x00\x0f\x05";
    let starts_with = |code: &[u8]| {
        image
            .read(RunAddr(addr), code.len())
            .is_some_and(|found| *found == *code)
    };
    starts_with(LONG) || starts_with(SHORT)
}

#[cfg(test)]
mod tests {
    use super::ends_with_call;

    #[test]
    fn calls_are_known_by_their_encodings() {
        let calls: [&[u8]; 8] = [
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],                   // call rax
            &[0x41, 0xff, 0xd4],             // call r12
            &[0xff, 0x10],                   // call [rax]
            &[0xff, 0x50, 0x18],             // call [rax+0x18]
            &[0xff, 0x14, 0xc7],             // call [rdi+rax*8]
            &[0xff, 0x15, 1, 2, 3, 4],       // call [rip+…]
            &[0xff, 0x94, 0xc7, 1, 2, 3, 4], // call [rdi+rax*8+…]
        ];
        for call in calls {
            let code = [&[0x90; 7][call.len().min(7)..], call].concat();
            assert!(ends_with_call(&code), "{call:02x?}");
        }
        let others: [&[u8]; 5] = [
            &[0x90, 0x90],
            &[0xff, 0xe0],             // jmp rax
            &[0xff, 0x25, 1, 2, 3, 4], // jmp [rip+…]
            &[0xff, 0x50],             // call [rax+…], cut
            &[],
        ];
        for other in others {
            let code = [&[0x90; 7][other.len()..], other].concat();
            assert!(!ends_with_call(&code), "{other:02x?}");
        }
    }
}
